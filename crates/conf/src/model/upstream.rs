//! `upstream`: groups of peers, the selection of a peer, and the pool of connections to them.

use std::time::Duration;

use super::client::{Resolver, parse_resolver};
use super::health_check::{HealthCheck, parse_health_check};
use super::limit::ZONE_SIZE_MIN;
use super::settings::{At, level, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::value::plain::{parse_flag, parse_u32};
use crate::value::size::{bytes, number};
use crate::value::time::{milliseconds, parse_milliseconds};
use crate::value::{Address, Parsed, Template, invalid_parameter, parameter};

/// One group.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// Its name; for an implicit group, the host as written, with its port if it had one.
    pub name: String,
    /// Whether it has no block of its own: `proxy_pass` names a host.
    pub implicit: bool,
    /// Its servers in the order of the text.
    pub servers: Vec<UpstreamServer>,
    /// Its directives.
    pub settings: UpstreamSettings,
    /// Where it was written; for an implicit group, the first `proxy_pass`.
    pub span: Span,
}

/// One `server` of a group. Its name may resolve to several peers.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamServer {
    /// Its address.
    pub address: UpstreamPeer,
    /// Its share of requests.
    pub weight: u32,
    /// Connections at most; 0 for no limit.
    pub max_conns: u32,
    /// Failures within `fail_timeout` after which it gets no requests for a while; 0 for never.
    pub max_fails: u32,
    /// The time for counting failures, and for the pause after them.
    pub fail_timeout: Duration,
    /// Whether it is tried only if all other peers are unavailable.
    pub backup: bool,
    /// Whether it never gets requests.
    pub down: bool,
    /// Whether its name is resolved again while running.
    pub resolve: bool,
    /// The service to look up SRV records for.
    pub service: Option<String>,
    /// Its name for `sticky route`.
    pub route: Option<String>,
    /// Whether it gets only requests that stick to it.
    pub drain: bool,
    /// Time over which its weight grows back after it was unavailable.
    pub slow_start: Duration,
    /// Where it was written.
    pub span: Span,
}

/// The location of a peer: its address, and the text that logs use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamPeer {
    /// The address; port 80 where none was written (443 is up to `proxy_pass https://` for implicit groups).
    pub address: Address,
    /// As written.
    pub text: String,
}

/// How a peer is selected.
#[derive(Debug, Clone, PartialEq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// By the client's network: the first three bytes of IPv4, all of IPv6.
    IpHash,
    /// The fewest connections relative to weight.
    LeastConn,
    /// The shortest response time.
    LeastTime {
        /// What is measured.
        measure: TimeMeasure,
        /// Whether requests under way count too.
        inflight: bool,
    },
    /// By a key.
    Hash {
        /// The key.
        key: Template,
        /// Ketama, so that few keys move when peers come and go.
        consistent: bool,
    },
    /// At random.
    Random(RandomPick),
}

/// What `least_time` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeMeasure {
    /// To the head.
    Header,
    /// To the last byte.
    LastByte,
    /// To the connection, in `stream`.
    Connect,
    /// To the first byte, in `stream`.
    FirstByte,
}

/// How `random` picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomPick {
    /// One peer by weight.
    One,
    /// Two peers, and of these the one with fewer connections.
    TwoLeastConn,
    /// Two peers, and of these the one with less time.
    TwoLeastTime(TimeMeasure),
}

/// How the requests of a client stay with a peer.
#[derive(Debug, Clone, PartialEq)]
pub enum Sticky {
    /// A cookie set by holdfast.
    Cookie {
        /// Its name.
        name: String,
        /// How long the browser keeps it; `None` for the session, `Duration::MAX` for `max`.
        expires: Option<Duration>,
        /// `Domain`
        domain: Option<Template>,
        /// `Path`
        path: Option<Template>,
        /// `HttpOnly`
        httponly: bool,
        /// `Secure`
        secure: bool,
        /// `SameSite`
        samesite: Option<Template>,
    },
    /// The first template with a value names the `route=` of a server.
    Route(Vec<Template>),
    /// Sessions are learned from responses.
    Learn {
        /// Variables of the response; a value creates a session.
        create: Vec<Template>,
        /// Variables of the request; a value finds the session.
        lookup: Vec<Template>,
        /// Name of the zone.
        zone: String,
        /// Bytes of the zone.
        zone_bytes: u64,
        /// An unused session is forgotten after this time.
        timeout: Duration,
        /// Whether it is created when the response head arrives instead of at the end.
        header: bool,
    },
    /// The response header names the peer, and the request header returns it.
    Header(String),
}

