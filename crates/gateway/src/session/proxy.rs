//! Connects a session to a peer: tries peers until one accepts a connection or no attempt is left. `upstream::retry`
//! decides which failure leads to another attempt, as for requests; nothing is sent before there is a connection.

use crate::base::cells::Counted;
use crate::base::close::CloseReason;
use crate::base::logs::error::{Level, quoted};
use crate::connector::choose::{Choice, ChoiceInputs, Chosen, ClientNetwork, NoPeer, choose};
use crate::connector::lease::{Wanted, lease};
use crate::connector::leased::Leased;
use crate::connector::names::{NoAddress, hold_members, named_peers};
use crate::connector::pending::ConnectionKey;
use crate::connector::tries::{TriesPlan, judge_attempt, outcome_of, report};
use crate::connector::{Caller as _, WaitTimes};
use crate::plan::filters::SizePlan;
use crate::plan::stream::StreamVariablePlan;
use crate::registry::generation::BoundStreamProxy;
use crate::registry::group::HeldPeers;
use crate::session::{RefusedSession, SessionContent, StreamSession};
use crate::tunnel::TunnelStart;
use conf::model::ProxyGreeting;
use conf::value::Host;
use conf::value::address::parse_url;
use conf::value::size::parse_size_text;
use reactor::{Micros, PeerAddress, Stream};
use rules::pace::Pace;
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use upstream::balance::{Outcome, Seat, SessionTiming};
use upstream::retry::{Attempt, Decision, Failure};

/// The record of one attempt.
pub(crate) struct SessionAttempt {
    /// `$upstream_addr`; as in nginx, the group's name if no peer could be chosen.
    pub(crate) peer: Box<[u8]>,
    pub(crate) began_at: Micros,
    /// Milliseconds in line for a peer, or for a connection to it.
    pub(crate) wait_ms: u64,
    /// Microseconds; `None` if the attempt did not get that far.
    pub(crate) connect_us: Option<u64>,
    /// Microseconds; `None` for the current attempt.
    pub(crate) session_us: Option<u64>,
    pub(crate) local_address: Option<SocketAddr>,
    /// Bytes of the PROXY protocol header that the peer got before everything else.
    pub(crate) proxy_header_bytes: u64,
}

/// What an attempt has opened towards its peer.
enum JoinedPeer {
    Connection(Box<Leased>),
    /// A socket whose datagrams go to the peer.
    Datagrams(Stream),
}

impl JoinedPeer {
    fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Connection(up) => up.stream().local_address().ok().flatten(),
            Self::Datagrams(socket) => socket.local_address().ok().flatten(),
        }
    }
}

/// A session that reached no peer.
const NO_PEER: RefusedSession = RefusedSession { status: 502, reason: CloseReason::NoUpstream };

impl StreamSession {
    /// `proxy_pass` with variables.
    pub(super) async fn proxy_variable(&mut self, plan: &StreamVariablePlan) -> Result<SessionContent, RefusedSession> {
        let address = self.value(&plan.address);
        self.refuse_undecided()?;
        let generation = Rc::clone(&self.generation);
        let shown = || quoted(&address);
        let url = match parse_url(&address) {
            Ok(url) if url.uri.is_empty() => url,
            Ok(_) => return Err(self.unusable(&format!("invalid host in upstream \"{}\"", shown()))),
            Err(reason) => return Err(self.unusable(&format!("{reason} in upstream \"{}\"", shown()))),
        };
        if let Host::Name(name) = &url.host
            && let Some((.., id)) = plan.known.iter().find(|(known, port, _)| **known == **name && *port == url.port)
        {
            return self.proxy(generation.stream_proxy(*id)).await;
        }
        let Some(port) = url.port.or(matches!(url.host, Host::Unix(_)).then_some(0)) else {
            return Err(self.unusable(&format!("no port in upstream \"{}\"", shown())));
        };
        let guests = generation.guests(plan.guests);
        match named_peers(&*self, guests, &url.host, port, plan.resolver.as_ref()).await {
            Ok(peers) => self.proxy_to(generation.stream_proxy(plan.other), Some(peers)).await,
            Err(NoAddress::Failed) => Err(NO_PEER),
            Err(NoAddress::ClientLeft) => Err(Self::client_left()),
        }
    }

    /// A variable's value is no valid address.
    fn unusable(&self, message: &str) -> RefusedSession {
        self.log(Level::Error, message);
        RefusedSession::INTERNAL
    }

    fn client_left() -> RefusedSession {
        RefusedSession { status: 200, reason: CloseReason::ClientAborted }
    }

    pub(super) async fn proxy(&mut self, plan: &BoundStreamProxy) -> Result<SessionContent, RefusedSession> {
        match hold_members(&*self, &plan.group).await {
            Ok(held) => self.proxy_to(plan, held).await,
            Err(_) => Err(Self::client_left()),
        }
    }

