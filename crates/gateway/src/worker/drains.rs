//! Draining tunnels on the worker: which ones, and when each gets its turn. A tunnel knows nothing of it before: the queue
//! exists only while a drain runs
//! ([ADR 78](../../../../docs/adr/0078-reloads-drain-only-tunnels-they-change.md)).

use crate::base::close::{CloseReason, DRAINED};
use crate::base::counters::bump;
use crate::registry::generation::BoundTunnel;
use crate::registry::peer_states::TunnelPeer;
use crate::registry::process::DrainedPeer;
use crate::thread::chores::Chore;
use crate::tunnel::Tunnel;
use crate::tunnel::datagrams::DatagramEnd;
use crate::worker::{Body, Worker};
use reactor::{Micros, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use websocket::CloseCode;

/// Tasks examined between two turns of the loop, as for an operator's list: a request waits less than a millisecond.
const TASKS_A_TURN: usize = 4096;
/// Tunnels that get their turn between two turns of the loop: some microseconds each.
const TURNS_AT_ONCE: usize = 64;

/// Why tunnels are drained.
#[derive(Debug, Clone)]
pub(crate) enum Cause {
    /// A reload has changed their route or their peer.
    Reload,
    /// An operator drains their peer.
    Operator(DrainedPeer),
    /// The process ends.
    Quit,
}

/// A search for the tunnels of a cause.
#[derive(Debug)]
struct TunnelSearch {
    cause: Cause,
    /// The task index at which it continues.
    next: usize,
}

/// The tunnels of a worker that are to end.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    searches: RefCell<VecDeque<TunnelSearch>>,
    /// Tunnels that wait for their turn, in their order.
    queue: RefCell<VecDeque<(TaskId, Cause)>>,
    /// The next turn of this worker.
    turn: Cell<Option<Micros>>,
    /// Tunnels that had their turn and have not ended.
    leaving: Cell<u64>,
}

impl Cause {
    fn is_reload(&self) -> bool {
        matches!(self, Self::Reload)
    }

    fn code(&self) -> CloseCode {
        match self {
            Self::Reload | Self::Operator(_) => CloseCode::SERVICE_RESTART,
            Self::Quit => CloseCode::GOING_AWAY,
        }
    }
}

impl Worker {
    /// Drains what the reload has changed. Tunnels that wait because of an earlier reload are examined again: their
    /// route may be back.
    pub(super) fn drain_changed(&self) {
        self.drains.searches.borrow_mut().retain(|search| !search.cause.is_reload());
        self.drains.queue.borrow_mut().retain(|(_, cause)| !cause.is_reload());
        self.look_for_drained(Cause::Reload);
    }

    /// Begins to look for the tunnels of a cause.
    pub(super) fn look_for_drained(&self, cause: Cause) {
        if self.generation().drain.rate.is_some() {
            self.drains.searches.borrow_mut().push_back(TunnelSearch { cause, next: 0 });
        }
        self.thread.chores.plan(Chore::DrainTunnels, self.thread.reactor.now());
    }

    /// Drains a tunnel that begins if the configuration has changed since its request came, or if the process ends.
    pub(super) fn drain_if_outdated(&self, task: TaskId, plan: &BoundTunnel, peer: Option<TunnelPeer>) {
        let generation = self.generation();
        if generation.drain.rate.is_none() {
            return;
        }
        let cause = if self.thread.is_draining() && generation.drain.at_quit {
            Cause::Quit
        } else if generation.drains(plan, peer).is_some() {
            Cause::Reload
        } else {
            return;
        };
        self.drains.queue.borrow_mut().push_back((task, cause));
        self.thread.chores.plan(Chore::DrainTunnels, self.thread.reactor.now());
    }

    /// Continues the searches, and drains the tunnels whose turn it is.
    pub(super) fn drain_tunnels(self: &Rc<Self>) {
        let now = self.thread.reactor.now();
        if self.search_drained() {
            self.thread.chores.plan(Chore::DrainTunnels, now);
        }
        if let Some(at) = self.take_turns() {
            let ceiling = Micros(at.0.saturating_add(999)).millis();
            self.thread.chores.plan(Chore::DrainTunnels, ceiling.max(now));
        }
        self.show_drains();
    }

    /// Examines the next tasks; whether there are more.
    fn search_drained(&self) -> bool {
        let Some(mut search) = self.drains.searches.borrow_mut().pop_front() else { return false };
        let bodies = self.bodies.borrow();
        let end = (search.next + TASKS_A_TURN).min(bodies.len());
        let mut queue = self.drains.queue.borrow_mut();
        for body in &bodies[search.next.min(end)..end] {
            if let Some((task, _)) = self.drained_by(&search.cause, body) {
                queue.push_back((task, search.cause.clone()));
            }
        }
        search.next = end;
        let mut searches = self.drains.searches.borrow_mut();
        if end < bodies.len() {
            searches.push_front(search);
        }
        !searches.is_empty()
    }

