//! A connection on its way: `connect()`, then the handshake of TLS where there is one. An exchange and a job that opens for the pool
//! take the same steps.

use crate::base::logs::error::errno;
use crate::plan::upstream_tls::{NamePlan, UpstreamTlsPlan, without_port};
use crate::registry::group::BoundPeer;
use crate::registry::names::keys::KeyHold;
use crate::registry::pool::IdleSocket;
use crate::registry::ports::PortUse;
use reactor::{Interest, PeerAddress};
use rules::template::Template;
use std::fmt;
use std::io;
use std::sync::Arc;
use tls::{ClientSide, Session};
use transport::{Transport, tls_error};
use upstream::shared::{Connecting, KeyId};

/// Under which key of the pool a connection is asked for, and which name TLS speaks there.
pub(crate) struct Asked {
    pub(crate) key: KeyId,
    /// Connections under this key are kept for others.
    pub(crate) is_pooled: bool,
    pub(crate) name: Option<Arc<str>>,
    /// The key lives as long as it is asked for.
    _hold: Option<Arc<KeyHold>>,
}

impl Asked {
    /// For a peer. `value` gives a template's value. `None`: it is no name.
    pub(crate) fn of(
        peer: &BoundPeer,
        tls: Option<&UpstreamTlsPlan>,
        value: impl FnOnce(&Template) -> Vec<u8>,
    ) -> Option<Self> {
        let with = |name: Option<Arc<str>>| Self { key: peer.key, is_pooled: peer.is_pooled, name, _hold: None };
        let template = match tls.map(|tls| &tls.name) {
            None | Some(NamePlan::Nameless) => return Some(with(None)),
            Some(NamePlan::Fixed(name)) => return Some(with(Some(Arc::clone(name)))),
            Some(NamePlan::Made(template)) => template,
        };
        let name = without_port(&value(template))?;
        if name.is_empty() {
            return Some(with(None));
        }
        let hold = peer.named.as_ref().and_then(|named| named.key(&name));
        let (key, is_pooled) = hold.as_ref().map_or((peer.key, false), |hold| (hold.key, true));
        Some(Self { key, is_pooled, name: Some(name.into()), _hold: hold })
    }
}

/// The TLS that a connection is to speak.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    pub(crate) side: ClientSide,
    pub(crate) peer: PeerAddress,
    pub(crate) name: Option<Arc<str>>,
}

impl Handshake {
    /// To a peer whose name does not come with requests.
    pub(crate) fn without_request(tls: &UpstreamTlsPlan, peer: &PeerAddress) -> Self {
        let name = match &tls.name {
            NamePlan::Fixed(name) => Some(Arc::clone(name)),
            NamePlan::Nameless | NamePlan::Made(_) => None,
        };
        Self { side: tls.side.clone(), peer: peer.clone(), name }
    }
}

/// A connection that is not ready for an exchange, and the right to it.
pub(crate) struct Pending {
    pub(crate) stream: Transport,
    pub(crate) port: Option<PortUse>,
    pub(crate) permit: Connecting<'static, IdleSocket>,
    tls: Option<Handshake>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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
    /// nginx's phrase.
    Handshake(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(out, "connect() failed ({})", errno(error)),
            Self::Handshake(phrase) => out.write_str(phrase),
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
        Self { stream, port, permit, tls, stage: Stage::Connecting }
    }

    /// What nginx says that it does at this stage.
    pub(crate) fn place(&self) -> &'static str {
        match self.stage {
            Stage::Handshaking => "SSL handshaking to upstream",
            Stage::Connecting | Stage::Ready => "connecting to upstream",
        }
    }

    /// Goes as far as the socket lets it.
    pub(crate) fn step(mut self) -> (Self, OpenStep) {
        if self.stage == Stage::Connecting {
            if !self.stream.is_writable() && !self.stream.is_failed() {
                return (self, OpenStep::Wait(Interest::WRITE));
            }
            if let Ok(Some(error)) | Err(error) = self.stream.take_error() {
                return (self, OpenStep::Failed(OpenError::Connect(error)));
            }
            let Some(tls) = &self.tls else {
                self.stage = Stage::Ready;
                return (self, OpenStep::Ready);
            };
            self.stage = Stage::Handshaking;
            let session = Session::client_of_peer(&tls.side, &tls.peer.to_string(), tls.name.as_deref());
            match session {
                Ok(session) => self.stream = self.stream.into_secure(session, Vec::new()),
                Err(error) => return (self, OpenStep::Failed(OpenError::Handshake(error.to_string()))),
            }
        }
        if self.stage == Stage::Handshaking {
            match self.stream.handshake() {
                Ok(true) => self.stage = Stage::Ready,
                Ok(false) => {
                    let interest = if self.stream.has_unsent() { Interest::WRITE } else { Interest::READ };
                    return (self, OpenStep::Wait(interest));
                }
                Err(error) => {
                    let phrase = self.phrase(&error);
                    return (self, OpenStep::Failed(OpenError::Handshake(phrase)));
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
