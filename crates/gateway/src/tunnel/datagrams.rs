//! A session of datagrams: those of one client to one peer, and its answers. It is an explicit struct, as a tunnel is.
//! The client's side is the socket that all clients of an address share: `worker/datagrams` reads it and hands each
//! datagram to its session. The peer's side is a connected socket of the session's own. UDP has no end, so the counts of
//! `proxy_requests` and `proxy_responses`, or silence, end the session
//! ([ADR 69](../../../../docs/adr/0069-datagrams-of-a-client-meet-one-worker.md)).

use crate::base::close::{CloseReason, CloseSide};
use crate::base::logs::error::{ErrorLog, Level, RequestLine, errno};
use crate::registry::generation::BoundTunnel;
use crate::registry::peer_states::TunnelPeer;
use crate::thread::WorkerThread;
use crate::tunnel::record::{TunnelRecord, TunnelView};
use reactor::{BATCH_MAX, Datagrams, Listener, Micros, Millis, PeerAddress, Stream, TaskId};
use rules::pace::Pace;
use smallvec::SmallVec;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use upstream::balance::{Counted, Group, Outcome, PeerChange};

/// Memory of a session: its struct, its entries in the tables of the worker, its two places in the reactor. A test
/// compares the struct.
pub(crate) const DATAGRAM_SESSION_BYTES: usize = 512 + 256;

/// Batches read from a peer before the worker's other tasks get their turn.
const BATCHES_MAX: usize = 4;

/// Pieces of a batch, borrowed to be sent by one call.
pub(crate) type Pieces<'a> = SmallVec<[&'a [u8]; BATCH_MAX]>;

/// Who sent a datagram, and to which address of this machine if its socket has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DatagramClient {
    pub(crate) address: SocketAddr,
    pub(crate) local: Option<IpAddr>,
}

/// The limits by number of datagrams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatagramLimits {
    /// `proxy_requests`; 0 for no limit.
    pub(crate) requests: u64,
    /// `proxy_responses`; `None` for any number.
    pub(crate) responses: Option<u64>,
}

/// What a session hands over when it has a peer.
pub(crate) struct DatagramStart {
    pub(crate) listener: Arc<Listener>,
    pub(crate) client: DatagramClient,
    pub(crate) upstream: Stream,
    pub(crate) limits: DatagramLimits,
    pub(crate) plan: Arc<BoundTunnel>,
    /// The peer's group, and its index there, for the report of a failure.
    pub(crate) group: Arc<Group>,
    pub(crate) peer: usize,
    /// The peer, as generations know it.
    pub(crate) known_peer: Option<TunnelPeer>,
    pub(crate) paces: Option<Box<[Option<Pace>; 2]>>,
    pub(crate) record: Option<Box<TunnelRecord>>,
    pub(crate) _seat: Counted,
}

