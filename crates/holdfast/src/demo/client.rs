//! The load side of the demo: a closed loop of GET requests over a fixed number of connections, in threads of its own. It is
//! no load generator: a slow answer delays the next request, so its latencies compare arms and say nothing about a load
//! that does not wait. Called by `measure`.

use hdrhistogram::Histogram;
use http1::{Limits, Parse, RequestKind, ResponseFraming, ResponseHead, ResponseKind};
use reactor::{ConnectOptions, Millis, PeerAddress, Reactor, Read, Ready, Stream, TaskId};
use serde::Serialize;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A response that takes longer is a failure: on loopback everything is over within milliseconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// After a failure a connection rests for so long, or a server that refuses would make the loop spin.
const FAULT_PAUSE: Duration = Duration::from_millis(20);
/// Between two looks at the phase when nothing happens on the sockets.
const LOOK_PERIOD_MS: u64 = 20;
/// Longest response head; the origin's and the gateway's have some 200 bytes.
const HEAD_BYTES_MAX: usize = 4096;
/// Bytes per read: more than a response of the demo.
const READ_BYTES: usize = 16 * 1024;
/// Longest latency that the histogram tells apart, in microseconds: beyond the timeout there is none.
const LATENCY_US_MAX: u64 = 10_000_000;
/// Digits of a latency that are exact.
const LATENCY_DIGITS: u8 = 3;

/// What the load is for at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Not counted yet.
    WarmUp,
    /// Requests that end now are counted.
    Measured,
    /// Not counted any more, while others look at the sockets of a load that goes on.
    Watched,
    /// No new requests.
    Ending,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Connect,
    Reset,
    Closed,
    TimedOut,
    Status,
    Malformed,
}

/// Failed requests by reason, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Faults {
    /// The connection could not be opened.
    pub(super) connect: u64,
    /// It broke.
    pub(super) reset: u64,
    /// It was closed before the response was complete.
    pub(super) closed: u64,
    /// The response took more than five seconds.
    pub(super) timed_out: u64,
    /// The status was not 200.
    pub(super) status: u64,
    /// The response was not valid HTTP, or not what the origin sends.
    pub(super) malformed: u64,
}

impl Faults {
    fn count(&mut self, fault: Fault) {
        *match fault {
            Fault::Connect => &mut self.connect,
            Fault::Reset => &mut self.reset,
            Fault::Closed => &mut self.closed,
            Fault::TimedOut => &mut self.timed_out,
            Fault::Status => &mut self.status,
            Fault::Malformed => &mut self.malformed,
        } += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.reset += other.reset;
        self.closed += other.closed;
        self.timed_out += other.timed_out;
        self.status += other.status;
        self.malformed += other.malformed;
    }

    pub(super) fn sum(&self) -> u64 {
        self.connect + self.reset + self.closed + self.timed_out + self.status + self.malformed
    }
}

/// What a load did.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// Requests completed in the measured phase.
    pub(super) measured: u64,
    /// Sum of their latencies in nanoseconds.
    pub(super) latency_ns_sum: u128,
    /// The same by microseconds. A request begins with the opening of its connection, if it has one of its own, and ends
    /// with its response or, on such a connection, with the server's close: as in `ab`.
    pub(super) latency_us: Histogram<u64>,
    /// Requests completed in all phases.
    pub(super) requests: u64,
    /// Connections opened in all phases.
    pub(super) opened: u64,
    pub(super) faults: Faults,
}

impl Tally {
    fn new() -> io::Result<Self> {
        let latency_us = Histogram::new_with_max(LATENCY_US_MAX, LATENCY_DIGITS).map_err(io::Error::other)?;
        let faults = Faults::default();
        Ok(Self { measured: 0, latency_ns_sum: 0, latency_us, requests: 0, opened: 0, faults })
    }

    fn completed(&mut self, begun: Instant, phase: u8) {
        self.requests += 1;
        if phase == Phase::Measured as u8 {
            let latency = begun.elapsed();
            self.measured += 1;
            self.latency_ns_sum += latency.as_nanos();
            self.latency_us.saturating_record(latency.as_micros() as u64);
        }
    }

