//! Limits of the process, and how to recognise that one is reached.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// The soft and the hard limit of open descriptors (`RLIMIT_NOFILE`).
pub fn descriptor_limit() -> io::Result<(u64, u64)> {
    sys::descriptor_limits()
}

/// Takes over a connected Unix socket for packets by the number that it has in this process since the start;
/// `InvalidInput` if that is open and something else.
pub fn inherited_channel(number: i32) -> io::Result<OwnedFd> {
    sys::take_inherited(number, |socket| {
        let is_unix = socket.local_addr()?.is_unix();
        Ok(is_unix && socket.r#type()? == socket2::Type::SEQPACKET && !socket.is_listener()?)
    })
}

/// Raises the soft limit to `wanted`, or to the hard limit where that is lower and may not be raised; returns what is in
/// force afterwards. A limit above `wanted` stays.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = sys::descriptor_limits()?;
    if wanted <= soft {
        return Ok(soft);
    }
    if wanted > hard && sys::set_descriptor_limits(wanted, wanted).is_ok() {
        return Ok(wanted);
    }
    let reachable = wanted.min(hard);
    sys::set_descriptor_limits(reachable, hard)?;
    Ok(reachable)
}

/// Sets the limit of open descriptors to `wanted`, up or down; the result is what was granted, which is less where the hard
/// limit is less and may not be raised. A limit that was lowered may be raised again.
pub fn set_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = sys::descriptor_limits()?;
    if wanted < soft {
        sys::set_descriptor_limits(wanted, hard)?;
        return Ok(wanted);
    }
    raise_descriptor_limit(wanted)
}

/// Gives memory that was freed, and that the allocator has kept, back to the system. It walks the allocator's whole heap while
/// others wait for it, so it is for a quiet moment after a burst, on a thread that may block. Nothing where the allocator is not
/// glibc's.
pub fn return_free_memory() {
    sys::trim_heap();
}

/// Whether a call failed because this process or the machine has no descriptor, or no memory, for another socket. That is
/// our own fault: a peer is not to blame, and trying again at once is in vain.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of this process that are in memory.
    fn resident_bytes() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number");
        pages * 4096
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn returns_freed_memory_below_kept_memory() {
        const BLOCK: usize = 4096;
        let (all, mut blocks) = (64 << 20, Vec::new());
        blocks.resize_with(all / BLOCK, || vec![1_u8; BLOCK].into_boxed_slice());
        // The last one keeps the heap from shrinking by itself.
        let last = blocks.pop();
        drop(blocks);
        let before = resident_bytes();
        return_free_memory();
        let after = resident_bytes();
        assert!(before.saturating_sub(after) > all / 2, "{before} -> {after}");
        drop(last);
    }
}