/// A session that has a peer.
pub(crate) struct DatagramSession {
    pub(crate) task: TaskId,
    start: DatagramStart,
    /// Datagrams of the client, and those of the peer.
    requests: u64,
    responses: u64,
    /// Bytes from the client, and from the peer.
    bytes: [u64; 2],
    /// When a datagram last went through.
    moved_at: Micros,
    /// The peer cannot be reached, or has answered too little.
    has_failed: bool,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum DatagramStep {
    /// Wait for events until this time.
    Wait(Millis),
    /// There may be more, but other tasks come first.
    Yield,
    End(DatagramEnd),
}

/// Why a session of datagrams ends.
#[derive(Debug)]
pub(crate) enum DatagramEnd {
    /// All expected answers came.
    Done,
    /// Silence, after all expected answers.
    TimedOut,
    /// Silence, and answers are missing.
    Unanswered,
    /// A datagram could not be sent to this side.
    Unsent(CloseSide, io::Error),
    /// It gave way, or an operator closed it.
    Closed(CloseReason),
}

/// What became of a client's datagrams.
#[derive(Debug, Default)]
pub(crate) struct Forwarded {
    /// How many of them belonged to this session; those behind them begin another one.
    pub(crate) taken: usize,
    /// How many of these were dropped: the rate was reached.
    pub(crate) dropped_by_rate: usize,
    /// How many were dropped because the buffer of the peer's socket was full.
    pub(crate) dropped_by_buffer: usize,
    /// Why the session ends, if it does.
    pub(crate) end: Option<DatagramEnd>,
}

impl DatagramSession {
    /// Begins with the first datagram, which goes behind a header of the PROXY protocol if there is one.
    pub(crate) fn begin(
        task: TaskId,
        start: DatagramStart,
        ahead: &[u8],
        first: &[u8],
        now: Micros,
    ) -> (Box<Self>, Option<DatagramEnd>) {
        let mut session =
            Box::new(Self { task, start, requests: 1, responses: 0, bytes: [0; 2], moved_at: now, has_failed: false });
        let first = if ahead.is_empty() { first.into() } else { std::borrow::Cow::Owned([ahead, first].concat()) };
        session.note_received(0, (first.len() - ahead.len()) as u64, now.millis());
        let sent = session.start.upstream.send_datagrams(&[&*first]);
        let end = session.ends_after(sent.error.map(|error| (CloseSide::Upstream, error)));
        (session, end)
    }

    /// The settings that it keeps.
    pub(crate) fn plan(&self) -> &BoundTunnel {
        &self.start.plan
    }

    /// Its peer; `None` for one without a number in the pool.
    pub(crate) fn peer(&self) -> Option<TunnelPeer> {
        self.start.known_peer
    }

    /// Passes datagrams of the client on.
    pub(crate) fn forward(&mut self, datagrams: &[&[u8]], now_us: Micros) -> Forwarded {
        let now = now_us.millis();
        let mut forwarded = Forwarded::default();
        let mut pieces = Pieces::new();
        for datagram in datagrams {
            if self.is_full() {
                break;
            }
            forwarded.taken += 1;
            // As in nginx, what comes faster than the rate is not read, and UDP does not send it again.
            if self.wait_of_pace(0, now).is_some() {
                forwarded.dropped_by_rate += 1;
                continue;
            }
            self.requests += 1;
            self.note_received(0, datagram.len() as u64, now);
            pieces.push(datagram);
        }
        if pieces.is_empty() {
            return forwarded;
        }
        self.moved_at = now_us;
        let sent = self.start.upstream.send_datagrams(&pieces);
        forwarded.dropped_by_buffer = pieces.len() - sent.count;
        forwarded.end = self.ends_after(sent.error.map(|error| (CloseSide::Upstream, error)));
        forwarded
    }

    /// Passes answers on as far as possible. `fired`: the deadline has passed. Also returns how many were dropped.
    pub(crate) fn step(&mut self, thread: &WorkerThread, batch: &mut Datagrams, fired: bool) -> (DatagramStep, usize) {
        let now = thread.reactor.now();
        let mut dropped = 0;
        for _ in 0..BATCHES_MAX {
            if !self.is_readable() || self.wait_of_pace(1, now).is_some() {
                return (self.wait(now, fired), dropped);
            }
            // Under a rate each datagram is followed by its time.
            let is_paced = self.start.paces.as_ref().is_some_and(|paces| paces[1].is_some());
            let most = if is_paced { 1 } else { BATCH_MAX };
            if let Err(error) = self.start.upstream.receive_datagrams(batch, most) {
                // ICMP: no program listens there. As in nginx, that counts as an answer, and the session goes on.
                self.has_failed = true;
                self.note_first_answer(now);
                self.responses += 1;
                let message = format!("recv() failed ({}) while proxying and reading from upstream", errno(&error));
                self.log(thread, Level::Error, &message);
            }
            let (failed, lost) = self.answer(batch, thread.reactor.now_us());
            dropped += lost;
            if let Some(end) = self.ends_after(failed.map(|error| (CloseSide::Client, error))) {
                return (DatagramStep::End(end), dropped);
            }
        }
        (DatagramStep::Yield, dropped)
    }

