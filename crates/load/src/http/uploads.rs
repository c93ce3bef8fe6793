//! What is due on a connection with a request in flight: the next piece of its body, and its timeout. `upload` has the pieces, `pool` calls this.

use super::connection::Connection;
use super::pool::Http;
use crate::setup::Setup;
use crate::worker::requests::Bench;
use std::time::Duration;

/// Begins the body of the request that was written last, if it is sent in pieces.
pub(super) fn begin_upload(setup: &Setup, connection: &mut Connection, bench: &Bench) {
    let target = connection.flights.back().map(|flight| flight.target);
    let upload = target.and_then(|target| setup.request(target).upload(bench.seat.now_ns));
    if upload.is_some() {
        connection.begin_upload(upload);
        // No event says that the socket takes more than the head.
        bench.seat.reactor.wake(connection.task);
    }
}

/// Sends the pieces that are due, and returns when the next one is.
pub(super) fn send_pieces(connection: &mut Connection, bench: &mut Bench, piece: &mut Vec<u8>) -> Option<u64> {
    let target = connection.flights.back().map(|flight| flight.target)?;
    bench.seat.look_at_clock();
    let (bytes, due_ns) = connection.send_pieces(bench.seat.now_ns, piece);
    bench.tally(target).bytes_sent += bytes;
    if due_ns.is_some_and(|due_ns| due_ns <= bench.seat.now_ns) {
        // The other connections come first.
        bench.seat.reactor.wake(connection.task);
    }
    due_ns
}

impl Http {
    /// Fails a connection after its timeout; otherwise sets the deadline for it, or for the next piece of its body.
    pub(super) fn check_deadline(&mut self, bench: &mut Bench, at: u32, piece_due_ns: Option<u64>) {
        let Some(connection) = self.connections.get(at as usize) else { return };
        let Some(flight) = connection.flights.front() else { return };
        bench.seat.look_at_clock();
        let timeout_ns = self.setup.response_timeout.as_nanos() as u64;
        let deadline_ns = connection.moved_ns(flight).saturating_add(timeout_ns);
        if bench.seat.now_ns >= deadline_ns {
            let cause = connection.timeout_cause();
            self.fail(bench, at, cause);
        } else {
            let due_ns = piece_due_ns.map_or(deadline_ns, |due_ns| due_ns.min(deadline_ns));
            let left = Duration::from_nanos(due_ns.saturating_sub(bench.seat.now_ns));
            bench.seat.reactor.set_deadline(connection.task, Some(bench.seat.reactor.now().after(left)));
        }
    }
}
