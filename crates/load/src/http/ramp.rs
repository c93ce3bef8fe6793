//! Connections over time in a closed loop: those that are not active now have no socket, and wait for their time.

use super::connection::State;
use super::pool::Http;
use crate::worker::requests::Bench;
use std::time::Duration;

/// The longest pause before a connection looks again; timers are for shorter times.
const PAUSE_MAX: Duration = Duration::from_hours(1);

impl Http {
    /// Lets a connection without a request in flight wait if it is not active now; returns whether it waits.
    pub(super) fn waits_for_ramp(&mut self, bench: &mut Bench, at: u32) -> bool {
        let Some(ramp) = self.setup.ramp.as_ref().filter(|_| !bench.ending) else { return false };
        let now_ns = bench.seat.now_ns;
        let number = at as usize * self.workers + self.index;
        let next_ns = ramp.next_active_ns(number as u64, now_ns);
        if next_ns.is_some_and(|next_ns| next_ns <= now_ns) {
            return false;
        }
        self.close_quiet(bench, at);
        match next_ns {
            Some(next_ns) => self.rest(bench, at, Duration::from_nanos(next_ns - now_ns).min(PAUSE_MAX)),
            None => self.set_aside(bench, at),
        }
        true
    }

    /// Closes a connection without a request in flight.
    pub(super) fn close_quiet(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        if connection.stream.is_some() {
            bench.seat.record.closed_by_load += 1;
            connection.close();
        }
    }

    fn set_aside(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        connection.state = State::Closed;
        bench.seat.reactor.set_deadline(connection.task, None);
    }
}