    fn add(&mut self, other: &Self) {
        self.measured += other.measured;
        self.latency_ns_sum += other.latency_ns_sum;
        // Both have the same bounds, which is all that could fail.
        let _ = self.latency_us.add(&other.latency_us);
        self.requests += other.requests;
        self.opened += other.opened;
        self.faults.add(&other.faults);
    }
}

/// Whom to load and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) keepalive: bool,
    pub(super) connections: u32,
    pub(super) threads: usize,
}

/// A load that runs. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Load {
    phase: Arc<AtomicU8>,
    threads: Vec<JoinHandle<io::Result<Tally>>>,
}

impl Load {
    /// Starts the threads in the phase of warming up.
    pub(super) fn start(target: Target) -> io::Result<Self> {
        let mut load = Self { phase: Arc::new(AtomicU8::new(Phase::WarmUp as u8)), threads: Vec::new() };
        for index in 0..target.threads {
            let phase = Arc::clone(&load.phase);
            let share = target.connections as usize / target.threads;
            let rest = usize::from(index < target.connections as usize % target.threads);
            let work = move || Worker::new(target, phase, share + rest)?.run();
            load.threads.push(std::thread::Builder::new().name(format!("client-{index}")).spawn(work)?);
        }
        Ok(load)
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Lets the requests under way finish.
    pub(super) fn end(mut self) -> io::Result<Tally> {
        self.enter(Phase::Ending);
        let mut all = Tally::new()?;
        for thread in self.threads.drain(..) {
            let tally = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the client panicked")))?;
            all.add(&tally);
        }
        Ok(all)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.enter(Phase::Ending);
        for thread in self.threads.drain(..) {
            // Nobody is left to be told.
            let _ = thread.join();
        }
    }
}

/// How far a response has come.
#[derive(Debug)]
enum Progress {
    /// What there is of the head.
    Head(Vec<u8>),
    /// Bytes of the body that are missing.
    Body { left: u64, keepalive: bool },
    /// The end of the connection is the end of the response.
    UntilClose,
}

impl Progress {
    /// Takes what was received.
    fn take(&mut self, mut bytes: &[u8], codec: &mut Codec) -> Result<(), Fault> {
        if let Self::Head(held) = self {
            let copied;
            let given = if held.is_empty() {
                bytes
            } else {
                held.extend_from_slice(bytes);
                copied = std::mem::take(held);
                &copied
            };
            let parsed = http1::response::parse(given, &codec.limits, RequestKind::Other, &mut codec.head);
            let Parse::Complete { len } = parsed.map_err(|_| Fault::Malformed)? else {
                // Bounded: the parser refuses what is longer than a head may be.
                *held = given.to_vec();
                return Ok(());
            };
            let body = given.len().saturating_sub(len);
            bytes = bytes.get(bytes.len().saturating_sub(body)..).unwrap_or_default();
            *self = Self::after_head(&codec.head)?;
        }
        if let Self::Body { left, .. } = self {
            *left = left.checked_sub(bytes.len() as u64).ok_or(Fault::Malformed)?;
        }
        Ok(())
    }

    fn after_head(head: &ResponseHead) -> Result<Self, Fault> {
        if head.kind != ResponseKind::Final || head.status != 200 {
            return Err(Fault::Status);
        }
        match head.framing {
            ResponseFraming::Length(left) => Ok(Self::Body { left, keepalive: head.keepalive }),
            ResponseFraming::UntilClose => Ok(Self::UntilClose),
            // The page is sent with its length, and the gateway passes that on.
            ResponseFraming::None | ResponseFraming::Chunked => Err(Fault::Malformed),
        }
    }
}

/// What parsing needs, recycled.
#[derive(Debug)]
struct Codec {
    head: ResponseHead,
    limits: Limits,
}

/// One of the connections that a load consists of.
#[derive(Debug)]
enum Flow {
    /// Not connected.
    Resting,
    Connecting {
        stream: Stream,
        begun: Instant,
    },
    Exchanging {
        stream: Stream,
        begun: Instant,
        progress: Progress,
    },
    /// The load ends, and this one is done.
    Over,
}

/// A thread of the load.
#[derive(Debug)]
struct Worker {
    reactor: Rc<Reactor>,
    address: PeerAddress,
    keepalive: bool,
    request: Vec<u8>,
    phase: Arc<AtomicU8>,
    codec: Codec,
    tally: Tally,
    /// By index of task.
    flows: Vec<Flow>,
    tasks: Vec<TaskId>,
}

impl Worker {
    fn new(target: Target, phase: Arc<AtomicU8>, connections: usize) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let tasks: Vec<TaskId> = (0..connections).map(|_| reactor.create_task()).collect();
        let option = if target.keepalive { "" } else { "Connection: close\r\n" };
        Ok(Self {
            reactor,
            address: target.address.into(),
            keepalive: target.keepalive,
            request: format!("GET / HTTP/1.1\r\nHost: {}\r\n{option}\r\n", target.address).into_bytes(),
            phase,
            codec: Codec { head: ResponseHead::default(), limits: Limits::response(HEAD_BYTES_MAX) },
            tally: Tally::new()?,
            flows: tasks.iter().map(|_| Flow::Resting).collect(),
            tasks,
        })
    }