/// `keepalive`: the pool of idle connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle connections per worker; the process shares `idle` × workers. 0 switches the pool off.
    pub idle: u32,
    /// Whether each location has connections of its own, which other locations do not use.
    pub local: bool,
    /// Idle connections of one peer at most, process-wide; `None` for no further limit.
    pub per_peer: Option<u32>,
    /// Connections to keep open in advance.
    pub floor: u32,
    /// Where it was written; `None` for the default.
    pub span: Option<Span>,
}

/// `max_connections`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCap {
    /// Connections at most, process-wide, exact.
    pub most: u32,
    /// Most connects in progress; `None` for no further limit.
    pub connecting: Option<u32>,
    /// Most requests waiting for a connection; 0 refuses at once.
    pub queue: u32,
    /// How long a request waits.
    pub timeout: Duration,
}

/// `http2_ping`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Ping {
    /// Length of the silence, on a connection with open requests, after which a PING is sent.
    pub interval: Duration,
    /// Time for the answer.
    pub timeout: Duration,
}

/// Time for the answer to a PING without `timeout=`: many times any round trip.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// `queue`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Requests that wait at most; at least 1.
    pub length: u32,
    /// How long a request waits.
    pub timeout: Duration,
    /// Where it was written.
    pub span: Span,
}

/// Idle connections per worker without `keepalive`, since 1.29.7.
const KEEPALIVE_DEFAULT: Keepalive = Keepalive { idle: 32, local: true, per_peer: None, floor: 0, span: None };

settings! {
    /// Directives of a group.
    pub struct UpstreamSettings {
        /// How a peer is chosen.
        balance: Balance = Balance::RoundRobin,
            "ip_hash" | "least_conn" | "least_time" | "hash" | "random" => edit(edit_balance);
        /// How requests stay with one.
        sticky: Option<Sticky> = None, "sticky" => whole(super::sticky::parse_sticky);
        /// The pool.
        keepalive: Keepalive = KEEPALIVE_DEFAULT, "keepalive" => whole(parse_keepalive);
        /// Requests of one connection at most.
        keepalive_requests: u32 = 1000, "keepalive_requests" => value(parse_u32);
        /// A connection older than this is not used again.
        keepalive_time: Duration = Duration::from_hours(1), "keepalive_time" => value(parse_milliseconds);
        /// An idle connection is closed after this time.
        keepalive_timeout: Duration = Duration::from_mins(1), "keepalive_timeout" => value(parse_milliseconds);
        /// Whether holdfast learns the peers' idle timeout, to close connections before the peer does.
        keepalive_learn: bool = true, "keepalive_learn" => value(parse_flag);
        /// Connection limits of the group.
        max_connections: Option<ConnectionCap> = None, "max_connections" => whole(parse_cap);
        /// When a PING is sent on a silent HTTP/2 connection.
        http2_ping: Option<Http2Ping> = None, "http2_ping" => whole(parse_http2_ping);
        /// How peers are checked.
        health_check: Option<HealthCheck> = None, "health_check" => whole(parse_health_check);
        /// Shared memory: its name and bytes (without a size it refers to a zone defined elsewhere). Holdfast shares
        /// everything anyway.
        zone: Option<(String, Option<u64>)> = None, "zone" => whole(parse_group_zone);
        /// File that keeps the state of peers set at run time.
        state: Option<Vec<u8>> = None, "state" => option(crate::value::plain::parse_bytes);
        /// Name servers for `resolve`; `None` means those of `http`.
        resolver: Option<Resolver> = None, "resolver" => whole(parse_resolver);
        /// Longest time of a name's resolution.
        resolver_timeout: Duration = Duration::from_secs(30), "resolver_timeout" => value(parse_milliseconds);
        /// How many requests wait for an available peer, and how long.
        queue: Option<Queue> = None, "queue" => whole(parse_queue);
    }
}

