//! Counters of upstream groups and peers on the request path. Each worker writes its own cells on its own cache lines,
//! so counting causes no contention; a `snapshot` sums them up. The pool counts its own events; these are the events
//! that only an exchange knows.

use crate::base::counters::bump;
use crate::base::durations::{Durations, HistogramCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use upstream::balance::SeatLine;
use upstream::retry::Reason;

/// Classes of statuses, as labels; the last one counts what is no HTTP status (444 and 499 are `4xx`).
pub(crate) const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];

/// Why a failed attempt was followed by another one, as labels.
pub(crate) const RETRY_REASONS: [&str; 5] =
    ["listed", "reused_connection", "proved_unsent", "gone_away", "stream_refused"];

/// The place of a status in [`CLASSES`].
pub(crate) fn class_of(status: u16) -> usize {
    match status {
        100..=599 => usize::from(status / 100) - 1,
        _ => CLASSES.len() - 1,
    }
}

/// One worker's counters of a peer.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PeerCell {
    attempts: AtomicU64,
    opened: AtomicU64,
    reused: AtomicU64,
    failed: AtomicU64,
    responses: [AtomicU64; CLASSES.len()],
    connect: HistogramCell,
    response: HistogramCell,
}

/// Counters of a peer, by worker.
#[derive(Debug)]
pub(crate) struct PeerCells(Box<[PeerCell]>);

/// The facts about one attempt at a peer that are counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Microseconds that connecting took, if a connection was opened.
    pub(crate) connect_us: Option<u64>,
    /// The attempt used a reused connection.
    pub(crate) reused: bool,
    /// The status of the peer's response.
    pub(crate) status: Option<u16>,
    /// Microseconds from the start of the attempt to the end of the response.
    pub(crate) response_us: Option<u64>,
    /// The attempt failed.
    pub(crate) failed: bool,
}

/// Counters of a peer, summed over all workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PeerSums {
    pub(crate) attempts: u64,
    pub(crate) opened: u64,
    pub(crate) reused: u64,
    pub(crate) failed: u64,
    pub(crate) responses: [u64; CLASSES.len()],
    pub(crate) connect: Durations,
    pub(crate) response: Durations,
}

impl PeerCells {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers.max(1)).map(|_| PeerCell::default()).collect())
    }

    /// Counts an attempt that has ended.
    pub(crate) fn count(&self, worker: u16, attempt: Counted) {
        let Some(cell) = self.0.get(usize::from(worker)) else { return };
        bump(&cell.attempts, 1);
        if attempt.reused {
            bump(&cell.reused, 1);
        }
        if let Some(microseconds) = attempt.connect_us {
            bump(&cell.opened, 1);
            cell.connect.record(microseconds);
        }
        if attempt.failed {
            bump(&cell.failed, 1);
        }
        if let Some(status) = attempt.status {
            bump(&cell.responses[class_of(status)], 1);
        }
        if let Some(microseconds) = attempt.response_us {
            cell.response.record(microseconds);
        }
    }

    pub(crate) fn sums(&self) -> PeerSums {
        let mut sums = PeerSums::default();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for cell in &self.0 {
            sums.attempts += read(&cell.attempts);
            sums.opened += read(&cell.opened);
            sums.reused += read(&cell.reused);
            sums.failed += read(&cell.failed);
            for (sum, counter) in sums.responses.iter_mut().zip(&cell.responses) {
                *sum += read(counter);
            }
            sums.connect.add(&cell.connect);
            sums.response.add(&cell.response);
        }
        sums
    }
}

/// One worker's counters of a group.
#[derive(Debug, Default)]
#[repr(align(128))]
struct GroupCell {
    retries: [AtomicU64; RETRY_REASONS.len()],
    no_live_peer: AtomicU64,
    /// Requests that wait for a stream of a shared connection.
    wait_for_streams: AtomicU64,
}

/// Counters of a group, by worker.
#[derive(Debug)]
pub(crate) struct GroupCells {
    cells: Box<[GroupCell]>,
    /// The group's waiting line for a peer; set once `queue` was configured for the group.
    line: OnceLock<Arc<SeatLine>>,
}

/// Counters of a group, summed over all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupSums {
    /// In the order of [`RETRY_REASONS`].
    pub(crate) retries: [u64; RETRY_REASONS.len()],
    pub(crate) no_live_peer: u64,
}

impl GroupCells {
    pub(crate) fn new(workers: usize) -> Self {
        Self { cells: (0..workers.max(1)).map(|_| GroupCell::default()).collect(), line: OnceLock::new() }
    }

    /// Sets the line in which the group's requests wait for a peer: the same one in all generations.
    pub(crate) fn show_line(&self, line: &Arc<SeatLine>) {
        let _ = self.line.set(Arc::clone(line));
    }

    /// Number of requests that wait for a peer, or for a stream of a shared connection.
    pub(crate) fn waiting(&self) -> u64 {
        let for_streams = self.cells.iter().map(|cell| cell.wait_for_streams.load(Ordering::Relaxed));
        for_streams.sum::<u64>() + self.line.get().map_or(0, |line| u64::from(line.waiting()))
    }

    /// Changes a worker's number of requests that wait for a stream.
    pub(crate) fn wait_for_streams(&self, worker: u16, change: i64) {
        if let Some(cell) = self.cells.get(usize::from(worker)) {
            bump(&cell.wait_for_streams, change);
        }
    }

    /// Counts an attempt that follows a failed one, by the reason that allowed it.
    pub(crate) fn count_retry(&self, worker: u16, reason: Reason) {
        let place = match reason {
            Reason::Listed => 0,
            Reason::ReusedConnection => 1,
            Reason::ProvedUnsent => 2,
            Reason::GoneAway => 3,
            Reason::StreamRefused => 4,
            // The other reasons say why no further attempt follows.
            _ => return,
        };
        if let Some(cell) = self.cells.get(usize::from(worker)) {
            bump(&cell.retries[place], 1);
        }
    }

    /// Counts a request for which no peer could be chosen.
    pub(crate) fn count_no_live_peer(&self, worker: u16) {
        if let Some(cell) = self.cells.get(usize::from(worker)) {
            bump(&cell.no_live_peer, 1);
        }
    }

    pub(crate) fn sums(&self) -> GroupSums {
        let mut sums = GroupSums::default();
        for cell in &self.cells {
            for (sum, counter) in sums.retries.iter_mut().zip(&cell.retries) {
                *sum += counter.load(Ordering::Relaxed);
            }
            sums.no_live_peer += cell.no_live_peer.load(Ordering::Relaxed);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_the_cells_of_all_workers() {
        let cells = PeerCells::new(2);
        let opened = Counted { connect_us: Some(3), status: Some(204), response_us: Some(7), ..Counted::default() };
        cells.count(0, opened);
        cells.count(1, Counted { reused: true, failed: true, ..Counted::default() });
        cells.count(9, opened);
        let sums = cells.sums();
        assert_eq!((sums.attempts, sums.opened, sums.reused, sums.failed), (2, 1, 1, 1));
        assert_eq!(sums.responses, [0, 1, 0, 0, 0, 0]);
        assert_eq!((sums.connect.sum_us, sums.response.sum_us), (3, 7));
    }

    #[test]
    fn unknown_status_counts_as_other() {
        let classes = [101, 200, 308, 499, 599, 0, 600].map(|status| CLASSES[class_of(status)]);
        assert_eq!(classes, ["1xx", "2xx", "3xx", "4xx", "5xx", "other", "other"]);
    }
}
