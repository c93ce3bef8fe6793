//! What a record holds about the load generator itself: its lag, and how its time was spent.

use crate::processors::Spent;
use crate::tally::Latencies;
use serde::{Deserialize, Serialize};

/// The generator's lag and time in one interval or, merged, in a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GeneratorRecord {
    /// How late the generator was for everything due at a fixed time, and for a probe every 10 ms where nothing was due.
    pub lag: Latencies,
    /// The part of the lag in which the worker ran earlier work. For the rest the worker had no processor, or its timer
    /// fired late.
    pub lag_own: Latencies,
    /// How long each turn of a worker's loop took. Received data waits at most this long before it is read.
    pub turn: Latencies,
    /// How the workers' time was spent.
    pub spent: Spent,
    /// The longest running time and the longest waiting time of any worker, in the interval or in the run.
    pub spent_most: Spent,
}

impl GeneratorRecord {
    /// Adds a record of another worker or another interval. Calls `pause` between two histograms.
    pub(crate) fn add(&mut self, other: &Self, pause: fn()) {
        for (sum, more) in self.latencies().into_iter().zip([&other.lag, &other.lag_own, &other.turn]) {
            sum.add(more);
            pause();
        }
        self.spent += other.spent;
        self.spent_most = self.spent_most.most(other.spent_most);
    }

    /// Clears all counts and keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.latencies().into_iter().for_each(Latencies::clear);
        (self.spent, self.spent_most) = (Spent::default(), Spent::default());
    }

    pub(crate) fn latencies(&mut self) -> [&mut Latencies; 3] {
        let Self { lag, lag_own, turn, spent: _, spent_most: _ } = self;
        [lag, lag_own, turn]
    }
}
