//! Bytes in both directions after 101. It knows no HTTP: two ends, two spills, a timeout, and pings if wanted. A tunnel
//! is an explicit struct, not a future: most tunnels are silent most of the time, and a million of them cost a million
//! times its size.

pub(crate) mod datagrams;
pub(crate) mod end;
pub(crate) mod handed_over;
pub(crate) mod heartbeat;
pub(crate) mod leaving;
mod passage;
pub(crate) mod record;

use crate::base::buffer::{RareSpill, Spill};
use crate::base::close::{CloseReason, CloseSide};
use crate::base::logs::error::ErrorLog;
use crate::base::read_size::ReadSize;
use crate::plan::tunnel::TunnelKind;
use crate::registry::generation::BoundTunnel;
use crate::registry::peer_states::TunnelPeer;
use crate::registry::pool::Bound;
use crate::tunnel::end::{ClientEnd, End};
use crate::tunnel::heartbeat::Heartbeat;
use crate::tunnel::leaving::Leaving;
use crate::tunnel::passage::Passage;
use crate::tunnel::record::TunnelRecord;
use reactor::{Millis, PeerAddress, Read, SCRATCH_BYTES, TaskId};
use rules::pace::Pace;
use std::io;
use transport::Transport;
use upstream::balance::Counted;
use websocket::Boundary;

/// Bytes read from one side before the worker's other tunnels get their turn: copying them takes about 100 µs, and with a
/// thousand busy tunnels none waits longer than a thousand such turns.
pub(crate) const TURN_BYTES_MAX: usize = SCRATCH_BYTES;

/// How far a direction has come to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Flow {
    #[default]
    Open,
    /// The source has sent FIN.
    Ended,
    /// The FIN was passed on.
    Closed,
}

/// A tunnel. A million of them cost a million times its size: what few tunnels need is in `extras`.
pub(crate) struct Tunnel {
    pub(crate) downstream: ClientEnd,
    upstream: Bound,
    pub(crate) task: TaskId,
    /// What is logged and released when it ends; `None` if nothing is.
    record: Option<Box<TunnelRecord>>,
    /// Bytes that went from the client to the upstream, and from the upstream to the client.
    bytes: [u64; 2],
    /// When bytes or a FIN last went through.
    moved_at: Millis,
    /// What few tunnels need at a time.
    extras: Option<Box<Extras>>,
    /// A tunnel counts for `max_conns` and `least_conn` as long as it exists.
    seat: Counted,
    /// The states of the directions.
    flows: [Flow; 2],
    /// The end that closed first; `None` while neither has.
    ended_by: Option<CloseSide>,
    /// It is a WebSocket, and its frames are followed.
    has_frames: bool,
    /// How much the directions read at once.
    sizes: [ReadSize; 2],
}

/// What a tunnel has only while a frame is unfinished, while bytes wait, if it has a rate limit, if it is pinged, or while it is
/// drained.
#[derive(Debug, Default)]
struct Extras {
    /// The frame position in the bytes that the client and the upstream send. Without extras both are between two frames.
    sent: [Boundary; 2],
    /// Bytes that wait for the upstream, and for the client. A step takes them out while it moves bytes.
    spills: [RareSpill; 2],
    /// Rate limits, if any: of the client's bytes, and of the upstream's.
    paces: Option<Box<[Option<Pace>; 2]>>,
    /// Present if pings are wanted and possible.
    heartbeat: Option<Heartbeat>,
    /// Present if it is drained.
    leaving: Option<Box<Leaving>>,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TunnelStep {
    /// Wait for events until this time.
    Wait(Millis),
    /// There is more to do, but other tasks come first.
    Yield,
    /// The tunnel has ended.
    End(CloseReason),
}

/// A tunnel as shown to an operator.
pub(crate) struct SeenTunnel<'a> {
    /// Time since the client's connection was accepted; `None` if nothing of the tunnel is logged.
    pub(crate) age_ms: Option<u64>,
    /// Time since bytes or a FIN last went through.
    pub(crate) idle_ms: u64,
    pub(crate) from_client_bytes: u64,
    pub(crate) to_client_bytes: u64,
    pub(crate) upstream: &'a Transport,
    /// Server and location.
    pub(crate) route: Option<&'a str>,
}

/// What the exchange hands over to start a tunnel.
pub(crate) struct TunnelStart {
    pub(crate) upstream: Bound,
    /// Bytes for the upstream before everything that the client sends.
    pub(crate) ahead: Vec<u8>,
    /// Bytes that the upstream sent after its 101.
    pub(crate) early: Vec<u8>,
    /// It is a WebSocket with frames that start at a known position.
    pub(crate) has_frames: bool,
    pub(crate) paces: Option<Box<[Option<Pace>; 2]>>,
    pub(crate) record: Option<Box<TunnelRecord>>,
    pub(crate) seat: Counted,
}

