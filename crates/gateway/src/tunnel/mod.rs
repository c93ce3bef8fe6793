//! Bytes both ways after 101. It knows no HTTP: two streams, two spills, a timeout, and pings where they are wanted. A tunnel is an explicit struct, not
//! a future: most tunnels are silent most of the time, and their size is what a million of them costs.

pub(crate) mod heartbeat;
use crate::base::buffer::Spill;
use crate::base::close::{CloseReason, CloseSide};
use crate::base::logs::access::{LineName, LogSink};
use crate::base::logs::error::ErrorLog;
use crate::registry::generation::BoundTunnel;
use crate::registry::limit_zones::Limited;
use crate::registry::pool::{Bound, IdleSocket};
use crate::tunnel::heartbeat::Heartbeat;
use reactor::{Millis, Read, TaskId};
use rules::log_format::EarlyLine;
use std::io;
use std::sync::Arc;
use transport::Transport;
use upstream::balance::Counted;
use upstream::shared::TunnelPermit;
use websocket::Boundary;

/// Bytes read from one side before the other tunnels of the worker get their turn: four scratch reads of 16 KB keep a bulk
/// transfer near line rate, and a thousand tunnels wait no longer than a thousand times that.
const TURN_BYTES_MAX: usize = 64 * 1024;

/// One direction of a tunnel.
#[derive(Debug, Default)]
struct Direction {
    spill: Spill,
    /// The source has sent FIN.
    ended: bool,
    /// The FIN was passed on.
    closed: bool,
    bytes: u64,
}

/// A tunnel.
pub(crate) struct Tunnel {
    pub(crate) downstream: Transport,
    upstream: Bound,
    pub(crate) task: TaskId,
    plan: Arc<BoundTunnel>,
    /// What is logged when it ends, and what is given back then; `None` where nothing is.
    record: Option<Box<TunnelRecord>>,
    /// Client to upstream, and upstream to client.
    directions: [Direction; 2],
    /// When bytes, or an end, went through last.
    moved_at: Millis,
    /// Who ended first; `None` while nobody has.
    ended_by: Option<CloseSide>,
    /// Where pings are wanted and sound.
    heartbeat: Option<Box<Heartbeat>>,
    _permit: TunnelPermit<'static, IdleSocket>,
    /// A tunnel counts against `max_conns` and for `least_conn` as long as it lasts.
    _seat: Counted,
}

/// The access-log lines of a tunnel, as far as they were known when it began, and what fills their gaps.
pub(crate) struct TunnelRecord {
    pub(crate) lines: Vec<(Arc<LogSink>, Option<LineName>, EarlyLine)>,
    pub(crate) began_at: Millis,
    pub(crate) accepted_at: Millis,
    /// Bytes of the 101.
    pub(crate) head_bytes: u64,
    /// A tunnel counts for `limit_conn` as long as it lasts.
    pub(crate) limits: Option<Box<Limited>>,
    /// What each attempt came to, the last of which became the tunnel: up to the 101.
    pub(crate) attempts: Box<[TunnelAttempt]>,
}

/// What a tunnel's log lines say of one attempt when the tunnel ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TunnelAttempt {
    pub(crate) response_ms: Option<u64>,
    pub(crate) response_length: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    /// What stands between its values and those of the next attempt.
    pub(crate) separator: &'static [u8],
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TunnelStep {
    /// It waits for events until this time.
    Wait(Millis),
    /// There is more to do, but others are due first.
    Yield,
    /// It is over.
    End(CloseReason),
}

/// What the exchange hands over for a tunnel to begin.
pub(crate) struct TunnelStart {
    pub(crate) upstream: Bound,
    pub(crate) permit: TunnelPermit<'static, IdleSocket>,
    /// Bytes that the upstream sent behind its 101.
    pub(crate) early: Vec<u8>,
    pub(crate) plan: Arc<BoundTunnel>,
    /// It is a WebSocket whose frames are where they are expected, and the plan has pings.
    pub(crate) pings: bool,
    pub(crate) record: Option<Box<TunnelRecord>>,
    pub(crate) seat: Counted,
}

