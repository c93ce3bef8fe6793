//! From a peer to a connection: wait in line, take an idle one, or open one.

pub(crate) mod connect;
pub(crate) mod lease;
pub(crate) mod leased;
pub(crate) mod line;
pub(crate) mod opening;
