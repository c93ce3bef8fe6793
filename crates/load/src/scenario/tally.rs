//! Counts of a scenario beyond those of its requests: iterations by flow, and checks by step.

use crate::tally::Latencies;
use serde::{Deserialize, Serialize};

/// The iterations of a flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowTally {
    /// Iterations that have begun.
    pub begun: u64,
    /// Iterations that reached their end.
    pub completed: u64,
    /// Iterations that ended early: a request failed, or a value for later steps was missing.
    pub failed: u64,
    /// Iterations that the end of the run cut.
    pub cut: u64,
    /// From the time the first request was due to the end of the last response, for complete iterations.
    pub duration: Latencies,
}

impl FlowTally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cut += other.cut;
        self.duration.add(&other.duration);
    }
}

/// A check or an extraction of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckTally {
    /// Responses that passed.
    pub passed: u64,
    /// Responses that did not.
    pub failed: u64,
}

impl CheckTally {
    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}