    fn is_readable(&self) -> bool {
        use reactor::{Interest, Waited as _};
        self.start.upstream.is_ready(Interest::READ)
    }

    /// Sends a batch of answers to the client; returns why that failed, and how many were dropped.
    fn answer(&mut self, batch: &Datagrams, now_us: Micros) -> (Option<io::Error>, usize) {
        let now = now_us.millis();
        if batch.is_empty() {
            return (None, 0);
        }
        self.note_first_answer(now);
        let pieces: Pieces<'_> = batch.datagrams().map(|datagram| datagram.bytes).collect();
        self.responses += pieces.len() as u64;
        self.moved_at = now_us;
        self.note_received(1, pieces.iter().map(|piece| piece.len() as u64).sum(), now);
        let DatagramStart { listener, client, .. } = &self.start;
        let sent = listener.send_datagrams(&pieces, client.address, client.local);
        (sent.error, pieces.len() - sent.count)
    }

    fn note_first_answer(&mut self, now: Millis) {
        if self.responses == 0
            && let Some(record) = &mut self.start.record
        {
            record.note_first_byte(now);
        }
    }

    fn wait(&self, now: Millis, fired: bool) -> DatagramStep {
        let due = self.due(now);
        if fired && due <= now {
            let is_answered = self.start.limits.responses.is_none_or(|each| self.has_answers(each));
            return DatagramStep::End(if is_answered { DatagramEnd::TimedOut } else { DatagramEnd::Unanswered });
        }
        DatagramStep::Wait(due)
    }

    /// When the session is to be looked at again if nothing comes: when its answers may go on, or when it ends.
    pub(crate) fn due(&self, now: Millis) -> Millis {
        match self.wait_of_pace(1, now).filter(|_| self.is_readable()) {
            // As in nginx, the time that a rate takes is no silence.
            Some(wait_ms) => Millis(now.0.saturating_add(wait_ms)),
            None => self.moved_at.millis().after(self.start.plan.idle_max),
        }
    }

    /// How long nothing may be read from a side (0: the client), if its rate was reached.
    fn wait_of_pace(&self, side: usize, now: Millis) -> Option<u64> {
        let pace = self.start.paces.as_ref()?[side]?;
        pace.room(self.bytes[side], now.0).err()
    }

    fn note_received(&mut self, side: usize, bytes: u64, now: Millis) {
        let before = self.bytes[side];
        self.bytes[side] += bytes;
        if let Some(Some(pace)) = self.start.paces.as_mut().map(|paces| &mut paces[side]) {
            pace.note(before, self.bytes[side], now.0);
        }
    }

    /// Whether the client's next datagram begins another session.
    pub(crate) fn is_full(&self) -> bool {
        let most = self.start.limits.requests;
        most > 0 && self.requests >= most
    }

    fn has_answers(&self, each: u64) -> bool {
        self.responses >= each.saturating_mul(self.requests)
    }

    /// Whether the session is over, now that datagrams went through or failed to.
    fn ends_after(&mut self, failed: Option<(CloseSide, io::Error)>) -> Option<DatagramEnd> {
        if let Some((side, error)) = failed {
            self.has_failed |= side == CloseSide::Upstream;
            return Some(DatagramEnd::Unsent(side, error));
        }
        let is_open = self.start.limits.requests > 0 && !self.is_full();
        let each = self.start.limits.responses.filter(|_| !is_open)?;
        self.has_answers(each).then_some(DatagramEnd::Done)
    }

    /// When a datagram last went through. In microseconds: a flood brings more clients than a worker may have in one
    /// millisecond, and those in use must not look like those that are not.
    pub(crate) fn moved_at(&self) -> Micros {
        self.moved_at
    }

