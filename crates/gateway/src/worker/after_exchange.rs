//! What happens to the client's side after an exchange: a connection waits for its next request, is closed, or becomes one
//! side of a tunnel; a stream or a subrequest ends.

use crate::base::buffer::Spill;
use crate::base::close::CloseReason;
use crate::downstream::Left;
use crate::downstream::ending::After;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h2::tunnelled::Tunnelled;
use crate::phases::Next;
use crate::phases::settle::Concluded;
use crate::tunnel::end::ClientEnd;
use crate::tunnel::{Tunnel, TunnelStart};
use crate::worker::{Body, Worker};
use std::rc::Rc;
use std::time::Duration;

impl Worker {
    /// Ends the client's side, keeps its connection, or starts a tunnel.
    pub(super) fn go_on(self: &Rc<Self>, next: Next) {
        let Next { concluded, left } = next;
        let (after, linger, timeout, kept_for, is_whole, ended) = match concluded {
            Concluded::Tunnel(start) => return self.join(left, *start),
            Concluded::Response { after, linger, timeout, kept_for, is_whole, ended } => {
                (after, linger, timeout, kept_for, is_whole, ended)
            }
        };
        let mut connection = match left {
            Left::Connection(connection, _) => connection,
            Left::Stream(mut stream) => return stream.finish(after, linger),
            Left::Internal(internal) => {
                return internal.finish(is_whole, ended.map(|ended| *ended).unwrap_or_default());
            }
        };
        connection.begin_idling(self.thread.reactor.now(), kept_for);
        match after {
            After::Keep => self.keep(connection, timeout),
            After::Close(reason) => self.close_after_lines(connection, reason, None),
            After::Linger(reason) => self.close_after_lines(connection, reason, Some(linger)),
            After::Reset(reason) => {
                let task = connection.task;
                connection.stream.reset();
                self.forget_connection(task, reason);
            }
        }
    }

    /// The connection waits for its next request, at most for this long.
    fn keep(self: &Rc<Self>, mut connection: Box<Connection>, timeout: Duration) {
        connection.client.is_pipelined = !connection.pending.is_empty();
        let task = connection.task;
        let now = self.thread.reactor.now();
        if self.thread.is_draining() && connection.kept_until() <= now && connection.pending.is_empty() {
            return self.close_unless_asked(connection, CloseReason::Shutdown);
        }
        let deadline = if self.thread.is_draining() { connection.kept_until() } else { now.after(timeout) };
        self.thread.reactor.set_deadline(task, Some(deadline));
        if !connection.pending.is_empty() || connection.stream.is_readable() {
            // The next request may have arrived already; other tasks get their turn first.
            self.thread.reactor.wake(task);
        }
        self.put(task, Body::Idle(connection));
    }

    /// Joins the two sides of a tunnel.
    fn join(self: &Rc<Self>, left: Left, start: TunnelStart) {
        let (client, task, unsent, pending) = match left {
            Left::Connection(connection, unsent) => {
                let Connection { stream, task, pending, .. } = *connection;
                (ClientEnd::Socket(stream), task, unsent, pending)
            }
            Left::Stream(stream) => {
                let task = stream.task();
                (ClientEnd::Stream(Box::new(Tunnelled::new(stream))), task, Spill::default(), Vec::new())
            }
            Left::Internal(_) => return,
        };
        let is_stream = client.is_stream();
        match Tunnel::start(client, task, start, unsent, &pending, self.thread.reactor.now()) {
            Ok(tunnel) => self.begin_tunnel(Box::new(tunnel)),
            Err(_) if is_stream => {}
            Err((task, _)) => self.forget_connection(task, CloseReason::ClientAborted),
        }
    }
}
