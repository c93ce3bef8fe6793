//! The options of a load of WebSockets. Plain values; the binary maps each flag to one field.

use super::events::EventOptions;
use super::message::MESSAGE_BYTES_MIN;
use crate::options::{CONNECTIONS_MAX, PROCESSES_MAX, THREADS_MAX};
use crate::places::Places;
use crate::tls::TlsOptions;
use crate::url::{Url, UrlError};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// Longest message that is sent: common servers refuse longer ones.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most rooms: each costs a counter, and there are no more connections than this.
pub const ROOMS_MAX: u32 = 10_000_000;

/// Cuts a share of all connections at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    /// When to cut, counted from the time when all connections should be open.
    pub after: Duration,
    /// The share of the connections to cut (0 to 1).
    pub share: f64,
}

/// What connections are held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// WebSockets.
    WebSocket,
    /// TCP connections that carry nothing.
    Tcp,
    /// Responses of server-sent events.
    Events,
}

/// A load of WebSockets; or, with a URL of TCP, of connections that are held open and carry nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebSocketOptions {
    /// The target; `{{room}}` and `{{connection}}` in its path are replaced by their numbers.
    pub url: Url,
    /// Where it is, if not where its name says.
    #[serde(default)]
    pub places: Places,
    /// Number of connections to hold.
    pub connections: usize,
    /// Threads of all processes together; at least one in each process.
    pub threads: usize,
    /// Processes that share the connections; `None` starts as many as the descriptor limit requires. More than one needs
    /// [`super::PreparedWebSockets::start_with`].
    pub processes: Option<usize>,
    /// Connections opened per second.
    pub ramp: f64,
    /// How long to hold the connections once all of them should be open.
    pub hold: Duration,
    /// Interval of the pings on each connection. A connection without a pong by the next ping counts as dead.
    pub heartbeat: Option<Duration>,
    /// Messages sent per second on all connections together, from the start of the hold.
    pub rate: f64,
    /// Bytes of each message.
    pub message_bytes: usize,
    /// Number of rooms. Connections are divided between the rooms, and every member of a room expects its messages. Without
    /// rooms the sender expects its own message back.
    pub rooms: Option<u32>,
    /// The first message of each connection, for servers that use messages to join rooms; `{{room}}` is replaced as above.
    pub join: Option<String>,
    /// Share of the connections (0 to 1) that never read.
    pub stall: f64,
    /// Opens lost connections again after a random pause between zero and a bound. The bound starts at the first value and
    /// doubles with each failure up to the second.
    pub reconnect: Option<(Duration, Duration)>,
    /// Cuts connections.
    pub storm: Option<Storm>,
    /// Additional header fields of the handshake: name and value.
    pub fields: Vec<(String, String)>,
    /// Timeout for establishing a connection.
    pub connect_timeout: Duration,
    /// Timeout for the response to a handshake.
    pub timeout: Duration,
    /// Server-sent events in place of WebSockets, and what is measured of them.
    #[serde(default)]
    pub events: Option<EventOptions>,
    /// How long to wait for deliveries at the end, and then for close frames.
    pub drain: Duration,
    /// Source addresses, used in turn.
    pub sources: Vec<IpAddr>,
    /// Length of an interval.
    pub interval: Duration,
    /// Seed of random values.
    pub seed: u64,
    /// Whether to refuse a load that cannot fit.
    pub plan: bool,
    /// TLS options for `wss://` targets.
    #[serde(default)]
    pub tls: TlsOptions,
}

/// The options contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebSocketOptionsError {
    /// A number is out of bounds.
    #[error("{0}")]
    Range(&'static str),
    /// A header field would break the request.
    #[error("`{0}` is no header field that a handshake can have")]
    Field(String),
}

/// Header fields that the handshake writes itself.
const OWN_FIELDS: [&str; 6] =
    ["host", "upgrade", "connection", "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions"];
/// The same of a request for events.
const OWN_FIELDS_OF_EVENTS: [&str; 6] = ["host", "upgrade", "connection", "accept", "cache-control", "last-event-id"];

