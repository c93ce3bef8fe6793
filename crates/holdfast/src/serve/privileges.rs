//! Drops privileges: a process of root becomes another user, and keeps at most the one capability that its
//! configuration needs.

use crate::process::Owner;
use crate::report::errno;
use nix::errno::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};

/// Becomes the configured user. With `transparent` it keeps `CAP_NET_RAW`, without which the kernel refuses
/// `IP_TRANSPARENT` (ip(7)). Called before the first thread starts, because capabilities belong to a thread.
pub(super) fn become_owner(owner: &Owner, transparent: bool) -> Result<(), String> {
    let failed = |call: &str, error: Errno| format!("{call} failed {}", errno(&error.into()));
    let keeps_right = transparent && nix::unistd::geteuid().is_root() && !owner.user.is_root();
    if keeps_right {
        set_keep_capabilities(true).map_err(|error| failed("prctl(PR_SET_KEEPCAPS)", from_rustix(error)))?;
    }
    let stays = (owner.user, owner.group) == (nix::unistd::geteuid(), nix::unistd::getegid());
    // Groups come first: without root's rights a process cannot change groups.
    match nix::unistd::initgroups(&owner.name, owner.group) {
        // Root of a user namespace may not set groups (user_namespaces(7)). If the user stays the same, there are none
        // to drop.
        Err(Errno::EPERM) if stays => {}
        set => set.map_err(|error| failed("initgroups()", error))?,
    }
    nix::unistd::setgid(owner.group).map_err(|error| failed(&format!("setgid({})", owner.group), error))?;
    nix::unistd::setuid(owner.user).map_err(|error| failed(&format!("setuid({})", owner.user), error))?;
    if keeps_right {
        let right = CapabilitySet::NET_RAW;
        let sets = CapabilitySets { effective: right, permitted: right, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).map_err(|error| {
            let failed = failed("capset(CAP_NET_RAW)", from_rustix(error));
            format!(
                "{failed}; \"proxy_bind … transparent\" needs this capability: permit it, or remove \"transparent\""
            )
        })?;
    }
    Ok(())
}

fn from_rustix(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}