    pub(crate) fn client(&self) -> DatagramClient {
        self.start.client
    }

    pub(crate) fn upstream(&self) -> &Stream {
        &self.start.upstream
    }

    /// Bytes from the client, and from the peer.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// When the first datagram came; `None` if nothing of the session is logged.
    pub(crate) fn accepted_at(&self) -> Option<Millis> {
        self.start.record.as_ref().map(|record| record.accepted_at)
    }

    fn log(&self, thread: &WorkerThread, level: Level, message: &str) {
        let log: &ErrorLog = self.start.plan.error_log.as_deref().unwrap_or(&thread.registry.error_log);
        if !log.wants(level) {
            return;
        }
        let text = |address: io::Result<Option<SocketAddr>>| {
            address.ok().flatten().map_or_else(|| "unix:".to_owned(), |address| address.to_string())
        };
        let server = self.start.listener.local_address().ok().flatten();
        let (server, upstream) = (server.map(|address| address.to_string()), text(self.start.upstream.peer_address()));
        let line = RequestLine {
            message,
            serial: thread.memory.serial(self.task),
            client: Some(&PeerAddress::Ip(self.start.client.address)),
            datagrams: true,
            server: server.as_deref().unwrap_or_default().as_bytes(),
            request: b"",
            subrequest: None,
            upstream: Some(upstream.as_bytes()),
            host: None,
            referrer: None,
        };
        log.request_line(thread.index, level, &line);
    }

    /// Ends the session: its lines are logged, and a failure of its peer is reported.
    pub(crate) fn end(mut self: Box<Self>, thread: &WorkerThread, end: &DatagramEnd) -> CloseReason {
        let (reason, status) = match end {
            DatagramEnd::Done | DatagramEnd::Unsent(..) => (CloseReason::TunnelEnded, 200),
            DatagramEnd::TimedOut => (CloseReason::TunnelTimeout, 200),
            DatagramEnd::Unanswered => (CloseReason::TunnelTimeout, 502),
            DatagramEnd::Closed(reason) => (*reason, 200),
        };
        match end {
            DatagramEnd::Unanswered => {
                self.has_failed = true;
                let message = "upstream timed out (110: Connection timed out) while proxying connection";
                self.log(thread, Level::Error, message);
            }
            DatagramEnd::Unsent(side, error) => {
                let to = if *side == CloseSide::Upstream { "upstream" } else { "client" };
                let message = format!("sendmsg() failed ({}) while proxying and sending to {to}", errno(error));
                self.log(thread, Level::Error, &message);
            }
            DatagramEnd::Done => self.log_counts(thread, "udp done"),
            DatagramEnd::TimedOut => self.log_counts(thread, "udp timed out"),
            DatagramEnd::Closed(_) => self.log_counts(thread, "udp session closed"),
        }
        if self.has_failed {
            let change = self.start.group.report(self.start.peer, Outcome::Failed, thread.pool_now());
            if change == PeerChange::Disabled {
                self.log(thread, Level::Warn, "upstream server temporarily disabled");
            }
        }
        if let Some(record) = &self.start.record {
            record.note_end(thread);
            let [to_upstream, to_client] = self.bytes;
            let (ended_by, status) = (CloseSide::Gateway, Some(status));
            TunnelView { thread, record, to_client, to_upstream, ended_by, status }.write_lines();
        }
        reason
    }

    /// Logs the end of a session, as nginx does at `info`.
    fn log_counts(&self, thread: &WorkerThread, what: &str) {
        let (Self { requests, responses, .. }, [received, sent]) = (self, self.bytes);
        let message = format!(
            "{what}, packets from/to client:{requests}/{responses}, bytes from/to client:{received}/{sent}, \
             bytes from/to upstream:{sent}/{received}"
        );
        self.log(thread, Level::Info, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_datagrams_is_small() {
        assert!(size_of::<DatagramSession>() <= 320, "{}", size_of::<DatagramSession>());
    }
}