impl Tunnel {
    /// Joins two connections. `unsent` is what the client's socket has not taken of the 101, `pending` what the client has
    /// sent already. The error gives the task back.
    pub(crate) fn start(
        downstream: Transport,
        task: TaskId,
        start: TunnelStart,
        unsent: Spill,
        pending: &[u8],
        now: Millis,
    ) -> Result<Self, (TaskId, io::Error)> {
        let TunnelStart { upstream, permit, early, plan, pings, record, seat } = start;
        let mut tunnel = Self {
            downstream,
            upstream,
            task,
            plan,
            record,
            directions: [Direction::default(), Direction { spill: unsent, ..Direction::default() }],
            moved_at: now,
            ended_by: None,
            heartbeat: pings.then(|| Box::new(Heartbeat::new(now))),
            _permit: permit,
            _seat: seat,
        };
        match tunnel.preload(pending, &early) {
            Ok(()) => Ok(tunnel),
            Err(error) => Err((task, error)),
        }
    }

    /// Puts bytes ahead that were read before the tunnel began: the client's, and the upstream's.
    fn preload(&mut self, from_client: &[u8], from_upstream: &[u8]) -> io::Result<()> {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.boundary(0).advance(from_client);
            heartbeat.boundary(1).advance(from_upstream);
        }
        let [up, down] = &mut self.directions;
        up.bytes += from_client.len() as u64;
        up.spill.write(&self.upstream, &[from_client])?;
        down.bytes += from_upstream.len() as u64;
        down.spill.write(&self.downstream, &[from_upstream])?;
        Ok(())
    }

    /// Bytes held for a side that does not take them, at most, if memory allows.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.plan.buffer_bytes
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let spills = self.directions.iter().map(|direction| direction.spill.held_bytes());
        self.downstream.held_bytes()
            + self.upstream.held_bytes()
            + spills.sum::<usize>()
            + self.heartbeat.as_ref().map_or(0, |_| size_of::<Heartbeat>())
    }

    /// Moves what can be moved. `fired`: the deadline has come; `bound`: bytes that each direction may hold now.
    pub(crate) fn step(&mut self, now: Millis, fired: bool, bound: usize) -> TunnelStep {
        let [up, down] = &mut self.directions;
        let before = [up.bytes, down.bytes];
        let followed = self.heartbeat.as_mut().map(|heartbeat| heartbeat.boundary(0));
        let upwards = up.pump(&self.downstream, &self.upstream, bound, followed);
        if self.ended_by.is_none() && (up.ended || self.downstream.is_failed()) {
            self.ended_by = Some(CloseSide::Client);
        }
        let followed = self.heartbeat.as_mut().map(|heartbeat| heartbeat.boundary(1));
        let downwards = down.pump(&self.upstream, &self.downstream, bound, followed);
        if self.ended_by.is_none() && (down.ended || self.upstream.is_failed()) {
            self.ended_by = Some(CloseSide::Upstream);
        }
        let (Ok(upwards), Ok(downwards)) = (upwards, downwards) else {
            return TunnelStep::End(CloseReason::TunnelEnded);
        };
        if up.closed && down.closed {
            return TunnelStep::End(CloseReason::TunnelEnded);
        }
        if upwards.more || downwards.more {
            return TunnelStep::Yield;
        }
        if upwards.moved || downwards.moved {
            self.moved_at = now;
        }
        // Only bytes count: an event that brings none, such as room in a socket, must not prolong a silent tunnel.
        let deadline = self.moved_at.after(self.plan.idle_max);
        if fired && deadline <= now {
            return TunnelStep::End(CloseReason::TunnelTimeout);
        }
        match &self.heartbeat {
            None => TunnelStep::Wait(deadline),
            Some(_) => self.beat(now, before, deadline),
        }
    }

    /// Pings both ends if the silence has lasted long enough. `before`: bytes that had come from each before this step;
    /// `idle_at`: when the tunnel ends if nothing moves any more.
    fn beat(&mut self, now: Millis, before: [u64; 2], idle_at: Millis) -> TunnelStep {
        let (Some(heartbeat), Some(interval)) = (&mut self.heartbeat, self.plan.ping) else {
            return TunnelStep::Wait(idle_at);
        };
        for (end, direction) in self.directions.iter().enumerate() {
            if direction.bytes > before[end] {
                heartbeat.heard(end);
            }
        }
        if heartbeat.given_up_at(self.plan.idle_max).is_some_and(|at| at <= now) {
            return TunnelStep::End(CloseReason::TunnelTimeout);
        }
        if heartbeat.due(self.moved_at, interval) <= now {
            heartbeat.begin_round(now);
            for (end, to) in [&self.downstream, &*self.upstream].into_iter().enumerate() {
                let direction = &mut self.directions[1 - end];
                // Who does not even take what is there has more before it than a ping.
                if direction.ended || !direction.spill.is_empty() {
                    continue;
                }
                if let Some(ping) = heartbeat.ping(end, now)
                    && direction.spill.write(to, &[&ping]).is_err()
                {
                    return TunnelStep::End(CloseReason::TunnelEnded);
                }
            }
        }
        let next = heartbeat.due(self.moved_at, interval).min(idle_at);
        TunnelStep::Wait(heartbeat.given_up_at(self.plan.idle_max).map_or(next, |at| at.min(next)))
    }

    /// Who has not answered our pings, where that is why it ends.
    pub(crate) fn silent_end(&self) -> Option<CloseSide> {
        self.heartbeat.as_ref()?.silent_end()
    }

    /// Ends both connections. A reset on one side is passed on as a reset: a FIN would look like a good end.
    pub(crate) fn close(self) {
        let reset = self.downstream.is_failed() || self.upstream.is_failed();
        if reset {
            self.downstream.reset();
            self.upstream.reset();
        }
    }

    /// The error log of its location, where that has one of its own.
    pub(crate) fn error_log(&self) -> Option<&ErrorLog> {
        self.plan.error_log.as_deref()
    }

    /// What is to be logged.
    pub(crate) fn record(&self) -> Option<&TunnelRecord> {
        self.record.as_deref()
    }

    /// Who ended the tunnel; this gateway, where neither side has.
    pub(crate) fn ended_by(&self) -> CloseSide {
        self.ended_by.unwrap_or(CloseSide::Gateway)
    }

    /// Bytes relayed to the upstream.
    pub(crate) fn bytes_to_upstream(&self) -> u64 {
        self.directions[0].bytes
    }

    /// Bytes relayed to the client.
    pub(crate) fn bytes_to_client(&self) -> u64 {
        self.directions[1].bytes
    }
}

