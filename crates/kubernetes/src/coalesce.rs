//! When changed objects become a new generation: shortly after the first change, and at most ten times a second. Pure: the
//! time comes in.

use std::time::{Duration, Instant};

/// Changes that belong together, such as those of one `kubectl apply`, arrive within this time.
const GATHER: Duration = Duration::from_millis(50);
/// The least time between two generations: a generation of a large cluster costs some tens of milliseconds of a core.
const BETWEEN: Duration = Duration::from_millis(100);

/// Gathers changes.
#[derive(Debug, Default)]
pub struct Coalescer {
    first: Option<Instant>,
    last_made: Option<Instant>,
}

impl Coalescer {
    /// Something changed.
    pub fn note(&mut self, now: Instant) {
        self.first.get_or_insert(now);
    }

    /// When the next generation is due; `None`: nothing changed.
    pub fn due_at(&self) -> Option<Instant> {
        let gathered = self.first? + GATHER;
        Some(self.last_made.map_or(gathered, |made| gathered.max(made + BETWEEN)))
    }

    /// Whether a generation is due. If so, the changes are taken, and the caller makes it.
    pub fn take(&mut self, now: Instant) -> bool {
        let due = self.due_at().is_some_and(|at| now >= at);
        if due {
            (self.first, self.last_made) = (None, Some(now));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_gathered_from_the_first_one() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        assert_eq!(coalescer.due_at(), None);
        coalescer.note(start);
        coalescer.note(start + Duration::from_millis(40));
        assert!(!coalescer.take(start + Duration::from_millis(49)));
        assert!(coalescer.take(start + Duration::from_millis(50)));
        assert!(!coalescer.take(start + Duration::from_millis(60)), "the changes were taken");
    }

    #[test]
    fn a_stream_of_changes_makes_ten_generations_a_second() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        let mut made = 0;
        for millis in 0..1000 {
            let now = start + Duration::from_millis(millis);
            coalescer.note(now);
            made += usize::from(coalescer.take(now));
        }
        assert_eq!(made, 10);
    }
}