    /// `held` are the peers of a group that may be replaced meanwhile.
    async fn proxy_to(&mut self, plan: &BoundStreamProxy, held: HeldPeers) -> Result<SessionContent, RefusedSession> {
        let mut choice = Choice { held, ..Choice::default() };
        let first_at = self.thread.reactor.now();
        let mut made = 0;
        loop {
            let Chosen { index, seat } = self.pick(plan, &mut choice).await?;
            made += 1;
            let failure = match self.attempt(plan, &choice, index).await {
                Ok(JoinedPeer::Connection(up)) => return self.begin_tunnel(plan, &choice, index, up, seat),
                Ok(JoinedPeer::Datagrams(socket)) => return self.begin_datagrams(plan, &choice, index, socket, seat),
                Err(failure) => failure,
            };
            drop(seat);
            let attempt = Attempt { elapsed_ms: self.thread.reactor.now().since(first_at), ..Attempt::UNSENT };
            let tries = TriesPlan {
                conditions: plan.conditions,
                tries_max: plan.tries_max,
                again: false,
                timeout_ms: plan.tries_timeout_ms,
                retry_unsent: false,
            };
            let balance = plan.group.members.of(&choice.held).map(|set| &*set.balance);
            let verdict = judge_attempt(tries, balance, made, failure, attempt);
            self.report(plan, &choice, index, outcome_of(verdict));
            if verdict.decision != Decision::NextPeer {
                return Err(match verdict.decision {
                    Decision::Fail { status: 499 } => Self::client_left(),
                    _ => NO_PEER,
                });
            }
            plan.group.cells.count_retry(self.thread.index, verdict.reason);
        }
    }

    async fn pick(&mut self, plan: &BoundStreamProxy, choice: &mut Choice) -> Result<Chosen, RefusedSession> {
        let this = &*self;
        let inputs = |wants_chance: bool| {
            let hash_key = plan.group.hash_key.as_ref().map(|key| this.value(key)).unwrap_or_default();
            // The hash keys of the standard library are random per thread, and differ from one another.
            let random = if wants_chance { RandomState::new().hash_one(this.serial) } else { 0 };
            ChoiceInputs { client: ClientNetwork::of(this.client()), hash_key, random }
        };
        let reason = match choose(this, &plan.group, choice, inputs).await {
            Ok(chosen) => {
                self.refuse_undecided()?;
                return Ok(chosen);
            }
            Err(NoPeer::ClientGone) => return Err(Self::client_left()),
            Err(NoPeer::NoLive) => Cow::Borrowed("no live upstreams"),
            Err(NoPeer::QueueFull { length }) => {
                Cow::Owned(format!("no live upstreams, and {length} sessions are queued already"))
            }
            Err(NoPeer::QueueTimeout) => Cow::Borrowed("no live upstreams, and the session was queued for too long"),
        };
        plan.group.cells.count_no_live_peer(self.thread.index);
        self.begin_attempt(&plan.name);
        self.end_attempt();
        self.log(Level::Error, &format!("{reason} while connecting to upstream"));
        Err(NO_PEER)
    }

    fn begin_attempt(&mut self, peer: &[u8]) {
        self.attempts.push(SessionAttempt {
            peer: peer.into(),
            began_at: self.thread.reactor.now_us(),
            wait_ms: 0,
            connect_us: None,
            session_us: None,
            local_address: None,
            proxy_header_bytes: 0,
        });
    }

