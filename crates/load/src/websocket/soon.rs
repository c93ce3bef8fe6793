//! What is due on connections within the next milliseconds, in the order of its times. The reactor's wheel, whose ticks are milliseconds,
//! brings a connection here a little before its ping or its next attempt is due; the worker's timer has nanoseconds for the rest of
//! the way. So an idle connection costs no more than its place in the wheel. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Connections come here at multiples of this many milliseconds: with many pings a second that is a hundred more turns of the loop, and
/// few wait here at a time.
const TICK_MS: u64 = 8;
/// "Nothing."
const NEVER: u64 = u64::MAX;

/// Connections by the time at which something is due on them.
#[derive(Debug, Default)]
pub(super) struct Soon(BinaryHeap<Reverse<(u64, u32)>>);

impl Soon {
    /// Something is due on this connection at this time.
    pub(super) fn add(&mut self, due_ns: u64, slot: usize) {
        self.0.push(Reverse((due_ns, slot as u32)));
    }

    /// When the first of them is due; `u64::MAX` if there is none.
    pub(super) fn next_ns(&self) -> u64 {
        self.0.peek().map_or(NEVER, |Reverse((due_ns, _))| *due_ns)
    }

    /// The first of them, if it is due by now: when it was, and which connection. That may have ended meanwhile.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        if self.next_ns() > now_ns {
            return None;
        }
        self.0.pop().map(|Reverse((due_ns, slot))| (due_ns, slot as usize))
    }
}

/// The millisecond of the monotonic clock at which a connection is to come here, for something that is due at this nanosecond of it.
pub(super) fn tick_before(due_ns: u64) -> u64 {
    let ms = due_ns / 1_000_000;
    ms - ms % TICK_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_due_comes_first() {
        let mut soon = Soon::default();
        assert_eq!((soon.next_ns(), soon.take(NEVER - 1)), (NEVER, None));
        for (due_ns, slot) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            soon.add(due_ns, slot);
        }
        assert_eq!((soon.next_ns(), soon.take(9)), (10, None));
        let taken: Vec<_> = std::iter::from_fn(|| soon.take(20)).collect();
        assert_eq!(taken, [(10, 2), (10, 4), (20, 3)]);
        assert_eq!(soon.take(30), Some((30, 1)));
    }

    #[test]
    fn it_comes_before_it_is_due_and_by_no_more_than_a_tick() {
        for due_ns in [0, 1, 7_999_999, 8_000_000, 123_456_789_012] {
            let ns = tick_before(due_ns) * 1_000_000;
            assert!(ns <= due_ns && due_ns - ns < TICK_MS * 1_000_000, "{due_ns}");
        }
    }
}