struct Pumped {
    /// Bytes went through, or a FIN.
    moved: bool,
    /// The turn's budget is used up and the source may have more.
    more: bool,
}

impl Direction {
    /// `followed` sees what comes.
    fn pump(
        &mut self,
        from: &Transport,
        to: &Transport,
        bound: usize,
        mut followed: Option<&mut Boundary>,
    ) -> io::Result<Pumped> {
        let mut pumped = Pumped { moved: self.spill.flush(to)? > 0, more: false };
        let mut budget = TURN_BYTES_MAX;
        while self.spill.is_empty() && !self.ended {
            if budget == 0 {
                pumped.more = true;
                return Ok(pumped);
            }
            // Never more than the bound at once: what the other side does not take must fit into it.
            let Self { spill, bytes, .. } = self;
            let asked = bound.min(budget);
            match from.read_with(asked, |data| {
                *bytes += data.len() as u64;
                if let Some(boundary) = &mut followed {
                    boundary.advance(data);
                }
                spill.write(to, &[data]).map(|_| data.len())
            })? {
                Read::Data(written) => {
                    budget -= written?;
                    pumped.moved = true;
                }
                Read::NotReady => break,
                Read::Closed => self.ended = true,
            }
        }
        if self.ended && !self.closed && self.spill.is_empty() {
            to.shutdown_write()?;
            self.closed = true;
            pumped.moved = true;
        }
        Ok(pumped)
    }
}
