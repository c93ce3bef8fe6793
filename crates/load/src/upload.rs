//! Request bodies that are sent in pieces: chunked (over HTTP/2: without a length), at a rate, from one copy in memory for all
//! connections. `connection` writes the pieces over HTTP/1.1, `multiplex` over HTTP/2. Pure: it takes the time and returns bytes.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How bodies are sent in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Upload {
    /// Whether to send `Transfer-Encoding: chunked` instead of a length; over HTTP/2, no length.
    pub chunked: bool,
    /// Bytes of a piece; a chunk has one piece.
    pub piece_bytes: usize,
    /// Bytes of the body per second on each connection, or each stream; without it, as fast as the target reads.
    pub bytes_per_second: Option<f64>,
}

impl Upload {
    /// How many bytes of a body are due this long after its start, and when the next piece is, if one is left. The piece
    /// after N bytes is due N bytes after the start, so a late piece does not delay those after it.
    pub(crate) fn due(&self, elapsed_ns: u64, body_bytes: usize) -> (usize, Option<u64>) {
        let Some(rate) = self.bytes_per_second else { return (body_bytes, None) };
        let pieces = (elapsed_ns as f64 / 1e9 * rate / self.piece_bytes as f64) as usize + 1;
        let due = pieces.saturating_mul(self.piece_bytes).min(body_bytes);
        (due, (due < body_bytes).then_some((due as f64 / rate * 1e9).ceil() as u64))
    }
}

/// Largest piece: each connection may hold one that the socket does not take.
pub const PIECE_BYTES_MAX: usize = 16 << 20;

/// A body on its way, on one connection.
#[derive(Debug)]
pub(crate) struct Sending {
    body: Arc<[u8]>,
    how: Upload,
    from_ns: u64,
    sent: usize,
    is_ended: bool,
    /// When the last piece was handed out.
    moved_ns: u64,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Bytes were appended, of the body or its end.
    Piece,
    /// The next piece is due at this time.
    At(u64),
    /// All of the body has been handed out.
    Ended,
}

impl Sending {
    /// Begins at this time.
    pub(crate) fn new(body: Arc<[u8]>, how: Upload, from_ns: u64) -> Self {
        let is_ended = body.is_empty() && !how.chunked;
        Self { body, how, from_ns, sent: 0, is_ended, moved_ns: from_ns }
    }

    /// Whether all of the body has been handed out.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// When the last piece was handed out, or else when it began.
    pub(crate) fn moved_ns(&self) -> u64 {
        self.moved_ns
    }

    /// Appends the next piece with its framing, if it is due. With a rate, the piece after N bytes is due N bytes after the
    /// start, so a late piece does not delay those after it.
    pub(crate) fn take(&mut self, now_ns: u64, out: &mut Vec<u8>) -> Next {
        if self.is_ended {
            return Next::Ended;
        }
        if let Some(rate) = self.how.bytes_per_second {
            let due_ns = self.from_ns.saturating_add((self.sent as f64 / rate * 1e9) as u64);
            if now_ns < due_ns {
                return Next::At(due_ns);
            }
        }
        let rest = self.body.get(self.sent..).unwrap_or_default();
        let piece = rest.get(..self.how.piece_bytes.min(rest.len())).unwrap_or_default();
        if self.how.chunked && !piece.is_empty() {
            out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            out.extend_from_slice(piece);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(piece);
        }
        self.sent += piece.len();
        self.moved_ns = now_ns;
        if self.sent >= self.body.len() {
            self.is_ended = true;
            if self.how.chunked {
                out.extend_from_slice(b"0\r\n\r\n");
            }
        }
        Next::Piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(body: &[u8], chunked: bool, rate: Option<f64>) -> Sending {
        Sending::new(body.into(), Upload { chunked, piece_bytes: 4, bytes_per_second: rate }, 1_000)
    }

    #[test]
    fn chunks_end_with_the_last_one() {
        let (mut sending, mut out) = (sending(b"abcdefghi", true, None), Vec::new());
        while sending.take(0, &mut out) == Next::Piece {}
        assert_eq!(out, b"4\r\nabcd\r\n4\r\nefgh\r\n1\r\ni\r\n0\r\n\r\n");
        let mut empty = self::sending(b"", true, None);
        out.clear();
        assert_eq!((empty.take(0, &mut out), empty.take(0, &mut out)), (Next::Piece, Next::Ended));
        assert_eq!(out, b"0\r\n\r\n");
        assert_eq!(self::sending(b"", false, None).take(0, &mut out), Next::Ended);
    }

    #[test]
    fn a_body_is_due_piece_by_piece() {
        let upload = |rate| Upload { chunked: false, piece_bytes: 4, bytes_per_second: rate };
        let second = 1_000_000_000;
        assert_eq!(upload(None).due(0, 9), (9, None));
        assert_eq!(upload(Some(4.0)).due(0, 9), (4, Some(second)));
        assert_eq!(upload(Some(4.0)).due(second - 1, 9), (4, Some(second)));
        assert_eq!(upload(Some(4.0)).due(second, 9), (8, Some(2 * second)));
        assert_eq!(upload(Some(4.0)).due(3 * second, 9), (9, None));
        // At the time that is named, the piece is due; rounding does not change that.
        for rate in [3.0, 7.0, 1e6 / 3.0] {
            let (due, next) = upload(Some(rate)).due(0, 100);
            assert!(upload(Some(rate)).due(next.unwrap_or_default(), 100).0 > due, "{rate}");
        }
    }

    #[test]
    fn pieces_are_due_at_the_rate() {
        let (mut sending, mut out) = (sending(b"abcdefghi", false, Some(4.0)), Vec::new());
        let second = 1_000_000_000;
        assert_eq!(
            (sending.take(1_000, &mut out), sending.take(1_000, &mut out)),
            (Next::Piece, Next::At(second + 1_000))
        );
        // A late sender catches up.
        assert_eq!(sending.take(3 * second, &mut out), Next::Piece);
        assert_eq!(
            (sending.take(3 * second, &mut out), sending.take(3 * second, &mut out)),
            (Next::Piece, Next::Ended)
        );
        assert_eq!(out, b"abcdefghi");
    }
}
