//! The parts of a tunnel.

use crate::coded::{Coded, coded_enum, coded_struct, decode, encode};
use crate::wire::Reader;
use terms::PeerAddress;

/// A tunnel, or a session of `stream` that has a peer. Index 0 of a pair is the client, or the direction from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The settings of its location.
    pub settings: Settings,
    /// Client to upstream, and upstream to client.
    pub directions: [Direction; 2],
    /// When bytes or a FIN last went through.
    pub moved_at_ms: u64,
    /// The end that closed first; `None` while neither has.
    pub ended_by: Option<Side>,
    /// If it is a WebSocket, the frame position in what each end sends, as `websocket::Boundary` encodes it.
    pub frames: Option<[[u8; 12]; 2]>,
    /// The state of its pings, if it is pinged.
    pub heartbeat: Option<Heartbeat>,
    /// Rate limits: of the client's bytes, and of the upstream's.
    pub paces: [Option<Pace>; 2],
    /// Its peer; `None` if its pool does not know it any more.
    pub peer: Option<Peer>,
    /// What is logged when it ends.
    pub record: Option<Record>,
}

/// The settings that a tunnel keeps from the configuration that opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// When it ends.
    pub kind: Kind,
    /// Longest silence.
    pub idle_max_ms: u64,
    /// Silence after which both ends are pinged.
    pub ping_ms: Option<u64>,
    /// Bytes buffered per direction.
    pub buffer_bytes: u64,
    /// Server and location.
    pub route: Option<String>,
    /// The name of the location's own error log.
    pub error_log: Option<String>,
    /// The marks of its route.
    pub marks: Vec<u64>,
}

/// The kind of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Opened by a 101.
    Upgraded,
    /// A session of `stream`, ended by the first end.
    Session,
    /// A session of `stream` with `proxy_half_close on`.
    HalfClosingSession,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direction {
    /// Bytes that were read, and that the other side has not accepted.
    pub waiting: Vec<u8>,
    /// Bytes that were read so far, with those that wait.
    pub bytes: u64,
    /// How far it has come to its end.
    pub flow: Flow,
}

/// How far a direction has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It is open.
    Open,
    /// Its source has sent FIN.
    Ended,
    /// The FIN was passed on.
    Closed,
}

/// A side of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The gateway.
    Gateway,
    /// The upstream.
    Upstream,
}

/// The state of pings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Since when a ping waits for a sign of life.
    pub waiting_since_ms: [Option<u64>; 2],
    /// When the last round of pings began.
    pub pinged_at_ms: u64,
}

/// The state of a rate limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that go before the rate holds.
    pub after: u64,
    /// Since when it holds.
    pub began_ms: u64,
    /// Nothing goes before.
    pub not_before_ms: u64,
}

/// A peer, as pool and balancer know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The name of its group.
    pub group: String,
    /// Its address.
    pub address: PeerAddress,
    /// Its ordinal among the peers of the group with this address, if the tunnel counts for `max_conns`.
    pub ordinal: Option<u64>,
    /// Whether its local port is in the ledger.
    pub has_port: bool,
}

/// What is logged, and what is counted, until the tunnel ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The lines of access logs.
    pub lines: Vec<Line>,
    /// When the request began.
    pub began_at_ms: u64,
    /// When the connection was accepted.
    pub accepted_at_ms: u64,
    /// Bytes of the 101.
    pub head_bytes: u64,
    /// When the attempt began that became the tunnel.
    pub attempt_began_at_ms: u64,
    /// How long the peer took to its first byte.
    pub first_byte_ms: Option<u64>,
    /// Its places in the zones of `limit_conn`.
    pub limits: Vec<Limit>,
    /// All attempts; the last one became the tunnel.
    pub attempts: Vec<Attempt>,
    /// The spans that end with it.
    pub spans: Vec<Span>,
}

