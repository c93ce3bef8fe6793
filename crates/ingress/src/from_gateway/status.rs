//! Conditions, as statuses have them. They have no `lastTransitionTime`: what writes a status knows the clock, and keeps the time
//! of a condition that did not change.

use serde_json::{Value, json};

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    /// `Accepted`, …
    pub(crate) kind: &'static str,
    /// `True` or `False`.
    pub(crate) holds: bool,
    /// One word.
    pub(crate) reason: &'static str,
    /// One sentence.
    pub(crate) message: String,
}

impl Condition {
    pub(crate) fn yes(kind: &'static str, reason: &'static str) -> Self {
        Self { kind, holds: true, reason, message: String::new() }
    }

    pub(crate) fn no(kind: &'static str, fault: &Fault) -> Self {
        Self { kind, holds: false, reason: fault.reason, message: fault.message.clone() }
    }

    /// `kind` holds with the reason of the same name unless there is a fault.
    pub(crate) fn unless(kind: &'static str, fault: Option<&Fault>) -> Self {
        fault.map_or_else(|| Self::yes(kind, kind), |fault| Self::no(kind, fault))
    }

    fn json(&self, generation: i64) -> Value {
        let status = if self.holds { "True" } else { "False" };
        json!({
            "type": self.kind,
            "status": status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": generation,
        })
    }
}

/// Why something is not as its author wants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// One word of the specification.
    pub(crate) reason: &'static str,
    /// One sentence.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Conditions as JSON.
pub(crate) fn conditions(list: &[Condition], generation: i64) -> Value {
    list.iter().map(|condition| condition.json(generation)).collect()
}
