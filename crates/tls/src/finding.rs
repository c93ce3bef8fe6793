//! What is wrong with a certificate, a key or a chain, with what to do about it. `-t`, `doctor` and start-up show it.

use std::fmt;

/// Whether the pair can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, and the operator should look at it.
    Warning,
    /// It cannot be used, or clients will refuse it.
    Error,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A short name for JSON and tests.
    pub key: &'static str,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub advice: String,
}

impl Finding {
    pub(crate) fn error(key: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Error, key, text: text.into(), advice: advice.into() }
    }

    pub(crate) fn warning(key: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, key, text: text.into(), advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.text, self.advice)
    }
}

impl std::error::Error for Finding {}