/// A line of an access log in which some values are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The name of the log.
    pub log: Vec<u8>,
    /// The file, if the log has one for each value of a variable.
    pub file: Option<LineName>,
    /// The text without these values.
    pub text: Vec<u8>,
    /// Where a value is missing, and the number of its variable.
    pub gaps: Vec<(u64, u64)>,
}

/// The file of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineName {
    /// Its path.
    pub path: Vec<u8>,
    /// The directory that must exist.
    pub root: Vec<u8>,
}

/// A place in a zone of `limit_conn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The name of the zone.
    pub zone: String,
    /// Its key as written.
    pub key_text: String,
    /// The value that is counted.
    pub key: Vec<u8>,
}

/// An attempt at a peer, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Microseconds to its end.
    pub response_us: Option<u64>,
    /// Bytes of its response's body.
    pub response_length: u64,
    /// Bytes from the peer.
    pub bytes_received: u64,
    /// Bytes to the peer.
    pub bytes_sent: u64,
    /// The separator before the next attempt's values.
    pub separator: Vec<u8>,
}

/// A span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace_id: [u8; 16],
    /// Its id.
    pub id: [u8; 8],
    /// The span above it.
    pub parent: Option<[u8; 8]>,
    /// `tracestate`
    pub state: String,
    /// Its name.
    pub name: String,
    /// What it records.
    pub kind: SpanKind,
    /// Nanoseconds since the epoch.
    pub began_ns: u64,
    /// The same.
    pub ended_ns: u64,
    /// Its attributes.
    pub attributes: Vec<(String, SpanValue)>,
    /// Why it counts as failed.
    pub error: Option<String>,
}

/// What a span records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The exchange with a client.
    Server,
    /// An attempt at a peer.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A list of one text.
    Texts(String),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

coded_struct!(Tunnel { settings, directions, moved_at_ms, ended_by, frames, heartbeat, paces, peer, record });
coded_struct!(Settings { kind, idle_max_ms, ping_ms, buffer_bytes, route, error_log, marks });
coded_enum!(Kind { Upgraded = 0, Session = 1, HalfClosingSession = 2 });
coded_struct!(Direction { waiting, bytes, flow });
coded_enum!(Flow { Open = 0, Ended = 1, Closed = 2 });
coded_enum!(Side { Client = 0, Gateway = 1, Upstream = 2 });
coded_struct!(Heartbeat { waiting_since_ms, pinged_at_ms });
coded_struct!(Pace { rate, after, began_ms, not_before_ms });
coded_struct!(Peer { group, address, ordinal, has_port });
coded_struct!(Record {
    lines,
    began_at_ms,
    accepted_at_ms,
    head_bytes,
    attempt_began_at_ms,
    first_byte_ms,
    limits,
    attempts,
    spans,
});
coded_struct!(Line { log, file, text, gaps });
coded_struct!(LineName { path, root });
coded_struct!(Limit { zone, key_text, key });
coded_struct!(Attempt { response_us, response_length, bytes_received, bytes_sent, separator });
coded_struct!(Span { trace_id, id, parent, state, name, kind, began_ns, ended_ns, attributes, error });
coded_enum!(SpanKind { Server = 0, Client = 1 });

impl Coded for SpanValue {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                out.push(0);
                text.put(out);
            }
            Self::Texts(text) => {
                out.push(1);
                text.put(out);
            }
            Self::Number(number) => {
                out.push(2);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Flag(flag) => {
                out.push(3);
                flag.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => from.string().map(Self::Text),
            1 => from.string().map(Self::Texts),
            2 => from.array().map(|bytes| Self::Number(i64::from_le_bytes(bytes))),
            3 => bool::take(from).map(Self::Flag),
            _ => None,
        }
    }
}

