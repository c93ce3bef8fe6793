//! The per-thread read buffer. A waiting connection owns no read buffer: bytes are read here, looked at inside a closure,
//! and what must outlive it is copied out. The borrow cannot escape the closure.

use std::cell::Cell;

/// Bytes of the buffer: large enough that a 1 MB body takes few reads, small enough to stay in the second-level cache.
pub const SCRATCH_BYTES: usize = 256 * 1024;

/// Alignment of the buffer: the kernel's copies start on a page.
const PAGE_BYTES: usize = 4096;

thread_local! {
    static SCRATCH: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
}

/// Lends the thread's buffer, [`SCRATCH_BYTES`] long, to the closure. A nested call, which the callers avoid, gets a buffer
/// of its own.
pub(crate) fn with_scratch<R>(use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut buffer = SCRATCH.take().unwrap_or_else(|| vec![0; SCRATCH_BYTES + PAGE_BYTES]);
    let start = buffer.as_ptr().align_offset(PAGE_BYTES);
    let result = use_it(&mut buffer[start..start + SCRATCH_BYTES]);
    SCRATCH.set(Some(buffer));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_page_aligned_and_nested_loans_differ() {
        with_scratch(|outer| {
            assert_eq!(outer.len(), SCRATCH_BYTES);
            assert_eq!(outer.as_ptr().align_offset(PAGE_BYTES), 0);
            outer[0] = 7;
            with_scratch(|inner| inner[0] = 8);
            assert_eq!(outer[0], 7);
        });
    }
}
