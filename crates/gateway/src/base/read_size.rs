//! How much one read takes: little at first, and more while the other side accepts everything at once.

/// Reads double at most this many times: 4 KB become 256 KB, the size of the thread's read buffer.
const DOUBLINGS_MAX: u8 = 6;

/// The size of the reads of one direction. What the other side does not accept must be held, so reads only grow while nothing
/// has to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadSize {
    doublings: u8,
}

impl ReadSize {
    /// Bytes of the next read, which are `first` at first; at most `most`.
    pub(crate) fn bytes(self, first: usize, most: usize) -> usize {
        first.saturating_mul(1 << self.doublings).min(most)
    }

    /// Notes a read. `was_full`: it returned as many bytes as were asked for; `all_accepted`: no byte of it waits.
    pub(crate) fn note(&mut self, was_full: bool, all_accepted: bool) {
        self.doublings = match (all_accepted, was_full) {
            (false, _) => 0,
            (true, true) => (self.doublings + 1).min(DOUBLINGS_MAX),
            (true, false) => self.doublings,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_while_everything_is_accepted() {
        let mut size = ReadSize::default();
        assert_eq!(size.bytes(4096, 1 << 18), 4096);
        size.note(true, true);
        size.note(false, true);
        assert_eq!((size.bytes(4096, 1 << 18), size.bytes(4096, 5000)), (8192, 5000));
        for _ in 0..300 {
            size.note(true, true);
        }
        assert_eq!((size.bytes(4096, usize::MAX), size.bytes(usize::MAX, 1 << 18)), (1 << 18, 1 << 18));
        size.note(true, false);
        assert_eq!(size.bytes(4096, 1 << 18), 4096);
    }
}
