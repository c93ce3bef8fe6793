//! A file system of a few kilobytes for tests of full disks. Only the thread that mounts it, the threads that it starts
//! afterwards and their children see it.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::{Path, PathBuf};

/// A mounted file system; dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts an empty file system of this size, a multiple of 4 KB, in a folder, which is created. Only in [`crate::with_own_mounts`].
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
