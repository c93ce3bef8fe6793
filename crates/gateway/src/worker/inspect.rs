//! A worker's answers to an operator who lists its connections or closes one. It goes through its tasks in parts, so
//! that a million tunnels delay no other connection.

use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::content::status::{StatusFormat, render};
use crate::downstream::h1::connection::Connection;
use crate::registry::generation::Generation;
use crate::registry::inspect::{ClientRow, Inspection, RowFilter, RowsQuestion, Tunnels};
use crate::registry::process::{Message, Registry};
use crate::tunnel::datagrams::DatagramEnd;
use crate::tunnel::end::ClientEnd;
use crate::worker::{Body, Worker};
use reactor::{Millis, PeerAddress, TaskId};
use report::prometheus::Format;
use std::ops::Range;
use transport::Transport;

/// Tasks examined between two turns of the loop: some hundred nanoseconds each if they are not in the CPU's cache, so a
/// request waits less than a millisecond.
const TASKS_A_TURN: usize = 4096;
/// Rows that a worker keeps before it sorts out the first ones: twice as many as wanted.
const ROWS_HELD_FACTOR: usize = 2;

/// The whole status page as JSON. It may wait for locks and files: never called on a worker.
pub fn status_json(registry: &Registry, generation: &Generation) -> Vec<u8> {
    render(registry, generation, StatusFormat::Json)
}

/// The metrics of the status page as Prometheus's text. The same holds for it.
pub fn metrics_text(registry: &Registry, generation: &Generation) -> Vec<u8> {
    render(registry, generation, StatusFormat::Metrics(Format::Text))
}

/// The start and the client of an exchange: its future cannot be asked.
#[derive(Debug, Clone)]
pub(crate) struct Begun {
    task: TaskId,
    client: PeerAddress,
    at: Millis,
    requests: u32,
}

impl Begun {
    /// For a session that begins now.
    pub(crate) fn of_session(task: TaskId, client: PeerAddress, at: Millis) -> Self {
        Self { task, client, at, requests: 0 }
    }

    /// For a connection with an exchange that begins now.
    pub(crate) fn of(connection: &Connection, now: Millis) -> Self {
        Self {
            task: connection.task,
            client: connection.client.peer.clone(),
            at: now,
            requests: connection.client.requests,
        }
    }
}

impl Worker {
    /// Examines the next part of the tasks.
    pub(crate) fn inspect(&self, mut inspection: Box<Inspection>) {
        let end = (inspection.next + TASKS_A_TURN).min(self.bodies.borrow().len());
        match inspection.question.clone() {
            RowsQuestion::Close(connection) => {
                let closed = (inspection.next..end).any(|index| self.close_by_number(index, connection));
                inspection.found.matching += u64::from(closed);
            }
            RowsQuestion::CloseAll(filter, tunnels) => {
                for (index, connection) in self.matching(inspection.next..end, &filter, tunnels == Tunnels::Only) {
                    inspection.found.matching += u64::from(self.close_by_number(index, connection));
                }
            }
            RowsQuestion::Connections(filter) => self.gather(&mut inspection, &filter, end, false),
            RowsQuestion::Tunnels(filter) => self.gather(&mut inspection, &filter, end, true),
        }
        inspection.next = end;
        if end < self.bodies.borrow().len() && (inspection.found.matching == 0 || !inspection.is_close()) {
            return self.thread.registry.send(self.thread.index.into(), Message::Inspect(inspection));
        }
        inspection.finish();
    }

    fn gather(&self, inspection: &mut Inspection, filter: &RowFilter, end: usize, tunnels: bool) {
        let now = self.thread.reactor.now();
        let bodies = self.bodies.borrow();
        for (index, body) in bodies.iter().enumerate().take(end).skip(inspection.next) {
            if matches!(body, Body::Tunnel(_) | Body::Frozen(_) | Body::Datagrams(_)) != tunnels {
                continue;
            }
            let Some((row, stream, known)) = self.row(index, body, now) else { continue };
            let client = || known.clone().or_else(|| stream.and_then(peer_of));
            if !filter.admits(&row, client) {
                continue;
            }
            inspection.found.matching += 1;
            let client = client().map(|client| client.to_string());
            inspection.found.rows.push(ClientRow { client, ..row });
            if inspection.found.rows.len() > filter.limit.saturating_mul(ROWS_HELD_FACTOR) {
                filter.keep_first(&mut inspection.found.rows);
            }
        }
        filter.keep_first(&mut inspection.found.rows);
    }

    /// Tasks whose client connection matches, with its number.
    fn matching(&self, tasks: Range<usize>, filter: &RowFilter, tunnels: bool) -> Vec<(usize, u64)> {
        let now = self.thread.reactor.now();
        let bodies = self.bodies.borrow();
        let found = bodies.iter().enumerate().take(tasks.end).skip(tasks.start).filter_map(|(index, body)| {
            if matches!(body, Body::Tunnel(_) | Body::Frozen(_) | Body::Datagrams(_)) != tunnels {
                return None;
            }
            let (row, stream, known) = self.row(index, body, now)?;
            let is_wanted = filter.admits(&row, || known.clone().or_else(|| stream.and_then(peer_of)));
            is_wanted.then_some((index, row.connection))
        });
        found.collect()
    }

