//! Reports that are complete and in order over a connection that may break: the agent numbers the pieces of its lines and keeps
//! them until they are acknowledged; the coordinator takes each number once.

use crate::pack;
use std::collections::VecDeque;

/// Bytes that an agent has under way. Those of 200 agents together are less than the 64 MB that a NATS server keeps for a
/// coordinator that is slow to read.
const WINDOW_BYTES: usize = 2 * pack::PIECE_BYTES;
/// After this time without an acknowledgement the pieces are sent again.
const AGAIN_NS: u64 = 500_000_000;

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) number: u64,
    /// Whether the line goes on.
    pub(crate) more: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The pieces of a part that are not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    /// How many of them are under way.
    under_way: usize,
    next: u64,
    bytes: usize,
    /// When the oldest of those under way was sent, or the last acknowledgement came.
    since_ns: u64,
}

impl Outbox {
    /// Adds a line.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<(), String> {
        let packed = pack::pack(line)?;
        let pieces = pack::pieces(&packed);
        let last = pieces.len() - 1;
        for (at, bytes) in pieces.into_iter().enumerate() {
            self.pieces.push_back(Piece { number: self.next, more: at < last, bytes: bytes.to_vec() });
            self.next += 1;
            self.bytes += bytes.len();
        }
        Ok(())
    }

    /// The next piece to send, if the window has room.
    pub(crate) fn send_next(&mut self, now_ns: u64) -> Option<&Piece> {
        let under_way: usize = self.pieces.iter().take(self.under_way).map(|piece| piece.bytes.len()).sum();
        let piece = self.pieces.get(self.under_way)?;
        if self.under_way > 0 && under_way + piece.bytes.len() > WINDOW_BYTES {
            return None;
        }
        if self.under_way == 0 {
            self.since_ns = now_ns;
        }
        self.under_way += 1;
        Some(piece)
    }

    /// Sends everything again if nothing was acknowledged for long.
    pub(crate) fn look(&mut self, now_ns: u64) {
        if self.under_way > 0 && now_ns.saturating_sub(self.since_ns) >= AGAIN_NS {
            self.under_way = 0;
        }
    }

    /// All pieces before this number have arrived.
    pub(crate) fn acknowledge(&mut self, next: u64, now_ns: u64) {
        while self.pieces.front().is_some_and(|piece| piece.number < next) {
            if let Some(piece) = self.pieces.pop_front() {
                self.bytes -= piece.bytes.len();
                self.under_way = self.under_way.saturating_sub(1);
                self.since_ns = now_ns;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that are not acknowledged.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The pieces of a part as they come.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    next: u64,
    line: Vec<u8>,
}

impl Inbox {
    /// Takes a piece. Returns the line that it completes. A piece that came before, or before its turn, is left out: it is sent
    /// again.
    pub(crate) fn take(&mut self, number: u64, more: bool, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        if number != self.next {
            return Ok(None);
        }
        self.next += 1;
        if self.line.len() + bytes.len() > pack::PACKED_BYTES_MAX {
            return Err("sends a report that is too long".to_owned());
        }
        self.line.extend_from_slice(bytes);
        if more {
            return Ok(None);
        }
        let packed = std::mem::take(&mut self.line);
        pack::unpack(&packed).map(Some).map_err(|error| format!("sends a report that cannot be read ({error})"))
    }

    /// The number that is expected: all before it have arrived.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Each case packs up to three megabytes of random bytes.
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Messages and acknowledgements are lost at random; every line arrives once and in order.
        #[test]
        fn lines_arrive_once_and_in_order(sizes in prop::collection::vec(0_usize..400_000, 1..8), seed in any::<u64>()) {
            let mut random = fastrand::Rng::with_seed(seed);
            let lines: Vec<Vec<u8>> = sizes.iter().map(|size| (0..*size).map(|_| random.u8(..)).collect()).collect();
            let (mut outbox, mut inbox, mut arrived) = (Outbox::default(), Inbox::default(), Vec::new());
            for line in &lines {
                outbox.push(line).unwrap();
            }
            let mut now_ns = 0;
            for _ in 0..1_000 {
                now_ns += AGAIN_NS / 3;
                outbox.look(now_ns);
                while let Some(piece) = outbox.send_next(now_ns).cloned() {
                    if random.u8(0..3) > 0 {
                        arrived.extend(inbox.take(piece.number, piece.more, &piece.bytes).unwrap());
                    }
                }
                if random.u8(0..3) > 0 {
                    outbox.acknowledge(inbox.next(), now_ns);
                }
            }
            prop_assert!(outbox.is_empty() && outbox.bytes() == 0);
            prop_assert_eq!(arrived, lines);
        }
    }

    #[test]
    fn a_window_is_under_way_and_no_more() {
        let mut outbox = Outbox::default();
        let mut random = fastrand::Rng::with_seed(1);
        let line: Vec<u8> = (0..5 * pack::PIECE_BYTES).map(|_| random.u8(..)).collect();
        outbox.push(&line).unwrap();
        assert_eq!(std::iter::from_fn(|| outbox.send_next(0).map(|piece| piece.number)).collect::<Vec<_>>(), [0, 1]);
        outbox.acknowledge(1, 0);
        assert_eq!(outbox.send_next(0).map(|piece| piece.number), Some(2));
        outbox.look(AGAIN_NS);
        assert_eq!(outbox.send_next(0).map(|piece| piece.number), Some(1), "it was not acknowledged");
    }
}