    fn end_attempt(&mut self) {
        let now = self.thread.reactor.now_us();
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.session_us = Some(now.since(attempt.began_at));
        }
    }

    /// Connects to a peer.
    async fn attempt(&mut self, plan: &BoundStreamProxy, choice: &Choice, index: usize) -> Result<JoinedPeer, Failure> {
        let set = plan.group.members.of(&choice.held).ok_or(Failure::NoLivePeer)?;
        let peer = set.peers.get(index).ok_or(Failure::NoLivePeer)?;
        self.begin_attempt(&peer.name);
        let mut times = WaitTimes::default();
        let ahead = self.encode_proxy_header(plan.greeting);
        let is_datagrams = self.connection.is_datagrams();
        let tls = plan.tls.as_ref().filter(|_| !is_datagrams);
        let asked = ConnectionKey::of(peer, tls, |template| self.value(template)).ok_or_else(|| {
            self.log(Level::Error, "\"proxy_ssl_name\" is not a name while SSL handshaking to upstream");
            Failure::ConnectFailed
        })?;
        let wanted = Wanted {
            peer,
            asked: &asked,
            tls,
            sides: plan.sides.as_ref(),
            group: &set.balance,
            index,
            connect: &plan.connect,
            source: &plan.source,
            connect_timeout: plan.connect_timeout,
            queue_timeout: plan.group.queue_timeout,
            // Each session has a connection of its own.
            reused_will_do: false,
            must_prove: false,
            ahead: &ahead,
        };
        let opened = if is_datagrams {
            times.connect_us = Some(0);
            wanted.open_datagrams(&*self).map(JoinedPeer::Datagrams)
        } else {
            lease(&*self, wanted, &mut times).await.map(JoinedPeer::Connection)
        };
        let local = opened.as_ref().ok().filter(|_| self.generation.wants_upstream_local);
        let local = local.and_then(JoinedPeer::local_address);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.connect_us = times.connect_us;
            attempt.wait_ms = choice.queue_ms.unwrap_or(0) + times.queue_ms.unwrap_or(0);
            attempt.local_address = local;
        }
        let counted = Counted { connect_us: times.connect_us, failed: opened.is_err(), ..Counted::default() };
        peer.cells.count(self.thread.index, counted);
        if opened.is_err() {
            self.end_attempt();
        }
        opened
    }

    pub(super) fn report(&self, plan: &BoundStreamProxy, choice: &Choice, index: usize, outcome: Outcome) {
        report(self, &plan.group, &choice.held, index, outcome);
    }

    /// Joins the client and its peer to a tunnel.
    fn begin_tunnel(
        &mut self,
        plan: &BoundStreamProxy,
        choice: &Choice,
        index: usize,
        up: Box<Leased>,
        mut seat: Seat,
    ) -> Result<SessionContent, RefusedSession> {
        // As in nginx, a peer counts as healthy once it accepts a connection.
        self.report(plan, choice, index, Outcome::Succeeded);
        if !self.plan().nodelay {
            // A connection begins with the option. A Unix socket has no such option, and no small packets either.
            let _ = up.stream().stream().as_socket().set_tcp_nodelay(false);
        }
        self.log_proxied(&up);
        let mut ahead = self.encode_proxy_header(plan.greeting);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.proxy_header_bytes = ahead.len() as u64;
        }
        if plan.tls.is_some() {
            // The peer got it before the handshake.
            ahead.clear();
        }
        let paces = self.paces(plan);
        self.status = 200;
        let timing = self.time_session(plan, choice, index, &mut seat);
        let record = self.tunnel_record(timing);
        let Some(upstream) = up.into_tunnel(Arc::clone(&plan.tunnel)) else { return Err(RefusedSession::INTERNAL) };
        let start = TunnelStart {
            upstream,
            ahead,
            early: Vec::new(),
            has_frames: false,
            paces,
            record,
            seat: seat.into_tunnel(),
        };
        Ok(SessionContent::Start(Box::new(start)))
    }

    /// `least_time`: reports the time of the connection, or returns what later times are reported to.
    pub(super) fn time_session(
        &self,
        plan: &BoundStreamProxy,
        choice: &Choice,
        index: usize,
        seat: &mut Seat,
    ) -> Option<SessionTiming> {
        let began = self.attempts.last()?.began_at.millis();
        let set = plan.group.members.of(&choice.held)?;
        set.balance.session_connected(index, seat, began, self.thread.reactor.now())
    }

    fn log_proxied(&self, up: &Leased) {
        let text = |address: std::io::Result<Option<SocketAddr>>| {
            address.ok().flatten().map_or_else(|| "unix:".to_owned(), |address| address.to_string())
        };
        if self.wants_info() {
            let (local, peer) = (text(up.stream().local_address()), text(up.stream().peer_address()));
            self.log(Level::Info, &format!("proxy {local} connected to {peer}"));
        }
    }

    /// The PROXY protocol header for the peer.
    pub(super) fn encode_proxy_header(&self, version: ProxyGreeting) -> Vec<u8> {
        let mut header = Vec::new();
        if version == ProxyGreeting::Off {
            // Finding out the addresses takes a system call.
            return header;
        }
        let addresses = self.proxied_addresses();
        match version {
            ProxyGreeting::Off => {}
            ProxyGreeting::Version1 => proxyproto::encode_v1(addresses, &mut header),
            ProxyGreeting::Version2 if self.connection.is_datagrams() => {
                proxyproto::encode_v2_datagrams(addresses, &mut header);
            }
            ProxyGreeting::Version2 => proxyproto::encode_v2(addresses, &mut header),
        }
        header
    }

    /// Both ends of the client's connection; `None` for a Unix socket.
    fn proxied_addresses(&self) -> Option<proxyproto::Addresses> {
        let source = match self.client() {
            PeerAddress::Ip(address) => *address,
            PeerAddress::Unix(_) => return None,
        };
        let destination = self.connection.local_address()?;
        Some(proxyproto::Addresses { source, destination })
    }

    /// `proxy_upload_rate` and `proxy_download_rate`.
    pub(super) fn paces(&self, plan: &BoundStreamProxy) -> Option<Box<[Option<Pace>; 2]>> {
        if plan.rates.iter().all(Option::is_none) {
            return None;
        }
        let now = self.thread.reactor.now().0;
        let pace = |rate: &Option<SizePlan>| {
            let rate = self.size(rate.as_ref()?);
            (rate > 0).then(|| Pace::new(rate, 0, now))
        };
        Some(Box::new([pace(&plan.rates[0]), pace(&plan.rates[1])]))
    }

    /// As in nginx, an invalid size counts as none, and is logged.
    fn size(&self, plan: &SizePlan) -> u64 {
        let template = match plan {
            SizePlan::Fixed(size) => return *size,
            SizePlan::Template(template) => template,
        };
        let text = self.value(template);
        parse_size_text(&text).unwrap_or_else(|| {
            self.log(Level::Error, &format!("invalid size \"{}\"", quoted(&text)));
            0
        })
    }
}