impl Tunnel {
    /// Joins two connections. `unsent` is the part of the 101 that the client's socket has not accepted; `pending` is
    /// what the client has already sent. The error returns the task.
    pub(crate) fn start(
        downstream: ClientEnd,
        task: TaskId,
        start: TunnelStart,
        unsent: Spill,
        pending: &[u8],
        now: Millis,
    ) -> Result<Self, (TaskId, io::Error)> {
        let TunnelStart { upstream, ahead, early, has_frames, paces, record, seat } = start;
        let heartbeat = upstream.plan().ping.filter(|_| has_frames).map(|_| Heartbeat::new(now));
        let mut tunnel = Self {
            downstream,
            upstream,
            task,
            record,
            bytes: [0; 2],
            moved_at: now,
            extras: None,
            seat,
            flows: [Flow::default(); 2],
            ended_by: None,
            has_frames,
            sizes: [ReadSize::default(); 2],
        };
        tunnel.set_extras(Extras {
            spills: [RareSpill::default(), RareSpill::new(unsent)],
            paces,
            heartbeat,
            ..Extras::default()
        });
        match tunnel.preload(&ahead, pending, &early) {
            Ok(()) => Ok(tunnel),
            Err(error) => Err((task, error)),
        }
    }

    /// Writes first our own bytes, and those read from the client and the upstream before the tunnel began.
    fn preload(&mut self, ahead: &[u8], from_client: &[u8], from_upstream: &[u8]) -> io::Result<()> {
        let (mut sent, [mut up, mut down]) = self.take_moving();
        if self.has_frames {
            sent[0].advance(from_client);
            sent[1].advance(from_upstream);
        }
        self.bytes = [from_client.len() as u64, from_upstream.len() as u64];
        if !(ahead.is_empty() && from_client.is_empty()) {
            up.with(|spill| spill.write(&self.upstream, &[ahead, from_client]))?;
        }
        self.downstream.borrowed().write(&mut down, from_upstream)?;
        self.keep_moving(sent, [up, down]);
        Ok(())
    }

