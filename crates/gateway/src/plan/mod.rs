//! What one generation of the configuration says. Made by `lower`, and not changed afterwards.

pub(crate) mod access;
pub(crate) mod added;
pub(crate) mod computed;
pub(crate) mod files;
pub(crate) mod filters;
pub(crate) mod generation;
pub(crate) mod sticky;
pub(crate) mod tunnel;
