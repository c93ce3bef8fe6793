//! What is done to a response between its content and the client's side. Head steps edit a [`ReplyHead`]; body steps and what
//! they keep are a [`Chain`]'s. They know no exchange: who applies them (`content::filtered`, which has the order of the head
//! steps) brings what they look at.
//!
//! [`ReplyHead`]: crate::downstream::reply_head::ReplyHead
//! [`Chain`]: chain::Chain

pub(crate) mod added_fields;
pub(crate) mod additions;
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
