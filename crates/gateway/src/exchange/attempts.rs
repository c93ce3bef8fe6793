//! The records of an exchange's attempts, for `$upstream_…` and the error log.

use crate::connector::WaitTimes;
use crate::exchange::Exchange;
use crate::plan::location::LocationId;
use crate::registry::generation::Generation;
use crate::registry::group::HeldPeers;
use conf::model::Scheme;
use reactor::Micros;
use smallvec::SmallVec;
use std::net::SocketAddr;

/// One attempt.
#[derive(Debug)]
pub(crate) struct AttemptRecord {
    /// The location of the proxy that made it; `peer` is the peer's index in the group.
    pub(crate) location: Option<LocationId>,
    pub(crate) peer: u32,
    /// Number of the proxy within the exchange: where it changes, `$upstream_*` have a colon.
    pub(crate) proxy: u32,
    /// The peers that `peer` indexes, if they may have been replaced since.
    pub(crate) held: HeldPeers,
    /// The index of the proxy in its location.
    place: u16,
    pub(crate) began_at: Micros,
    /// Milliseconds until there was a connection, in line for a peer and for a connection to it, without connecting.
    pub(crate) pool_wait_ms: u64,
    /// The part of them that was spent in line; `None` if the attempt did not wait in line.
    pub(crate) queue_ms: Option<u64>,
    /// `$upstream_local_addr`; only where the configuration asks for it.
    pub(crate) local_address: Option<Box<SocketAddr>>,
    /// Microseconds; `None` if the attempt did not get that far.
    pub(crate) connect_us: Option<u64>,
    pub(crate) header_us: Option<u64>,
    pub(crate) response_us: Option<u64>,
    pub(crate) status: u16,
    pub(crate) reused: bool,
    pub(crate) response_length: u64,
    /// Bytes received from the upstream: heads, including interim ones, and bodies with their framing.
    pub(crate) bytes_received: u64,
    /// Bytes that its socket has accepted.
    pub(crate) bytes_sent: u64,
    pub(crate) close_reason: Option<upstream::DiscardReason>,
    /// Why it failed; `None` if it did not.
    pub(crate) failure: Option<upstream::retry::Failure>,
}

impl AttemptRecord {
    /// Adds the time that getting a connection took.
    pub(crate) fn note_wait(&mut self, times: WaitTimes) {
        self.connect_us = times.connect_us;
        if let Some(waited_ms) = times.queue_ms {
            *self.queue_ms.get_or_insert(0) += waited_ms;
            self.pool_wait_ms += waited_ms;
        }
    }

    /// How the attempt came to its connection, in one word.
    pub(crate) fn connection_word(&self) -> &'static str {
        match (self.reused, self.connect_us) {
            (true, _) => "reused",
            (false, Some(_)) => "new",
            // Without a connection nothing was reused, and nothing connected.
            (false, None) => "none",
        }
    }

    /// How long connecting took, if it connected.
    pub(crate) fn own_connect_ms(&self) -> Option<u64> {
        self.connect_us.filter(|_| !self.reused).map(|microseconds| microseconds / 1000)
    }

    pub(crate) fn header_ms(&self) -> Option<u64> {
        self.header_us.map(|microseconds| microseconds / 1000)
    }

    pub(crate) fn response_ms(&self) -> Option<u64> {
        self.response_us.map(|microseconds| microseconds / 1000)
    }

    pub(crate) fn new(exchange: &Exchange, peer: u32) -> Self {
        Self {
            location: exchange.routing.target.location,
            peer,
            held: None,
            place: exchange.upstream.place(),
            proxy: exchange.upstream.attempts().proxies(),
            began_at: exchange.thread.reactor.now_us(),
            pool_wait_ms: 0,
            queue_ms: None,
            local_address: None,
            connect_us: None,
            header_us: None,
            response_us: None,
            status: 0,
            reused: false,
            response_length: 0,
            bytes_received: 0,
            bytes_sent: 0,
            close_reason: None,
            failure: None,
        }
    }

    /// The scheme used towards its peer.
    fn scheme(&self, generation: &Generation) -> Scheme {
        let content = self.location.map(|location| &generation.location(location).content);
        let Some(proxy) = content.and_then(|content| generation.proxy_of(content, self.place)) else {
            return Scheme::Http;
        };
        match (&proxy.application, &proxy.tls) {
            (Some(application), tls) => application.scheme(tls.is_some()),
            (None, Some(_)) if proxy.is_grpc => Scheme::Grpcs,
            (None, None) if proxy.is_grpc => Scheme::Grpc,
            (None, Some(_)) => Scheme::Https,
            (None, None) => Scheme::Http,
        }
    }

    /// The name of the group, or the host, that `proxy_pass` names.
    pub(crate) fn upstream_name<'a>(&self, generation: &'a Generation) -> Option<&'a [u8]> {
        let proxy = generation.proxy_of(&generation.location(self.location?).content, self.place)?;
        Some(&proxy.host)
    }

    /// Whether a peer could be chosen.
    pub(crate) fn has_peer(&self) -> bool {
        self.peer != NO_PEER
    }

    /// `$upstream_addr`; as in nginx, the group's name if no peer could be chosen.
    pub(crate) fn peer_name<'a>(&'a self, generation: &'a Generation) -> Option<&'a [u8]> {
        let proxy = generation.proxy_of(&generation.location(self.location?).content, self.place)?;
        if self.peer == NO_PEER {
            return Some(&proxy.host);
        }
        proxy.group.members.of(&self.held)?.peers.get(self.peer as usize).map(|peer| &*peer.name)
    }
}

/// The records of an exchange's attempts, for `$upstream_*` and the error log.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    all: SmallVec<[AttemptRecord; 1]>,
    /// Number of proxies that the exchange has used; an internal redirect may lead to another one.
    proxies: u32,
}

impl Attempts {
    /// In the order in which they began.
    #[inline]
    pub(crate) fn all(&self) -> &[AttemptRecord] {
        &self.all
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<&AttemptRecord> {
        self.all.last()
    }

    /// The scheme of the last attempt.
    pub(crate) fn last_scheme(&self, generation: &Generation) -> Scheme {
        self.all.last().map_or(Scheme::Http, |attempt| attempt.scheme(generation))
    }

    /// `$upstream_addr` of the last attempt.
    pub(crate) fn last_peer<'a>(&'a self, generation: &'a Generation) -> Option<&'a [u8]> {
        self.all.last().and_then(|attempt| attempt.peer_name(generation))
    }

    pub(crate) fn proxies(&self) -> u32 {
        self.proxies
    }

    pub(super) fn begin_proxy(&mut self) {
        self.proxies += 1;
    }

    pub(super) fn push(&mut self, record: AttemptRecord) -> &mut AttemptRecord {
        self.all.push(record);
        self.all.last_mut().expect("one was just put there")
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut AttemptRecord> {
        self.all.last_mut()
    }
}

/// The peer of an attempt for which none could be chosen.
pub(crate) const NO_PEER: u32 = u32::MAX;
