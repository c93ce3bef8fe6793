//! Rewrite programs, and `return`.

use crate::plan::location::LocationId;
use conf::source::Span;
use rules::mime::MimeTypes;
use rules::program::Program;
use rules::template::Template;
use std::sync::Arc;

/// A rewrite program, with the meaning of its numbers.
pub(crate) struct ProgramPlan {
    pub(crate) program: Program,
    pub(crate) answers: Vec<ReturnPlan>,
    /// The settings of each `if`.
    pub(crate) places: Vec<LocationId>,
    /// Where its instructions were written, by their numbers.
    pub(crate) spans: Vec<Span>,
}

/// `return`.
pub(crate) struct ReturnPlan {
    pub(crate) status: u16,
    pub(crate) text: Option<Template>,
    pub(crate) types: Arc<MimeTypes>,
}
