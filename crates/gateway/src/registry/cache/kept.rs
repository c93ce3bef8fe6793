//! The part of a body that its file could not take: it stays in memory until each reader has it. `fill` has one of these
//! once a write has failed. The bytes count in `memory_budget`.

use crate::base::memory::CommonBytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bytes that are kept for the readers of one response: some pieces, so that readers of unequal speed do not stop
/// each other at once. Only responses that several clients read while the disk fails have them.
pub(crate) const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Pieces of a body, one after the other.
#[derive(Debug)]
pub(crate) struct MemoryTail {
    /// Offset in the body of the first piece.
    start: u64,
    pieces: VecDeque<Arc<Vec<u8>>>,
    /// The storing exchange waits until readers have taken some of it.
    is_awaited: bool,
    counted: CommonBytes,
}

impl MemoryTail {
    /// Nothing yet: the file has the body up to this offset.
    pub(super) fn new(start: u64, counted: CommonBytes) -> Self {
        Self { start, pieces: VecDeque::new(), is_awaited: false, counted }
    }

    /// Appends the next piece of the body.
    pub(super) fn push(&mut self, piece: Arc<Vec<u8>>) {
        if !piece.is_empty() {
            self.pieces.push_back(piece);
            self.count();
        }
    }

    /// The piece with the byte at this offset, and the position of the byte in it; `None` if the file has it, or nothing
    /// has it yet.
    pub(super) fn at(&self, offset: u64) -> Option<(Arc<Vec<u8>>, usize)> {
        let mut skipped = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        for piece in &self.pieces {
            match skipped.checked_sub(piece.len()) {
                Some(left) => skipped = left,
                None => return Some((Arc::clone(piece), skipped)),
            }
        }
        None
    }

    /// Drops the pieces before an offset. `true`: the storing exchange may go on.
    pub(super) fn forget_before(&mut self, offset: u64) -> bool {
        let before = self.pieces.len();
        while let Some(piece) = self.pieces.front().filter(|piece| self.start + piece.len() as u64 <= offset) {
            self.start += piece.len() as u64;
            self.pieces.pop_front();
        }
        let has_fallen = self.pieces.len() < before;
        if has_fallen {
            self.count();
        }
        has_fallen && std::mem::take(&mut self.is_awaited)
    }

    /// Whether the storing exchange, which holds `pending` further bytes, has to wait for readers; [`Self::forget_before`] then
    /// says when to go on.
    pub(super) fn is_full(&mut self, pending: usize) -> bool {
        let bytes = self.bytes();
        let is_full = bytes > 0 && (bytes + pending >= KEPT_BYTES_MAX || !self.counted.may_grow());
        self.is_awaited |= is_full;
        is_full
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.capacity()).sum()
    }

    fn count(&mut self) {
        let bytes = self.bytes() as u64;
        self.counted.set(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::memory::Memory;
    use conf::model::{MemoryBudget, Shed};

    const MB: u64 = 1 << 20;

    fn kept(start: u64, budget: u64) -> (&'static Memory, MemoryTail) {
        let memory: &'static Memory = Box::leak(Box::default());
        memory.limit(Some(MemoryBudget { bytes: budget, shed: Shed::InOrder }), 1);
        (memory, MemoryTail::new(start, CommonBytes::new(memory)))
    }

    fn piece(bytes: &[u8]) -> Arc<Vec<u8>> {
        Arc::new(bytes.to_vec())
    }

    #[test]
    fn bytes_are_found_by_their_offset_in_the_body() {
        let (_, mut kept) = kept(100, MB);
        kept.push(piece(b"abc"));
        kept.push(piece(b""));
        kept.push(piece(b"de"));
        let at = |kept: &MemoryTail, offset| kept.at(offset).map(|(piece, at)| piece[at..].to_vec());
        let found: Vec<_> = [99, 100, 102, 103, 104, 105].map(|offset| at(&kept, offset)).into();
        let expected: [Option<&[u8]>; 6] = [None, Some(b"abc"), Some(b"c"), Some(b"de"), Some(b"e"), None];
        assert_eq!(found, expected.map(|bytes| bytes.map(<[u8]>::to_vec)));
        kept.forget_before(102);
        assert_eq!(at(&kept, 100), Some(b"abc".to_vec()), "a reader needs a part of the piece");
        kept.forget_before(103);
        assert_eq!((at(&kept, 102), at(&kept, 103)), (None, Some(b"de".to_vec())));
        kept.forget_before(u64::MAX);
        kept.push(piece(b"f"));
        assert_eq!(at(&kept, 105), Some(b"f".to_vec()));
    }

    #[test]
    fn a_full_one_says_when_readers_have_made_room() {
        let (memory, mut kept) = kept(0, 100 * MB);
        assert!(!kept.is_full(2 * KEPT_BYTES_MAX), "without a reader that is behind there is nothing to wait for");
        let half = Arc::new(vec![0; KEPT_BYTES_MAX / 2]);
        kept.push(Arc::clone(&half));
        assert!(!kept.forget_before(1) && !kept.is_full(KEPT_BYTES_MAX / 2 - 1));
        kept.push(half);
        assert!(kept.is_full(0));
        assert!(!kept.forget_before(10), "the first piece is needed");
        assert!(kept.forget_before(KEPT_BYTES_MAX as u64 / 2));
        assert!(!kept.forget_before(u64::MAX), "it does not wait");
        drop(kept);
        assert_eq!(memory.in_use([].into_iter()).claimed, 0);
    }

    #[test]
    fn short_memory_keeps_one_piece_only() {
        let (memory, mut kept) = kept(0, MB / 10);
        kept.push(Arc::new(vec![0; 90_000]));
        assert!(!kept.is_full(0), "86 % of the budget");
        kept.push(Arc::new(vec![0; 10_000]));
        assert_eq!(memory.in_use([].into_iter()).claimed, 100_000);
        assert!(kept.is_full(0));
        assert!(kept.forget_before(90_000));
        assert!(!kept.is_full(0));
    }
}
