//! A network namespace of a test's own. Creating one takes root; without root the test reports that it was skipped, and
//! under CI it fails.

use sockdiag::Namespace;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A line for `cargo xtask test`, past the harness, as `testkit::skip` writes it.
pub(crate) fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test} (sockdiag): it {why}");
}

/// A process in a network namespace of its own, ended with the test.
pub(crate) struct Elsewhere(Child);

impl Elsewhere {
    /// A namespace made from that of the calling thread; `None`, and said, where none can be made.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let started = Self::try_start();
        if started.is_none() {
            assert!(std::env::var_os("CI").is_none(), "no network namespace could be made");
            skipped(test, "needs root");
        }
        started
    }

    fn try_start() -> Option<Self> {
        let child = Command::new("unshare").args(["--net", "sleep", "60"]).stderr(Stdio::null()).spawn().ok()?;
        let mut elsewhere = Self(child);
        let own = fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
        let deadline = Instant::now() + Duration::from_secs(20);
        while fs::read_link(elsewhere.path()).is_ok_and(|theirs| theirs == own) {
            if elsewhere.0.try_wait().is_ok_and(|ended| ended.is_some()) || Instant::now() > deadline {
                return None;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        elsewhere.path().exists().then_some(elsewhere)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// Runs in a thread of that namespace.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        Namespace::Pid(self.pid()).run(work).expect("root may enter")
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
