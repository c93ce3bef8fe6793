//! Other network namespaces: a thread enters one, runs the work there, and ends. What was opened there (a
//! [`crate::Census`], files of `/proc/thread-self/net`) keeps reading that namespace from any thread.

use crate::Error;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespace {
    /// That of a process.
    Pid(u32),
    /// A file, such as those that `ip netns` keeps under /run/netns.
    Path(PathBuf),
}

impl Namespace {
    /// Runs `work` in a thread of its own that has entered the namespace. Needs `CAP_SYS_ADMIN`.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let path = match self {
            Self::Pid(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
            Self::Path(path) => path.clone(),
        };
        let file = File::open(path).map_err(|error| Error::System { what: "opening the network namespace", error })?;
        std::thread::scope(|scope| {
            let entered = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(Error::system("entering the network namespace"))?;
                Ok(work())
            });
            // A panic of the work is the caller's, as if the work had been done here.
            entered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
