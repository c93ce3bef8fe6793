//! The unsent data of a WebSocket. A frame for a whole room is stored once for all members. It has memory only while the
//! socket takes no more.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use transport::Transport;

/// Parts per write.
const PARTS_PER_WRITE: usize = 16;
/// A piece up to this size is appended to the previous one, so that a thousand pongs are not a thousand allocations.
const JOINED_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug)]
enum Part {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

#[derive(Debug, Default)]
struct Parts {
    waiting: VecDeque<Part>,
    /// Bytes of the first part that are sent.
    sent: usize,
    bytes: usize,
}

/// Bytes that wait for room in a socket.
#[derive(Debug, Default)]
pub(super) struct Outbox(Option<Box<Parts>>);

impl Outbox {
    /// Number of bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |parts| parts.bytes)
    }

    /// Sends bytes, and keeps those that the socket does not take.
    pub(super) fn send(&mut self, stream: &Transport, bytes: &[u8]) -> io::Result<()> {
        let sent = if self.0.is_none() { stream.write(&[IoSlice::new(bytes)], false)? } else { 0 };
        let rest = bytes.get(sent..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        let parts = self.0.get_or_insert_default();
        parts.bytes += rest.len();
        match parts.waiting.back_mut() {
            Some(Part::Own(last)) if last.len() + rest.len() <= JOINED_BYTES_MAX => last.extend_from_slice(rest),
            _ => parts.waiting.push_back(Part::Own(rest.to_vec())),
        }
        Ok(())
    }

    /// The same for a frame that is shared with other members.
    pub(super) fn send_shared(&mut self, stream: &Transport, frame: &Arc<[u8]>) -> io::Result<()> {
        let sent = if self.0.is_none() { stream.write(&[IoSlice::new(frame)], false)? } else { 0 };
        if sent == frame.len() {
            return Ok(());
        }
        let parts = self.0.get_or_insert_default();
        if parts.waiting.is_empty() {
            parts.sent = sent;
        }
        parts.bytes += frame.len() - sent;
        parts.waiting.push_back(Part::Shared(Arc::clone(frame)));
        Ok(())
    }

    /// Writes what the socket takes; returns whether everything was sent.
    pub(super) fn flush(&mut self, stream: &Transport) -> io::Result<bool> {
        while let Some(parts) = &mut self.0 {
            let mut slices: [IoSlice<'_>; PARTS_PER_WRITE] = [IoSlice::new(&[]); PARTS_PER_WRITE];
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(&parts.waiting) {
                let skip = if count == 0 { parts.sent } else { 0 };
                *slice = IoSlice::new(part.bytes().get(skip..).unwrap_or_default());
                count += 1;
            }
            let mut sent = stream.write(slices.get(..count).unwrap_or_default(), false)?;
            if sent == 0 {
                return Ok(false);
            }
            parts.bytes = parts.bytes.saturating_sub(sent);
            sent += parts.sent;
            while let Some(first) = parts.waiting.front().filter(|first| first.bytes().len() <= sent) {
                sent -= first.bytes().len();
                parts.waiting.pop_front();
            }
            parts.sent = sent;
            if parts.waiting.is_empty() {
                self.0 = None;
            }
        }
        Ok(true)
    }
}
