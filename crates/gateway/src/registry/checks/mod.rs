//! Active health checks: a group's `health_check`, the evaluation of answers (`answer`), and the schedule (`schedule`).
//! The schedule belongs to the process and outlives generations; its results go into a peer's
//! `upstream::balance::PeerHealth`, where balancing uses them. This module opens no socket: the control plane, which it
//! does not know, takes due checks, makes them, and reports the results.

pub(crate) mod answer;
pub(crate) mod grpc_answer;
pub(crate) mod question;
pub(crate) mod schedule;

pub use crate::plan::check::{CheckPlan, CheckTls, HttpCheck};
pub use answer::CheckAnswer;
pub use question::CheckTalk;
pub use schedule::{CheckDue, Checks, Probe};

use upstream::check::CheckVerdict;

/// The kind of result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// All conditions hold.
    Passed,
    /// No connection.
    Connect,
    /// It took longer than `timeout`.
    TimedOut,
    /// The connection ended or broke before the response was complete.
    Broken,
    /// The bytes are no valid response.
    Invalid,
    /// A condition on the status does not hold.
    Status,
    /// A condition on a field does not hold.
    Header,
    /// A condition on the body does not hold.
    Body,
    /// This side could not make the check: no descriptor or no port was left. It says nothing about the peer.
    NotMade,
}

impl Finding {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Passed,
        Self::Connect,
        Self::TimedOut,
        Self::Broken,
        Self::Invalid,
        Self::Status,
        Self::Header,
        Self::Body,
        Self::NotMade,
    ];

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Connect => "connect",
            Self::TimedOut => "timed_out",
            Self::Broken => "broken",
            Self::Invalid => "invalid",
            Self::Status => "status",
            Self::Header => "header",
            Self::Body => "body",
            Self::NotMade => "not_made",
        }
    }

    pub(crate) fn verdict(self) -> CheckVerdict {
        match self {
            Self::Passed => CheckVerdict::Passed,
            Self::NotMade => CheckVerdict::NotMade,
            _ => CheckVerdict::Failed,
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// The kind.
    pub finding: Finding,
    /// The step that failed, in the words of an error log: "connecting to upstream".
    pub phase: &'static str,
    /// Details for people; at most one line.
    pub detail: String,
}

impl CheckResult {
    /// A result.
    pub fn new(finding: Finding, phase: &'static str, detail: impl Into<String>) -> Self {
        Self { finding, phase, detail: detail.into() }
    }
}
