//! A file system of a few kilobytes for tests of full disks. Only the thread that mounts it, the threads that it starts
//! afterwards and their children see it.

use crate::skip::skip;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::path::{Path, PathBuf};

/// A mounted file system; dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts an empty file system of this size, a multiple of 4 KB, in a folder, which is created. Only in [`with_own_mounts`].
    pub fn mount(place: &Path, bytes: usize) -> Self {
        std::fs::create_dir_all(place).unwrap();
        mount(Some("small"), place, Some("tmpfs"), MsFlags::empty(), Some(&*format!("size={bytes}"))).unwrap();
        Self(place.to_owned())
    }

    /// Changes its size.
    pub fn resize(&self, bytes: usize) {
        let size = format!("size={bytes}");
        mount(None::<&str>, &self.0, None::<&str>, MsFlags::MS_REMOUNT, Some(&*size)).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Runs in a thread with mounts of its own. Without root the test is skipped.
#[track_caller]
pub fn with_own_mounts(work: impl FnOnce() + Send) {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can mount a small disk");
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(std::thread::current().name().unwrap_or("a test").to_owned());
        let worked = thread.spawn_scoped(scope, || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            work();
        });
        if let Err(panic) = worked.unwrap().join() {
            std::panic::resume_unwind(panic);
        }
    });
}
