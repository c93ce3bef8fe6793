//! Tunnels on the worker: events and the clock step them, and their end is logged. Also which connections were left.

use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::fault::Fault;
use crate::base::memory::TUNNEL_FLOOR_BYTES;
use crate::tunnel::record::log_tunnel;
use crate::tunnel::{TURN_BYTES_MAX, Tunnel, TunnelStep};
use crate::worker::{Body, Worker};
use std::rc::Rc;

impl Body {
    /// Whether its client, or the peer of a tunnel, has left while it was silent.
    pub(super) fn is_left(&self) -> bool {
        match self {
            Self::Idle(connection) => connection.stream.is_peer_closed(),
            Self::Tunnel(tunnel) => tunnel.is_left(),
            _ => false,
        }
    }
}

impl Worker {
    pub(super) fn begin_tunnel(self: &Rc<Self>, tunnel: Box<Tunnel>) {
        bump(&self.thread.counters().tunnels, 1);
        self.drain_if_outdated(tunnel.task, tunnel.plan(), tunnel.peer());
        self.step_tunnel(tunnel);
    }

    pub(super) fn step_tunnel(self: &Rc<Self>, mut tunnel: Box<Tunnel>) {
        self.thread.registry.faults.pass(Fault::Tunnel);
        let task = tunnel.task;
        let fired = self.thread.reactor.take_deadline_fired(task);
        let most = self.thread.memory.room(TURN_BYTES_MAX, TUNNEL_FLOOR_BYTES);
        match tunnel.step(self.thread.reactor.now(), fired, most) {
            TunnelStep::Wait(deadline) => {
                self.thread.reactor.set_deadline(task, Some(deadline));
                self.put(task, Body::Tunnel(tunnel));
            }
            TunnelStep::Yield => {
                self.thread.reactor.wake(task);
                self.put(task, Body::Tunnel(tunnel));
            }
            TunnelStep::End(reason) => self.end_tunnel(tunnel, reason),
        }
    }

    pub(super) fn end_tunnel(&self, tunnel: Box<Tunnel>, reason: CloseReason) {
        let task = tunnel.task;
        bump(&self.thread.counters().tunnels, -1);
        self.note_drain_end(tunnel.is_leaving(), reason);
        log_tunnel(&self.thread, &tunnel, reason);
        let is_stream = tunnel.downstream.is_stream();
        tunnel.close();
        if !is_stream {
            self.forget_connection(task, reason);
        }
    }
}
