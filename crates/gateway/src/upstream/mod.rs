//! A conversation with a peer: the request on its way out, the answer's head, and the answer's body without its framing.

pub(crate) mod answer;
pub(crate) mod outgoing_body;
pub(crate) mod records;
pub(crate) mod replay_body;
pub(crate) mod response_body;
pub(crate) mod sending;
pub(crate) mod side;
