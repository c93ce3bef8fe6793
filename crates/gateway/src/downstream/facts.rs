//! What an exchange may know of the client's connection, and do with it, besides the response: whichever protocol it is.

use crate::downstream::body::{BodyError, BodyRead, RequestBody};
use crate::downstream::connection::Securing;
use crate::downstream::h1::Downstream;
use crate::registry::generation::ListenerId;
use reactor::{Millis, PeerAddress, Stream, TaskId};
use std::net::SocketAddr;
use std::path::PathBuf;
use tls::Session;
use transport::Transport;

/// `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientScheme {
    Http,
    Https,
}

impl ClientScheme {
    /// `$scheme`
    pub(crate) fn name(self) -> &'static [u8] {
        match self {
            Self::Http => b"http",
            Self::Https => b"https",
        }
    }

    /// `$https`
    pub(crate) fn on(self) -> &'static [u8] {
        match self {
            Self::Http => b"",
            Self::Https => b"on",
        }
    }

    /// The port that a URL need not name.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Downstream {
    /// The task whose waits the client's socket ends.
    pub(crate) fn task(&self) -> TaskId {
        self.connection.task
    }

    /// The client's connection, for a wait.
    pub(crate) fn transport(&self) -> &Transport {
        &self.connection.stream
    }

    /// The client's socket.
    pub(crate) fn socket(&self) -> &Stream {
        self.connection.stream.stream()
    }

    /// The address that the client came to.
    pub(crate) fn listener(&self) -> ListenerId {
        self.connection.listener
    }

    /// What the client speaks below HTTP.
    pub(crate) fn scheme(&self) -> ClientScheme {
        if self.connection.stream.is_secure() { ClientScheme::Https } else { ClientScheme::Http }
    }

    /// Who has connected.
    pub(crate) fn peer(&self) -> &PeerAddress {
        &self.connection.peer
    }

    /// What the header of the PROXY protocol said.
    pub(crate) fn proxy_header(&self) -> Option<&proxyproto::Header> {
        self.connection.proxy_header.as_deref()
    }

    /// Our address; `None` on a Unix socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.connection.stream.local_address().ok().flatten()
    }

    /// Our path on a Unix socket.
    pub(crate) fn local_path(&self) -> Option<PathBuf> {
        let address = self.socket().as_socket().local_addr().ok()?;
        address.as_pathname().map(PathBuf::from)
    }

    /// Looks at what TLS knows of the client, where it is spoken.
    pub(crate) fn tls<R>(&self, look: impl FnOnce(&Session) -> R) -> Option<R> {
        self.connection.stream.session(look)
    }

    /// Plain HTTP came to an address for TLS.
    pub(crate) fn is_plain_by_mistake(&self) -> bool {
        self.connection.securing == Securing::PlainHttp
    }

    /// `$connection`
    pub(crate) fn serial(&self) -> u64 {
        self.connection.serial
    }

    /// `$connection_requests`
    pub(crate) fn requests(&self) -> u32 {
        self.connection.requests
    }

    /// `$pipe`
    pub(crate) fn is_pipelined(&self) -> bool {
        self.connection.is_pipelined
    }

    pub(crate) fn accepted_at(&self) -> Millis {
        self.connection.accepted_at
    }

    /// The client has sent something that is not read yet.
    pub(crate) fn has_pending(&self) -> bool {
        !self.connection.pending.is_empty()
    }

    /// The socket takes something, as far as is known.
    pub(crate) fn is_writable(&self) -> bool {
        self.connection.stream.is_writable()
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.connection.stream.is_failed()
    }

    /// `tcp_nodelay`
    pub(crate) fn set_nodelay(&mut self, nodelay: bool) {
        if self.connection.nodelay != nodelay {
            self.connection.nodelay = nodelay;
            // A Unix socket has no such option, and no small packets either.
            let _ = self.socket().as_socket().set_tcp_nodelay(nodelay);
        }
    }

    /// A log line is to be in its file before the connection is closed.
    pub(crate) fn await_line(&self) {
        self.connection.line_waits.set(true);
    }

    /// Reads the request's body once, at most `max` bytes, and gives its bytes to the closure, in pieces.
    pub(crate) fn read_body(
        &mut self,
        body: &mut RequestBody,
        max: usize,
        sink: impl FnMut(&[u8]),
    ) -> Result<BodyRead, BodyError> {
        body.read(&mut self.connection, max, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::ClientScheme;

    #[test]
    fn a_scheme_has_a_port_that_urls_leave_out() {
        let facts = |scheme: ClientScheme| (scheme.name(), scheme.on(), scheme.default_port());
        assert_eq!(facts(ClientScheme::Http), (&b"http"[..], &b""[..], 80));
        assert_eq!(facts(ClientScheme::Https), (&b"https"[..], &b"on"[..], 443));
    }
}
