//! Response bodies that are generated while they are sent: a known pattern of any length, in any framing, at once or in
//! steps, complete or cut off. Pure: `connection` has the socket and the clock.

use crate::events::Events;
use cgi::fastcgi::{RECORD_BYTES_MAX, encode_end, stdout_header};
use http1::chunked::{CHUNK_END, ChunkHeader, LAST_CHUNK};
use reactor::Millis;
use std::io::IoSlice;

/// Period of the pattern. It is a prime, so a lost, duplicated or moved buffer with a power-of-two size always changes the
/// body.
const PATTERN_PERIOD: usize = 251;
/// Bytes of the block from which bodies are written.
const BLOCK_BYTES: usize = PATTERN_PERIOD * 256;
/// Blocks per write: about 1 MB, several times what a socket takes at once.
pub(crate) const BLOCKS_PER_WRITE: usize = 16;
/// Bytes per step if the body is copied into a buffer first: roughly what a socket takes at once.
const FILL_BYTES: u64 = 64 * 1024;

static BLOCK: [u8; BLOCK_BYTES] = block();

#[allow(clippy::large_stack_arrays)] // evaluated by the compiler only
const fn block() -> [u8; BLOCK_BYTES] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut block = [0; BLOCK_BYTES];
    let mut at = 0;
    while at < BLOCK_BYTES {
        let place = at % PATTERN_PERIOD;
        block[at] = if place == PATTERN_PERIOD - 1 { b'\n' } else { alphabet[(place * 11 + place / 64) % 64] };
        at += 1;
    }
    block
}

/// The byte at `offset` of every body of the origin, for clients to compare with.
pub fn pattern_byte(offset: u64) -> u8 {
    BLOCK[(offset % PATTERN_PERIOD as u64) as usize]
}

/// The pattern from `offset`, at most `len` bytes and at most the rest of one block.
fn pattern(offset: u64, len: u64) -> &'static [u8] {
    let start = (offset % PATTERN_PERIOD as u64) as usize;
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(BLOCK_BYTES - start);
    BLOCK.get(start..start + len).unwrap_or_default()
}

/// Appends `len` bytes of the pattern.
pub(crate) fn push_pattern(mut offset: u64, mut len: u64, out: &mut Vec<u8>) {
    while len > 0 {
        let piece = pattern(offset, len);
        out.extend_from_slice(piece);
        offset += piece.len() as u64;
        len -= piece.len() as u64;
    }
}

/// How the client finds the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Content-Length.
    Length,
    /// Chunked, with chunks of this many bytes (above 0).
    Chunked(u64),
    /// By the end of the connection.
    UntilClose,
    /// Records of FastCGI.
    Records,
}

/// The pace of a slow body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    /// Bytes per step, above 0.
    step_bytes: u64,
    /// Milliseconds between two steps.
    every_ms: u64,
}

/// How a response ends that is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutBy {
    /// Close.
    Fin,
    /// RST.
    Reset,
    /// An invalid chunk size, then FIN. Only in a chunked body.
    BadChunk,
}

/// Where and how a body is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// After this many bytes of data.
    after_bytes: u64,
    /// How.
    by: CutBy,
}

/// One body and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) framing: Framing,
    /// Bytes of data that the framing announces.
    pub(crate) total: u64,
    /// Where in the pattern the body begins.
    offset: u64,
    pace: Option<Pace>,
    cut: Option<Cut>,
    /// Trailer lines after a chunked body.
    pub(crate) trailers: Vec<u8>,
    /// Events in place of the pattern.
    events: Option<Box<Events>>,
    made: u64,
    /// Whether the end of the framing was appended.
    ended: bool,
    next_step: Millis,
}

/// The result of [`Body::fill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// There are bytes to send; more may follow.
    More,
    /// Nothing to send until this time.
    Until(Millis),
    /// The body is complete.
    Done,
    /// The body ends here, incomplete.
    Cut(CutBy),
}

impl Body {
    pub(crate) fn new(framing: Framing, total: u64) -> Self {
        Self {
            framing,
            total,
            offset: 0,
            pace: None,
            cut: None,
            trailers: Vec::new(),
            events: None,
            made: 0,
            ended: false,
            next_step: Millis::default(),
        }
    }

    /// A body of events, one in each chunk.
    pub(crate) fn of_events(framing: Framing, events: Events) -> Self {
        let cut = events.cut.map(|by| Cut { after_bytes: 0, by });
        Self { cut, events: Some(Box::new(events)), ..Self::new(framing, u64::MAX) }
    }

