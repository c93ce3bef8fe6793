//! A string with variables in it, as `"$scheme://${host}/x"`. Only split into parts here; `rules` resolves the names.

use crate::source::Span;

/// One part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes that stand for themselves.
    Text(Vec<u8>),
    /// `$name` or `${name}`.
    Variable(String),
    /// `$0` to `$9`: a capture of the last regular expression that matched.
    Capture(u8),
}

/// A string with variables, in parts; adjacent texts are merged, and an empty string has no part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The parts in order.
    pub parts: Vec<Part>,
    /// Where it was written.
    pub span: Span,
}