impl Tunnel {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// From bytes; `None` if they are no tunnel.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tunnel() -> Tunnel {
        let direction = |waiting: &[u8], flow| Direction { waiting: waiting.to_vec(), bytes: 70_000, flow };
        let line = Line {
            log: b"file /a.log".to_vec(),
            file: Some(LineName { path: b"/b.log".to_vec(), root: b"/srv".to_vec() }),
            text: b"GET / \xff".to_vec(),
            gaps: vec![(0, 3), (6, 15)],
        };
        let attempt = Attempt {
            response_us: Some(5),
            response_length: 6,
            bytes_received: 7,
            bytes_sent: 8,
            separator: b", ".to_vec(),
        };
        let span = Span {
            trace_id: [1; 16],
            id: [2; 8],
            parent: Some([3; 8]),
            state: "a=b".to_owned(),
            name: "GET".to_owned(),
            kind: SpanKind::Client,
            began_ns: 9,
            ended_ns: 10,
            attributes: vec![
                ("text".to_owned(), SpanValue::Text("t".to_owned())),
                ("texts".to_owned(), SpanValue::Texts("u".to_owned())),
                ("number".to_owned(), SpanValue::Number(-1)),
                ("flag".to_owned(), SpanValue::Flag(true)),
            ],
            error: Some("reset".to_owned()),
        };
        let record = Record {
            lines: vec![line],
            began_at_ms: 1,
            accepted_at_ms: 2,
            head_bytes: 3,
            attempt_began_at_ms: 4,
            first_byte_ms: Some(5),
            limits: vec![Limit { zone: "z".to_owned(), key_text: "$a".to_owned(), key: b"1".to_vec() }],
            attempts: vec![attempt],
            spans: vec![span],
        };
        Tunnel {
            settings: Settings {
                kind: Kind::HalfClosingSession,
                idle_max_ms: 60_000,
                ping_ms: Some(30_000),
                buffer_bytes: 4096,
                route: Some("a /".to_owned()),
                error_log: Some("error /e.log".to_owned()),
                marks: vec![1, u64::MAX],
            },
            directions: [direction(b"up", Flow::Open), direction(b"", Flow::Closed)],
            moved_at_ms: 1_000_000,
            ended_by: Some(Side::Upstream),
            frames: Some([[1; 12], [0; 12]]),
            heartbeat: Some(Heartbeat { waiting_since_ms: [None, Some(9)], pinged_at_ms: 10 }),
            paces: [Some(Pace { rate: 1, after: 2, began_ms: 3, not_before_ms: 4 }), None],
            peer: Some(Peer {
                group: "g".to_owned(),
                address: PeerAddress::Ip("[::1]:80".parse().unwrap()),
                ordinal: Some(1),
                has_port: true,
            }),
            record: Some(record),
        }
    }

    #[test]
    fn a_tunnel_comes_back_as_it_was_and_a_cut_one_does_not() {
        let whole = tunnel();
        let unix = Peer { address: PeerAddress::Unix("/s".into()), ..whole.peer.clone().unwrap() };
        for tunnel in [
            Tunnel { peer: Some(unix), ..whole.clone() },
            Tunnel { record: None, frames: None, heartbeat: None, peer: None, ended_by: None, ..whole.clone() },
            whole,
        ] {
            let mut bytes = tunnel.encode();
            assert_eq!(Tunnel::decode(&bytes), Some(tunnel));
            for cut in 0..bytes.len() {
                assert_eq!(Tunnel::decode(&bytes[..cut]), None, "cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(Tunnel::decode(&bytes), None, "something is behind it");
        }
    }

    proptest! {
        /// A changed byte may give another tunnel or none, never a panic, and never memory beyond the size of the bytes.
        #[test]
        fn changed_bytes_do_no_harm(place in any::<prop::sample::Index>(), value in any::<u8>()) {
            let mut bytes = tunnel().encode();
            let place = place.index(bytes.len());
            bytes[place] = value;
            if let Some(read) = Tunnel::decode(&bytes) {
                prop_assert_eq!(Tunnel::decode(&read.encode()), Some(read));
            }
        }
    }
}