    fn run(mut self) -> io::Result<Tally> {
        self.tasks.iter().for_each(|task| self.reactor.wake(*task));
        let mut until: Option<Millis> = None;
        loop {
            self.reactor.turn(Some(LOOK_PERIOD_MS))?;
            while let Some(ready) = self.reactor.next_ready() {
                if let Ready::Task(task) = ready {
                    self.drive(task);
                }
            }
            if self.is_ending() {
                // No request under way lasts longer than that; if one does, it is cut short.
                let until = *until.get_or_insert_with(|| self.reactor.now().after(RESPONSE_TIMEOUT));
                let busy = |flow: &Flow| matches!(flow, Flow::Connecting { .. } | Flow::Exchanging { .. });
                if !self.flows.iter().any(busy) || self.reactor.now() >= until {
                    return Ok(self.tally);
                }
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Ending as u8
    }

    fn drive(&mut self, task: TaskId) {
        let Some(place) = self.flows.get_mut(task.index as usize) else { return };
        let flow = std::mem::replace(place, Flow::Resting);
        let timed_out = self.reactor.take_deadline_fired(task);
        let next = match flow {
            Flow::Over => Ok(Flow::Over),
            Flow::Resting => self.open(task),
            Flow::Connecting { .. } | Flow::Exchanging { .. } if timed_out => Err(Fault::TimedOut),
            Flow::Connecting { stream, begun } => self.connected(task, stream, begun),
            Flow::Exchanging { stream, begun, progress } => self.receive(task, stream, begun, progress),
        };
        let flow = next.unwrap_or_else(|fault| {
            self.tally.faults.count(fault);
            self.reactor.set_deadline(task, Some(self.reactor.now().after(FAULT_PAUSE)));
            Flow::Resting
        });
        if let Some(place) = self.flows.get_mut(task.index as usize) {
            *place = flow;
        }
    }

    fn open(&mut self, task: TaskId) -> Result<Flow, Fault> {
        if self.is_ending() {
            return Ok(Flow::Over);
        }
        let begun = Instant::now();
        self.reactor.set_deadline(task, Some(self.reactor.now().after(RESPONSE_TIMEOUT)));
        self.tally.opened += 1;
        let stream = self.reactor.connect(&self.address, &ConnectOptions::default(), task);
        self.connected(task, stream.map_err(|_| Fault::Connect)?, begun)
    }

    fn connected(&mut self, task: TaskId, stream: Stream, begun: Instant) -> Result<Flow, Fault> {
        if !stream.is_writable() && !stream.is_failed() {
            return Ok(Flow::Connecting { stream, begun });
        }
        match stream.take_error() {
            Ok(None) => self.send(task, stream, begun),
            Ok(Some(_)) | Err(_) => Err(Fault::Connect),
        }
    }

    fn send(&mut self, task: TaskId, stream: Stream, begun: Instant) -> Result<Flow, Fault> {
        self.reactor.set_deadline(task, Some(self.reactor.now().after(RESPONSE_TIMEOUT)));
        // Smaller than any send buffer, and nothing else is in it.
        match stream.write(&[IoSlice::new(&self.request)], false) {
            Ok(sent) if sent == self.request.len() => {
                Ok(Flow::Exchanging { stream, begun, progress: Progress::Head(Vec::new()) })
            }
            Ok(_) | Err(_) => Err(Fault::Reset),
        }
    }

    fn receive(&mut self, task: TaskId, stream: Stream, begun: Instant, mut progress: Progress) -> Result<Flow, Fault> {
        loop {
            let codec = &mut self.codec;
            match stream.read_with(READ_BYTES, |bytes| progress.take(bytes, codec)) {
                Ok(Read::Data(taken)) => taken?,
                Ok(Read::NotReady) => return Ok(Flow::Exchanging { stream, begun, progress }),
                Ok(Read::Closed) => {
                    let complete = matches!(progress, Progress::UntilClose | Progress::Body { left: 0, .. });
                    drop(stream);
                    if !complete {
                        return Err(Fault::Closed);
                    }
                    self.completed(begun);
                    return self.open(task);
                }
                Err(_) => return Err(Fault::Reset),
            }
            // Any other connection ends with the server's close, which `ab` waits for, too. So it is the server that has
            // the socket in TIME_WAIT, and the client does not run out of ports.
            if self.keepalive && matches!(progress, Progress::Body { left: 0, keepalive: true }) {
                self.completed(begun);
                if self.is_ending() {
                    return Ok(Flow::Over);
                }
                return self.send(task, stream, Instant::now());
            }
        }
    }

    fn completed(&mut self, begun: Instant) {
        self.tally.completed(begun, self.phase.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use origin::{Closing, Options, Origin, Running};

    fn origin(options: Options) -> Running {
        Origin::bind(options).and_then(Origin::start).expect("an origin on a free port")
    }

    /// Loads until the origin has had `requests`.
    fn load(origin: &Running, keepalive: bool, requests: u64) -> Tally {
        let target = Target { address: origin.address(), keepalive, connections: 3, threads: 2 };
        let load = Load::start(target).expect("threads start");
        load.enter(Phase::Measured);
        let deadline = Instant::now() + Duration::from_secs(20);
        while origin.counts().requests < requests {
            assert!(Instant::now() < deadline, "{:?}", origin.counts());
            std::thread::yield_now();
        }
        load.end().expect("the threads end")
    }

    #[test]
    fn a_connection_per_request() {
        let origin = origin(Options::default());
        let tally = load(&origin, false, 100);
        assert_eq!(tally.faults, Faults::default());
        assert!(tally.requests >= 100 && tally.opened == tally.requests, "{tally:?}");
        assert_eq!(tally.latency_us.len(), tally.measured);
    }

    #[test]
    fn connections_are_kept() {
        let origin = origin(Options::default());
        let tally = load(&origin, true, 100);
        assert_eq!((tally.faults, tally.opened), (Faults::default(), 3));
    }

    #[test]
    fn a_close_that_is_announced_is_no_fault() {
        let closing = Closing { after_requests: Some(10), ..Closing::default() };
        let origin = origin(Options { closing, ..Options::default() });
        let tally = load(&origin, true, 100);
        assert_eq!(tally.faults, Faults::default());
        assert!(tally.opened >= 10, "{tally:?}");
    }

    #[test]
    fn a_reset_is_a_fault() {
        let origin = origin(Options { reset_at_accept: true, ..Options::default() });
        let target = Target { address: origin.address(), keepalive: true, connections: 1, threads: 1 };
        let load = Load::start(target).expect("a thread starts");
        let deadline = Instant::now() + Duration::from_secs(20);
        while origin.counts().connections_accepted < 3 {
            assert!(Instant::now() < deadline, "{:?}", origin.counts());
            std::thread::yield_now();
        }
        let tally = load.end().expect("the thread ends");
        assert!(tally.faults.sum() >= 2 && tally.requests == 0, "{tally:?}");
    }

    #[test]
    fn a_response_may_come_in_pieces() {
        let mut codec = Codec { head: ResponseHead::default(), limits: Limits::response(HEAD_BYTES_MAX) };
        let mut progress = Progress::Head(Vec::new());
        for piece in ["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 5\r\n", "\r\nab", "cde"] {
            assert!(!matches!(progress, Progress::Body { left: 0, .. }));
            progress.take(piece.as_bytes(), &mut codec).expect("it is valid");
        }
        assert!(matches!(progress, Progress::Body { left: 0, keepalive: true }));
        assert_eq!(progress.take(b"x", &mut codec), Err(Fault::Malformed));
    }
}
