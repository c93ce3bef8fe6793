//! `tunnel_ping`: our own pings in a silent WebSocket tunnel, so that middleboxes see traffic, and a dead end is
//! noticed. They are sent only between frames, and only before a close frame. The ends' own frames are never changed,
//! and their pongs go on to the other end, which ignores them (RFC 6455 §5.5.3). The tunnel has one of these if pings
//! are wanted and possible; other tunnels only pay for a null pointer.

use crate::base::close::CloseSide;
use reactor::Millis;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;
use websocket::{Boundary, Opcode, encode_frame};

/// The payload of our pings: it identifies them in a capture.
const PAYLOAD: &[u8] = b"holdfast";

/// The one extension that is known to keep the frame format. Others could put something between frames.
const KNOWN_EXTENSION: &[u8] = b"permessage-deflate";

/// A tunnel's ping state. Index 0 is the client, 1 the upstream: what it sends, and what is sent to it.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// Since when a ping waits for any sign of life.
    waiting_since: [Option<Millis>; 2],
    pinged_at: Millis,
}

impl Heartbeat {
    pub(crate) fn new(now: Millis) -> Self {
        Self { waiting_since: [None; 2], pinged_at: now }
    }

    /// Its state for another process.
    pub(crate) fn state(&self) -> handover::Heartbeat {
        handover::Heartbeat {
            waiting_since_ms: self.waiting_since.map(|since| since.map(|since| since.0)),
            pinged_at_ms: self.pinged_at.0,
        }
    }

    /// The inverse of [`Self::state`].
    pub(crate) fn from_state(state: &handover::Heartbeat) -> Self {
        Self {
            waiting_since: state.waiting_since_ms.map(|since| since.map(Millis)),
            pinged_at: Millis(state.pinged_at_ms),
        }
    }

    /// Notes bytes from an end.
    pub(crate) fn received(&mut self, end: usize) {
        self.waiting_since[end] = None;
    }

    /// When the next pings are due, if the tunnel's last activity was at this time.
    pub(crate) fn due(&self, moved_at: Millis, interval: Duration) -> Millis {
        moved_at.max(self.pinged_at).after(interval)
    }

    /// When an end has failed to answer for too long; `None`: no answer is awaited.
    pub(crate) fn given_up_at(&self, idle_max: Duration) -> Option<Millis> {
        self.waiting_since.iter().flatten().min().map(|since| since.after(idle_max))
    }

    /// The end that has not answered.
    pub(crate) fn silent_end(&self) -> Option<CloseSide> {
        match self.waiting_since {
            [Some(client), Some(upstream)] if upstream < client => Some(CloseSide::Upstream),
            [Some(_), _] => Some(CloseSide::Client),
            [None, Some(_)] => Some(CloseSide::Upstream),
            [None, None] => None,
        }
    }

    /// Starts a round of pings.
    pub(crate) fn begin_round(&mut self, now: Millis) {
        self.pinged_at = now;
    }

    /// A ping for an end, if a frame may be inserted into the stream to it now. `sent`: the frame positions in the bytes
    /// that each end sends.
    pub(crate) fn ping(&mut self, sent: &[Boundary; 2], end: usize, now: Millis) -> Option<Vec<u8>> {
        if sent.iter().any(Boundary::is_closing) || !sent[1 - end].is_between() {
            return None;
        }
        self.waiting_since[end].get_or_insert(now);
        // Towards the upstream we are the client, and clients mask their frames. The payload is ours, so the mask hides
        // nothing, but RFC 6455 §10.3 wants a new mask each time.
        let key = (end == 1).then(|| (RandomState::new().hash_one(now.0) as u32).to_ne_bytes());
        let mut frame = Vec::new();
        encode_frame(true, Opcode::Ping, key, PAYLOAD, &mut frame);
        Some(frame)
    }
}

/// Whether our frames may be inserted after this upgrade: a WebSocket without unknown extensions.
pub(crate) fn has_known_frames(upgrade: &[u8], extensions: &[&[u8]]) -> bool {
    upgrade.eq_ignore_ascii_case(b"websocket")
        && extensions.iter().flat_map(|field| field.split(|&byte| byte == b',')).all(|extension| {
            let name = extension.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            name.is_empty() || name.eq_ignore_ascii_case(KNOWN_EXTENSION)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn beat() -> Heartbeat {
        Heartbeat::new(Millis(0))
    }

    /// Both ends are between two frames.
    fn between() -> [Boundary; 2] {
        Default::default()
    }

    #[test]
    fn pings_after_the_silent_interval() {
        let mut beat = beat();
        assert_eq!(beat.due(Millis(0), INTERVAL), Millis(10_000));
        assert_eq!(beat.due(Millis(4_000), INTERVAL), Millis(14_000));
        beat.begin_round(Millis(14_000));
        assert_eq!(beat.due(Millis(4_000), INTERVAL), Millis(24_000));
    }

    #[test]
    fn client_gets_plain_pings_and_upstream_masked_ones() {
        let mut beat = beat();
        assert_eq!(beat.ping(&between(), 0, Millis(1)).unwrap(), b"\x89\x08holdfast");
        let ping = beat.ping(&between(), 1, Millis(1)).unwrap();
        assert_eq!((&ping[..2], ping.len()), (&b"\x89\x88"[..], 2 + 4 + 8));
    }

    #[test]
    fn sends_no_ping_inside_a_frame_or_after_a_close() {
        let (mut beat, mut sent) = (beat(), <[Boundary; 2]>::default());
        sent[1].advance(b"\x81\x05hel");
        assert_eq!(beat.ping(&sent, 0, Millis(1)), None, "the upstream is in the middle of a frame to the client");
        assert!(beat.ping(&sent, 1, Millis(1)).is_some());
        sent[1].advance(b"lo");
        assert!(beat.ping(&sent, 0, Millis(1)).is_some());
        sent[0].advance(b"\x88\x80\0\0\0\0");
        assert_eq!((beat.ping(&sent, 0, Millis(1)), beat.ping(&sent, 1, Millis(1))), (None, None));
    }

    #[test]
    fn unanswered_first_ping_gives_up_the_end() {
        let mut beat = beat();
        assert_eq!((beat.given_up_at(INTERVAL), beat.silent_end()), (None, None));
        beat.ping(&between(), 0, Millis(1_000));
        beat.ping(&between(), 1, Millis(1_000));
        beat.received(1);
        beat.ping(&between(), 0, Millis(2_000));
        beat.ping(&between(), 1, Millis(2_000));
        assert_eq!((beat.given_up_at(INTERVAL), beat.silent_end()), (Some(Millis(11_000)), Some(CloseSide::Client)));
        beat.received(0);
        assert_eq!((beat.given_up_at(INTERVAL), beat.silent_end()), (Some(Millis(12_000)), Some(CloseSide::Upstream)));
    }

    #[test]
    fn pings_only_known_websockets() {
        assert!(has_known_frames(b"WebSocket", &[]));
        assert!(has_known_frames(b"websocket", &[b"permessage-deflate; client_max_window_bits", b""]));
        assert!(!has_known_frames(b"websocket", &[b"permessage-deflate, x-mux"]));
        assert!(!has_known_frames(b"h2c", &[]));
    }
}
