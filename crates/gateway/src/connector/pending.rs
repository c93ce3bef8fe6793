//! A connection being opened: `connect()`, then the TLS handshake if there is one. An exchange and a job that opens for
//! the pool take the same steps.

use crate::base::counters::{bump, handshake_failure};
use crate::base::logs::error::errno;
use crate::plan::tls::PairSource;
use crate::plan::upstream_tls::{NamePlan, UpstreamTlsPlan, without_port};
use crate::registry::group::BoundPeer;
use crate::registry::names::keys::KeyHold;
use crate::registry::pool::IdleSocket;
use crate::registry::ports::PortUse;
use crate::thread::WorkerThread;
use reactor::{Interest, PeerAddress};
use rules::template::Template;
use std::fmt::{self, Write as _};
use std::io::{self, IoSlice};
use std::sync::Arc;
use tls::{ClientSide, Session, TlsError};
use transport::{HandshakeProgress, Transport, tls_error};
use upstream::shared::{Connecting, KeyId};

/// Writes bytes to a socket with an empty send buffer, which accepts them at once: a header of a hundred bytes.
fn write_whole(stream: &Transport, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() || stream.write(&[IoSlice::new(bytes)], false)? == bytes.len() {
        return Ok(());
    }
    Err(io::ErrorKind::WriteZero.into())
}

/// The pool key of a connection, and the TLS server name for it.
pub(crate) struct ConnectionKey {
    pub(crate) key: KeyId,
    /// Connections under this key are kept for other requests.
    pub(crate) is_pooled: bool,
    pub(crate) name: Option<Arc<str>>,
    /// The certificate that the request names.
    pub(crate) certificate: Option<PairSource>,
    /// Keeps the key alive while it is in use.
    _hold: Option<Arc<KeyHold>>,
}

impl ConnectionKey {
    /// The key for a peer. `value` evaluates a template. `None`: the request's value is not a valid name.
    pub(crate) fn of(
        peer: &BoundPeer,
        tls: Option<&UpstreamTlsPlan>,
        value: impl Fn(&Template) -> Vec<u8>,
    ) -> Option<Self> {
        let (name, certificate) = match tls {
            None => (None, None),
            Some(tls) => (tls_name(tls, &value).ok()?, certificate(tls, &value)),
        };
        let brings_name = tls.is_some_and(|tls| matches!(tls.name, NamePlan::Made(_))) && name.is_some();
        if !brings_name && tls.is_none_or(|tls| tls.certificate.is_none()) {
            return Some(Self { key: peer.key, is_pooled: peer.is_pooled, name, certificate: None, _hold: None });
        }
        let text = key_text(name.as_deref().unwrap_or_default(), certificate.as_ref());
        let hold = peer.named.as_ref().and_then(|named| named.key(&text));
        let (key, is_pooled) = hold.as_ref().map_or((peer.key, false), |hold| (hold.key, true));
        Some(Self { key, is_pooled, name, certificate, _hold: hold })
    }
}

/// The request's value is not a valid name.
struct NoName;

fn tls_name(tls: &UpstreamTlsPlan, value: impl Fn(&Template) -> Vec<u8>) -> Result<Option<Arc<str>>, NoName> {
    Ok(match &tls.name {
        NamePlan::Nameless => None,
        NamePlan::Fixed(name) => Some(Arc::clone(name)),
        NamePlan::Made(template) => {
            let name = without_port(&value(template)).ok_or(NoName)?;
            (!name.is_empty()).then(|| name.into())
        }
    })
}

/// The certificate that the request names, if any.
fn certificate(tls: &UpstreamTlsPlan, value: impl Fn(&Template) -> Vec<u8>) -> Option<PairSource> {
    let made = tls.certificate.as_ref()?;
    made.sources(value).into_iter().find(|source| !source.is_nameless(made))
}

/// Distinguishes connections of one peer. A name has no colon, unless it begins with a bracket.
fn key_text(name: &str, certificate: Option<&PairSource>) -> String {
    let Some(certificate) = certificate else { return name.to_owned() };
    let mut text = "certificate:".to_owned();
    for byte in certificate.identity() {
        let _ = write!(text, "{byte:02x}");
    }
    text + ":" + name
}

/// The TLS handshake for a connection.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    pub(crate) side: ClientSide,
    pub(crate) peer: PeerAddress,
    pub(crate) name: Option<Arc<str>>,
    /// Bytes that the peer gets in clear before it.
    pub(crate) ahead: Vec<u8>,
}

impl Handshake {
    /// For a peer with a name that does not depend on the request.
    pub(crate) fn without_request(tls: &UpstreamTlsPlan, peer: &PeerAddress) -> Self {
        let name = match &tls.name {
            NamePlan::Fixed(name) => Some(Arc::clone(name)),
            NamePlan::Nameless | NamePlan::Made(_) => None,
        };
        Self { side: tls.side.clone(), peer: peer.clone(), name, ahead: Vec::new() }
    }
}