    /// The same body, starting at another offset of the pattern.
    pub(crate) fn starting_at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// The same body, sent in steps.
    pub(crate) fn paced(self, step_bytes: u64, every_ms: u64) -> Self {
        Self { pace: Some(Pace { step_bytes, every_ms }), ..self }
    }

    /// The same body, cut off early.
    pub(crate) fn cut_off(self, after_bytes: u64, by: CutBy) -> Self {
        Self { cut: Some(Cut { after_bytes, by }), ..self }
    }

    /// Bytes of data that are really sent.
    fn end(&self) -> u64 {
        self.cut.map_or(self.total, |cut| cut.after_bytes.min(self.total))
    }

    /// Whether its bytes can be written directly from the block.
    pub(crate) fn is_direct(&self) -> bool {
        let is_framed = matches!(self.framing, Framing::Chunked(_) | Framing::Records);
        !is_framed && self.pace.is_none() && self.events.is_none() && self.made < self.end()
    }

    /// The next slices of a direct body for one write; returns how many of `parts` were filled.
    pub(crate) fn slices(&self, parts: &mut [IoSlice<'static>]) -> usize {
        let (mut at, end) = (self.made, self.end());
        let mut count = 0;
        for part in parts {
            if at >= end {
                break;
            }
            let piece = pattern(self.offset + at, end - at);
            *part = IoSlice::new(piece);
            at += piece.len() as u64;
            count += 1;
        }
        count
    }

    /// The same body without HTTP/1 framing, for a protocol that marks its end otherwise. Also returns the trailers.
    pub(crate) fn unframed(mut self) -> (Self, Vec<u8>) {
        self.framing = Framing::UntilClose;
        let trailers = std::mem::take(&mut self.trailers);
        (self, trailers)
    }

    /// The same body in records of FastCGI, which have no trailers.
    pub(crate) fn in_records(self) -> Self {
        Self { framing: Framing::Records, trailers: Vec::new(), ..self }
    }

    /// The next bytes of a direct body.
    pub(crate) fn piece(&self) -> &'static [u8] {
        pattern(self.offset + self.made, self.end() - self.made)
    }

    /// Whether a direct body ends after this many bytes and is not cut off there.
    pub(crate) fn ends_after(&self, bytes: usize) -> bool {
        self.cut.is_none() && self.made + bytes as u64 == self.total
    }

