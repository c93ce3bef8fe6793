//! Limits of the process, and how it shows that one is reached.

use crate::sys;
use std::io;

/// The soft and the hard limit of open descriptors (`RLIMIT_NOFILE`).
pub fn descriptor_limit() -> io::Result<(u64, u64)> {
    sys::descriptor_limits()
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

/// Whether a call failed because this process or the machine has no descriptor, or no memory, for another socket. That is
/// nobody's fault but ours: a peer is not to blame, and trying again at once is in vain.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
