//! Queue of what is due on connections in the next milliseconds. The reactor's timer wheel has ticks of a millisecond and
//! puts a connection here shortly before its ping or next attempt is due. The worker's nanosecond timer handles the rest.
//! So an idle connection costs only its entry in the wheel. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Connections are added at multiples of this many milliseconds. With many pings a second that means a hundred more turns
/// of the loop a second, and few connections wait here at a time.
const TICK_MS: u64 = 8;
/// Nothing is due.
const NEVER: u64 = u64::MAX;

/// Connections, ordered by the time when something is due on them.
#[derive(Debug, Default)]
pub(super) struct DueQueue(BinaryHeap<Reverse<(u64, u32)>>);

impl DueQueue {
    /// Adds a connection with the time when something is due on it.
    pub(super) fn add(&mut self, due_ns: u64, slot: usize) {
        self.0.push(Reverse((due_ns, slot as u32)));
    }

    /// The earliest due time; `u64::MAX` if there is none.
    pub(super) fn next_ns(&self) -> u64 {
        self.0.peek().map_or(NEVER, |Reverse((due_ns, _))| *due_ns)
    }

    /// Removes the first entry if it is due, and returns its due time and connection. The connection may have ended
    /// meanwhile.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        if self.next_ns() > now_ns {
            return None;
        }
        self.0.pop().map(|Reverse((due_ns, slot))| (due_ns, slot as usize))
    }
}

/// The millisecond of the monotonic clock at which a connection must be added, for something that is due at this
/// nanosecond.
pub(super) fn tick_before(due_ns: u64) -> u64 {
    let ms = due_ns / 1_000_000;
    ms - ms % TICK_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_due_comes_first() {
        let mut due = DueQueue::default();
        assert_eq!((due.next_ns(), due.take(NEVER - 1)), (NEVER, None));
        for (due_ns, slot) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            due.add(due_ns, slot);
        }
        assert_eq!((due.next_ns(), due.take(9)), (10, None));
        let taken: Vec<_> = std::iter::from_fn(|| due.take(20)).collect();
        assert_eq!(taken, [(10, 2), (10, 4), (20, 3)]);
        assert_eq!(due.take(30), Some((30, 1)));
    }

    #[test]
    fn timer_fires_at_most_one_tick_early() {
        for due_ns in [0, 1, 7_999_999, 8_000_000, 123_456_789_012] {
            let ns = tick_before(due_ns) * 1_000_000;
            assert!(ns <= due_ns && due_ns - ns < TICK_MS * 1_000_000, "{due_ns}");
        }
    }
}
