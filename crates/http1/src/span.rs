//! Positions inside a head. Not slices: a head is parsed in a borrowed scratch buffer, copied once into an owned one,
//! and everything that was found must still hold there. Every other module of this crate and its callers use them.

/// `len` bytes from `start`, counted from the first byte that was given to `parse`.
///
/// `u32` is enough: a head is bounded by [`crate::Limits::head_bytes_max`], which is itself at most 2^30.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// The span `start..end`; an `end` before `start` gives an empty span.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, len: end.saturating_sub(start) as u32 }
    }

    /// One past the last byte.
    #[inline]
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The bytes of this span in the head it was found in, or in a copy of that head. In any shorter buffer the answer
    /// is empty instead of a panic: a caller's mistake must not end a connection.
    #[inline]
    pub fn of(self, head: &[u8]) -> &[u8] {
        let bytes = head.get(self.start as usize..self.end());
        debug_assert!(bytes.is_some(), "span {self:?} is outside of a head of {} bytes", head.len());
        bytes.unwrap_or_default()
    }
}
