//! Bytes that a socket did not accept at once, and the recycling of their buffers.

use std::io::{self, IoSlice};
use transport::Transport;

/// A buffer larger than this is freed instead of being kept for the next connection: one large response must not pin
/// its memory.
pub(crate) const RECYCLED_BYTES_MAX: usize = 64 * 1024;

/// Buffers grow in multiples of this, so that many small parts cause fewer reallocations.
const GROWTH_BYTES: usize = 1024;

/// What is left after waiting bytes were sent as far as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// No bytes wait any more.
    All,
    /// Some wait, for room or for something else before them.
    Waiting,
}

impl Flushed {
    pub(crate) fn all_if(is_all: bool) -> Self {
        if is_all { Self::All } else { Self::Waiting }
    }
}

/// Bytes that wait for room in a socket's send buffer.
#[derive(Debug, Default)]
pub(crate) struct Spill {
    bytes: Vec<u8>,
    sent: usize,
}

/// A spill that takes memory only while bytes wait: for a million tunnels, most of which are silent.
#[derive(Debug, Default)]
pub(crate) struct RareSpill(Option<Box<Spill>>);

impl RareSpill {
    pub(crate) fn new(spill: Spill) -> Self {
        Self((!spill.is_empty()).then(|| Box::new(spill)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The bytes that wait.
    pub(crate) fn waiting(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |spill| &spill.bytes[spill.sent..])
    }

    /// Bytes of memory behind it.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |spill| size_of::<Spill>() + spill.held_bytes())
    }

    /// Writes or flushes.
    pub(crate) fn with<R>(&mut self, act: impl FnOnce(&mut Spill) -> R) -> R {
        if let Some(spill) = &mut self.0 {
            let result = act(spill);
            if spill.is_empty() {
                self.0 = None;
            }
            return result;
        }
        let mut spill = Spill::default();
        let result = act(&mut spill);
        *self = Self::new(spill);
        result
    }
}

impl Spill {
    /// Bytes that still wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes of memory behind it.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes `parts` in order after the bytes that already wait; keeps what the socket does not accept. Returns the
    /// number of bytes written to the socket by this call.
    pub(crate) fn write(&mut self, stream: &Transport, parts: &[&[u8]]) -> io::Result<usize> {
        if !self.is_empty() {
            for part in parts {
                self.keep(part);
            }
            return self.flush(stream);
        }
        let sent = match parts {
            // A head without a body is the most common case, and `send` costs less than `sendmsg`.
            [one] | [one, []] => stream.write(&[IoSlice::new(one)], false)?,
            [one, two] => stream.write(&[IoSlice::new(one), IoSlice::new(two)], false)?,
            several => {
                let slices: Vec<IoSlice<'_>> = several.iter().map(|part| IoSlice::new(part)).collect();
                stream.write(&slices, false)?
            }
        };
        let mut skip = sent;
        for part in parts {
            let rest = part.get(skip..).unwrap_or_default();
            skip -= part.len() - rest.len();
            self.keep(rest);
        }
        Ok(sent)
    }

    /// Writes two parts that more follows at once. The kernel may wait for it before it sends a segment.
    pub(crate) fn write_more(&mut self, stream: &Transport, [one, two]: [&[u8]; 2]) -> io::Result<usize> {
        let sent = match two {
            _ if !self.is_empty() => 0,
            [] => stream.write(&[IoSlice::new(one)], true)?,
            two => stream.write(&[IoSlice::new(one), IoSlice::new(two)], true)?,
        };
        self.keep(one.get(sent..).unwrap_or_default());
        self.keep(two.get(sent.saturating_sub(one.len())..).unwrap_or_default());
        Ok(sent)
    }

    /// Writes the waiting bytes, as far as the socket accepts them.
    pub(crate) fn flush(&mut self, stream: &Transport) -> io::Result<usize> {
        self.flush_most(stream, usize::MAX)
    }

    /// Appends parts to the waiting bytes without writing to the socket.
    pub(crate) fn hold(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.keep(part);
        }
    }

    /// Appends a part to the waiting bytes and allocates little more than it needs. The budget was asked for this many
    /// bytes; a buffer that doubles would exceed it.
    fn keep(&mut self, part: &[u8]) {
        if self.bytes.capacity() - self.bytes.len() < part.len() {
            if self.sent > 0 {
                self.bytes.drain(..self.sent);
                self.sent = 0;
            }
            let needed = (self.bytes.len() + part.len()).next_multiple_of(GROWTH_BYTES);
            self.bytes.reserve_exact(needed - self.bytes.len());
        }
        self.bytes.extend_from_slice(part);
    }

    /// Writes at most `most` of the waiting bytes.
    pub(crate) fn flush_most(&mut self, stream: &Transport, most: usize) -> io::Result<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        let waiting = &self.bytes[self.sent..];
        let sent = stream.write(&[IoSlice::new(&waiting[..waiting.len().min(most)])], false)?;
        self.sent += sent;
        if self.is_empty() {
            self.reset();
        } else if self.sent > self.bytes.len() / 2 {
            // Keeps the buffer from growing at its front; each byte is moved at most once per halving.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(sent)
    }

    /// Drops all waiting bytes.
    pub(crate) fn reset(&mut self) {
        recycle(&mut self.bytes);
        self.sent = 0;
    }
}

/// Empties a buffer for its next use; an unusually large one is freed.
pub(crate) fn recycle(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > RECYCLED_BYTES_MAX {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_hardly_more_memory_than_waits_in_it() {
        let mut spill = Spill::default();
        let mut waited_most = 0;
        for (length, sent) in [(1, 0), (190_000, 0), (65_536, 100_000), (4096, 0), (10, 150_000), (190_000, 0)] {
            spill.hold(&[&vec![b'x'; length]]);
            waited_most = waited_most.max(spill.len());
            let held = spill.held_bytes();
            assert!(held < waited_most + GROWTH_BYTES, "{held} for {waited_most}");
            spill.sent += sent;
        }
    }
}
