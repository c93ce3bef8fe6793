//! Error logs and access logs: their lines, their destinations, and the buffers between workers and the log writer.

pub(crate) mod access;
pub(crate) mod bell;
pub(crate) mod error;
pub(crate) mod place;
