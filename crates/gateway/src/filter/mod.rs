//! What is done to a response between its content and the client.

pub(crate) mod added_fields;
pub(crate) mod compress;
pub(crate) mod forced_range;
pub(crate) mod gzip;
pub(crate) mod rate;
