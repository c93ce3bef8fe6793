//! What the replica's process used, from /proc.

use super::super::scene::{Replica, wait_until};
use std::fs;
use std::time::{Duration, Instant};

/// A process is quiet if it uses less than a fiftieth of a core over this time.
const QUIET: Duration = Duration::from_millis(500);

/// CPU time of a process so far: what its threads ran.
pub(crate) fn cpu(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten();
    let ran = threads.filter_map(|thread| {
        // A thread may end meanwhile.
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ran.sum())
}

/// A value of `/proc/PID/status`, in KiB.
pub(crate) fn memory_kib(process: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).expect("the line is there")
}

/// Waits until the replica has nothing to do.
pub(crate) fn wait_until_quiet(replica: &Replica) {
    wait_until("the replica is quiet", || {
        let (before, begun) = (cpu(replica.id()), Instant::now());
        pause(QUIET);
        cpu(replica.id()).saturating_sub(before) * 50 < begun.elapsed()
    });
}

/// Lets some time pass that is measured itself.
pub(crate) fn pause(length: Duration) {
    let until = Instant::now() + length;
    while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
        std::thread::park_timeout(rest);
    }
}
