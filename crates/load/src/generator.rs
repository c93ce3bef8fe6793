//! What a record says of the load generator itself: how late it was, and what became of its time.

use crate::processors::Spent;
use crate::tally::Latencies;
use serde::{Deserialize, Serialize};

/// How late the generator was in an interval, and what became of its time; merged, in a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GeneratorRecord {
    /// How late it was: for everything that was due at a time, and for a timer every 10 ms where nothing was.
    pub lag: Latencies,
    /// The part of the lag in which the worker ran, on what was ahead. For the rest it had no processor, or its timer was late.
    pub lag_own: Latencies,
    /// How long each turn of a worker's loop took: what arrived lay unread for at most this long.
    pub turn: Latencies,
    /// What became of the workers' time.
    pub spent: Spent,
    /// Of the worker that ran most, and of the one that waited most: in an interval, or in the run.
    pub spent_most: Spent,
}

impl GeneratorRecord {
    /// Adds what another worker has seen, or what was seen in another interval. `pause` is called between two histograms.
    pub(crate) fn add(&mut self, other: &Self, pause: fn()) {
        for (sum, more) in self.latencies().into_iter().zip([&other.lag, &other.lag_own, &other.turn]) {
            sum.add(more);
            pause();
        }
        self.spent += other.spent;
        self.spent_most = self.spent_most.most(other.spent_most);
    }

    /// Forgets everything, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.latencies().into_iter().for_each(Latencies::clear);
        (self.spent, self.spent_most) = (Spent::default(), Spent::default());
    }

    pub(crate) fn latencies(&mut self) -> [&mut Latencies; 3] {
        let Self { lag, lag_own, turn, spent: _, spent_most: _ } = self;
        [lag, lag_own, turn]
    }
}
