//! Filters: steps between a response's content and the client's side. Head steps edit a [`ReplyHead`]; a [`Chain`]
//! holds the body steps and their state. [`steps`] is the table of those that change bodies; `content::filtered` has the
//! order of the rest. They do not know exchanges: the caller passes what they look at.
//!
//! [`ReplyHead`]: crate::downstream::reply_head::ReplyHead
//! [`Chain`]: chain::Chain

pub(crate) mod added_fields;
pub(crate) mod additions;
pub(crate) mod assembly;
pub(crate) mod brotli;
pub(crate) mod chain;
pub(crate) mod charset;
pub(crate) mod compress;
pub(crate) mod forced_range;
pub(crate) mod gunzip;
pub(crate) mod gzip;
pub(crate) mod more_headers;
pub(crate) mod stage;
pub(crate) mod steps;
pub(crate) mod substitute;
#[cfg(feature = "zstd")]
pub(crate) mod zstd;
