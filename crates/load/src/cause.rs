//! Why a request failed, in an operator's words. One enum for counters, reports and thresholds.

use crate::tally::by_index;
use serde::{Deserialize, Serialize, Serializer};
use std::io;
use std::ops::{Deref, DerefMut};

/// Who has to act on a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The target, or the way to it.
    Target,
    /// The machine that runs the load generator. Too many of these failures make a run void.
    Generator,
}

/// The kinds of socket errors that wrk reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketErrorKind {
    Connect,
    Read,
    Timeout,
}

macro_rules! causes {
    ($( $variant:ident $key:literal $blame:ident $text:literal )*) => {
        /// Why a request failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Cause {
            $( #[doc = $text] $variant, )*
        }

        impl Cause {
            /// All of them, in the order in which they can happen to a request.
            pub const ALL: &'static [Cause] = &[ $( Cause::$variant, )* ];

            /// A short name for JSON and thresholds.
            pub fn key(self) -> &'static str {
                match self { $( Self::$variant => $key, )* }
            }

            /// One line for people.
            pub fn text(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }

            /// Who has to act.
            pub fn blame(self) -> Blame {
                match self { $( Self::$variant => Blame::$blame, )* }
            }
        }
    };
}

causes! {
    Refused "refused" Target "connection refused: nothing listens there, or its accept queue rejects"
    Unreachable "unreachable" Target "network or host unreachable"
    ConnectReset "connect_reset" Target "reset while connecting"
    ConnectTimeout "connect_timeout" Target "timeout connecting: SYN unanswered (accept queue full, or a firewall drops)"
    ConnectFailed "connect_failed" Target "connecting failed otherwise"
    TlsStalled "tls_stalled" Target "timeout in the TLS handshake: the target took the connection and did not go on"
    TlsClosed "tls_closed" Target "closed by the target in the TLS handshake: see its error log"
    TlsCertificate "tls_certificate" Target "the target's certificate does not verify: name its authority (--ca), its name (--sni), or use --insecure"
    TlsRefused "tls_refused" Target "the TLS handshake failed: nothing in common, or a client certificate is wanted (--cert, --key)"
    NotTls "not_tls" Target "the target does not speak TLS on this port: use http://, ws:// or tcp://"
    TlsBroken "tls_broken" Target "the target broke the TLS protocol after the handshake"
    TlsTruncated "tls_truncated" Target "closed without `close_notify` in a response: it may have been cut on the way"
    SendTimeout "send_timeout" Target "timeout sending: the target accepts and does not read"
    Silent "silent" Target "timeout waiting: the target took the request and stayed silent"
    ReadTimeout "read_timeout" Target "timeout reading: the response began and did not end"
    KeepaliveRace "keepalive_race" Target "closed by the target as the next request was sent on a kept connection"
    ClosedUnanswered "closed_unanswered" Target "closed by the target without a response"
    ClosedEarly "closed_early" Target "closed by the target in the middle of a response"
    ResetUnanswered "reset_unanswered" Target "reset by the target without a response"
    ResetEarly "reset_early" Target "reset by the target in the middle of a response"
    SpeaksTls "speaks_tls" Target "plain HTTP sent to a port that speaks TLS"
    SpeaksHttp2 "speaks_http2" Target "the target speaks HTTP/2 only: use --http2"
    NoHttp2 "no_http2" Target "the target does not speak HTTP/2: leave out --http2, or switch HTTP/2 on there (nginx: http2 on)"
    Http2Broken "http2_broken" Target "the target broke the rules of HTTP/2"
    RefusedStream "refused_stream" Target "the target refused the stream (`REFUSED_STREAM`): more than it allows at once, or it is about to end"
    StreamReset "stream_reset" Target "the target reset the stream (`RST_STREAM`); the report has the codes"
    GrpcStatus "grpc_status" Target "the call ended with another grpc-status than 0 (OK)"
    GrpcNone "grpc_none" Target "the response has no grpc-status: the target does not speak gRPC there"
    NotHttp "not_http" Target "the answer is no HTTP"
    BadHead "bad_head" Target "malformed response head"
    BadBody "bad_body" Target "malformed chunked body"
    Mismatch "mismatch" Target "the reply differs from the message that was sent"
    Short "short" Target "closed by the target before the whole reply had come"
    Unasked "unasked" Target "bytes behind a response or a reply that were not requested"
    LineFull "line_full" Target "not sent: the line of requests that wait for a connection is full"
    Unanswered "unanswered" Target "unanswered when the run ended"
    NoPorts "no_ports" Generator "no free local port towards the target (cannot assign requested address)"
    NoDescriptors "no_descriptors" Generator "no free descriptor (too many open files)"
    NoMemory "no_memory" Generator "no memory for a socket"
}