    /// At the end of the process, and when handing its tunnels over has failed then: drains those that stay with it.
    pub(super) fn drain_what_stays(&self) {
        if self.thread.is_draining() && self.generation().drain.at_quit {
            self.look_for_drained(Cause::Quit);
        }
    }

    /// Whether another process may take the tunnel over: one that a reload drains ends here.
    pub(super) fn may_move(&self, tunnel: &Tunnel) -> bool {
        let generation = self.generation();
        let is_drained =
            || generation.drain.rate.is_some() && generation.drains(tunnel.plan(), tunnel.peer()).is_some();
        tunnel.can_be_handed_over() && !self.staying.borrow().contains(&tunnel.task) && !is_drained()
    }

    /// Whether the tunnel is about to leave for another process, so that the end of this one does not matter to it.
    fn will_move(&self, body: &Body) -> bool {
        self.thread.registry.tunnels_move() && matches!(body, Body::Tunnel(tunnel) if self.may_move(tunnel))
    }

    /// The task and the reason if the cause applies to this tunnel, and it is not drained yet. A frozen tunnel is between
    /// two processes: it is examined when it continues.
    fn drained_by(&self, cause: &Cause, body: &Body) -> Option<(TaskId, CloseReason)> {
        let (task, plan, peer) = match body {
            Body::Tunnel(tunnel) if !tunnel.is_leaving() => (tunnel.task, tunnel.plan(), tunnel.peer()),
            // As in nginx a reload lets sessions of datagrams be: they end by their timeout, and no end could be told.
            Body::Datagrams(session) if !cause.is_reload() => (session.task, session.plan(), session.peer()),
            _ => return None,
        };
        let reason = match cause {
            Cause::Reload => self.generation().drains(plan, peer)?,
            Cause::Operator(drained) => peer.filter(|peer| drained.has(*peer)).map(|_| CloseReason::DrainedPeer)?,
            Cause::Quit if self.will_move(body) => return None,
            Cause::Quit => CloseReason::DrainedQuit,
        };
        Some((task, reason))
    }

    /// Drains tunnels as far as the pace allows; returns when the next one has its turn.
    fn take_turns(&self) -> Option<Micros> {
        let (drains, plan) = (&self.drains, self.generation().drain);
        let Some(rate) = plan.rate else {
            drains.searches.borrow_mut().clear();
            drains.queue.borrow_mut().clear();
            return None;
        };
        let now = self.thread.reactor.now_us();
        for _ in 0..TURNS_AT_ONCE {
            if drains.queue.borrow().is_empty() {
                return None;
            }
            let turn = drains.turn.get().unwrap_or_else(|| {
                let random = RandomState::new().hash_one(now.0);
                self.thread.registry.drain_pace.take(now, rate, random)
            });
            drains.turn.set(Some(turn));
            if turn > now {
                return Some(turn);
            }
            let (task, cause) = drains.queue.borrow_mut().pop_front()?;
            // A tunnel that has ended, or that a further reload lets stay, takes no turn.
            if self.thread.reactor.is_live(task) && self.begin_leaving(task, &cause) {
                drains.turn.set(None);
            }
        }
        Some(now)
    }

    /// Tells a tunnel to leave, if its cause still applies.
    fn begin_leaving(&self, task: TaskId, cause: &Cause) -> bool {
        let mut bodies = self.bodies.borrow_mut();
        let Some(body) = bodies.get_mut(task.index as usize) else { return false };
        let Some((_, reason)) = self.drained_by(cause, body).filter(|(found, _)| *found == task) else { return false };
        if let Body::Tunnel(tunnel) = body {
            let until = self.thread.reactor.now().after(self.generation().drain.timeout);
            tunnel.leave(reason, cause.code(), until);
            self.drains.leaving.set(self.drains.leaving.get() + 1);
            self.thread.reactor.wake(task);
            return true;
        }
        let Body::Datagrams(session) = std::mem::replace(body, Body::Free) else { return false };
        drop(bodies);
        // There is nothing to tell: the client's next datagram begins a session by the present configuration.
        self.end_datagrams(session, &DatagramEnd::Closed(reason));
        true
    }

    /// A tunnel has ended.
    pub(super) fn note_drain_end(&self, was_leaving: bool, reason: CloseReason) {
        if let Some(place) = DRAINED.iter().position(|drained| *drained == reason) {
            bump(&self.thread.counters().drained[place], 1);
        }
        // Behind the other count: when none is being drained, all have been counted.
        if was_leaving {
            self.drains.leaving.set(self.drains.leaving.get().saturating_sub(1));
            self.show_drains();
        }
    }

    /// Corrects the number of tunnels that are being drained, after a panic.
    pub(super) fn recount_drains(&self, leaving: u64) {
        self.drains.leaving.set(leaving);
        self.show_drains();
    }

    fn show_drains(&self) {
        let waiting = self.drains.queue.borrow().len() as u64;
        self.thread.counters().draining.store(waiting + self.drains.leaving.get(), Ordering::Relaxed);
    }
}
