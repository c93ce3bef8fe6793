//! A conversation with a peer: the outgoing request, the response's typed head, its body without framing, and what of the connection may
//! be used again. One file per protocol: `h1`, `h2`, `fastcgi`, `cgi` (SCGI and uwsgi) and `memcached`. `incoming` chooses among them,
//! and `side` joins them with the connection or the stream.

pub(crate) mod answer;
mod cgi;
mod fastcgi;
mod h1;
mod h2;
pub(crate) mod head;
pub(crate) mod incoming;
mod memcached;
pub(crate) mod outgoing_body;
pub(crate) mod replay_body;
pub(crate) mod response_body;
#[cfg(test)]
pub(crate) mod scripted;
pub(crate) mod sending;
pub(crate) mod side;