    /// The tunnel as shown to an operator.
    pub(crate) fn seen(&self, now: Millis) -> SeenTunnel<'_> {
        let [from_client_bytes, to_client_bytes] = self.bytes;
        SeenTunnel {
            age_ms: self.record.as_ref().map(|record| now.since(record.accepted_at)),
            idle_ms: now.since(self.moved_at),
            from_client_bytes,
            to_client_bytes,
            upstream: &self.upstream,
            route: self.plan().route.as_deref(),
        }
    }

    /// Whether a side has left, and the next step finds that. A FIN behind bytes that the other side does not accept is found
    /// later; until then the tunnel goes on.
    pub(crate) fn is_left(&self) -> bool {
        let (client, upstream) = (self.downstream.borrowed(), End::Socket(&self.upstream));
        let empty = RareSpill::default();
        [[client, upstream], [upstream, client]].into_iter().enumerate().any(|(index, [from, to])| {
            let spill = self.extras.as_ref().map_or(&empty, |extras| &extras.spills[index]);
            self.flows[index] == Flow::Open && (from.is_failed() || (from.is_peer_closed() && to.is_free(spill)))
        })
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let extras = self.extras.as_ref().map_or(0, |extras| size_of::<Extras>() + extras.held_bytes());
        self.downstream.borrowed().held_bytes() + self.upstream.held_bytes() + extras
    }

    /// Where the frames of both ends are.
    fn positions(&self) -> [Boundary; 2] {
        self.extras.as_ref().map(|extras| extras.sent).unwrap_or_default()
    }

    /// Takes out what moving bytes changes: the positions of the frames, and the bytes that wait.
    fn take_moving(&mut self) -> ([Boundary; 2], [RareSpill; 2]) {
        let Some(extras) = &mut self.extras else { return Default::default() };
        (extras.sent, std::mem::take(&mut extras.spills))
    }

    /// Puts it back. A silent tunnel is between two frames, has no bytes that wait, and needs no memory for that.
    fn keep_moving(&mut self, sent: [Boundary; 2], spills: [RareSpill; 2]) {
        match &mut self.extras {
            Some(extras) => {
                (extras.sent, extras.spills) = (sent, spills);
                if extras.is_empty() {
                    self.extras = None;
                }
            }
            None => self.set_extras(Extras { sent, spills, ..Extras::default() }),
        }
    }

    fn set_extras(&mut self, extras: Extras) {
        self.extras = (!extras.is_empty()).then(|| Box::new(extras));
    }

    /// Moves bytes as far as possible. `fired`: the deadline has passed; `most`: bytes that memory allows each direction to
    /// hold now.
    fn relay(&mut self, now: Millis, fired: bool, most: usize) -> TunnelStep {
        let rooms = self.rooms(now);
        let before = self.bytes;
        let (mut sent, mut spills) = self.take_moving();
        let (upwards, downwards) = self.pump_both(&mut sent, &mut spills, most, rooms);
        if before[1] == 0 && self.bytes[1] > 0 {
            self.note_first_byte(now);
        }
        let (Ok(mut upwards), Ok(mut downwards)) = (upwards, downwards) else {
            return TunnelStep::End(CloseReason::TunnelEnded);
        };
        let Ok((is_over, passed)) = self.pass_ends(&spills) else {
            return TunnelStep::End(CloseReason::TunnelEnded);
        };
        self.keep_moving(sent, spills);
        if is_over {
            return TunnelStep::End(CloseReason::TunnelEnded);
        }
        upwards.moved |= passed[0];
        downwards.moved |= passed[1];
        let paused = self.note_paces(before, now);
        if upwards.more || downwards.more {
            return TunnelStep::Yield;
        }
        if upwards.moved || downwards.moved {
            self.moved_at = now;
        }
        // Only bytes count: an event without bytes, such as room in a socket, must not prolong a silent tunnel.
        let deadline = self.moved_at.after(self.plan().idle_max);
        if fired && deadline <= now {
            return TunnelStep::End(CloseReason::TunnelTimeout);
        }
        match self.extras.as_deref() {
            Some(Extras { heartbeat: Some(_), leaving: None, .. }) => self.beat(now, before, deadline),
            _ => TunnelStep::Wait(paused.map_or(deadline, |until| until.min(deadline))),
        }
    }

    /// Moves bytes in both directions, and notes which end was the first to close.
    fn pump_both(
        &mut self,
        sent: &mut [Boundary; 2],
        [spill_up, spill_down]: &mut [RareSpill; 2],
        most: usize,
        rooms: [Option<u64>; 2],
    ) -> (io::Result<Pumped>, io::Result<Pumped>) {
        let (client, upstream) = (self.downstream.borrowed(), End::Socket(&self.upstream));
        let (first, [size_up, size_down]) = (self.plan().buffer_bytes, &mut self.sizes);
        let ([bytes_up, bytes_down], flows) = (&mut self.bytes, &mut self.flows);
        let leaving = self.extras.as_mut().and_then(|extras| extras.leaving.as_deref_mut());
        let [close_up, close_down] = leaving.map_or([None, None], Leaving::closes);
        let [place_up, place_down] = sent.each_mut().map(|place| self.has_frames.then_some(place));
        let passage = Passage { place: place_up, close: close_up };
        let up = Direction { spill: spill_up, bytes: bytes_up, flow: &mut flows[0], size: size_up, first, most };
        let upwards = up.pump([client, upstream], rooms[0], passage);
        if self.ended_by.is_none() && (flows[0] != Flow::Open || client.is_failed()) {
            self.ended_by = Some(CloseSide::Client);
        }
        let passage = Passage { place: place_down, close: close_down };
        let down =
            Direction { spill: spill_down, bytes: bytes_down, flow: &mut flows[1], size: size_down, first, most };
        let downwards = down.pump([upstream, client], rooms[1], passage);
        if self.ended_by.is_none() && (flows[1] != Flow::Open || upstream.is_failed()) {
            self.ended_by = Some(CloseSide::Upstream);
        }
        (upwards, downwards)
    }

    /// Passes on the ends that have no bytes before them any more. Returns whether the tunnel is over, and which
    /// directions have ended now. Closing a finished tunnel sends the FIN, so no further call is needed.
    fn pass_ends(&mut self, spills: &[RareSpill; 2]) -> io::Result<(bool, [bool; 2])> {
        let targets = [End::Socket(&self.upstream), self.downstream.borrowed()];
        let is_due = |index: usize| self.flows[index] == Flow::Ended && targets[index].is_free(&spills[index]);
        let due = [is_due(0), is_due(1)];
        if due == [false; 2] {
            return Ok((false, due));
        }
        let mut flows = self.flows;
        for (flow, _) in flows.iter_mut().zip(due).filter(|(_, is_due)| *is_due) {
            *flow = Flow::Closed;
        }
        let is_over = match self.plan().kind {
            TunnelKind::Upgraded | TunnelKind::Session { half_close: true } => flows == [Flow::Closed; 2],
            // Bytes received before an end are passed on first.
            TunnelKind::Session { half_close: false } => !flows.contains(&Flow::Ended),
        };
        for (target, _) in targets.into_iter().zip(due).filter(|(_, is_due)| *is_due && !is_over) {
            target.shutdown_write()?;
        }
        self.flows = flows;
        Ok((is_over, due))
    }

    fn paces(&self) -> Option<&[Option<Pace>; 2]> {
        self.extras.as_ref()?.paces.as_deref()
    }

    /// Bytes that may be read from each side now, if limited.
    fn rooms(&self, now: Millis) -> [Option<u64>; 2] {
        let Some(paces) = self.paces() else { return [None; 2] };
        let room = |end: usize| paces[end].map(|pace| pace.room(self.bytes[end], now.0).unwrap_or(0));
        [room(0), room(1)]
    }

    /// Notes the bytes moved under each rate limit. Returns when to read again if a limit delays that.
    fn note_paces(&mut self, before: [u64; 2], now: Millis) -> Option<Millis> {
        let paces = self.extras.as_mut()?.paces.as_mut()?;
        let sources = [self.downstream.borrowed(), End::Socket(&self.upstream)];
        let mut next: Option<Millis> = None;
        for (end, pace) in paces.iter_mut().enumerate() {
            let (Some(pace), bytes) = (pace, self.bytes[end]) else { continue };
            if bytes > before[end] {
                pace.note(before[end], bytes, now.0);
            }
            if let (Err(wait_ms), true) = (pace.room(bytes, now.0), sources[end].is_readable()) {
                let until = Millis(now.0.saturating_add(wait_ms));
                next = Some(next.map_or(until, |earlier| earlier.min(until)));
            }
        }
        next
    }

    fn note_first_byte(&mut self, now: Millis) {
        if let Some(record) = &mut self.record {
            record.note_first_byte(now);
        }
    }

    /// Pings both ends if the silence has lasted long enough. `before`: bytes received from each end before this step;
    /// `idle_at`: when the tunnel ends if nothing moves any more.
    fn beat(&mut self, now: Millis, before: [u64; 2], idle_at: Millis) -> TunnelStep {
        let (plan, bytes) = (self.upstream.plan(), &self.bytes);
        let Some((Extras { sent, spills, heartbeat: Some(heartbeat), .. }, interval)) =
            self.extras.as_deref_mut().zip(plan.ping)
        else {
            return TunnelStep::Wait(idle_at);
        };
        for end in 0..2 {
            if bytes[end] > before[end] {
                heartbeat.received(end);
            }
        }
        if heartbeat.given_up_at(plan.idle_max).is_some_and(|at| at <= now) {
            return TunnelStep::End(CloseReason::TunnelTimeout);
        }
        if heartbeat.due(self.moved_at, interval) <= now {
            heartbeat.begin_round(now);
            for (end, to) in [self.downstream.borrowed(), End::Socket(&self.upstream)].into_iter().enumerate() {
                let spill = &mut spills[1 - end];
                // If an end does not even accept the waiting bytes, a ping would only wait behind them.
                if self.flows[1 - end] != Flow::Open || !to.is_free(spill) {
                    continue;
                }
                if let Some(ping) = heartbeat.ping(sent, end, now)
                    && to.write(spill, &ping).is_err()
                {
                    return TunnelStep::End(CloseReason::TunnelEnded);
                }
            }
        }
        let next = heartbeat.due(self.moved_at, interval).min(idle_at);
        TunnelStep::Wait(heartbeat.given_up_at(plan.idle_max).map_or(next, |at| at.min(next)))
    }

    /// The end that has not answered our pings, if that is why the tunnel ends.
    pub(crate) fn silent_end(&self) -> Option<CloseSide> {
        self.extras.as_ref()?.heartbeat.as_ref()?.silent_end()
    }

    /// Ends both connections. A reset on one side is passed on as a reset: a FIN would look like a regular end.
    pub(crate) fn close(self) {
        // After a FIN in each direction the kernel reports a hang-up, too. A reset would then cost the client the bytes that
        // it has not received yet.
        let is_regular = self.flows == [Flow::Closed; 2];
        if !is_regular && (self.downstream.borrowed().is_failed() || self.upstream.is_failed()) {
            self.downstream.reset();
            self.upstream.reset();
        } else {
            self.downstream.close();
        }
    }

    /// The side that has reset its connection, if that ended the tunnel.
    pub(crate) fn reset_by(&self) -> Option<CloseSide> {
        let [from_client, from_upstream] = self.flows;
        // After a FIN in each direction the kernel reports a hang-up, which is no reset.
        if from_upstream == Flow::Open && self.upstream.is_failed() {
            return Some(CloseSide::Upstream);
        }
        (from_client == Flow::Open && self.downstream.borrowed().is_failed()).then_some(CloseSide::Client)
    }

    /// Whether it is a session of `stream`.
    pub(crate) fn is_session(&self) -> bool {
        matches!(self.plan().kind, TunnelKind::Session { .. })
    }

    /// Its peer; `None` for one without a number in the pool, and for one that the configuration does not know.
    pub(crate) fn peer(&self) -> Option<TunnelPeer> {
        let (group, peer) = self.upstream.peer()?;
        Some(TunnelPeer { group, peer, ordinal: self.seat.ordinal() })
    }

    /// Its peer's address, if the pool knows it. Takes a lock.
    pub(crate) fn peer_address(&self) -> Option<PeerAddress> {
        Some(self.upstream.names()?.1)
    }

    /// The settings that it keeps.
    pub(crate) fn plan(&self) -> &BoundTunnel {
        self.upstream.plan()
    }

    /// The peer's side.
    pub(crate) fn upstream(&self) -> &Transport {
        &self.upstream
    }

    /// The error log of its location, if that has its own.
    pub(crate) fn error_log(&self) -> Option<&ErrorLog> {
        self.plan().error_log.as_deref()
    }

    /// The log record.
    pub(crate) fn record(&self) -> Option<&TunnelRecord> {
        self.record.as_deref()
    }

    /// Which side ended the tunnel; this gateway if neither side has.
    pub(crate) fn ended_by(&self) -> CloseSide {
        self.ended_by.unwrap_or(CloseSide::Gateway)
    }

    /// Bytes relayed to the upstream.
    pub(crate) fn bytes_to_upstream(&self) -> u64 {
        self.bytes[0]
    }

    /// Bytes relayed to the client.
    pub(crate) fn bytes_to_client(&self) -> u64 {
        self.bytes[1]
    }
}

