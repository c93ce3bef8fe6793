//! Results of the steps of an exchange.

use crate::exchange::reply::Reply;
use crate::tunnel::TunnelStart;

/// The target of an internal redirect.
#[derive(Debug)]
pub(crate) enum Redirect {
    /// This URI, which is not decoded any more.
    Uri { uri: Vec<u8>, args: Option<Vec<u8>> },
    /// The location with this name (with its `@`); the URI stays.
    Named(Vec<u8>),
}

/// The result of a phase of an exchange.
pub(crate) enum Step {
    /// Run the server's program next.
    Rules,
    /// A location was found: run its program and its content next.
    Content,
    /// Run only the content: the starting exchange has done everything before it.
    Resume,
    /// A program has rewritten the URI: find a location for it.
    Moved,
    /// The answer.
    Reply(Reply),
    /// Continue at another URI or location.
    Redirect(Redirect),
    /// The answer was sent.
    Served(Served),
}

/// How serving a request ended.
pub(crate) enum Served {
    /// A response was sent to the client, as far as possible.
    Responded,
    /// The connections became a tunnel; its line is logged when it ends.
    Tunnel(Box<TunnelStart>),
}
