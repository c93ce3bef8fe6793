//! When changed objects become a new generation: shortly after the first change, at most ten times a second, and with about half
//! of a core if changes come without pause. Pure: the time comes in.

use std::time::{Duration, Instant};

/// Changes that belong together, such as those of one `kubectl apply`, arrive within this time.
const GATHER: Duration = Duration::from_millis(50);
/// The least time between the beginnings of two generations.
const BETWEEN: Duration = Duration::from_millis(100);
/// What generations may take without a pause, if there were none for twice this time: a generation takes some tens of
/// milliseconds, and of a large cluster some hundreds if nothing of it can be shared with the one before. So a change, or a
/// few in a row, do not wait.
const SAVED_MAX: Duration = Duration::from_secs(2);
/// The longest pause, also after a generation that takes very long.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A generation takes one part of the time, the other requests have.
const PARTS: u32 = 2;

/// Gathers changes.
#[derive(Debug, Default)]
pub struct Coalescer {
    first: Option<Instant>,
    last_made: Option<Instant>,
    /// What generations may take without a pause, at a time.
    saved: Option<(Duration, Instant)>,
    /// No generation begins before.
    rested_at: Option<Instant>,
}

impl Coalescer {
    /// Something changed.
    pub fn note(&mut self, now: Instant) {
        self.first.get_or_insert(now);
    }

    /// When the next generation is due; `None`: nothing changed.
    pub fn due_at(&self) -> Option<Instant> {
        let gathered = self.first? + GATHER;
        let spaced = self.last_made.map(|made| made + BETWEEN);
        [spaced, self.rested_at].into_iter().flatten().max().map_or(Some(gathered), |at| Some(gathered.max(at)))
    }

    /// Whether a generation is due. If so, the changes are taken, and the caller makes it.
    pub fn take(&mut self, now: Instant) -> bool {
        let due = self.due_at().is_some_and(|at| now >= at);
        if due {
            (self.first, self.last_made) = (None, Some(now));
        }
        due
    }

    /// The generation that was taken is made: a pause follows if more was used than was saved.
    pub fn made(&mut self, now: Instant) {
        let Some(begun) = self.last_made else { return };
        let cost = now.saturating_duration_since(begun);
        let saved = self
            .saved
            .map_or(SAVED_MAX, |(saved, at)| (saved + begun.saturating_duration_since(at) / PARTS).min(SAVED_MAX));
        // The time of the work itself is saved, too.
        let (saved, owed) = ((saved + cost / PARTS).saturating_sub(cost), cost.saturating_sub(saved + cost / PARTS));
        let pause = (owed * PARTS).min(PAUSE_MAX);
        // What the pause saves is used up.
        (self.saved, self.rested_at) = (Some((saved, now + pause)), Some(now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn changes_are_gathered_from_the_first_one() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        assert_eq!(coalescer.due_at(), None);
        coalescer.note(start);
        coalescer.note(start + millis(40));
        assert!(!coalescer.take(start + millis(49)));
        assert!(coalescer.take(start + millis(50)));
        assert!(!coalescer.take(start + millis(60)), "the changes were taken");
    }

    /// Changes come all the time, and each generation takes as long. Returns when they began.
    fn generations(cost: Duration, time: Duration) -> Vec<Duration> {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        let (mut begun, mut now) = (Vec::new(), start);
        while now < start + time {
            coalescer.note(now);
            if coalescer.take(now) {
                begun.push(now - start);
                now += cost;
                coalescer.made(now);
            }
            now += millis(1);
        }
        begun
    }

    #[test]
    fn a_stream_of_changes_makes_ten_generations_a_second() {
        assert_eq!(generations(millis(1), millis(1000)).len(), 10);
    }

    #[test]
    fn generations_without_pause_take_half_of_a_core() {
        let begun = generations(millis(400), Duration::from_mins(1));
        let busy = millis(400) * begun.len() as u32;
        let most = Duration::from_secs(30) + SAVED_MAX + millis(400);
        assert!(busy > Duration::from_secs(28) && busy < most, "{busy:?}");
        // The first ones follow each other at once.
        assert!(begun[4] < millis(2300), "{begun:?}");
        let intervals = begun.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        assert!(intervals.max() < Some(millis(900)));
    }

    #[test]
    fn a_lone_change_is_not_delayed_by_what_came_before() {
        let (mut coalescer, mut now) = (Coalescer::default(), Instant::now());
        for _ in 0..20 {
            coalescer.note(now);
            now = coalescer.due_at().unwrap();
            assert!(coalescer.take(now));
            now += millis(300);
            coalescer.made(now);
        }
        now += SAVED_MAX * PARTS;
        coalescer.note(now);
        assert_eq!(coalescer.due_at(), Some(now + GATHER));
        assert!(coalescer.take(now + GATHER));
        coalescer.made(now + GATHER + millis(300));
        coalescer.note(now + GATHER + millis(310));
        assert_eq!(coalescer.due_at(), Some(now + GATHER + millis(310) + GATHER), "a few in a row are not delayed");
    }

    #[test]
    fn no_pause_is_longer_than_its_limit() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        coalescer.note(start);
        assert!(coalescer.take(start + GATHER));
        let end = start + Duration::from_mins(1);
        coalescer.made(end);
        coalescer.note(end);
        assert_eq!(coalescer.due_at(), Some(end + PAUSE_MAX));
    }
}
