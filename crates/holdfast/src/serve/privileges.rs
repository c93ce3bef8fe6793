//! Giving up rights: a process of root's becomes another user, and keeps at most the one right that its configuration needs.

use crate::process::Owner;
use crate::report::errno;
use nix::errno::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};

/// Becomes who the configuration says. `transparent`: `CAP_NET_RAW` stays, without which the kernel sets no `IP_TRANSPARENT`
/// (ip(7)). Called before the first thread is started, since capabilities are a thread's own.
pub(super) fn become_owner(owner: &Owner, transparent: bool) -> Result<(), String> {
    let failed = |call: &str, error: Errno| format!("{call} failed {}", errno(&error.into()));
    let keeps_right = transparent && nix::unistd::geteuid().is_root() && !owner.user.is_root();
    if keeps_right {
        set_keep_capabilities(true).map_err(|error| failed("prctl(PR_SET_KEEPCAPS)", from_rustix(error)))?;
    }
    let stays = (owner.user, owner.group) == (nix::unistd::geteuid(), nix::unistd::getegid());
    // The order matters: who has given up the user's rights cannot change groups any more.
    match nix::unistd::initgroups(&owner.name, owner.group) {
        // Root of a user namespace may not set groups (user_namespaces(7)), and who stays who it is has none to give up.
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
