//! A connection on its way: `connect()`, then the handshake of TLS where there is one. An exchange and a job that opens for the pool
//! take the same steps.

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
use transport::{Transport, tls_error};
use upstream::shared::{Connecting, KeyId};

/// Writes what a socket without anything unsent takes at once: a header of a hundred bytes.
fn write_whole(stream: &Transport, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() || stream.write(&[IoSlice::new(bytes)], false)? == bytes.len() {
        return Ok(());
    }
    Err(io::ErrorKind::WriteZero.into())
}

/// Under which key of the pool a connection is asked for, and which name TLS speaks there.
pub(crate) struct ConnectionKey {
    pub(crate) key: KeyId,
    /// Connections under this key are kept for others.
    pub(crate) is_pooled: bool,
    pub(crate) name: Option<Arc<str>>,
    /// The certificate that the request names.
    pub(crate) certificate: Option<PairSource>,
    /// The key lives as long as it is asked for.
    _hold: Option<Arc<KeyHold>>,
}

impl ConnectionKey {
    /// For a peer. `value` gives a template's value. `None`: it is no name.
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

/// What a request brings is no name.
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

/// The certificate that the request names, if it names one.
fn certificate(tls: &UpstreamTlsPlan, value: impl Fn(&Template) -> Vec<u8>) -> Option<PairSource> {
    let made = tls.certificate.as_ref()?;
    made.sources(value).into_iter().find(|source| !source.is_nameless(made))
}

/// What tells connections of one peer apart. A name has no colon, unless it begins with a bracket.
fn key_text(name: &str, certificate: Option<&PairSource>) -> String {
    let Some(certificate) = certificate else { return name.to_owned() };
    let mut text = "certificate:".to_owned();
    for byte in certificate.identity() {
        let _ = write!(text, "{byte:02x}");
    }
    text + ":" + name
}

/// The TLS that a connection is to speak.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    pub(crate) side: ClientSide,
    pub(crate) peer: PeerAddress,
    pub(crate) name: Option<Arc<str>>,
    /// What the peer gets in clear before it.
    pub(crate) ahead: Vec<u8>,
}

impl Handshake {
    /// To a peer whose name does not come with requests.
    pub(crate) fn without_request(tls: &UpstreamTlsPlan, peer: &PeerAddress) -> Self {
        let name = match &tls.name {
            NamePlan::Fixed(name) => Some(Arc::clone(name)),
            NamePlan::Nameless | NamePlan::Made(_) => None,
        };
        Self { side: tls.side.clone(), peer: peer.clone(), name, ahead: Vec::new() }
    }
}

/// A connection that is not ready for an exchange, and the right to it.
pub(crate) struct Pending {
    pub(crate) stream: Transport,
    pub(crate) port: Option<PortUse>,
    pub(crate) permit: Connecting<'static, IdleSocket>,
    /// It is one request's own.
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

/// What a step came to.
pub(crate) enum OpenStep {
    /// It waits for this.
    Wait(Interest),
    Ready,
    Failed(OpenError),
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum OpenError {
    Connect(io::Error),
    Handshake {
        /// Why, for a counter.
        reason: &'static str,
        /// nginx's phrase.
        phrase: String,
    },
}

impl OpenError {
    /// Counts it, if it is the handshake that has failed.
    pub(crate) fn count(&self, thread: &WorkerThread) {
        if let Self::Handshake { reason, .. } = self {
            count_handshake(reason, thread);
        }
    }
}

/// Counts a handshake with an upstream that has failed.
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

    /// The same, for one request alone or not.
    pub(crate) fn owned(self, is_own: bool) -> Self {
        Self { is_own, ..self }
    }

    /// What nginx says that it does at this stage.
    pub(crate) fn place(&self) -> &'static str {
        match self.stage {
            PendingStage::Handshaking => "SSL handshaking to upstream",
            PendingStage::Connecting | PendingStage::Ready => "connecting to upstream",
        }
    }

    /// Counts that the time is over, if it is the handshake's.
    pub(crate) fn count_timeout(&self, thread: &WorkerThread) {
        if self.stage == PendingStage::Handshaking {
            count_handshake("timed_out", thread);
        }
    }

    /// Goes as far as the socket lets it.
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
                Ok(true) => self.stage = PendingStage::Ready,
                Ok(false) => {
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
