//! What is done to a response between its content and the client's side. Head steps edit a [`ReplyHead`]; body steps and what
//! they keep are a [`Chain`]'s. They know no exchange: who applies them (`content::filtered`, which has the order of the head
//! steps) brings what they look at.
//!
//! [`ReplyHead`]: crate::downstream::reply_head::ReplyHead
//! [`Chain`]: chain::Chain

pub(crate) mod added_fields;
pub(crate) mod chain;
pub(crate) mod compress;
pub(crate) mod forced_range;
pub(crate) mod gzip;