level! {
    /// The level of a group: the directives that `upstream` may hold besides servers.
    pub(crate) struct UpstreamLevel {
        /// Its directives.
        settings: UpstreamSettings,
    }
}

fn parse_http2_ping(at: &mut At<'_>) -> Parsed<Option<Http2Ping>> {
    let time =
        |word: &crate::tree::Word| milliseconds(&word.value, false).filter(|&time| time > 0).map(Duration::from_millis);
    let word = at.word(0)?;
    let second = at.words().get(1);
    if word.value == b"off" && second.is_none() {
        return Ok(None);
    }
    let timeout = match second {
        None => PING_TIMEOUT,
        Some(second) => {
            let value = parameter(second, "timeout").ok_or_else(|| invalid_parameter(second))?;
            time(&value).ok_or_else(|| invalid_parameter(second))?
        }
    };
    let interval =
        time(word).ok_or_else(|| crate::value::invalid_value(word).with_hint("a time longer than 0, or `off`"))?;
    Ok(Some(Http2Ping { interval, timeout }))
}

fn edit_balance(balance: &mut Balance, at: &mut At<'_>) -> Parsed<()> {
    if !at.fresh {
        at.out.push(Diagnostic::warning(at.directive.name.span, "load balancing method redefined"));
    }
    *balance = match at.name {
        "ip_hash" => Balance::IpHash,
        "least_conn" => Balance::LeastConn,
        "hash" => {
            let consistent = match at.words().get(1) {
                None => false,
                Some(word) if word.value == b"consistent" => true,
                Some(word) => return Err(invalid_parameter(word)),
            };
            Balance::Hash { key: Template::parse(at.name, at.word(0)?)?, consistent }
        }
        "least_time" => {
            let inflight = match at.words().get(1) {
                None => false,
                Some(word) if word.value == b"inflight" => true,
                Some(word) => return Err(invalid_parameter(word)),
            };
            let word = at.word(0)?;
            let measure = parse_measure(&word.value).ok_or_else(|| invalid_parameter(word))?;
            Balance::LeastTime { measure, inflight }
        }
        _ => Balance::Random(parse_random(at)?),
    };
    Ok(())
}

fn parse_measure(text: &[u8]) -> Option<TimeMeasure> {
    match text {
        b"header" => Some(TimeMeasure::Header),
        b"last_byte" => Some(TimeMeasure::LastByte),
        b"connect" => Some(TimeMeasure::Connect),
        b"first_byte" => Some(TimeMeasure::FirstByte),
        _ => None,
    }
}

fn parse_random(at: &At<'_>) -> Parsed<RandomPick> {
    let Some(first) = at.words().first() else { return Ok(RandomPick::One) };
    if first.value != b"two" {
        return Err(invalid_parameter(first));
    }
    let Some(second) = at.words().get(1) else { return Ok(RandomPick::TwoLeastConn) };
    if second.value == b"least_conn" {
        return Ok(RandomPick::TwoLeastConn);
    }
    let measure = parameter(second, "least_time").and_then(|value| parse_measure(&value.value));
    measure.map(RandomPick::TwoLeastTime).ok_or_else(|| invalid_parameter(second))
}

