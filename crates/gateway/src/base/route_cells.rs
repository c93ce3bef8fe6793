//! Counters of a location: how many requests, with which statuses, and how long they took. Each worker writes its own.

use crate::base::cells::{CLASSES, class_of};
use crate::base::counters::bump;
use crate::base::durations::{Durations, HistogramCell};
use std::sync::atomic::{AtomicU64, Ordering};

/// One worker's counters of a location.
#[derive(Debug, Default)]
#[repr(align(128))]
struct RouteCell {
    responses: [AtomicU64; CLASSES.len()],
    duration: HistogramCell,
}

/// Counters of a location, by worker.
#[derive(Debug)]
pub(crate) struct RouteCells(Box<[RouteCell]>);

/// Counters of a location, summed over all workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouteSums {
    pub(crate) responses: [u64; CLASSES.len()],
    pub(crate) duration: Durations,
}

impl RouteCells {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers.max(1)).map(|_| RouteCell::default()).collect())
    }

    /// Counts a response, with the time since its request began. A tunnel has no time: it lasts as long as its client likes.
    pub(crate) fn count(&self, worker: u16, status: u16, microseconds: Option<u64>) {
        let Some(cell) = self.0.get(usize::from(worker)) else { return };
        bump(&cell.responses[class_of(status)], 1);
        if let Some(microseconds) = microseconds {
            cell.duration.record(microseconds);
        }
    }

    pub(crate) fn sums(&self) -> RouteSums {
        let mut sums = RouteSums::default();
        for cell in &self.0 {
            for (sum, counter) in sums.responses.iter_mut().zip(&cell.responses) {
                *sum += counter.load(Ordering::Relaxed);
            }
            sums.duration.add(&cell.duration);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_apart_and_tunnels_have_no_time() {
        let cells = RouteCells::new(2);
        cells.count(0, 204, Some(300));
        cells.count(1, 503, Some(7));
        cells.count(1, 101, None);
        cells.count(9, 200, Some(1));
        let sums = cells.sums();
        assert_eq!(sums.responses, [1, 1, 0, 0, 1, 0]);
        assert_eq!((sums.duration.count(), sums.duration.sum_us), (2, 307));
    }
}
