//! What a load of WebSockets is asked to do. Plain values; the binary maps each flag to one field.

use super::message::MESSAGE_BYTES_MIN;
use crate::options::{CONNECTIONS_MAX, PROCESSES_MAX, THREADS_MAX};
use crate::tls::TlsOptions;
use crate::url::{Url, UrlError};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// Longest message that is sent: common servers refuse more.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Rooms at most: each costs a counter, and a room without members is no room.
pub const ROOMS_MAX: u32 = 10_000_000;

/// All connections of a share are cut at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    /// When, after all connections were to be open.
    pub after: Duration,
    /// The share of the connections (0 to 1).
    pub share: f64,
}

/// A load of WebSockets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The target; `{{room}}` and `{{connection}}` in its path mean the numbers of those.
    pub url: Url,
    /// Connections that are held.
    pub connections: usize,
    /// Threads of all processes together; at least one in each.
    pub threads: usize,
    /// Processes that share the connections, or `None` for as many as the limit of descriptors makes necessary. More than one
    /// needs [`super::Prepared::start_with`].
    pub processes: Option<usize>,
    /// Connections opened per second.
    pub ramp: f64,
    /// How long they are held, once all are to be open.
    pub hold: Duration,
    /// A ping on each connection so often; one whose pong has not come by the next counts as dead.
    pub heartbeat: Option<Duration>,
    /// Messages sent per second while the connections are held, all together, from the first second of the hold on.
    pub rate: f64,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Connections are divided between this many rooms, and a message is expected by every member of its sender's room. Without
    /// rooms a message is expected to come back to its sender.
    pub rooms: Option<u32>,
    /// A message that each connection sends first, for servers that have rooms joined by message; `{{room}}` as above.
    pub join: Option<String>,
    /// Share of the connections (0 to 1) that never read.
    pub stall: f64,
    /// A connection that was lost is opened again after a pause from zero to a bound, which doubles with each failure from the
    /// first value to the second one.
    pub reconnect: Option<(Duration, Duration)>,
    /// Cut connections.
    pub storm: Option<Storm>,
    /// Further fields of the handshake, name and value.
    pub fields: Vec<(String, String)>,
    /// Time for a connection to be established.
    pub connect_timeout: Duration,
    /// Time for the answer to a handshake.
    pub timeout: Duration,
    /// How long deliveries, and then close frames, are waited for at the end.
    pub drain: Duration,
    /// Source addresses, used in turn.
    pub sources: Vec<IpAddr>,
    /// Length of an interval.
    pub interval: Duration,
    /// Seed of random values.
    pub seed: u64,
    /// Refuse to start what cannot fit.
    pub plan: bool,
    /// For `wss://`.
    #[serde(default)]
    pub tls: TlsOptions,
}

/// Options that contradict themselves.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// A number beyond its bounds.
    #[error("{0}")]
    Range(&'static str),
    /// A field that would break the request.
    #[error("`{0}` is no header field that a handshake can have")]
    Field(String),
}

/// Fields that the handshake itself writes.
const OWN_FIELDS: [&str; 6] =
    ["host", "upgrade", "connection", "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions"];

impl Options {
    /// A hundred connections, held for ten seconds.
    pub fn new(url: Url) -> Self {
        Self {
            url,
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
            drain: Duration::from_secs(2),
            sources: Vec::new(),
            interval: Duration::from_secs(1),
            seed: 0,
            plan: true,
            tls: TlsOptions::default(),
        }
    }

    /// When all connections are to be open.
    pub fn ramp_time(&self) -> Duration {
        Duration::try_from_secs_f64(self.connections as f64 / self.ramp).unwrap_or(Duration::MAX)
    }

    /// Whether they can be followed.
    pub fn check(&self) -> Result<(), OptionsError> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let range = |holds: bool, text| if holds { Ok(()) } else { Err(OptionsError::Range(text)) };
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
        for (name, value) in &self.fields {
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            let is_value = value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7F));
            if !is_name || !is_value || OWN_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(OptionsError::Field(name.clone()));
            }
        }
        Ok(())
    }
}

/// A `ws://` or `wss://` URL.
pub fn parse_url(text: &str) -> Result<Url, String> {
    let is = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !is("ws://") && !is("wss://") {
        return Err("a URL of a WebSocket begins with ws:// or wss://".to_owned());
    }
    // `ws` and `wss` become `http` and `https`.
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
    fn urls_are_those_of_websockets() {
        let url = parse_url("WS://[::1]:81/a?b").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 81, "/a?b"));
        let secure = parse_url("WSS://a").unwrap();
        assert_eq!((secure.port, secure.tls), (443, true));
        assert!(parse_url("http://a").is_err() && parse_url("ws://").unwrap_err().contains("ws://"));
    }

    #[test]
    fn contradictions_are_refused() {
        let sound = Options::new(parse_url("ws://a").unwrap());
        assert_eq!(sound.check(), Ok(()));
        let own = Options { fields: vec![("Upgrade".into(), "x".into())], ..sound.clone() };
        assert_eq!(own.check(), Err(OptionsError::Field("Upgrade".into())));
        assert!(Options { stall: 1.5, ..sound.clone() }.check().is_err());
        assert!(Options { ramp: 0.0, ..sound.clone() }.check().is_err());
        assert!(Options { message_bytes: 10, ..sound }.check().is_err());
    }
}