fn parse_keepalive(at: &mut At<'_>) -> Parsed<Keepalive> {
    let word = at.word(0)?;
    let count = |word: &crate::tree::Word| number(&word.value).and_then(|count| u32::try_from(count).ok());
    let idle = count(word).ok_or_else(|| {
        Diagnostic::error(word.span, format!("invalid value \"{}\" in \"keepalive\" directive", word.text()))
    })?;
    let mut keepalive = Keepalive { idle, local: false, per_peer: None, floor: 0, span: Some(at.directive.span) };
    for word in &at.words()[1..] {
        if word.value == b"local" {
            keepalive.local = true;
        } else if let Some(value) = parameter(word, "per_peer") {
            keepalive.per_peer = Some(count(&value).filter(|&count| count > 0).ok_or_else(|| invalid_parameter(word))?);
        } else if let Some(value) = parameter(word, "floor") {
            keepalive.floor = count(&value).ok_or_else(|| invalid_parameter(word))?;
        } else {
            return Err(invalid_parameter(word).with_hint("`local`, `per_peer=M` or `floor=K`"));
        }
    }
    if keepalive.floor > keepalive.idle {
        return Err(Diagnostic::error(at.directive.span, "\"floor\" of \"keepalive\" is larger than the pool itself")
            .with_hint("connections above the pool's limit would be closed as soon as they are idle"));
    }
    Ok(keepalive)
}

/// How long a request waits for a connection without `timeout=`: the same as for `queue`.
const QUEUE_TIMEOUT: Duration = Duration::from_mins(1);

fn parse_cap(at: &mut At<'_>) -> Parsed<Option<ConnectionCap>> {
    let word = at.word(0)?;
    let count = |word: &crate::tree::Word| {
        number(&word.value).and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0)
    };
    let most = count(word)
        .ok_or_else(|| crate::value::invalid_value(word).with_hint("a number of connections, at least 1"))?;
    let mut cap = ConnectionCap { most, connecting: None, queue: 0, timeout: QUEUE_TIMEOUT };
    for word in &at.words()[1..] {
        if let Some(value) = parameter(word, "connecting") {
            cap.connecting = Some(count(&value).ok_or_else(|| invalid_parameter(word))?);
        } else if let Some(value) = parameter(word, "queue") {
            cap.queue = count(&value).ok_or_else(|| invalid_parameter(word))?;
        } else if let Some(value) = parameter(word, "timeout") {
            let time = milliseconds(&value.value, false).ok_or_else(|| invalid_parameter(word))?;
            cap.timeout = Duration::from_millis(time);
        } else {
            return Err(invalid_parameter(word).with_hint("`connecting=C`, `queue=Q` or `timeout=T`"));
        }
    }
    Ok(Some(cap))
}

fn parse_group_zone(at: &mut At<'_>) -> Parsed<Option<(String, Option<u64>)>> {
    let name = at.word(0)?;
    if name.value.is_empty() {
        return Err(Diagnostic::error(name.span, format!("invalid zone name \"{}\"", name.text())));
    }
    let size = match at.words().get(1) {
        None => None,
        Some(word) => {
            let invalid = || Diagnostic::error(word.span, format!("invalid zone size \"{}\"", word.text()));
            let size = bytes(&word.value, false).ok_or_else(invalid)?;
            if size < ZONE_SIZE_MIN {
                return Err(Diagnostic::error(word.span, format!("zone \"{}\" is too small", name.text()))
                    .with_hint("at least 32k"));
            }
            Some(size)
        }
    };
    Ok(Some((name.text().into_owned(), size)))
}

fn parse_queue(at: &mut At<'_>) -> Parsed<Option<Queue>> {
    let word = at.word(0)?;
    let length = number(&word.value).and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0);
    let length = length
        .ok_or_else(|| crate::value::invalid_value(word).with_hint("a number of requests that may wait, at least 1"))?;
    let mut timeout = QUEUE_TIMEOUT;
    if let Some(word) = at.words().get(1) {
        let value = parameter(word, "timeout").and_then(|value| milliseconds(&value.value, false));
        let time = value.ok_or_else(|| invalid_parameter(word).with_hint("`timeout=T`"))?;
        timeout = Duration::from_millis(time);
    }
    Ok(Some(Queue { length, timeout, span: at.directive.span }))
}
