//! Chooses a server's TLS for a client: by the name in its first message, looked up like a request's host; otherwise
//! that of the address's default server.

use crate::plan::listener::ListenerPlan;
use crate::registry::acme::Challenges;
use crate::registry::certificate_finder::CertificateFinder;
use crate::registry::certificates::CertificateSlot;
use rules::captures::Captures;
use rules::server_name::{Matched, MatchedBy};
use std::fmt;
use std::sync::Arc;
use tls::{ACME_PROTOCOL, Choice, ClientHello, Listener, ServerSide};

/// A server's reaction to a handshake.
#[derive(Debug, Clone)]
pub(crate) enum TlsAnswer {
    Serve(Arc<ServerSide>),
    /// The same, with certificates that each handshake determines.
    Find(Arc<ServerSide>, CertificateFinder),
    /// `ssl_reject_handshake`
    Refuse,
}

/// TLS of a server.
#[derive(Debug, Clone)]
pub(crate) struct BoundTls {
    /// For clients that are offered only HTTP/1, and for those that are also offered HTTP/2. At least one is present.
    pub(crate) answers: [Option<TlsAnswer>; 2],
    /// Keeps the certificates alive while a configuration uses them.
    #[expect(dead_code, reason = "holding it keeps the slot among those that are renewed")]
    pub(crate) slot: Option<Arc<CertificateSlot>>,
}

impl BoundTls {
    /// What finds its certificates, if each handshake determines them.
    pub(crate) fn finder(&self) -> Option<&CertificateFinder> {
        self.answers.iter().flatten().find_map(|answer| match answer {
            TlsAnswer::Find(_, finder) => Some(finder),
            TlsAnswer::Serve(_) | TlsAnswer::Refuse => None,
        })
    }

    fn has(&self, side: &Arc<ServerSide>) -> bool {
        self.answers.iter().flatten().any(|answer| match answer {
            TlsAnswer::Serve(own) | TlsAnswer::Find(own, _) => Arc::ptr_eq(own, side),
            TlsAnswer::Refuse => false,
        })
    }
}

/// The index of the server whose settings a handshake was done with.
pub(crate) fn server_of_side(all: &[Option<BoundTls>], side: &Arc<ServerSide>) -> Option<usize> {
    all.iter().position(|tls| tls.as_ref().is_some_and(|tls| tls.has(side)))
}

/// The servers of an address, for its TLS handshakes.
pub(crate) struct TlsChoice {
    pub(crate) listener: Arc<ListenerPlan>,
    /// By the index of the server.
    pub(crate) servers: Arc<[Option<BoundTls>]>,
    /// Whether each server has HTTP/2, by index.
    pub(crate) http2: Arc<[bool]>,
    /// Current challenges: authorities also connect by TLS.
    pub(crate) challenges: Challenges,
}

impl TlsChoice {
    fn of(&self, server: u32) -> Option<&BoundTls> {
        self.servers.get(server as usize)?.as_ref()
    }

    /// The answer to an authority that asks for the challenge `tls-alpn-01` of a name.
    fn challenge(&self, hello: &ClientHello<'_>) -> Option<Arc<ServerSide>> {
        let name = hello.server_name?;
        hello.alpn().find(|protocol| *protocol == ACME_PROTOCOL.as_bytes())?;
        self.challenges.tls(&name.to_ascii_lowercase())
    }
}

impl fmt::Debug for TlsChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TlsChoice").field("address", &self.listener.address).finish_non_exhaustive()
    }
}

impl Listener for TlsChoice {
    fn choose(&self, hello: &ClientHello<'_>) -> Choice {
        if let Some(side) = self.challenge(hello) {
            return Choice::Serve(side);
        }
        let default = self.listener.names.default_server();
        let mut captures = Captures::default();
        let asked = hello.server_name.map_or(Some(default), |name| server_named(&self.listener, name, &mut captures));
        // As in nginx, a server without a certificate uses the default server's.
        let server = asked.filter(|server| self.of(*server).is_some()).unwrap_or(default);
        let is_http2 =
            self.listener.http2 || self.http2.get(asked.unwrap_or(default) as usize).copied().unwrap_or_default();
        let answer = |tls: &'_ BoundTls| {
            let [without, with] = &tls.answers;
            let (first, second) = if is_http2 { (with, without) } else { (without, with) };
            first.as_ref().or(second.as_ref()).cloned()
        };
        match self.of(server).and_then(answer) {
            Some(TlsAnswer::Serve(side)) => Choice::Serve(side),
            Some(TlsAnswer::Find(side, _)) => Choice::ServeLater(side, server),
            Some(TlsAnswer::Refuse) | None => Choice::Refuse,
        }
    }
}

/// The server for a name in SNI; `None` if no server has it.
pub(crate) fn server_named(listener: &ListenerPlan, name: &str, captures: &mut Captures) -> Option<u32> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // If an expression cannot be matched, the request is refused later.
    let Matched { server, by, .. } = listener.names.lookup(name.as_bytes(), captures).ok()?;
    (by != MatchedBy::Default).then_some(server)
}