/// Counts of failures, by [`Cause`] as index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCause(#[serde(with = "by_index")] pub [u64; Cause::ALL.len()]);

impl Default for ByCause {
    fn default() -> Self {
        Self([0; Cause::ALL.len()])
    }
}

impl Deref for ByCause {
    type Target = [u64; Cause::ALL.len()];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for ByCause {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Cause {
    /// The cause for an error of `connect`.
    pub(crate) fn of_connect(error: &io::Error) -> Self {
        /// `ENFILE`: the file table of the whole system is full. `std::io::ErrorKind` has no variant for it.
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        const EADDRNOTAVAIL: i32 = 99;
        const ENOBUFS: i32 = 105;
        match error.raw_os_error() {
            Some(EMFILE | ENFILE) => return Self::NoDescriptors,
            Some(EADDRNOTAVAIL) => return Self::NoPorts,
            Some(ENOBUFS) => return Self::NoMemory,
            _ => {}
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            io::ErrorKind::ConnectionReset => Self::ConnectReset,
            io::ErrorKind::TimedOut => Self::ConnectTimeout,
            io::ErrorKind::OutOfMemory => Self::NoMemory,
            _ => Self::ConnectFailed,
        }
    }

    /// The kind under which wrk counts this cause.
    pub(crate) fn kind(self) -> SocketErrorKind {
        match self {
            Self::Refused
            | Self::Unreachable
            | Self::ConnectReset
            | Self::ConnectFailed
            | Self::TlsClosed
            | Self::TlsCertificate
            | Self::TlsRefused
            | Self::NotTls
            | Self::NoHttp2
            | Self::NoPorts
            | Self::NoDescriptors
            | Self::NoMemory => SocketErrorKind::Connect,
            _ if self.is_waited_for() => SocketErrorKind::Timeout,
            _ => SocketErrorKind::Read,
        }
    }

    /// Whether a generator that was not scheduled for a while can cause this failure: its own timeouts and those of the
    /// target expire meanwhile.
    pub(crate) fn may_come_of_lateness(self) -> bool {
        let closed = [
            Self::KeepaliveRace,
            Self::ClosedUnanswered,
            Self::ClosedEarly,
            Self::ResetUnanswered,
            Self::ResetEarly,
            Self::Short,
            Self::LineFull,
        ];
        self.is_waited_for() || closed.contains(&self)
    }

    /// Whether the load waited for this request until a timeout. Its latency is then at least the time it waited.
    pub fn is_waited_for(self) -> bool {
        matches!(
            self,
            Self::ConnectTimeout
                | Self::TlsStalled
                | Self::SendTimeout
                | Self::Silent
                | Self::ReadTimeout
                | Self::Unanswered
        )
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.key())
    }
}

/// The cause for a response that does not begin with `HTTP/1.`: often the port serves another protocol.
pub(crate) fn of_foreign_bytes(bytes: &[u8]) -> Cause {
    match bytes {
        // A TLS record: alert (21) or handshake (22), version 3.x.
        [21 | 22, 3, 0..=4, ..] => Cause::SpeaksTls,
        // A frame of type SETTINGS (4) or GOAWAY (7) on stream 0, of less than 256 bytes.
        [0, 0, _, 4 | 7, 0, 0, 0, 0, 0, ..] => Cause::SpeaksHttp2,
        _ => Cause::NotHttp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_in_order() {
        let keys: HashSet<&str> = Cause::ALL.iter().map(|cause| cause.key()).collect();
        assert_eq!(keys.len(), Cause::ALL.len());
        assert!(Cause::ALL.iter().enumerate().all(|(index, cause)| *cause as usize == index));
    }

    #[test]
    fn errors_of_the_system_have_a_cause() {
        let of = |errno: i32| Cause::of_connect(&io::Error::from_raw_os_error(errno));
        assert_eq!(
            (of(111), of(110), of(113), of(101)),
            (Cause::Refused, Cause::ConnectTimeout, Cause::Unreachable, Cause::Unreachable)
        );
        assert_eq!(
            (of(99), of(24), of(23), of(105), of(12)),
            (Cause::NoPorts, Cause::NoDescriptors, Cause::NoDescriptors, Cause::NoMemory, Cause::NoMemory)
        );
        assert_eq!(of(13), Cause::ConnectFailed);
    }

    #[test]
    fn recognizes_foreign_protocols() {
        assert_eq!(of_foreign_bytes(&[21, 3, 1, 0, 2, 2, 70]), Cause::SpeaksTls);
        assert_eq!(of_foreign_bytes(&[0, 0, 18, 4, 0, 0, 0, 0, 0, 0]), Cause::SpeaksHttp2);
        assert_eq!(of_foreign_bytes(b"SSH-2.0-OpenSSH"), Cause::NotHttp);
        assert_eq!(of_foreign_bytes(b""), Cause::NotHttp);
    }
}
