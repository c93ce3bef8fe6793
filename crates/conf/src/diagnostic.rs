//! What is wrong with a configuration, where, and what to do about it.

mod render;

use crate::source::Span;

pub use render::{Record, RelatedRecord};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something the operator should know; the configuration is used as it is.
    Note,
    /// Probably not what was meant; the configuration is used.
    Warning,
    /// The configuration is refused.
    Error,
}

/// A further place that belongs to a diagnostic, for example the first of two definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// Where.
    pub span: Span,
    /// What the place is, as in `first defined here`.
    pub message: String,
}

/// One finding about a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// nginx's wording where nginx has one, without the file and line.
    pub message: String,
    /// Where; an empty span marks a position (end of file).
    pub span: Span,
    /// What to do about it.
    pub hint: Option<String>,
    /// Further places.
    pub related: Vec<Related>,
}

/// Sorts by file in the order of opening, then by position. Operators fix findings in this order, and within a file
/// nginx would report them in this order.
pub fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span.file, diagnostic.span.start));
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), span, hint: None, related: Vec::new() }
    }

    /// A warning at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(span, message) }
    }

    /// A note at a place.
    pub fn note(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(span, message) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a further place.
    #[must_use]
    pub fn with_related(mut self, span: Span, message: impl Into<String>) -> Self {
        self.related.push(Related { span, message: message.into() });
        self
    }
}
