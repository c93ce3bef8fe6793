//! The error log and the access logs: their lines, where they go, and who collects them.

pub(crate) mod access;
pub(crate) mod bell;
pub(crate) mod error;
pub(crate) mod place;
