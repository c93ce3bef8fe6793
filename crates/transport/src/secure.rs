//! The TLS state of a connection, and the sealed bytes that the socket has not taken yet.

use crate::HandshakeProgress;
use reactor::{Leaving, Parked, Peeked, Reactor, Read, Stream, read_into};
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use tls::{End, Pairs, RECORD_BYTES_MAX, Session, TlsError};

/// Plaintext that is sealed before the socket is asked again: four records of full size, in a buffer that stays in the cache.
const BATCH_BYTES: usize = 4 * RECORD_BYTES_MAX;
/// Plaintext of a small record: with head, nonce and tag it fits a segment of 1,460 bytes less the options of TCP, so a client can read it
/// as soon as that segment has come.
const SMALL_RECORD_BYTES: usize = 1369;
/// Plaintext that goes in small records when a connection begins to send: the first ten segments, which TCP sends without an answer (RFC
/// 6928). Behind them a lost segment delays a full record only.
const SMALL_BYTES: usize = 10 * SMALL_RECORD_BYTES;
/// After this long without sending, a connection starts again with small records: TCP's window has shrunk, too (RFC 2861).
const IDLE_MS: u64 = 1000;
/// Bytes read at once during a handshake: certificates of three levels with post-quantum keys fit.
const HANDSHAKE_READ_BYTES: usize = 32 * 1024;
/// Plaintext that is read ahead of a FIN at most. Behind more than that the FIN counts when that has been read.
const AHEAD_BYTES_MAX: usize = RECORD_BYTES_MAX;
/// Bytes read at once of a connection on which no data is due, and reads in a row: servers send two tickets of some 250 bytes, or four
/// with a client's certificates in them.
const IDLE_READ_BYTES: usize = 16 * 1024;
const IDLE_READS_MAX: usize = 8;
/// Reads of a handshake in a row: whole ones take three.
const HANDSHAKE_READS_MAX: usize = 64;

