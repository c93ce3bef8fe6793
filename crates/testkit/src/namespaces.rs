//! Parts of a test that need a namespace of their own: a network where no other test listens, sends or closes, and mounts
//! that nothing else sees.

use crate::skip::skip;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::process::Command;

/// Runs in a thread with a network of its own, where only loopback exists. Threads and programs that the work starts are in
/// it, too. Without root the test is skipped.
#[track_caller]
pub fn with_own_network(work: impl FnOnce() + Send) {
    with_own(CloneFlags::CLONE_NEWNET, || {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("iproute2 is installed");
        assert!(up.success());
        work();
    });
}

/// Runs in a thread with mounts of its own. Without root the test is skipped.
#[track_caller]
pub fn with_own_mounts(work: impl FnOnce() + Send) {
    with_own(CloneFlags::CLONE_NEWNS, || {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        work();
    });
}

#[track_caller]
fn with_own(namespace: CloneFlags, work: impl FnOnce() + Send) {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can make a namespace");
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(std::thread::current().name().unwrap_or("a test").to_owned());
        let worked = thread.spawn_scoped(scope, || {
            unshare(namespace).unwrap();
            work();
        });
        if let Err(panic) = worked.unwrap().join() {
            std::panic::resume_unwind(panic);
        }
    });
}
