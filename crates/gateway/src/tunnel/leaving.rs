//! The end of a drained tunnel. A WebSocket gets a close frame in both directions and waits for the answers; any other
//! tunnel gets the same time to end by itself. Then both ends get a FIN behind the bytes that wait for them
//! ([ADR 78](../../../../docs/adr/0078-reloads-drain-only-tunnels-they-change.md)).

use crate::base::close::{CloseReason, CloseSide};
use crate::tunnel::end::End;
use crate::tunnel::passage::OurClose;
use crate::tunnel::{Extras, Flow, TURN_BYTES_MAX, Tunnel, TunnelStep};
use reactor::{Millis, Read};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;
use websocket::{Boundary, CloseCode, encode_close};

/// How long both ends may take to answer a FIN. An end that reads gets the FIN within a round trip, and most answer it at
/// once; until then its late bytes are read and dropped, because a closed socket would answer them with a reset.
const PARTING_MAX: Duration = Duration::from_secs(5);

/// Why a tunnel is drained, and by when it ends.
#[derive(Debug)]
pub(crate) struct Leaving {
    reason: CloseReason,
    /// When both ends get their FIN at the latest.
    until: Millis,
    /// Our close frames to the upstream and to the client, if both speak frames and neither has closed.
    close: Option<[PlannedClose; 2]>,
    /// Both ends get their FIN now.
    parting: Option<Parting>,
}

/// A close frame, and whether it is sent.
#[derive(Debug)]
struct PlannedClose {
    frame: Vec<u8>,
    is_sent: bool,
}

#[derive(Debug)]
struct Parting {
    until: Millis,
    /// Whether the client and the upstream have sent their FIN.
    ended: [bool; 2],
}

impl Leaving {
    /// `sent`: where the frames of both ends are, if they have frames.
    fn new(reason: CloseReason, code: CloseCode, until: Millis, sent: Option<[Boundary; 2]>) -> Self {
        let is_usable = |place: &Boundary| !place.is_closing() && !place.is_lost();
        let close = sent.filter(|sent| sent.iter().all(is_usable)).map(|_| {
            // A client masks its frames with a new key each time (RFC 6455 §5.3), and to the upstream we are the client.
            let key = RandomState::new().hash_one(until.0) as u32;
            [Some(key.to_ne_bytes()), None].map(|key| {
                let mut frame = Vec::new();
                encode_close(code, "", key, &mut frame);
                PlannedClose { frame, is_sent: false }
            })
        });
        Self { reason, until, close, parting: None }
    }

    /// The close frames for both directions.
    pub(super) fn closes(&mut self) -> [Option<OurClose<'_>>; 2] {
        let Some(closes) = &mut self.close else { return [None, None] };
        closes.each_mut().map(|close| Some(OurClose { frame: &close.frame, is_sent: &mut close.is_sent }))
    }
}

impl Tunnel {
    /// Drains the tunnel: a WebSocket is closed with this code, and any tunnel ends soon after `until`.
    pub(crate) fn leave(&mut self, reason: CloseReason, code: CloseCode, until: Millis) {
        let is_open = self.flows == [Flow::Open; 2];
        let extras = self.extras.get_or_insert_default();
        let sent = (self.has_frames && is_open).then_some(extras.sent);
        let leaving = Leaving::new(reason, code, until, sent);
        if leaving.close.is_some() {
            self.ended_by.get_or_insert(CloseSide::Gateway);
        }
        extras.leaving = Some(Box::new(leaving));
    }

    /// Whether it is being drained.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving().is_some()
    }

    fn leaving(&self) -> Option<&Leaving> {
        self.extras.as_ref()?.leaving.as_deref()
    }

    /// Moves bytes as far as possible, and ends a drained tunnel at its time. `fired`: the deadline has passed; `most`:
    /// bytes that memory allows each direction to hold now.
    pub(crate) fn step(&mut self, now: Millis, fired: bool, most: usize) -> TunnelStep {
        let Some(until) = self.leaving().map(|leaving| leaving.until) else { return self.relay(now, fired, most) };
        if until <= now || self.leaving().is_some_and(|leaving| leaving.parting.is_some()) {
            return self.part(now);
        }
        match self.relay(now, fired, most) {
            TunnelStep::Wait(_) if self.both_have_closed() => self.part(now),
            TunnelStep::Wait(at) => TunnelStep::Wait(at.min(until)),
            TunnelStep::End(reason) => TunnelStep::End(self.reason_of_end(reason)),
            TunnelStep::Yield => TunnelStep::Yield,
        }
    }

    /// An end that follows our close frame is ours.
    fn reason_of_end(&self, reason: CloseReason) -> CloseReason {
        match self.leaving() {
            Some(Leaving { close: Some(_), reason: drained, .. }) if reason == CloseReason::TunnelEnded => *drained,
            _ => reason,
        }
    }

    /// Whether both ends have sent a close frame.
    fn both_have_closed(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.sent.iter().all(Boundary::has_closed))
    }

    /// Sends what waits, then a FIN to both ends, and drops what still comes until both have answered it.
    fn part(&mut self, now: Millis) -> TunnelStep {
        let Some(Extras { leaving: Some(leaving), spills, .. }) = self.extras.as_deref_mut() else {
            return TunnelStep::End(CloseReason::TunnelEnded);
        };
        self.ended_by.get_or_insert(CloseSide::Gateway);
        let reason = leaving.reason;
        let flows = &mut self.flows;
        let parting = leaving.parting.get_or_insert_with(|| Parting {
            until: now.after(PARTING_MAX),
            ended: flows.map(|flow| flow != Flow::Open),
        });
        let ends = [self.downstream.borrowed(), End::Socket(&self.upstream)];
        let mut is_busy = false;
        for (index, spill) in spills.iter_mut().enumerate() {
            let (from, to) = (ends[index], ends[1 - index]);
            if to.flush(spill).is_err() {
                return TunnelStep::End(reason);
            }
            if flows[index] != Flow::Closed && to.is_free(spill) {
                // An end that is gone needs no FIN.
                let _ = to.shutdown_write();
                flows[index] = Flow::Closed;
            }
            if !parting.ended[index] {
                match drop_received(from) {
                    Dropped::All => {}
                    Dropped::Some => is_busy = true,
                    Dropped::Ended => parting.ended[index] = true,
                }
            }
        }
        let is_over = parting.ended == [true; 2] && *flows == [Flow::Closed; 2];
        if is_over || parting.until <= now {
            TunnelStep::End(reason)
        } else if is_busy {
            TunnelStep::Yield
        } else {
            TunnelStep::Wait(parting.until)
        }
    }
}

/// How far received bytes were dropped.
enum Dropped {
    /// Nothing more has come.
    All,
    /// There may be more, but other tasks come first.
    Some,
    /// The end has sent its FIN, or is gone.
    Ended,
}

fn drop_received(from: End<'_>) -> Dropped {
    let mut left = TURN_BYTES_MAX;
    while left > 0 {
        match from.read_with(left, <[u8]>::len) {
            Ok(Read::Data(length)) => left = left.saturating_sub(length),
            Ok(Read::NotReady) => return Dropped::All,
            Ok(Read::Closed) | Err(_) => return Dropped::Ended,
        }
    }
    Dropped::Some
}
