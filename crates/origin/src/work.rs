//! CPU time that a response costs, as the page of an application does.

use reactor::thread_cpu;
use std::hint::spin_loop;
use std::time::Duration;

/// Longest work of one request, in µs. It holds up the worker and all its connections, as an application without
/// threads would be held up.
pub(crate) const WORK_US_MAX: u64 = 1_000_000;

/// Uses at least this much CPU time of the calling thread. Time in which the thread does not run does not count, so a
/// busy machine makes it no cheaper.
pub(crate) fn spend(cpu: Duration) {
    let end = thread_cpu() + cpu;
    while thread_cpu() < end {
        spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_uses_the_cpu_time_that_is_asked_for() {
        let before = thread_cpu();
        spend(Duration::from_millis(3));
        let used = thread_cpu().saturating_sub(before);
        assert!(used >= Duration::from_millis(3), "{used:?}");
    }
}