    /// Whether there is nothing to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0 && self.cut.is_none()
    }

    /// Records that this many bytes of [`Self::slices`] were sent.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.made += bytes;
    }

    /// Appends what may be sent next, at most about [`FILL_BYTES`]. `now` must be read from the clock; the loop's time may
    /// be older than the previous step.
    pub(crate) fn fill(&mut self, now: Millis, out: &mut Vec<u8>) -> Filled {
        if let Some(events) = self.events.as_mut().filter(|events| !events.is_over()) {
            if now < self.next_step {
                return Filled::Until(self.next_step);
            }
            self.next_step = pause_end(now, events.every_ms);
            let event = events.next_text();
            self.push_framed(event.len() as u64, out, |out| out.extend_from_slice(event.as_bytes()));
            return Filled::More;
        }
        if self.events.is_some() {
            return self.finish(out);
        }
        if self.made >= self.end() {
            return self.finish(out);
        }
        let mut budget = FILL_BYTES;
        if let Some(pace) = self.pace {
            if now < self.next_step {
                return Filled::Until(self.next_step);
            }
            self.next_step = pause_end(now, pace.every_ms);
            budget = pace.step_bytes;
        }
        let mut left = budget.min(self.end() - self.made);
        while left > 0 && (out.len() as u64) < FILL_BYTES {
            let len = match self.framing {
                Framing::Chunked(chunk) => chunk.min(left).min(FILL_BYTES),
                Framing::Length | Framing::UntilClose => left.min(FILL_BYTES),
                Framing::Records => left.min(FILL_BYTES).min(RECORD_BYTES_MAX as u64),
            };
            self.push(len, out);
            left -= len;
        }
        Filled::More
    }

    fn push(&mut self, len: u64, out: &mut Vec<u8>) {
        let from = self.offset + self.made;
        self.push_framed(len, out, |out| push_pattern(from, len, out));
        self.made += len;
    }

    /// Appends data of this length with its framing.
    fn push_framed(&self, len: u64, out: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) {
        let chunked = matches!(self.framing, Framing::Chunked(_));
        if chunked {
            out.extend_from_slice(ChunkHeader::new(len).as_bytes());
        }
        if self.framing == Framing::Records {
            out.extend_from_slice(&stdout_header(len as usize));
        }
        push(out);
        if chunked {
            out.extend_from_slice(CHUNK_END);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Filled {
        let ended = std::mem::replace(&mut self.ended, true);
        let chunked = matches!(self.framing, Framing::Chunked(_));
        match self.cut {
            // Among records it is a record of another version.
            Some(Cut { by: CutBy::BadChunk, .. }) if (chunked || self.framing == Framing::Records) && !ended => {
                out.extend_from_slice(b"no size\r\n");
                Filled::More
            }
            Some(cut) => Filled::Cut(cut.by),
            None if chunked && !ended => {
                if self.trailers.is_empty() {
                    out.extend_from_slice(LAST_CHUNK);
                } else {
                    http1::chunked::encode_last_chunk(&self.trailers, out);
                }
                Filled::More
            }
            None if self.framing == Framing::Records && !ended => {
                encode_end(out);
                Filled::More
            }
            None => Filled::Done,
        }
    }
}

/// The end of a pause of `wait_ms` that begins at `now`, which must be read from the clock. The loop's time is that of the
/// start of the turn, so a pause would end early. One is added because the clock is truncated to milliseconds.
pub(crate) fn pause_end(now: Millis, wait_ms: u64) -> Millis {
    Millis(now.0.saturating_add(wait_ms).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut body: Body) -> (Vec<u8>, Filled) {
        let (mut sent, mut now) = (Vec::new(), Millis(0));
        loop {
            let mut out = Vec::new();
            let filled = body.fill(now, &mut out);
            assert!(out.len() as u64 <= 2 * FILL_BYTES, "{} bytes at once", out.len());
            sent.append(&mut out);
            match filled {
                Filled::More => {}
                Filled::Until(then) => now = then,
                ended => return (sent, ended),
            }
        }
    }

    fn expected(len: u64) -> Vec<u8> {
        (0..len).map(pattern_byte).collect()
    }

    #[test]
    fn a_body_is_the_pattern_however_long() {
        for len in [0, 1, 250, 251, 252, FILL_BYTES - 1, FILL_BYTES + 1, 3 * BLOCK_BYTES as u64 + 7] {
            assert_eq!(all(Body::new(Framing::Length, len)), (expected(len), Filled::Done));
        }
    }

    #[test]
    fn a_chunked_body_decodes_to_the_pattern() {
        for (len, chunk) in [(0, 1), (10, 3), (FILL_BYTES + 5, 1), (200_000, 150_000)] {
            let (sent, filled) = all(Body::new(Framing::Chunked(chunk), len));
            assert_eq!(filled, Filled::Done);
            let (mut decoder, mut at, mut data) = (http1::chunked::Decoder::new(), 0, Vec::new());
            while !decoder.is_done() {
                let decoded = decoder.decode(&sent[at..]).unwrap();
                data.extend_from_slice(&sent[at..][decoded.data]);
                at += decoded.consumed;
            }
            assert_eq!((data, at), (expected(len), sent.len()));
        }
    }

    #[test]
    fn a_slow_body_waits_between_its_steps() {
        let mut body = Body::new(Framing::Length, 5).paced(2, 30);
        let mut out = Vec::new();
        assert_eq!((body.fill(Millis(100), &mut out), out.len()), (Filled::More, 2));
        assert_eq!(body.fill(Millis(100), &mut out), Filled::Until(Millis(131)));
        assert_eq!((body.fill(Millis(131), &mut out), out.len()), (Filled::More, 4));
        assert_eq!((body.fill(Millis(162), &mut out), out.len()), (Filled::More, 5));
        assert_eq!(body.fill(Millis(162), &mut out), Filled::Done);
    }

    #[test]
    fn a_cut_body_has_no_clean_end() {
        let body = Body::new(Framing::Chunked(9), 9).cut_off(4, CutBy::Reset);
        assert_eq!(all(body), ([b"4\r\n", &expected(4)[..], b"\r\n"].concat(), Filled::Cut(CutBy::Reset)));
        let body = Body::new(Framing::Chunked(9), 9).cut_off(4, CutBy::BadChunk);
        let sent = [b"4\r\n", &expected(4)[..], b"\r\nno size\r\n"].concat();
        assert_eq!(all(body), (sent, Filled::Cut(CutBy::BadChunk)));
    }
}
