//! The protocols between web servers and application servers: FastCGI, SCGI and uwsgi, with the heads of CGI responses. Bytes come
//! in as slices, requests go out into vectors; nothing here opens a socket or allocates more than its caller's bounds allow.
//!
//! * [`fastcgi`]: requests in records, and responses taken apart.
//! * [`scgi`], [`uwsgi`]: requests; their bodies follow as they are, and their responses end with the connection or by their length.
//! * [`memcached`]: the request for one value, and its answer. No application server, but spoken to in the same way.
//! * [`read_head`] reads the head of a CGI response into a typed head.

pub mod fastcgi;
mod head;
pub mod memcached;
pub mod scgi;
pub mod uwsgi;

pub use head::{HeadError, head_end, read_head};

/// Parameters that a protocol cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the parameters of the request have more than {0} bytes")]
pub struct TooLarge(pub usize);

/// A request that is written parameter by parameter.
pub trait Params {
    /// Adds a parameter.
    fn param(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLarge>;
}
