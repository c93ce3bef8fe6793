//! `route_to`: conditions that lead to named locations.

use conf::source::Span;
use rules::route_to::Condition;

/// One `route_to`.
pub(crate) struct RoutePlan {
    /// The location, with its `@`.
    pub(crate) name: Box<[u8]>,
    /// All must hold.
    pub(crate) conditions: Box<[Condition]>,
    /// Where it was written.
    pub(crate) span: Span,
}
