//! Active health checks: what a group's `health_check` asks for, what is a good answer (`answer`), and who is asked when
//! (`schedule`). The schedule belongs to the process and outlives generations; what it finds out goes into a peer's
//! `upstream::balance::PeerHealth`, where balancing sees it. No socket is opened here: the control plane, which this module
//! does not know, sees what is due, asks, and settles it.

pub(crate) mod answer;
pub(crate) mod grpc_answer;
pub(crate) mod question;
pub(crate) mod schedule;

pub use crate::plan::check::{CheckPlan, CheckTls, HttpCheck};
pub use answer::CheckAnswer;
pub use question::CheckTalk;
pub use schedule::{CheckDue, Checks, Probe};

use upstream::check::CheckVerdict;

/// What kind of end a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// All conditions hold.
    Passed,
    /// No connection.
    Connect,
    /// It took longer than `timeout`.
    TimedOut,
    /// The connection ended, or broke, before the response was whole.
    Broken,
    /// What came is no response.
    Invalid,
    /// A condition on the status does not hold.
    Status,
    /// One on a field does not.
    Header,
    /// One on the body does not.
    Body,
    /// This side could not ask: it has no descriptor or no port left. Nothing is known of the peer.
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

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// The kind.
    pub finding: Finding,
    /// What was being done, in the words of an error log: "connecting to upstream".
    pub phase: &'static str,
    /// What was seen, for people; a line at most.
    pub detail: String,
}

impl CheckResult {
    /// A result.
    pub fn new(finding: Finding, phase: &'static str, detail: impl Into<String>) -> Self {
        Self { finding, phase, detail: detail.into() }
    }
}
