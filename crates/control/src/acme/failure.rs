//! Why an order failed, what the operator can do, and when to try again.

use crate::acme::http::Unreached;
use instant_acme::{Error, Problem};
use std::time::Duration;

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The error.
    pub(crate) text: String,
    /// The advice to the operator.
    pub(crate) advice: &'static str,
    /// The pause that the authority requests.
    pub(crate) patience: Duration,
    /// Whether the authority does not know the account.
    pub(crate) account_unknown: bool,
}

/// Authorities limit failures per hour.
const RATE_LIMITED: Duration = Duration::from_hours(1);

impl Failure {
    fn new(text: String, advice: &'static str) -> Self {
        Self { text, advice, patience: Duration::ZERO, account_unknown: false }
    }

    /// An error that does not come from the authority.
    pub(crate) fn ours(text: &str) -> Self {
        Self::new(text.to_owned(), "check what the issuer offers and what \"acme_certificate\" asks for")
    }

    /// A file of the state directory could not be used.
    pub(crate) fn of_state(error: &std::io::Error) -> Self {
        let text = format!("the state directory cannot be used ({})", gateway::errno(error));
        Self::new(text, "check that \"state_path\" belongs to \"user\"")
    }

    /// The authority did not accept the answer to a challenge.
    pub(crate) fn rejected(name: &str, problem: &Problem) -> Self {
        let mut failure = Self::of_problem(problem);
        failure.text = format!("the challenge for {name} was rejected: {}", failure.text);
        failure.advice = "check that the name leads to this machine, and that port 80 (http-01) or 443 (tls-alpn-01) reaches holdfast";
        failure
    }

    fn of_problem(problem: &Problem) -> Self {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.rsplit(':').next().unwrap_or_default();
        let detail = problem.detail.as_deref().unwrap_or("no detail");
        let mut text = detail.to_owned();
        for subproblem in &problem.subproblems {
            text = format!("{text}; {subproblem}");
        }
        let mut failure = Self::new(format!("{text} ({kind})"), "see what the authority says");
        match kind {
            "rateLimited" => {
                failure.patience = RATE_LIMITED;
                failure.advice = "wait; a test environment of the authority has higher limits";
            }
            "userActionRequired" => failure.advice = "read its terms, and set \"accept_terms_of_service\"",
            "externalAccountRequired" => failure.advice = "get a key from the authority for \"external_account_key\"",
            "accountDoesNotExist" => failure.account_unknown = true,
            "caa" => failure.advice = "the name's CAA records in the DNS must allow this authority",
            "dns" => failure.advice = "the name must have an address in the DNS",
            "rejectedIdentifier" | "unsupportedIdentifier" => {
                failure.advice = "take the name out of \"acme_certificate\"";
            }
            _ => {}
        }
        // Authorities use different error types for this.
        if detail.to_ascii_lowercase().contains("terms of service") {
            failure.advice = "read its terms, and set \"accept_terms_of_service\"";
        }
        failure
    }

    /// The pause after this number of consecutive failures, as [`tls::retry_pause`] has it.
    pub(crate) fn pause(&self, failures: u32, life: Option<Duration>, chance: u64) -> Duration {
        tls::retry_pause(failures, life, self.patience, chance)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Api(problem) => Self::of_problem(problem),
            Error::Other(other) if other.is::<Unreached>() => Self::new(
                format!("the authority cannot be asked: {other}"),
                "check \"uri\", the network and \"resolver\"",
            ),
            Error::Timeout(_) => Self::new("the authority takes too long".to_owned(), "nothing: it is asked again"),
            Error::Json(_) => Self::new(
                format!("the authority's answer is not understood: {error}"),
                "check that \"uri\" is that of a directory",
            ),
            _ => Self::ours(&error.to_string()),
        }
    }
}
