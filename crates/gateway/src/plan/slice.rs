//! `slice`

use rules::precondition::ModifiedSince;

/// The slices in which a location's content is requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlicePlan {
    /// Bytes of a slice; at least 1.
    pub(crate) size: u64,
    /// `max_ranges`: 0 for no ranges.
    pub(crate) ranges_max: usize,
    pub(crate) modified_since: ModifiedSince,
}