struct Pumped {
    /// Bytes or a FIN went through.
    moved: bool,
    /// The turn's budget is used up, and the source may have more.
    more: bool,
}

impl Extras {
    fn is_empty(&self) -> bool {
        self.sent == <[Boundary; 2]>::default()
            && self.spills.iter().all(RareSpill::is_empty)
            && self.paces.is_none()
            && self.heartbeat.is_none()
            && self.leaving.is_none()
    }

    /// Bytes of memory behind it.
    fn held_bytes(&self) -> usize {
        self.spills.iter().map(RareSpill::held_bytes).sum::<usize>()
            + self.paces.as_ref().map_or(0, |_| size_of::<[Option<Pace>; 2]>())
            + self.leaving.as_ref().map_or(0, |_| size_of::<Leaving>())
    }
}

/// One direction of a tunnel.
struct Direction<'a> {
    spill: &'a mut RareSpill,
    bytes: &'a mut u64,
    flow: &'a mut Flow,
    size: &'a mut ReadSize,
    /// Bytes of the first read, and those that memory allows.
    first: usize,
    most: usize,
}

impl Direction<'_> {
    /// `room`: bytes that may be read, if limited; `passage`: how they go on.
    fn pump(self, [from, to]: [End<'_>; 2], room: Option<u64>, mut passage: Passage<'_>) -> io::Result<Pumped> {
        let Self { spill, bytes, flow, size, first, most } = self;
        let mut pumped = Pumped { moved: to.flush(spill)? > 0, more: false };
        let limit = room.and_then(|room| usize::try_from(room).ok()).filter(|room| *room < TURN_BYTES_MAX);
        let mut budget = limit.unwrap_or(TURN_BYTES_MAX);
        if *flow == Flow::Open {
            passage.close_between(|frame| to.write(spill, frame))?;
        }
        while (passage.is_cut() || to.is_free(spill)) && *flow == Flow::Open {
            if budget == 0 {
                // If the rate limit ends the turn, the clock starts the next one.
                pumped.more = limit.is_none();
                return Ok(pumped);
            }
            let asked = size.bytes(first, most).min(budget);
            match from.read_with(asked, |data| (data.len(), passage.pass(data, |bytes| to.write(spill, bytes))))? {
                Read::Data((received, relayed)) => {
                    *bytes += relayed? as u64;
                    budget -= received;
                    pumped.moved = true;
                    size.note(received == asked, to.is_free(spill));
                }
                Read::NotReady => break,
                Read::Closed => *flow = Flow::Ended,
            }
        }
        Ok(pumped)
    }
}
