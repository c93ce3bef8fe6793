//! CPU time as the kernel accounts it, per thread and for the whole machine. Read from /proc; what it means for a row is
//! decided in `summary`.

use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

/// A clock tick of /proc: `USER_HZ` is 100 on every architecture that we build for.
const TICK_MS: u64 = 10;

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count.saturating_mul(TICK_MS))
}

/// Where the times of threads come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// `schedstat`: nanoseconds, and how long a thread waited for a core.
    Scheduler,
    /// `stat`: ticks of 10 ms; waiting is not known.
    Ticks,
}

/// What one thread has had so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Thread {
    run: Duration,
    queued: Duration,
}

/// What the threads of a process have had so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Usage {
    source: Source,
    threads: BTreeMap<u32, Thread>,
}

/// What a process has had between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Spent {
    /// All threads together.
    pub(super) run: Duration,
    /// The thread that was idle for the shortest time: how long it ran.
    pub(super) busiest_run: Duration,
    /// The same thread: how long it was ready to run, but waited for a core.
    pub(super) busiest_queued: Duration,
}

impl Usage {
    /// Of the process with this id.
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let mut usage = Self { source: Source::Scheduler, threads: BTreeMap::new() };
        for entry in fs::read_dir(&tasks)? {
            let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let folder = tasks.join(format!("{id}"));
            // A thread that has ended meanwhile is left out.
            let thread = if let Ok(text) = fs::read_to_string(folder.join("schedstat")) {
                parse_schedstat(&text)
            } else {
                usage.source = Source::Ticks;
                fs::read_to_string(folder.join("stat")).ok().and_then(|text| parse_stat(&text))
            };
            usage.threads.extend(thread.map(|thread| (id, thread)));
        }
        Ok(usage)
    }

    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// What was added since an earlier reading of the same process.
    pub(super) fn since(&self, earlier: &Self) -> Spent {
        let mut spent = Spent::default();
        for (id, thread) in &self.threads {
            let before = earlier.threads.get(id).copied().unwrap_or_default();
            let (run, queued) = (thread.run.saturating_sub(before.run), thread.queued.saturating_sub(before.queued));
            spent.run += run;
            if run + queued > spent.busiest_run + spent.busiest_queued {
                (spent.busiest_run, spent.busiest_queued) = (run, queued);
            }
        }
        spent
    }
}

/// `run queued slices`, the first two in nanoseconds (Documentation/scheduler/sched-stats.rst).
fn parse_schedstat(text: &str) -> Option<Thread> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok().map(Duration::from_nanos));
    Some(Thread { run: numbers.next()??, queued: numbers.next()?? })
}

/// utime and stime, the 14th and 15th field of `proc_pid_stat(5)`; the second one may hold spaces and brackets.
fn parse_stat(text: &str) -> Option<Thread> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(|word| word.parse().ok().map(ticks));
    Some(Thread { run: times.next()?? + times.next()??, queued: Duration::ZERO })
}

/// What all cores of the machine have had so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cores {
    /// Every process, interrupts, and what the hypervisor took for others. Some kernels account interrupts, in which most of
    /// TCP on loopback runs, to the process that they interrupt and some do not; here they are always included.
    pub(super) used: Duration,
    /// Nothing to do.
    pub(super) idle: Duration,
}

impl Cores {
    pub(super) fn read() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        text.lines().next().and_then(parse_cores).ok_or_else(|| io::Error::other("/proc/stat cannot be understood"))
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        Self { used: self.used.saturating_sub(earlier.used), idle: self.idle.saturating_sub(earlier.idle) }
    }

    /// From 0 to 1.
    pub(super) fn used_share(self) -> f64 {
        self.used.div_duration_f64(self.used + self.idle)
    }
}

/// `cpu user nice system idle iowait irq softirq steal …` in ticks (`proc_stat(5)`).
fn parse_cores(line: &str) -> Option<Cores> {
    let numbers = line.strip_prefix("cpu ")?.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = numbers.as_slice() else { return None };
    Some(Cores { used: ticks(user + nice + system + irq + softirq + steal), idle: ticks(idle + iowait) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(run: u64, queued: u64) -> Thread {
        Thread { run: Duration::from_nanos(run), queued: Duration::from_nanos(queued) }
    }

    #[test]
    fn the_busiest_thread_is_the_one_that_was_idle_least() {
        let usage = |threads: &[(u32, u64, u64)]| Usage {
            source: Source::Scheduler,
            threads: threads.iter().map(|&(id, run, queued)| (id, thread(run, queued))).collect(),
        };
        let before = usage(&[(1, 100, 0), (2, 1_000, 500)]);
        let after = usage(&[(1, 160, 0), (2, 1_050, 540), (3, 5, 0)]);
        let spent = after.since(&before);
        assert_eq!(spent.run, Duration::from_nanos(115));
        assert_eq!((spent.busiest_run, spent.busiest_queued), (Duration::from_nanos(50), Duration::from_nanos(40)));
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        assert_eq!(parse_schedstat("657790 7881193 2\n"), Some(thread(657_790, 7_881_193)));
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 1 2 3 4 20 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(parse_stat(stat), Some(thread(500_000_000, 0)));
        assert_eq!(parse_cores("cpu  1 2 3 40 50 6 7 8 0 0"), Some(Cores { used: ticks(27), idle: ticks(90) }));
        assert_eq!(parse_cores("cpu0 1 2 3"), None);
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn our_own_time_is_known() {
        let before = Usage::read(std::process::id()).expect("/proc is there");
        let spent = loop {
            let spent = Usage::read(std::process::id()).expect("/proc is there").since(&before);
            if !spent.run.is_zero() {
                break spent;
            }
        };
        assert!(spent.busiest_run <= spent.run);
    }
}
