//! The client's side: its connection, its request, and the response on its way out.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod ending;
pub(crate) mod facts;
pub(crate) mod h1;
pub(crate) mod h1_head;
pub(crate) mod linger;
pub(crate) mod proxy_header;
pub(crate) mod reply_head;
pub(crate) mod request;
