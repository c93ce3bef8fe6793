//! Figures that the JSON results of every load contain: distributions of times, limits, sockets.

use crate::drive::sockets::Sockets;
use crate::drive::sockets::account::Look;
use crate::{Latencies, Need, Sparse};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use watch::model::tally::StateCounts;

/// Version of the format; readers refuse other versions.
pub(crate) const FORMAT: u32 = 1;

/// A limit of the system, and how much of it the load needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) what: String,
    pub(crate) needed: u64,
    pub(crate) available: u64,
}

impl From<&Need> for Limit {
    fn from(need: &Need) -> Self {
        Self { what: need.what.to_owned(), needed: need.needed, available: need.available }
    }
}

/// A distribution of latencies, in nanoseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) min_ns: u64,
    pub(crate) mean_ns: f64,
    pub(crate) deviation_ns: f64,
    pub(crate) max_ns: u64,
    pub(crate) quantiles_ns: BTreeMap<String, u64>,
    pub(crate) histogram: Sparse,
}

/// Sockets towards the targets, as reported by the kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SocketFigures {
    /// How the kernel was queried.
    pub(crate) source: String,
    /// Number of looks during the load.
    pub(crate) looks: u64,
    /// The most processor time that a look took.
    pub(crate) look_s_max: f64,
    /// The largest count of each state at one time.
    pub(crate) most: BTreeMap<String, u64>,
    /// The look after the end of the run.
    pub(crate) end: Option<LookFigures>,
    /// Most sockets at one time with a zero window at the target; `unread_most` with bytes that the
    /// load had not read.
    pub(crate) window_zero_most: u64,
    pub(crate) unread_most: u64,
    pub(crate) over_time: Vec<LookFigures>,
    pub(crate) notes: Vec<String>,
}

/// One look. Closes and segments count from the start of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LookFigures {
    pub(crate) at_s: f64,
    pub(crate) states: BTreeMap<String, u64>,
    pub(crate) window_zero: u64,
    pub(crate) unread: u64,
    pub(crate) no_answer: u64,
    pub(crate) sent_again: u64,
    pub(crate) closed_first_by_target: u64,
    pub(crate) closed_first_by_load: u64,
    pub(crate) closed_first_by_unknown: u64,
}

impl From<&Look> for LookFigures {
    fn from(look: &Look) -> Self {
        Self {
            at_s: look.at.as_secs_f64(),
            states: by_state(&look.states),
            window_zero: look.window_zero,
            unread: look.unread,
            no_answer: look.no_answer,
            sent_again: look.sent_again,
            closed_first_by_target: look.closes.peer,
            closed_first_by_load: look.closes.this_side,
            closed_first_by_unknown: look.closes.unknown,
        }
    }
}

impl From<&Sockets> for SocketFigures {
    fn from(sockets: &Sockets) -> Self {
        let looks = &sockets.looks;
        let (window_zero_most, unread_most) = looks.most_stuck();
        Self {
            source: sockets.source.clone(),
            looks: looks.count(),
            look_s_max: sockets.took_max.as_secs_f64(),
            most: by_state(looks.most()),
            end: looks.after().map(LookFigures::from),
            window_zero_most,
            unread_most,
            over_time: looks.kept().iter().map(LookFigures::from).collect(),
            notes: sockets.notes.clone(),
        }
    }
}

fn by_state(states: &StateCounts) -> BTreeMap<String, u64> {
    states.present().map(|(state, count)| (state.name().to_owned(), count)).collect()
}

/// Quantiles in the file.
pub(crate) const QUANTILES: [(&str, f64); 8] = [
    ("p50", 0.5),
    ("p60", 0.6),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

impl From<&Latencies> for Latency {
    fn from(latencies: &Latencies) -> Self {
        let quantiles = QUANTILES.map(|(name, quantile)| (name.to_owned(), latencies.quantile_ns(quantile)));
        Self {
            count: latencies.count(),
            min_ns: latencies.min_ns(),
            mean_ns: latencies.mean_ns(),
            deviation_ns: latencies.deviation_ns(),
            max_ns: latencies.max_ns(),
            quantiles_ns: quantiles.into_iter().collect(),
            histogram: Sparse::from(latencies),
        }
    }
}