impl WebSocketOptions {
    /// A hundred connections, held for ten seconds.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            places: Places::default(),
            connections: 100,
            threads: 1,
            processes: Some(1),
            ramp: 1000.0,
            hold: Duration::from_secs(10),
            heartbeat: None,
            rate: 0.0,
            message_bytes: 128,
            rooms: None,
            join: None,
            stall: 0.0,
            reconnect: None,
            storm: None,
            fields: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            events: None,
            drain: Duration::from_secs(2),
            sources: Vec::new(),
            interval: Duration::from_secs(1),
            seed: 0,
            plan: true,
            tls: TlsOptions::default(),
        }
    }

    /// What the connections are held for.
    pub fn held(&self) -> Held {
        match (self.url.bare, &self.events) {
            (true, _) => Held::Tcp,
            (false, Some(_)) => Held::Events,
            (false, None) => Held::WebSocket,
        }
    }

    /// Whether events come over HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.http2)
    }

    /// When all connections should be open.
    pub fn ramp_time(&self) -> Duration {
        Duration::try_from_secs_f64(self.connections as f64 / self.ramp).unwrap_or(Duration::MAX)
    }

    /// The target as it was typed.
    pub(crate) fn target(&self) -> String {
        let url = self.url.to_string();
        match self.held() {
            Held::Tcp | Held::Events => url,
            // `http` means `ws`, and `https` means `wss`.
            Held::WebSocket => format!("ws{}", url.strip_prefix("http").unwrap_or(&url)),
        }
    }

    /// What is opened, for reports.
    pub(crate) fn noun(&self) -> &'static str {
        match self.held() {
            Held::WebSocket => "WebSockets",
            Held::Tcp => "connections",
            Held::Events if self.is_http2() => "event streams over HTTP/2",
            Held::Events => "event streams",
        }
    }

    /// Checks the options for contradictions.
    pub fn check(&self) -> Result<(), WebSocketOptionsError> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let range = |holds: bool, text| if holds { Ok(()) } else { Err(WebSocketOptionsError::Range(text)) };
        range((1..=CONNECTIONS_MAX).contains(&self.connections), "connections: 1 to 10 million")?;
        range((1..=THREADS_MAX).contains(&self.threads), "threads: too few or too many")?;
        range(self.processes.is_none_or(|count| (1..=PROCESSES_MAX).contains(&count)), "processes: 1 to 256")?;
        range(self.ramp.is_finite() && self.ramp > 0.0, "ramp: connections per second, above 0")?;
        range(self.rate.is_finite() && self.rate >= 0.0, "rate: messages per second")?;
        range(is_share(self.stall), "stall: a share of the connections, 0 % to 100 %")?;
        range(self.storm.is_none_or(|storm| is_share(storm.share)), "storm: a share of the connections")?;
        range(self.rooms.is_none_or(|rooms| (1..=ROOMS_MAX).contains(&rooms)), "rooms: 1 to 10 million")?;
        range(self.interval >= Duration::from_millis(1), "interval: a millisecond or more")?;
        range(
            self.heartbeat.is_none_or(|every| every >= Duration::from_millis(1)),
            "heartbeat: a millisecond or more",
        )?;
        range(
            (MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&self.message_bytes),
            "message size: 46 bytes, which hold its number and time, to 1 MB",
        )?;
        let has_frames = self.heartbeat.is_some() || self.rate > 0.0 || self.rooms.is_some() || self.join.is_some();
        range(
            !self.url.bare || (!has_frames && self.fields.is_empty()),
            "a TCP connection that is held has no header fields, pings, rooms and messages",
        )?;
        range(
            self.held() != Held::Events || !has_frames,
            "a client of server-sent events sends no pings and messages, and has no rooms",
        )?;
        let own = if self.held() == Held::Events { &OWN_FIELDS_OF_EVENTS } else { &OWN_FIELDS };
        for (name, value) in &self.fields {
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            let is_value = value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7F));
            if !is_name || !is_value || own.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(WebSocketOptionsError::Field(name.clone()));
            }
        }
        Ok(())
    }
}

/// Parses a `ws://` or `wss://` URL.
pub fn parse_url(text: &str) -> Result<Url, String> {
    let is = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !is("ws://") && !is("wss://") {
        return Err("a URL of a WebSocket begins with ws:// or wss://".to_owned());
    }
    // `ws` becomes `http`, and `wss` becomes `https`.
    format!("http{}", text.get(2..).unwrap_or_default().replacen("S://", "s://", 1)).parse().map_err(
        |error| match error {
            UrlError::NoHost => "a URL has a host behind ws://".to_owned(),
            other => other.to_string(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_websocket_urls() {
        let url = parse_url("WS://[::1]:81/a?b").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 81, "/a?b"));
        let secure = parse_url("WSS://a").unwrap();
        assert_eq!((secure.port, secure.tls), (443, true));
        assert!(parse_url("http://a").is_err() && parse_url("ws://").unwrap_err().contains("ws://"));
    }

    #[test]
    fn contradictions_are_refused() {
        let sound = WebSocketOptions::new(parse_url("ws://a").unwrap());
        assert_eq!(sound.check(), Ok(()));
        let own = WebSocketOptions { fields: vec![("Upgrade".into(), "x".into())], ..sound.clone() };
        assert_eq!(own.check(), Err(WebSocketOptionsError::Field("Upgrade".into())));
        let held = WebSocketOptions::new(Url::parse_tcp("tcp://a:1").unwrap());
        assert_eq!(held.check(), Ok(()));
        assert!(WebSocketOptions { rate: 1.0, ..held }.check().is_err());
        let events = WebSocketOptions { events: Some(EventOptions::default()), ..sound.clone() };
        assert_eq!((events.check(), events.held()), (Ok(()), Held::Events));
        let own = vec![("Last-Event-ID".into(), "7".into())];
        assert!(WebSocketOptions { fields: own, ..events.clone() }.check().is_err());
        assert!(WebSocketOptions { heartbeat: Some(Duration::from_secs(1)), ..events }.check().is_err());
        assert!(WebSocketOptions { stall: 1.5, ..sound.clone() }.check().is_err());
        assert!(WebSocketOptions { ramp: 0.0, ..sound.clone() }.check().is_err());
        assert!(WebSocketOptions { message_bytes: 10, ..sound }.check().is_err());
    }
}
