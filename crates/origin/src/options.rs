//! Options of the whole origin; the path of a request selects the others. Plain values: the binary maps each flag of
//! `holdfast origin` to one field here, and tests set the fields they need.

use crate::tcp::Tcp;
use reactor::PeerAddress;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tls::{OneServer, ServerSide};

/// Bytes of nginx's welcome page, which proxy benchmarks usually serve.
pub const PAGE_BYTES_DEFAULT: u64 = 612;

/// Longest request body that is read. Bodies are not stored, so this limits time and not memory. It is more than any test
/// sends, and stops an endless sender.
pub const BODY_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// Requested accept queue. Longer than nginx's 511, so that the origin does not drop connections of a load test.
pub const BACKLOG_DEFAULT: u32 = 4096;

/// Concurrent streams on an HTTP/2 connection, as in nginx.
pub const HTTP2_STREAMS_DEFAULT: u32 = 128;

/// How the origin closes a connection by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ClosingStyle {
    /// Close with FIN.
    #[default]
    Fin,
    /// FIN in the sending direction only. The origin reads and ignores what the peer still sends, until the peer closes,
    /// too.
    HalfClose,
    /// RST. Unix sockets have no RST, so there it is an ordinary close.
    Reset,
}

impl ClosingStyle {
    /// Its name in flags and queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::HalfClose => "half-close",
            Self::Reset => "reset",
        }
    }
}

/// The name is none of `fin`, `half-close` and `reset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownClosingStyle;

impl std::fmt::Display for UnknownClosingStyle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("expected fin, half-close or reset")
    }
}

impl std::error::Error for UnknownClosingStyle {}

impl FromStr for ClosingStyle {
    type Err = UnknownClosingStyle;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::Fin, Self::HalfClose, Self::Reset]
            .into_iter()
            .find(|style| style.name() == word)
            .ok_or(UnknownClosingStyle)
    }
}

/// When and how the origin ends a keepalive connection by itself. `/close-after` changes it for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closing {
    /// After this many requests on a connection; 0 counts as 1.
    pub after_requests: Option<u64>,
    /// After this long without a request, counted from the accept or from the end of the last response.
    pub after_idle: Option<Duration>,
    /// How to close.
    pub style: ClosingStyle,
    /// Whether the last response before `after_requests` omits `Connection: close`. The client then learns of the close
    /// only from the FIN, which is the keepalive race.
    pub unannounced: bool,
}

/// TLS for all connections. Only clones are equal.
#[derive(Debug, Clone)]
pub struct Tls(pub(crate) Arc<OneServer>);

impl Tls {
    /// Creates it with these settings.
    pub fn new(side: ServerSide) -> Self {
        Self(Arc::new(OneServer(Arc::new(side))))
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

/// All options of an origin. Each field is one flag of `holdfast origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `--listen`, repeatable: where to listen; port 0 lets the kernel choose. Default `127.0.0.1:0`.
    pub listen: Vec<PeerAddress>,
    /// `--processes`: whether other processes listen at the same addresses (`SO_REUSEPORT`), so that the kernel divides the
    /// connections. Requests that need the state of all processes are then refused: rooms, counters, executions.
    pub is_one_of_several: bool,
    /// `--workers`: threads with an event loop each; 0 counts as 1. Default 1.
    pub workers: usize,
    /// `--backlog`: requested accept queue, in connections.
    pub backlog: u32,
    /// `--size`: bytes of the page at `/` and `/page`.
    pub page_bytes: u64,
    /// `--server`: value of the Server field; letters, digits and punctuation.
    pub server: String,
    /// `--close-after-requests`, `--close-after-idle`, `--closing-style`, `--unannounced`.
    pub closing: Closing,
    /// `--always-close`: whether every response has `Connection: close` and ends its connection.
    pub always_close: bool,
    /// `--keep-alive-timeout`: keepalive responses have `Keep-Alive: timeout=` with this many seconds. It is independent of
    /// `closing.after_idle`, so that an origin can announce a wrong timeout.
    pub keep_alive_timeout_s: Option<u64>,
    /// `--silent`: whether to accept connections and neither read nor write.
    pub silent: bool,
    /// `--reset-at-accept`: whether to answer every connection with RST.
    pub reset_at_accept: bool,
    /// `--body-max`: longest request body that is read, in bytes; a longer one is answered with 413.
    pub body_bytes_max: u64,
    /// `--tcp`: what every connection does in place of HTTP.
    pub tcp: Option<Tcp>,
    /// `--fastcgi`: whether all connections speak FastCGI as an application does, in place of HTTP.
    pub fastcgi: bool,
    /// `--tls`: TLS for all connections.
    pub tls: Option<Tls>,
    /// The number of the first connection in what `/echo` shows.
    pub first_connection: u64,
    /// `--http2-streams`: streams that a client may have open at the same time on an HTTP/2 connection.
    pub http2_streams: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: vec![PeerAddress::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))],
            is_one_of_several: false,
            workers: 1,
            backlog: BACKLOG_DEFAULT,
            page_bytes: PAGE_BYTES_DEFAULT,
            server: "holdfast-origin".to_owned(),
            closing: Closing::default(),
            always_close: false,
            keep_alive_timeout_s: None,
            silent: false,
            reset_at_accept: false,
            body_bytes_max: BODY_BYTES_MAX_DEFAULT,
            tcp: None,
            fastcgi: false,
            tls: None,
            first_connection: 1,
            http2_streams: HTTP2_STREAMS_DEFAULT,
        }
    }
}
