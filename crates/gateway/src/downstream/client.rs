//! The client and its connection, as an exchange may query and control them besides the response.

use crate::downstream::h1::connection::{Connection, Securing};
use crate::downstream::{Downstream, Side};
use crate::registry::generation::ListenerId;
use reactor::{Millis, PeerAddress};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use tls::{SessionFacts, Snapshot};
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

    /// The port that a URL may omit.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A client and its connection, independent of the protocol.
#[derive(Debug, Clone)]
pub(crate) struct ClientFacts {
    /// The address that the client connected to; it differs from the socket's address if that is a wildcard.
    pub(crate) listener: ListenerId,
    pub(crate) peer: PeerAddress,
    /// `$connection`: process-wide serial number.
    pub(crate) serial: u64,
    /// `$connection_requests`, including the present one.
    pub(crate) requests: u32,
    /// `$pipe`: the present request began to arrive before the last one was answered.
    pub(crate) is_pipelined: bool,
    pub(crate) accepted_at: Millis,
    /// The header of the PROXY protocol, if the address wants one and it has arrived.
    pub(crate) proxy_header: Option<Box<proxyproto::Header>>,
    /// The client speaks HTTP/2.
    pub(crate) is_http2: bool,
}

/// A copy for requests that outlive the client's own or run beside it, with the data of its socket and its TLS session.
#[derive(Debug)]
pub(crate) struct ClientCopy {
    pub(super) facts: ClientFacts,
    scheme: ClientScheme,
    local_address: Option<SocketAddr>,
    local_path: Option<PathBuf>,
    tls: Option<Snapshot>,
    is_plain_by_mistake: bool,
}

/// A client without a connection: only a description.
#[derive(Debug, Clone)]
pub(crate) struct SupposedClient {
    /// The address that it would connect to.
    pub(crate) listener: ListenerId,
    /// Its own address.
    pub(crate) peer: PeerAddress,
    pub(crate) scheme: ClientScheme,
    pub(crate) local_address: Option<SocketAddr>,
    pub(crate) local_path: Option<PathBuf>,
    /// It sends plain HTTP to an address with TLS.
    pub(crate) is_plain_by_mistake: bool,
}

impl ClientCopy {
    /// The copy for a client whose connection is closed while its requests still run.
    pub(super) fn of(connection: &Connection) -> Rc<Self> {
        let stream = &connection.stream;
        Rc::new(Self {
            facts: connection.client.clone(),
            scheme: if stream.is_secure() { ClientScheme::Https } else { ClientScheme::Http },
            local_address: stream.local_address().ok().flatten(),
            local_path: path_of(stream),
            tls: stream.session(|session| Snapshot::of(session)),
            is_plain_by_mistake: false,
        })
    }

    /// The copy for a client that has no connection.
    pub(super) fn supposed(client: SupposedClient, now: Millis) -> Rc<Self> {
        let SupposedClient { listener, peer, scheme, local_address, local_path, is_plain_by_mistake } = client;
        let facts = ClientFacts {
            listener,
            peer,
            serial: 1,
            requests: 1,
            is_pipelined: false,
            accepted_at: now,
            proxy_header: None,
            is_http2: false,
        };
        Rc::new(Self { facts, scheme, local_address, local_path, tls: None, is_plain_by_mistake })
    }
}

/// The path of our Unix socket.
fn path_of(stream: &Transport) -> Option<PathBuf> {
    let address = stream.stream().as_socket().local_addr().ok()?;
    address.as_pathname().map(PathBuf::from)
}

impl Downstream {
    fn facts(&self) -> &ClientFacts {
        match &self.side {
            Side::H1(h1) => &h1.connection.client,
            Side::H2(stream) => &stream.facts,
            Side::Internal(internal) => &internal.client().facts,
        }
    }

    /// Copies what is known of the client.
    pub(crate) fn copy_client(&self) -> Rc<ClientCopy> {
        if let Side::Internal(internal) = &self.side {
            return Rc::clone(internal.client());
        }
        Rc::new(ClientCopy {
            facts: self.facts().clone(),
            scheme: self.scheme(),
            local_address: self.local_address(),
            local_path: self.local_path(),
            tls: self.tls(Snapshot::of),
            is_plain_by_mistake: self.is_plain_by_mistake(),
        })
    }

    /// The address that the client connected to.
    pub(crate) fn listener(&self) -> ListenerId {
        self.facts().listener
    }

    /// The address that the connection came from.
    pub(crate) fn peer(&self) -> &PeerAddress {
        &self.facts().peer
    }

    /// The header of the PROXY protocol.
    pub(crate) fn proxy_header(&self) -> Option<&proxyproto::Header> {
        self.facts().proxy_header.as_deref()
    }

    /// `$connection`
    pub(crate) fn serial(&self) -> u64 {
        self.facts().serial
    }

