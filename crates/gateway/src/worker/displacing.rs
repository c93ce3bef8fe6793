//! Which connections are closed for others when a worker has too many, or memory is short: first those without a
//! complete request, the oldest first; then those idle between two requests. This module selects them and takes them
//! out; `accept` and `shedding` call it.

use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::downstream::h1::connection::Connection;
use crate::worker::{Body, Worker};
use reactor::{Millis, Peeked};

/// The share of candidates that are closed at once. Finding them takes a walk over all connections, which a client that
/// connects endlessly must not cause each time. nginx closes as many.
const SHARE: usize = 8;
/// Most connections closed at once.
const AT_ONCE_MAX: usize = 32;

/// The order in which connections are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// It has sent nothing or a part of a head; or it has been answered, and further input is dropped.
    WithoutRequest,
    /// It waits for another request.
    Idle,
}

/// A candidate for closing. The sort order decides which is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Displaceable {
    pub(crate) class: Class,
    /// Since when it has been waiting.
    pub(crate) since: Millis,
    /// The connection's serial number: a burst is accepted at one time, and indexes are reused in any order.
    serial: u64,
    pub(crate) index: usize,
    /// It has sent a part of a head.
    pub(crate) is_partial: bool,
}

impl Worker {
    /// Closes connections to make room for a new one; `false` if there is no candidate.
    pub(crate) fn displace(&self) -> bool {
        let mut candidates = self.candidates(Class::Idle);
        candidates.sort_unstable();
        let most = (candidates.len() / SHARE).clamp(1, AT_ONCE_MAX);
        let mut closed = 0;
        for Displaceable { index, .. } in candidates {
            if let Some(connection) = self.take_waiting(index) {
                self.close(connection, CloseReason::Displaced);
                closed += 1;
            }
            if closed == most {
                break;
            }
        }
        closed > 0
    }

    /// The candidates, up to a class.
    pub(crate) fn candidates(&self, last: Class) -> Vec<Displaceable> {
        let bodies = self.bodies.borrow();
        let all = bodies.iter().enumerate().filter_map(|(index, body)| {
            let (class, since, serial) = match body {
                Body::Reading(waiting) => (Class::WithoutRequest, waiting.since, waiting.client.serial),
                Body::Securing(waiting) => {
                    let (waiting, _) = &**waiting;
                    (Class::WithoutRequest, waiting.client.accepted_at, waiting.client.serial)
                }
                Body::Idle(waiting) if waiting.client.requests == 0 => {
                    (Class::WithoutRequest, waiting.client.accepted_at, waiting.client.serial)
                }
                Body::Idle(waiting) => (Class::Idle, waiting.since, waiting.client.serial),
                Body::Lingering(linger) => (Class::WithoutRequest, linger.began_at(), linger.serial()),
                Body::Http2(multiplexed) => multiplexed.displacement()?,
                Body::Free
                | Body::Exchange(_)
                | Body::Session(_)
                | Body::Tunnel(_)
                | Body::Frozen(_)
                | Body::Datagrams(_)
                | Body::HeldBack(_)
                | Body::Job(_) => return None,
            };
            let is_partial = match body {
                Body::Reading(_) => true,
                Body::Http2(multiplexed) => multiplexed.is_partial(),
                _ => false,
            };
            (class <= last).then_some(Displaceable { class, since, serial, index, is_partial })
        });
        all.collect()
    }

    /// Takes a candidate out, unless it has sent bytes that were not read yet: they may be the rest of its request.
    /// Called only for connections about to be closed, since it makes a system call.
    pub(crate) fn take_waiting(&self, index: usize) -> Option<Box<Connection>> {
        let mut bodies = self.bodies.borrow_mut();
        let body = bodies.get_mut(index)?;
        let waiting = match body {
            Body::Idle(connection) | Body::Reading(connection) => Some(&**connection),
            Body::Securing(waiting) => Some(&*waiting.0),
            _ => None,
        };
        if waiting.is_some_and(|connection| connection.stream.peek() == Peeked::Data) {
            return None;
        }
        if let Body::Http2(multiplexed) = body
            && multiplexed.has_arrived()
        {
            return None;
        }
        match std::mem::replace(body, Body::Free) {
            Body::Idle(connection) => Some(connection),
            Body::Securing(waiting) => Some(waiting.0),
            Body::Reading(connection) => {
                bump(&self.thread.counters().reading, -1);
                Some(connection)
            }
            Body::Lingering(linger) => Some(linger.into_parts().0),
            Body::Http2(multiplexed) => multiplexed.into_connection(),
            other => {
                *body = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_of_a_burst_yields_in_any_worker() {
        let of = |serial, index| Displaceable {
            class: Class::WithoutRequest,
            since: Millis(7),
            serial,
            index,
            is_partial: false,
        };
        let mut waiting = [of(12, 0), of(11, 4), of(10, 9)];
        waiting.sort_unstable();
        assert_eq!(waiting.map(|candidate| candidate.index), [9, 4, 0]);
    }
}
