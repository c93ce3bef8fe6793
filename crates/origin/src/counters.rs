//! The origin's counters, readable from any thread: connections, requests, executions, closes by reason. Each worker has
//! its own counters, which are summed when they are read, so that workers share no cache line.

use crate::websocket::OnTheWay;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most ids whose executions are counted, at some 100 bytes each. A soak of 10^6 requests with an id each fits easily.
/// Further ids are refused with 507, because a wrong count would prove nothing.
const EXECUTION_IDS_MAX: usize = 4_000_000;

macro_rules! close_reasons {
    ($( $variant:ident $name:literal $doc:literal )*) => {
        /// Why a connection ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum CloseReason {
            $( #[doc = $doc] $variant, )*
        }

        impl CloseReason {
            /// All reasons, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),*];

            /// The name of its counter.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name ),* }
            }
        }
    };
}

close_reasons! {
    ClientClosed "client_closed" "The client closed between two requests."
    ClientClosedEarly "client_closed_early" "The client closed inside of a request."
    ClientReset "client_reset" "The client's RST, or another error of the socket."
    ClientAskedClose "client_asked_close" "The request said `Connection: close`, or was HTTP/1.0 without keepalive."
    OriginAlwaysCloses "origin_always_closes" "The option `always_close`."
    RequestLimit "request_limit" "The connection has had as many requests as it may have."
    Idle "idle" "The connection has been idle for as long as it may be."
    BodyEnd "body_end" "The end of the connection is the end of the response."
    BadRequest "bad_request" "The request was refused: malformed, or its body too long."
    FaultReset "fault_reset" "A path asked for a RST."
    FaultCut "fault_cut" "A path asked for a response that ends too early."
    TunnelEnd "tunnel_end" "An upgraded connection came to its end."
    WebSocketEnd "websocket_end" "A WebSocket was closed by both sides in due form."
    WebSocketLost "websocket_lost" "The client closed a WebSocket's connection without a close frame."
    WebSocketIdle "websocket_idle" "A WebSocket was closed after the idle timeout."
    WebSocketFault "websocket_fault" "The client sent a frame that the protocol forbids."
    WebSocketOverflow "websocket_overflow" "The client did not read, and more waited for it than may."
    Http2Fault "http2_fault" "The client broke the rules of HTTP/2, or a limit against abuse."
    TlsFailed "tls_failed" "The handshake of TLS failed."
    TcpEnd "tcp_end" "A connection of `--tcp` came to its end."
    NoResources "no_resources" "The kernel could not watch the socket."
    Stopped "stopped" "The origin was stopped."
}

const REASONS: usize = CloseReason::ALL.len();

/// Counters of one worker. Only that worker writes them, except `open`, which another worker increments when it hands over
/// a connection.
#[derive(Debug, Default)]
#[repr(align(128))] // two cache lines: neighbours are fetched in pairs
pub(crate) struct WorkerCounters {
    pub(crate) accepted: AtomicU64,
    pub(crate) open: AtomicU64,
    requests: AtomicU64,
    executed: AtomicU64,
    websocket_messages: AtomicU64,
    websocket_deliveries: AtomicU64,
    websocket_drops: AtomicU64,
    handshakes_full: AtomicU64,
    handshakes_resumed: AtomicU64,
    http2_connections: AtomicU64,
    /// Broadcasts from other workers that this worker has not handled yet.
    pub(crate) on_the_way: OnTheWay,
    closes: [AtomicU64; REASONS],
}

impl WorkerCounters {
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn execution(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn websocket_message(&self) {
        self.websocket_messages.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn websocket_delivery(&self) {
        self.websocket_deliveries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn websocket_drop(&self) {
        self.websocket_drops.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn handshake(&self, is_resumed: bool) {
        let count = if is_resumed { &self.handshakes_resumed } else { &self.handshakes_full };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn http2_connection(&self) {
        self.http2_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn close(&self, reason: CloseReason) {
        if let Some(count) = self.closes.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The sum over all workers at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections that are open now.
    pub connections_open: u64,
    /// Requests with a complete and valid head.
    pub requests: u64,
    /// Executed requests: the body was read completely and the action was begun.
    pub executed: u64,
    /// WebSocket messages received.
    pub websocket_messages: u64,
    /// Messages delivered to members of rooms, one for each member.
    pub websocket_deliveries: u64,
    /// Messages that were not delivered because the member's queue was full, or because a worker fell behind.
    pub websocket_drops: u64,
    /// Full TLS handshakes, with a key exchange and a certificate.
    pub handshakes_full: u64,
    /// TLS handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Connections that used HTTP/2.
    pub http2_connections: u64,
    /// Connections closed, by [`CloseReason::name`]; reasons that did not occur are left out.
    pub closes: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn sum<'a>(workers: impl Iterator<Item = &'a WorkerCounters>) -> Self {
        let mut counts = Self::default();
        for worker in workers {
            counts.connections_accepted += worker.accepted.load(Ordering::Relaxed);
            counts.connections_open += worker.open.load(Ordering::Relaxed);
            counts.requests += worker.requests.load(Ordering::Relaxed);
            counts.executed += worker.executed.load(Ordering::Relaxed);
            counts.websocket_messages += worker.websocket_messages.load(Ordering::Relaxed);
            counts.websocket_deliveries += worker.websocket_deliveries.load(Ordering::Relaxed);
            counts.websocket_drops += worker.websocket_drops.load(Ordering::Relaxed);
            counts.handshakes_full += worker.handshakes_full.load(Ordering::Relaxed);
            counts.handshakes_resumed += worker.handshakes_resumed.load(Ordering::Relaxed);
            counts.http2_connections += worker.http2_connections.load(Ordering::Relaxed);
            for (reason, count) in CloseReason::ALL.iter().zip(&worker.closes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    *counts.closes.entry(reason.name()).or_default() += count;
                }
            }
        }
        counts
    }

    /// How many connections were closed for this reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closes.get(reason.name()).copied().unwrap_or_default()
    }
}

/// How often each id was executed.
#[derive(Debug, Default)]
pub(crate) struct Executions {
    by_id: Mutex<FxHashMap<Box<str>, u32>>,
}

/// The sums over all ids.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct ExecutionsSummary {
    /// Number of ids.
    pub(crate) ids: u64,
    /// Sum of their counts.
    pub(crate) executions: u64,
    /// Ids that were executed more than once.
    pub(crate) ids_repeated: u64,
}

impl Executions {
    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<Box<str>, u32>> {
        // Every update is a single insertion or addition, so the table is consistent even after a panic.
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one execution; `false` if the id is new and there is no room for it.
    pub(crate) fn count(&self, id: &str) -> bool {
        let mut by_id = self.lock();
        if let Some(count) = by_id.get_mut(id) {
            *count = count.saturating_add(1);
            return true;
        }
        if by_id.len() >= EXECUTION_IDS_MAX {
            return false;
        }
        by_id.insert(id.into(), 1);
        true
    }

    pub(crate) fn of(&self, id: &str) -> u32 {
        self.lock().get(id).copied().unwrap_or_default()
    }

    pub(crate) fn summary(&self) -> ExecutionsSummary {
        let by_id = self.lock();
        ExecutionsSummary {
            ids: by_id.len() as u64,
            executions: by_id.values().map(|&count| u64::from(count)).sum(),
            ids_repeated: by_id.values().filter(|&&count| count > 1).count() as u64,
        }
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}