thread_local! {
    /// For records that are sealed, for plaintext, for a record's plaintext from several parts, and for what is read of a file. A
    /// connection that waits owns none of them.
    static SEALED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static PLAIN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static GATHERED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static FILE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Secure {
    pub(crate) session: Session,
    /// Records, or bytes of the handshake, that the socket has not taken.
    unsent: Vec<u8>,
    /// Bytes of plaintext that are sealed in `unsent` and were not counted as written yet.
    promised: usize,
    /// Plaintext that was read ahead: early data and what came behind a handshake, beyond what was asked for, or to see whether the peer
    /// has left.
    early: Vec<u8>,
    /// How much of `early` may be read before the handshake is complete.
    released: usize,
    /// The session holds bytes that it has not looked at: they were read before TLS began.
    unseen: bool,
    truncated: bool,
    /// The sizes of records, towards clients.
    pace: Pace,
}

impl Secure {
    pub(crate) fn new(mut session: Session, received: Vec<u8>) -> Self {
        let unseen = !received.is_empty();
        if unseen {
            session.put_back(received);
        }
        Self {
            session,
            unsent: Vec::new(),
            promised: 0,
            early: Vec::new(),
            released: 0,
            unseen,
            truncated: false,
            pace: Pace::default(),
        }
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.unseen || self.readable() > 0 || self.session.is_peer_closed()
    }

    /// Bytes of `early` that may be read.
    fn readable(&self) -> usize {
        if self.session.is_handshaking() { self.released } else { self.early.len() }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.session.held_bytes() + self.unsent.capacity() + self.early.capacity()
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Takes in what came while no data is expected. What has to be answered, such as new keys, is answered with the next write.
    pub(crate) fn look(&mut self, parked: &Parked, reactor: &Reactor) -> Peeked {
        if !self.early.is_empty() {
            return Peeked::Data;
        }
        for _ in 0..IDLE_READS_MAX {
            if self.session.is_peer_closed() {
                return Peeked::Ended;
            }
            let held = self.session.take_held();
            let mut has_data = false;
            let session = &mut self.session;
            let read = parked.read_behind(reactor, &held, IDLE_READ_BYTES, |bytes| {
                session.receive(bytes, &mut |plain| has_data |= !plain.is_empty())
            });
            if !matches!(read, Ok(Read::Data(_))) {
                self.session.put_back(held);
            }
            match read {
                Ok(Read::NotReady) => return Peeked::Nothing,
                Ok(Read::Data(Ok(()))) if !has_data => {}
                Ok(Read::Data(Ok(()))) => return Peeked::Data,
                Ok(Read::Data(Err(_)) | Read::Closed) | Err(_) => return Peeked::Ended,
            }
        }
        // A peer that sends this much unasked is hostile.
        Peeked::Data
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated
    }

    pub(crate) fn handshake(&mut self, stream: &Stream) -> io::Result<HandshakeProgress> {
        for _ in 0..HANDSHAKE_READS_MAX {
            let sent = self.flush(stream)?;
            if !self.session.is_handshaking() {
                return Ok(HandshakeProgress::Done);
            }
            if !sent || self.session.awaits_certificate().is_some() {
                return Ok(HandshakeProgress::Waiting);
            }
            let Self { session, early, unseen, .. } = self;
            let read = if std::mem::take(unseen) {
                Read::Data(session.receive(&mut [], &mut |part| early.extend_from_slice(part)))
            } else {
                receive(session, stream, HANDSHAKE_READ_BYTES, early)?
            };
            match read {
                Read::Data(Ok(())) => {}
                Read::Data(Err(error)) => return Err(self.fail(stream, error)),
                Read::NotReady => return Ok(HandshakeProgress::Waiting),
                Read::Closed => {
                    let error = self.session.end().err().unwrap_or(TlsError::ClosedInHandshake);
                    return Err(io::Error::other(error));
                }
            }
        }
        Err(io::Error::other(TlsError::TooLong))
    }

    /// Shows the early data to a closure, which says whether it is answered before the handshake is complete.
    pub(crate) fn answer_early_data(&mut self, look: impl FnOnce(&[u8]) -> bool) -> bool {
        let is_answered = self.session.is_early_data() && look(&self.early) && self.session.answer_early_data();
        if is_answered {
            self.released = self.early.len();
        }
        is_answered
    }

    /// Goes on with these certificates at the next call of [`Self::handshake`].
    pub(crate) fn show(&mut self, pairs: Pairs) -> io::Result<()> {
        self.unseen = true;
        self.session.show(pairs).map_err(io::Error::other)
    }

    pub(crate) fn refuse(&mut self, stream: &Stream) {
        self.session.refuse();
        // Without room the peer sees a connection that was cut.
        let _ = self.flush(stream);
    }

    /// Tells the peer what is wrong, if there is room.
    fn fail(&mut self, stream: &Stream, error: TlsError) -> io::Error {
        let _ = self.flush(stream);
        io::Error::other(error)
    }

    /// Sends what waits; `true` when nothing is left.
    fn flush(&mut self, stream: &Stream) -> io::Result<bool> {
        if self.session.has_output() {
            self.session.take_output(&mut self.unsent);
        }
        if self.unsent.is_empty() {
            return Ok(true);
        }
        let sent = stream.write(&[IoSlice::new(&self.unsent)], false)?;
        if sent < self.unsent.len() {
            self.unsent.drain(..sent);
            return Ok(false);
        }
        self.unsent = Vec::new();
        Ok(true)
    }

    pub(crate) fn read_with<R>(
        secure: &RefCell<Self>,
        stream: &Stream,
        max: usize,
        look: impl FnOnce(&[u8]) -> R,
    ) -> io::Result<Read<R>> {
        let mut plain = PLAIN.take();
        plain.clear();
        let read = secure.borrow_mut().read(stream, max, &mut plain);
        // The closure may write on the same connection: nothing is borrowed any more.
        let looked = match read {
            Ok(Read::Data(())) => Ok(Read::Data(look(&plain))),
            Ok(Read::NotReady) => Ok(Read::NotReady),
            Ok(Read::Closed) => Ok(Read::Closed),
            Err(error) => Err(error),
        };
        PLAIN.set(plain);
        looked
    }

    fn read(&mut self, stream: &Stream, max: usize, plain: &mut Vec<u8>) -> io::Result<Read<()>> {
        if self.readable() > 0 {
            self.take_early(max, plain);
            return Ok(Read::Data(()));
        }
        loop {
            if self.session.is_peer_closed() {
                return Ok(Read::Closed);
            }
            match receive(&mut self.session, stream, max, plain)? {
                Read::Data(Ok(())) => {
                    self.flush(stream)?;
                    if self.session.is_handshaking() || !self.early.is_empty() {
                        // More early data waits for the end of the handshake. The session takes as much as the server allows.
                        self.early.append(plain);
                        if self.readable() > 0 {
                            self.take_early(max, plain);
                            return Ok(Read::Data(()));
                        }
                    } else if !plain.is_empty() {
                        // A record's last bytes bring all of it, which may be more than was asked for.
                        if plain.len() > max {
                            self.early = plain.split_off(max);
                        }
                        return Ok(Read::Data(()));
                    }
                }
                // What came before the fault counts; the next read meets it again.
                Read::Data(Err(error)) => return Err(self.fail(stream, error)),
                Read::NotReady => return Ok(Read::NotReady),
                Read::Closed => {
                    self.truncated = self.session.end().is_ok_and(|end| end == End::Truncated);
                    return Ok(Read::Closed);
                }
            }
        }
    }

    /// Moves up to `max` bytes of what was read ahead and may be read behind `plain`.
    fn take_early(&mut self, max: usize, plain: &mut Vec<u8>) {
        let max = max.min(self.readable());
        self.released = self.released.saturating_sub(max);
        if self.early.len() <= max {
            plain.append(&mut self.early);
            self.early = Vec::new();
        } else {
            plain.extend(self.early.drain(..max));
        }
    }

    /// A `close_notify` without a FIN does not count: the peer may still read, and most do not.
    pub(crate) fn has_left(&mut self, stream: &Stream, leaving: Leaving) -> bool {
        let ends = match leaving {
            Leaving::Ignored => return false,
            Leaving::Reset => false,
            Leaving::ResetOrFin => stream.is_peer_closed() && self.ends_here(stream),
        };
        stream.is_failed() || ends
    }

    /// Reads on to the end of what the peer has sent. Whether nothing is left to be taken in front of that end.
    fn ends_here(&mut self, stream: &Stream) -> bool {
        while self.early.len() < AHEAD_BYTES_MAX && !self.session.is_peer_closed() {
            match receive(&mut self.session, stream, RECORD_BYTES_MAX, &mut self.early) {
                Ok(Read::Data(Ok(()))) => {}
                Ok(Read::NotReady) => return false,
                // The next read meets the error again.
                Ok(Read::Data(Err(_)) | Read::Closed) | Err(_) => break,
            }
        }
        self.early.is_empty()
    }

    pub(crate) fn write(&mut self, stream: &Stream, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        if !self.session.may_send() || !self.flush(stream)? {
            return Ok(0);
        }
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut written = self.promised.min(total);
        self.promised -= written;
        if self.promised > 0 {
            return Ok(written);
        }
        let mut sealed = SEALED.take();
        let outcome = loop {
            if written == total || !stream.is_writable() {
                break Ok(written);
            }
            match self.write_batch(stream, parts, written, more, &mut sealed) {
                Ok(0) => break Ok(written),
                Ok(count) => written += count,
                // The socket has taken some bytes, which count. The next write meets the error again.
                Err(_) if written > 0 => break Ok(written),
                Err(error) => break Err(error),
            }
            if self.promised > 0 {
                break Ok(written);
            }
        };
        SEALED.set(sealed);
        outcome
    }

    pub(crate) fn write_file(
        &mut self,
        stream: &Stream,
        file: BorrowedFd<'_>,
        offset: &mut i64,
        count: usize,
    ) -> io::Result<usize> {
        let mut plain = FILE.take();
        plain.resize(BATCH_BYTES, 0);
        let count = count.min(BATCH_BYTES);
        let read = plain.get_mut(..count).map_or(Ok(0), |room| read_into(file, *offset, room));
        let written = read.and_then(|read| {
            let bytes = plain.get(..read).unwrap_or_default();
            if bytes.is_empty() { Ok(0) } else { self.write(stream, &[IoSlice::new(bytes)], false) }
        });
        FILE.set(plain);
        let written = written?;
        *offset += i64::try_from(written).unwrap_or_default();
        Ok(written)
    }

    /// Seals and sends a batch that begins at `from`. If the socket does not take all of it, the records that it took whole count,
    /// and the rest is promised.
    fn write_batch(
        &mut self,
        stream: &Stream,
        parts: &[IoSlice<'_>],
        from: usize,
        more: bool,
        sealed: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let full = self.session.record_bytes_max();
        let batch = BATCH_BYTES - BATCH_BYTES % full;
        sealed.clear();
        let mut taken = 0;
        let mut gathered = GATHERED.take();
        if self.session.chosen().is_some() {
            self.pace.begin(stream.now().0);
        } else {
            self.pace.sent = SMALL_BYTES;
        }
        while taken < batch {
            let left = batch - taken;
            // A batch ends with a whole record, even if it began with small ones.
            let (record_max, room) = match self.pace.next(full) {
                (small, Some(most)) => (small, most.min(left)),
                (full, None) => (full, left - left % full),
            };
            if room == 0 {
                break;
            }
            let plain = gather(parts, from + taken, record_max, room, &mut gathered);
            if plain.is_empty() {
                break;
            }
            let count = self.session.append_sealed(plain, record_max, sealed).map_err(io::Error::other)?;
            if count == 0 {
                break;
            }
            taken += count;
            self.pace.sent += count;
        }
        GATHERED.set(gathered);
        let sent = stream.write(&[IoSlice::new(sealed)], more)?;
        if sent == sealed.len() {
            return Ok(taken);
        }
        self.unsent.extend_from_slice(sealed.get(sent..).unwrap_or_default());
        // At least a byte is promised, so that the caller flushes the rest.
        let whole = plain_of_whole_records(sealed, sent, taken).min(taken.saturating_sub(1));
        self.promised = taken - whole;
        Ok(whole)
    }

    pub(crate) fn send_close_notify(&mut self, stream: &Stream) {
        self.session.close();
        // Without room the peer sees a connection that was cut, as it was.
        let _ = self.flush(stream);
    }
}

/// How much of `plain` bytes is in the records that end within the first `sent` bytes of `sealed`. All records of a connection
/// are longer than their content by the same number of bytes.
fn plain_of_whole_records(sealed: &[u8], sent: usize, plain: usize) -> usize {
    const HEADER_BYTES: usize = 5;
    let (mut at, mut records, mut content) = (0, 0, 0);
    let (mut records_sent, mut content_sent) = (0, 0);
    while let Some([_, _, _, high, low]) = sealed.get(at..at + HEADER_BYTES) {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        at += HEADER_BYTES + length;
        (records, content) = (records + 1, content + length);
        if at <= sent {
            (records_sent, content_sent) = (records, content);
        }
    }
    let overhead = content.saturating_sub(plain) / records.max(1);
    content_sent.saturating_sub(records_sent * overhead).min(plain)
}

/// How large the next records are: small ones at the beginning and after idleness, so that a client sees the first bytes early; then full
/// ones, which cost less.
#[derive(Debug, Default)]
struct Pace {
    /// Plaintext that was sent since the beginning; it stops to count when it no longer matters.
    sent: usize,
    /// When something was sent last, in milliseconds.
    sent_at: u64,
}

impl Pace {
    fn begin(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.sent_at) >= IDLE_MS {
            self.sent = 0;
        }
        self.sent = self.sent.min(SMALL_BYTES);
        self.sent_at = now_ms;
    }

    /// The most for a record, and for all of that size.
    fn next(&self, full: usize) -> (usize, Option<usize>) {
        match SMALL_BYTES.saturating_sub(self.sent) {
            0 => (full, None),
            left => (full.min(SMALL_RECORD_BYTES), Some(left)),
        }
    }
}

/// Reads from the socket behind what the session holds, and gives it both; plaintext goes behind `plain`.
fn receive(
    session: &mut Session,
    stream: &Stream,
    max: usize,
    plain: &mut Vec<u8>,
) -> io::Result<Read<Result<(), TlsError>>> {
    let held = session.take_held();
    let read =
        stream.read_behind(&held, max, |bytes| session.receive(bytes, &mut |part| plain.extend_from_slice(part)));
    if !matches!(read, Ok(Read::Data(_))) {
        session.put_back(held);
    }
    read
}

/// The plaintext of the next records, `max` bytes at most: whole records of a part that has some, or its end if nothing follows. Where a
/// record goes over several parts they are copied together, that record alone.
fn gather<'a>(parts: &'a [IoSlice<'_>], from: usize, record: usize, max: usize, gathered: &'a mut Vec<u8>) -> &'a [u8] {
    gathered.clear();
    let mut skip = from;
    for (at, part) in parts.iter().enumerate() {
        let rest = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        if rest.is_empty() {
            continue;
        }
        if gathered.is_empty() {
            let is_last = parts.get(at + 1..).is_none_or(|behind| behind.iter().all(|part| part.is_empty()));
            let whole = if is_last { rest.len() } else { rest.len() - rest.len() % record };
            if whole > 0 {
                return rest.get(..whole.min(max)).unwrap_or_default();
            }
        }
        let count = rest.len().min(record - gathered.len());
        gathered.extend_from_slice(rest.get(..count).unwrap_or_default());
        if gathered.len() == record {
            break;
        }
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: usize = RECORD_BYTES_MAX;

    #[test]
    fn records_are_small_at_the_beginning_and_after_idleness() {
        let mut pace = Pace::default();
        pace.begin(5000);
        assert_eq!(pace.next(RECORD), (SMALL_RECORD_BYTES, Some(SMALL_BYTES)));
        assert_eq!(pace.next(512), (512, Some(SMALL_BYTES)), "never larger than `ssl_buffer_size`");
        pace.sent += 612;
        assert_eq!(pace.next(RECORD), (SMALL_RECORD_BYTES, Some(SMALL_BYTES - 612)));
        pace.sent += 100_000;
        assert_eq!(pace.next(RECORD), (RECORD, None));
        for (now_ms, record) in [(5999, RECORD), (6998, RECORD), (7998, SMALL_RECORD_BYTES)] {
            pace.begin(now_ms);
            assert_eq!(pace.next(RECORD).0, record, "{now_ms}");
        }
    }

    #[test]
    fn records_that_were_sent_whole_are_counted() {
        // Records with 3, 5 and 2 bytes of content, each longer by 4.
        let sealed = [7, 9, 6].map(|length| [&[23, 3, 3, 0, length][..], &vec![0; length.into()]].concat());
        let sealed = sealed.concat();
        for (sent, plain) in [(0, 0), (11, 0), (12, 3), (25, 3), (26, 8), (36, 8), (37, 10)] {
            assert_eq!(plain_of_whole_records(&sealed, sent, 10), plain, "{sent}");
        }
        assert_eq!(plain_of_whole_records(b"no record", 9, 10), 0);
    }

    #[test]
    fn single_part_records_need_no_copy() {
        let (head, body) = ([1_u8; 100], vec![2_u8; 3 * RECORD + 50]);
        let parts = [IoSlice::new(&head), IoSlice::new(&[]), IoSlice::new(&body)];
        let mut gathered = Vec::new();
        let first = gather(&parts, 0, RECORD, BATCH_BYTES, &mut gathered);
        assert_eq!((first.len(), first[99], first[100]), (RECORD, 1, 2));
        let rest = gather(&parts, RECORD, RECORD, BATCH_BYTES, &mut gathered);
        assert_eq!((rest.len(), rest.as_ptr()), (2 * RECORD + 150, body[RECORD - 100..].as_ptr()));
        assert_eq!(gather(&parts, RECORD, RECORD, 2 * RECORD, &mut gathered).len(), 2 * RECORD);
        assert_eq!(gather(&parts, 150 + 3 * RECORD, RECORD, BATCH_BYTES, &mut gathered).len(), 0);
        assert_eq!(gather(&[], 0, RECORD, BATCH_BYTES, &mut gathered).len(), 0);
        // What follows a part with whole records fills its last record up.
        let parts = [IoSlice::new(&body), IoSlice::new(&head)];
        assert_eq!(gather(&parts, 0, RECORD, BATCH_BYTES, &mut gathered).len(), 3 * RECORD);
        assert_eq!(gather(&parts, 3 * RECORD, RECORD, BATCH_BYTES, &mut gathered).len(), 150);
    }
}
