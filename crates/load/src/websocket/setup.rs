//! Data that all threads of a run share: the address and the handshake, prepared once before the first socket; and the few
//! counters that all processes share.

use super::options::WebSocketOptions;
use crate::options::Target;
use crate::places::NO_ADDRESS;
use crate::plan::{Limits, Plan};
use crate::setup::{Addresses, StartError, check_sources, refuse_unless_met, ways};
use crate::tls::Side;
use http1::encode::encode_field;
use reactor::{ConnectOptions, PeerAddress, SharedCounters, Stream};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use transport::Transport;

/// Longest response head of a handshake: twice nginx's default for upstreams or more.
const HEAD_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct WebSocketSetup {
    pub(super) options: WebSocketOptions,
    pub(super) address: SocketAddr,
    pub(super) peer: PeerAddress,
    pub(super) ways: Vec<ConnectOptions>,
    pub(super) plan: Plan,
    /// Additional header lines of the handshake.
    pub(super) lines: Vec<u8>,
    /// Subprotocols that the handshake offers.
    pub(super) protocols: Vec<Vec<u8>>,
    pub(super) limits: http1::Limits,
    /// Distinguishes this run's messages from those of other runs.
    pub(super) run: u32,
    /// Counters that workers of all processes read and write during the run; the constants below are their indices.
    counters: SharedCounters,
    pub(super) hold_begins_ns: u64,
    pub(super) hold_ends_ns: u64,
    tls: Option<Side>,
}

/// Number of open connections of all workers.
const OPEN: usize = 0;
/// The largest value of `OPEN`.
const OPEN_MOST: usize = 1;
/// Number of workers that have sent their last message.
const SILENT: usize = 2;
/// From this index on: messages sent to each room.
const SENT: usize = 3;

/// The values that one process passes to the others of the run.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) address: SocketAddr,
    pub(super) run: u32,
    pub(super) counters: &'a Path,
}

impl WebSocketSetup {
    /// Resolves the name and makes the plan, or takes the values from another process of the run.
    pub(super) fn new(options: WebSocketOptions, known: Option<&Known<'_>>) -> Result<Self, StartError> {
        options.check().map_err(|error| StartError::WebSocket(error.to_string()))?;
        let address = if let Some(known) = known {
            known.address
        } else if options.places.unix.is_some() {
            refuse_unless_met(options.plan, &plan(&options, NO_ADDRESS))?;
            NO_ADDRESS
        } else {
            let addresses = Addresses::resolve(&options.places, &options.url.host, options.url.port)?;
            refuse_unless_met(options.plan, &plan(&options, addresses.first))?;
            addresses.choose()
        };
        let plan = plan(&options, address);
        check_sources(&options.sources)?;
        let count = SENT + options.rooms.unwrap_or(0) as usize;
        let counters = match known {
            Some(known) => SharedCounters::open(known.counters, count),
            None => SharedCounters::new(count),
        };
        let counters = counters.map_err(StartError::Counters)?;
        let (mut lines, mut protocols) = (Vec::new(), Vec::new());
        for (name, value) in &options.fields {
            encode_field(name.as_bytes(), value.as_bytes(), &mut lines);
            if name.eq_ignore_ascii_case("sec-websocket-protocol") {
                protocols.extend(value.split(',').map(|name| name.trim().as_bytes().to_vec()));
            }
        }
        let protocols_of_tls: &[&str] = match (options.url.bare, options.is_http2()) {
            (true, _) => &[],
            (false, true) => &["h2"],
            (false, false) => &["http/1.1"],
        };
        let tls =
            if options.url.tls { Some(Side::new(&options.tls, protocols_of_tls, [name(&options)])?) } else { None };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let hold_begins_ns = ns(options.ramp_time());
        Ok(Self {
            address,
            peer: options.places.peer(address),
            ways: ways(&options.sources, address),
            plan,
            lines,
            protocols,
            limits: http1::Limits::response(HEAD_BYTES_MAX),
            run: known.map_or_else(|| fastrand::u32(..), |known| known.run),
            counters,
            hold_begins_ns,
            hold_ends_ns: hold_begins_ns.saturating_add(ns(options.hold)),
            tls,
            options,
        })
    }

    /// A connection, under TLS if the URL requires it.
    pub(super) fn transport(&self, stream: Stream) -> Transport {
        match &self.tls {
            Some(side) => side.wrap(stream, name(&self.options)),
            None => Transport::plain(stream),
        }
    }

    /// The file through which other processes map the counters.
    pub(super) fn counters_path(&self) -> PathBuf {
        self.counters.path()
    }

    /// The connect options of the n-th connection.
    pub(super) fn way(&self, number: usize) -> Option<&ConnectOptions> {
        self.ways.get(number % self.ways.len().max(1))
    }

    /// The room of the n-th connection; without rooms its own number.
    pub(super) fn room(&self, number: usize) -> u32 {
        self.options.rooms.map_or(number as u32, |rooms| (number % rooms.max(1) as usize) as u32)
    }

    /// Counts a connection as open.
    pub(super) fn opened(&self) {
        let open = self.counter(OPEN).fetch_add(1, Ordering::Relaxed) + 1;
        self.counter(OPEN_MOST).fetch_max(open, Ordering::Relaxed);
    }

    /// Counts an open connection as ended.
    pub(super) fn ended(&self) {
        self.counter(OPEN).fetch_sub(1, Ordering::Relaxed);
    }

    /// The largest number of connections that were open at one time.
    pub(super) fn open_most(&self) -> u64 {
        u64::from(self.counter(OPEN_MOST).load(Ordering::Relaxed))
    }

    /// Marks a worker as having sent its last message.
    pub(super) fn falls_silent(&self) {
        self.counter(SILENT).fetch_add(1, Ordering::AcqRel);
    }

    /// Whether all workers have sent their last message.
    pub(super) fn are_silent(&self, workers: usize) -> bool {
        self.counter(SILENT).load(Ordering::Acquire) as usize >= workers
    }

    /// Number of messages sent to a room so far; `None` without rooms.
    pub(super) fn sent(&self, room: u32) -> Option<u32> {
        self.sent_to(room).map(|sent| sent.load(Ordering::Relaxed))
    }

    /// The number of the next message to a room, from 1.
    pub(super) fn next_number(&self, room: u32) -> Option<u32> {
        self.sent_to(room).map(|sent| sent.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    fn sent_to(&self, room: u32) -> Option<&AtomicU32> {
        self.options.rooms?;
        self.counters.get(SENT + room as usize)
    }

    fn counter(&self, index: usize) -> &AtomicU32 {
        self.counters.get(index).expect("the list was made with these")
    }

    /// Fills the numbers of room and connection into a text.
    pub(super) fn fill(&self, text: &str, number: usize) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        text.replace("{{room}}", &self.room(number).to_string()).replace("{{connection}}", &number.to_string())
    }
}

/// The name that TLS requests and verifies.
fn name(options: &WebSocketOptions) -> &str {
    options.tls.name.as_deref().unwrap_or(&options.url.host)
}

/// The same computation as for HTTP, since the connections need the same resources.
fn plan(options: &WebSocketOptions, address: SocketAddr) -> Plan {
    let like = crate::Options {
        connections: options.connections,
        threads: options.threads,
        processes: options.processes,
        sources: options.sources.clone(),
        ..crate::Options::new(Target::new(options.url.clone()))
    };
    let addresses: &[SocketAddr] = if options.places.unix.is_some() { &[] } else { &[address] };
    Plan::new(&like, addresses, &Limits::read())
}
