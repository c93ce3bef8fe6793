//! What one connection holds of the memory budget.

use reactor::U48;

/// The bytes that one connection holds. There may be a million of these, so they take 12 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holder {
    /// `$connection`
    serial: U48,
    /// Bytes, with the reason in the two uppermost bits.
    held: U48,
}

/// Position of the reason above the bytes.
const REASON_SHIFT: u32 = 46;
const BYTES_MAX: u64 = (1 << REASON_SHIFT) - 1;

impl Holder {
    pub(super) fn serial(self) -> u64 {
        self.serial.into()
    }

    pub(super) fn set_serial(&mut self, serial: u64) {
        self.serial = serial.into();
    }

    pub(super) fn bytes(self) -> u64 {
        u64::from(self.held) & BYTES_MAX
    }

    /// One of four.
    pub(super) fn reason(self) -> usize {
        (u64::from(self.held) >> REASON_SHIFT) as usize
    }

    /// Sets what it holds, up to 64 TB. Returns how it was before.
    pub(super) fn hold(&mut self, reason: usize, bytes: u64) -> Self {
        let before = *self;
        self.held = (bytes.min(BYTES_MAX) | (reason as u64) << REASON_SHIFT).into();
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_holder_do_not_mix() {
        assert_eq!(size_of::<Holder>(), 12);
        let mut holder = Holder::default();
        holder.set_serial(77);
        for (reason, bytes, kept) in [(3, 5, 5), (2, BYTES_MAX, BYTES_MAX), (1, u64::MAX, BYTES_MAX), (0, 0, 0)] {
            let before = (holder.reason(), holder.bytes());
            let was = holder.hold(reason, bytes);
            assert_eq!((was.reason(), was.bytes()), before);
            assert_eq!((holder.reason(), holder.bytes(), holder.serial()), (reason, kept, 77));
        }
    }
}
