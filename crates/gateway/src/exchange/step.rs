//! What the steps of an exchange come to.

use crate::exchange::reply::Reply;
use crate::tunnel::TunnelStart;

/// Where a request goes on.
#[derive(Debug)]
pub(crate) enum Redirect {
    /// At this URI, which is not decoded any more.
    Uri { uri: Vec<u8>, args: Option<Vec<u8>> },
    /// In the location of this name (with its `@`); the URI stays.
    Named(Vec<u8>),
}

/// What a phase of an exchange came to.
pub(crate) enum Step {
    /// The server's program is next.
    Rules,
    /// A location was found: its program and its content are next.
    Content,
    /// The same past everything that comes before the content: it was done for the exchange that started this one.
    Resume,
    /// A program has rewritten the URI: a location is sought for it.
    Moved,
    /// This is the answer.
    Reply(Reply),
    /// The request goes on elsewhere.
    Redirect(Redirect),
    /// The answer was given.
    Served(Served),
}

/// How serving a request ended.
pub(crate) enum Served {
    /// A response was given to the client, as far as that was possible.
    Responded,
    /// The connections became a tunnel's; the line is logged when it ends.
    Tunnel(Box<TunnelStart>),
}