/// A connection that is not ready for an exchange, and the permit for it.
pub(crate) struct Pending {
    pub(crate) stream: Transport,
    pub(crate) port: Option<PortUse>,
    pub(crate) permit: Connecting<'static, IdleSocket>,
    /// Only one request may use it.
    pub(crate) is_own: bool,
    tls: Option<Handshake>,
    stage: PendingStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingStage {
    Connecting,
    Handshaking,
    Ready,
}

/// The result of a step.
pub(crate) enum OpenStep {
    /// It waits for this event.
    Wait(Interest),
    Ready,
    Failed(OpenError),
}

/// Why no connection could be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    Connect(io::Error),
    Handshake {
        /// The reason, for a counter.
        reason: &'static str,
        /// nginx's phrase.
        phrase: String,
    },
}

impl OpenError {
    /// Counts the error if the handshake failed.
    pub(crate) fn count(&self, thread: &WorkerThread) {
        if let Self::Handshake { reason, .. } = self {
            count_handshake(reason, thread);
        }
    }
}

/// Counts a failed handshake with an upstream.
fn count_handshake(reason: &str, thread: &WorkerThread) {
    bump(&thread.counters().upstream_handshakes_failed[handshake_failure(reason)], 1);
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(out, "connect() failed ({})", errno(error)),
            Self::Handshake { phrase, .. } => out.write_str(phrase),
        }
    }
}

impl Pending {
    pub(crate) fn new(
        stream: Transport,
        port: Option<PortUse>,
        permit: Connecting<'static, IdleSocket>,
        tls: Option<Handshake>,
    ) -> Self {
        Self { stream, port, permit, is_own: false, tls, stage: PendingStage::Connecting }
    }

    /// The same connection, reserved for one request or not.
    pub(crate) fn owned(self, is_own: bool) -> Self {
        Self { is_own, ..self }
    }

    /// nginx's phrase for this stage.
    pub(crate) fn place(&self) -> &'static str {
        match self.stage {
            PendingStage::Handshaking => "SSL handshaking to upstream",
            PendingStage::Connecting | PendingStage::Ready => "connecting to upstream",
        }
    }

    /// Counts a timeout if it hit during the handshake.
    pub(crate) fn count_timeout(&self, thread: &WorkerThread) {
        if self.stage == PendingStage::Handshaking {
            count_handshake("timed_out", thread);
        }
    }

    /// Goes on as far as the socket allows.
    pub(crate) fn step(mut self) -> (Self, OpenStep) {
        if self.stage == PendingStage::Connecting {
            if !self.stream.is_writable() && !self.stream.is_failed() {
                return (self, OpenStep::Wait(Interest::WRITE));
            }
            if let Ok(Some(error)) | Err(error) = self.stream.take_error() {
                return (self, OpenStep::Failed(OpenError::Connect(error)));
            }
            let Some(tls) = &self.tls else {
                self.stage = PendingStage::Ready;
                return (self, OpenStep::Ready);
            };
            self.stage = PendingStage::Handshaking;
            if let Err(error) = write_whole(&self.stream, &tls.ahead) {
                return (self, OpenStep::Failed(OpenError::Connect(error)));
            }
            let session = Session::client_of_peer(&tls.side, &tls.peer.to_string(), tls.name.as_deref());
            match session {
                Ok(session) => self.stream = self.stream.into_secure(session, Vec::new()),
                Err(error) => {
                    let failed = OpenError::Handshake { reason: "protocol", phrase: error.to_string() };
                    return (self, OpenStep::Failed(failed));
                }
            }
        }
        if self.stage == PendingStage::Handshaking {
            match self.stream.handshake() {
                Ok(HandshakeProgress::Done) => self.stage = PendingStage::Ready,
                Ok(HandshakeProgress::Waiting) => {
                    let interest = if self.stream.has_unsent() { Interest::WRITE } else { Interest::READ };
                    return (self, OpenStep::Wait(interest));
                }
                Err(error) => {
                    let reason = tls_error(&error).map_or("connection", TlsError::key);
                    let failed = OpenError::Handshake { reason, phrase: self.phrase(&error) };
                    return (self, OpenStep::Failed(failed));
                }
            }
        }
        (self, OpenStep::Ready)
    }

    /// nginx's phrase for a handshake that failed.
    fn phrase(&self, error: &io::Error) -> String {
        let name = self.tls.as_ref().and_then(|tls| tls.name.as_deref()).unwrap_or_default();
        match tls_error(error) {
            Some(error) => error.upstream_phrase(name),
            None => format!("peer closed connection in SSL handshake ({})", errno(error)),
        }
    }
}