    /// Returns a task's row, and its client address or where to find it; `None` without a client.
    fn row<'b>(
        &self,
        index: usize,
        body: &'b Body,
        now: Millis,
    ) -> Option<(ClientRow, Option<&'b Transport>, Option<PeerAddress>)> {
        let task = TaskId { index: index as u32, generation: 0 };
        let mut row = ClientRow {
            connection: self.thread.memory.serial(task),
            worker: self.thread.index,
            memory_bytes: self.thread.memory.held_by(task),
            ..ClientRow::default()
        };
        let mut of = |state: &'static str, connection: &Connection| {
            row.state = state;
            row.age_ms = Some(now.since(connection.client.accepted_at));
            row.idle_ms = Some(now.since(connection.since));
            row.requests = Some(connection.client.requests.into());
            connection.client.peer.clone()
        };
        let (stream, client) = match body {
            Body::Idle(connection) => (None, Some(of("idle", connection))),
            Body::Securing(waiting) => (None, Some(of("idle", &waiting.0))),
            Body::Reading(connection) => (None, Some(of("head", connection))),
            Body::Http2(multiplexed) => (None, multiplexed.look(|connection| of("http2", connection))),
            Body::Lingering(_) | Body::HeldBack(_) => {
                row.state = "closing";
                (None, None)
            }
            Body::Exchange(_) | Body::Session(_) => {
                let is_exchange = matches!(body, Body::Exchange(_));
                row.state = if is_exchange { "exchange" } else { "session" };
                // A subrequest has no client of its own.
                let begun = self.begun.borrow().get(&task.index).cloned()?;
                row.age_ms = Some(now.since(begun.at));
                row.requests = is_exchange.then_some(begun.requests.into());
                (None, Some(begun.client))
            }
            Body::Tunnel(tunnel) | Body::Frozen(tunnel) => {
                row.state = match tunnel.is_session() {
                    _ if tunnel.is_leaving() => "draining",
                    true => "session",
                    false => "tunnel",
                };
                let seen = tunnel.seen(now);
                (row.age_ms, row.idle_ms) = (seen.age_ms, Some(seen.idle_ms));
                (row.received_bytes, row.sent_bytes) = (Some(seen.from_client_bytes), Some(seen.to_client_bytes));
                row.upstream = peer_of(seen.upstream).map(|peer| peer.to_string());
                row.route = seen.route.map(str::to_owned);
                match &tunnel.downstream {
                    ClientEnd::Socket(socket) => (Some(socket), None),
                    ClientEnd::Stream(stream) => (None, Some(stream.peer())),
                }
            }
            Body::Datagrams(session) => {
                row.state = "session";
                row.age_ms = session.accepted_at().map(|at| now.since(at));
                row.idle_ms = Some(now.since(session.moved_at().millis()));
                let [received, sent] = session.bytes();
                (row.received_bytes, row.sent_bytes) = (Some(received), Some(sent));
                row.upstream = session.upstream().peer_address().ok().flatten().map(|peer| peer.to_string());
                (None, Some(PeerAddress::Ip(session.client().address)))
            }
            Body::Free | Body::Job(_) => return None,
        };
        Some((row, stream, client))
    }

    /// Closes the connection of a task if it has this number.
    fn close_by_number(&self, index: usize, connection: u64) -> bool {
        let task = TaskId { index: index as u32, generation: 0 };
        if self.thread.memory.serial(task) != connection {
            return false;
        }
        let body = match self.bodies.borrow_mut().get_mut(index) {
            Some(body) if !matches!(body, Body::Free | Body::Job(_) | Body::Frozen(_)) => {
                std::mem::replace(body, Body::Free)
            }
            _ => return false,
        };
        let reason = CloseReason::Operator;
        match body {
            Body::Idle(connection) => self.close(connection, reason),
            Body::Securing(waiting) => self.close(waiting.0, reason),
            Body::Reading(connection) => {
                bump(&self.thread.counters().reading, -1);
                self.close(connection, reason);
            }
            Body::Lingering(linger) => self.close(linger.into_parts().0, reason),
            Body::HeldBack(held) => self.close(held.into_connection(), reason),
            Body::Http2(multiplexed) => {
                if let Some(connection) = multiplexed.into_connection() {
                    self.close(connection, reason);
                }
            }
            Body::Tunnel(tunnel) => self.end_tunnel(tunnel, reason),
            Body::Datagrams(session) => self.end_datagrams(session, &DatagramEnd::Closed(reason)),
            Body::Session(slot) => {
                drop(slot);
                let begun = self.begun.borrow_mut().remove(&(index as u32));
                bump(&self.thread.counters().sessions, -1);
                if let Some(begun) = begun {
                    self.forget_connection(begun.task, reason);
                }
            }
            Body::Exchange(slot) => {
                // A subrequest has its client's number, and ends with the exchange that waits for it.
                let begun = self.begun.borrow_mut().remove(&(index as u32));
                let Some(task) = begun.map(|begun| begun.task) else {
                    self.bodies.borrow_mut()[index] = Body::Exchange(slot);
                    return false;
                };
                // Dropping the future cancels its work and closes its sockets.
                drop(slot);
                bump(&self.thread.counters().exchanges, -1);
                self.forget_connection(task, reason);
            }
            Body::Free | Body::Job(_) | Body::Frozen(_) => return false,
        }
        true
    }
}

impl Inspection {
    fn is_close(&self) -> bool {
        matches!(self.question, RowsQuestion::Close(_))
    }
}

/// The peer's address of a socket.
fn peer_of(stream: &Transport) -> Option<PeerAddress> {
    stream.peer_address().ok().flatten().map(PeerAddress::Ip)
}
