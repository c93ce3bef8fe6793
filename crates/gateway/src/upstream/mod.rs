//! A conversation with a peer: the outgoing request, the response's head, and the response's body without its framing.

pub(crate) mod answer;
pub(crate) mod outgoing_body;
pub(crate) mod records;
pub(crate) mod replay_body;
pub(crate) mod response_body;
pub(crate) mod sending;
pub(crate) mod side;