    /// `$connection_requests`
    pub(crate) fn requests(&self) -> u32 {
        self.facts().requests
    }

    /// `$http2`: `h2` under TLS, `h2c` in clear, empty for HTTP/1.
    pub(crate) fn http2(&self) -> &'static [u8] {
        match (self.facts().is_http2, self.scheme()) {
            (false, _) => b"",
            (true, ClientScheme::Https) => b"h2",
            (true, ClientScheme::Http) => b"h2c",
        }
    }

    /// `$pipe`
    pub(crate) fn is_pipelined(&self) -> bool {
        self.facts().is_pipelined
    }

    pub(crate) fn accepted_at(&self) -> Millis {
        self.facts().accepted_at
    }

    /// The scheme: with or without TLS.
    pub(crate) fn scheme(&self) -> ClientScheme {
        match &self.side {
            Side::H1(h1) if h1.connection.stream.is_secure() => ClientScheme::Https,
            Side::H1(_) => ClientScheme::Http,
            Side::H2(stream) => match stream.session.transport(Transport::is_secure) {
                Some(true) => ClientScheme::Https,
                Some(false) => ClientScheme::Http,
                None => stream.session.copy().map_or(ClientScheme::Http, |copy| copy.scheme),
            },
            Side::Internal(internal) => internal.client().scheme,
        }
    }

    /// Our address; `None` on a Unix socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match &self.side {
            Side::H1(h1) => h1.connection.stream.local_address().ok().flatten(),
            Side::H2(stream) => match stream.session.transport(|stream| stream.local_address().ok().flatten()) {
                Some(address) => address,
                None => stream.session.copy()?.local_address,
            },
            Side::Internal(internal) => internal.client().local_address,
        }
    }

    /// The path of our Unix socket.
    pub(crate) fn local_path(&self) -> Option<PathBuf> {
        match &self.side {
            Side::H1(h1) => path_of(&h1.connection.stream),
            Side::H2(stream) => match stream.session.transport(path_of) {
                Some(path) => path,
                None => stream.session.copy()?.local_path.clone(),
            },
            Side::Internal(internal) => internal.client().local_path.clone(),
        }
    }

    /// Passes the client's TLS session to the closure, if there is one.
    pub(crate) fn tls<R>(&self, look: impl FnOnce(&dyn SessionFacts) -> R) -> Option<R> {
        match &self.side {
            Side::H1(h1) => h1.connection.stream.session(|session| look(session)),
            Side::H2(stream) => match stream.session.copy() {
                Some(copy) => copy.tls.as_ref().map(|facts| look(facts)),
                None => stream.session.transport(|stream| stream.session(|session| look(session))).flatten(),
            },
            Side::Internal(internal) => internal.client().tls.as_ref().map(|facts| look(facts)),
        }
    }

    /// `$tcpinfo_rtt`, `$tcpinfo_rttvar`, `$tcpinfo_snd_cwnd`, `$tcpinfo_rcv_space`; none for a subrequest.
    pub(crate) fn tcp_info(&self) -> Option<[u32; 4]> {
        match &self.side {
            Side::H1(h1) => h1.connection.stream.stream().tcp_info(),
            Side::H2(stream) => stream.session.transport(|stream| stream.stream().tcp_info()).flatten(),
            Side::Internal(_) => None,
        }
    }

    /// Plain HTTP arrived on a TLS address.
    pub(crate) fn is_plain_by_mistake(&self) -> bool {
        match &self.side {
            Side::H1(h1) => h1.connection.securing == Securing::PlainHttp,
            Side::H2(_) => false,
            Side::Internal(internal) => internal.client().is_plain_by_mistake,
        }
    }

    /// Whether the client has sent something that was not read yet.
    pub(crate) fn has_pending(&self) -> bool {
        match &self.side {
            Side::H1(h1) => !h1.connection.pending.is_empty(),
            Side::H2(stream) => stream.has_received(),
            Side::Internal(_) => false,
        }
    }

    /// `tcp_nodelay`
    pub(crate) fn set_nodelay(&mut self, nodelay: bool) {
        let set = |connection: &mut Connection| {
            if connection.nodelay != nodelay {
                connection.nodelay = nodelay;
                // A Unix socket has no such option, and no small packets either.
                let _ = connection.stream.stream().as_socket().set_tcp_nodelay(nodelay);
            }
        };
        match &mut self.side {
            Side::H1(h1) => set(&mut h1.connection),
            Side::H2(stream) => _ = stream.session.connection_mut(set),
            Side::Internal(_) => {}
        }
    }

    /// The connection must not close before its log line is in the file.
    pub(crate) fn await_line(&self) {
        match &self.side {
            Side::H1(h1) => h1.connection.line_waits.set(true),
            Side::H2(stream) => _ = stream.session.connection(|connection| connection.line_waits.set(true)),
            Side::Internal(_) => {}
        }
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
