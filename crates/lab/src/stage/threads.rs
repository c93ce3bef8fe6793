//! How the threads of a process spent the time of a load: running, waiting for a core, or idle. A load's worker threads end
//! before its process, so each thread counts up to the last look that saw it. The sum is compared with the kernel's sum for
//! the process, which includes threads that no look saw. Called by `looks` and `figures`.

use super::usage::{Cpu, cpu_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// The times of a thread since it started: on a core, and ready but waiting for one.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    run_ns: u64,
    queued_ns: u64,
}

/// The threads of a process with their times from `schedstat` (Documentation/scheduler/sched-stats.rst).
fn threads_of(pid: u32) -> impl Iterator<Item = (u32, Thread)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| {
        let id = thread.file_name().to_str()?.parse().ok()?;
        let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut times = schedstat.split_ascii_whitespace().map_while(|field| field.parse().ok());
        Some((id, Thread { run_ns: times.next()?, queued_ns: times.next()? }))
    })
}

/// The threads of some processes at one moment.
#[derive(Clone, Debug)]
pub struct Threads {
    at: Instant,
    each: BTreeMap<u32, Thread>,
    /// The kernel's sum for the processes, including threads that have ended.
    cpu: Cpu,
}

/// How the busiest thread of some processes spent the time, in shares; it was idle for the rest.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Busiest {
    /// Share in which it ran.
    pub running: f64,
    /// Share in which it had work and waited for a core.
    pub queued: f64,
    /// Cores that the processes used in threads that no look saw; the busiest thread may be one of them.
    #[serde(default)]
    pub unseen: f64,
}

impl Busiest {
    /// Share of the time in which it was not idle.
    pub fn occupied(&self) -> f64 {
        self.running + self.queued
    }
}

/// One thread over several looks.
struct Watched {
    /// Its times when it was first seen; zero for a thread that began between two looks.
    first: Thread,
    last: Thread,
    /// Seconds from the look before it appeared, or from the first look, to the last look that saw it.
    from_s: f64,
    until_s: f64,
}

impl Threads {
    /// The current times of all threads of these processes.
    pub fn of(pids: &[u32]) -> Self {
        Self { at: Instant::now(), each: pids.iter().copied().flat_map(threads_of).collect(), cpu: cpu_of(pids) }
    }

    /// With these nanoseconds run and queued, by thread; `ended_ns` is the time that ended threads ran.
    #[cfg(test)]
    pub(super) fn scripted(at: Instant, times: &[(u32, u64, u64)], ended_ns: u64) -> Self {
        let each = times.iter().map(|&(id, run_ns, queued_ns)| (id, Thread { run_ns, queued_ns }));
        let total_ns = times.iter().map(|(_, run_ns, _)| run_ns).sum::<u64>() + ended_ns;
        Self { at, each: each.collect(), cpu: Cpu { total_ns, ..Cpu::default() } }
    }

    /// Whether there are no threads, because the processes have ended.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// CPU time of the processes since they started, from the kernel's sum.
    pub fn run_ns(&self) -> u64 {
        self.cpu.total_ns
    }
}

/// The thread that was least idle over some looks, given in order. `None` for fewer than two looks.
///
/// Each thread is judged over its own lifetime, so that a load does not look idle because it writes its figures after its
/// threads have ended. A thread that existed for less than half of the time is judged over half of it, because a thread
/// that was busy for a moment limited nothing.
pub fn busiest<'a>(looks: impl IntoIterator<Item = &'a Threads>) -> Option<Busiest> {
    let mut looks = looks.into_iter().filter(|threads| !threads.is_empty());
    let begin = looks.next()?;
    let seconds = |at: Instant| at.duration_since(begin.at).as_secs_f64();
    let watch =
        |(id, thread): (&u32, &Thread)| (*id, Watched { first: *thread, last: *thread, from_s: 0.0, until_s: 0.0 });
    let mut threads: BTreeMap<u32, Watched> = begin.each.iter().map(watch).collect();
    let mut latest = None;
    for look in looks {
        let (before_s, now_s) = (seconds(latest.unwrap_or(begin).at), seconds(look.at));
        for (id, thread) in &look.each {
            let began = || Watched { first: Thread::default(), last: *thread, from_s: before_s, until_s: now_s };
            let watched = threads.entry(*id).or_insert_with(began);
            (watched.last, watched.until_s) = (*thread, now_s);
        }
        latest = Some(look);
    }
    let end = latest?;
    let whole_s = seconds(end.at).max(1e-9);
    let of_thread = |watched: &Watched| {
        let span_ns = (watched.until_s - watched.from_s).max(whole_s / 2.0) * 1e9;
        let part = |now: u64, then: u64| now.saturating_sub(then) as f64 / span_ns;
        let queued = part(watched.last.queued_ns, watched.first.queued_ns);
        Busiest { running: part(watched.last.run_ns, watched.first.run_ns), queued, unseen: 0.0 }
    };
    let one = threads.values().map(of_thread).max_by(|one, other| one.occupied().total_cmp(&other.occupied()))?;
    let ran_ns = |watched: &Watched| watched.last.run_ns.saturating_sub(watched.first.run_ns);
    let seen_ns: u64 = threads.values().map(ran_ns).sum();
    let all_ns = end.run_ns().saturating_sub(begin.run_ns());
    Some(Busiest { unseen: all_ns.saturating_sub(seen_ns) as f64 / 1e9 / whole_s, ..one })
}

#[cfg(test)]
mod tests {
    use super::super::process::Started;
    use super::super::usage::cpu_of_tree;
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);
    const MS: u64 = 1_000_000;

    /// A thread with the milliseconds that it ran and waited; and the time that ended threads ran.
    type Seen<'a> = (&'a [(u32, u64, u64)], u64);

    /// The result for looks one second apart.
    fn found(looks: &[Seen<'_>]) -> Option<Busiest> {
        let start = Instant::now();
        let scripted = |(turn, (times, ended_ns)): (usize, &Seen<'_>)| {
            let times: Vec<_> = times.iter().map(|&(id, ran, queued)| (id, ran * MS, queued * MS)).collect();
            Threads::scripted(start + SECOND * u32::try_from(turn).unwrap(), &times, ended_ns * MS)
        };
        let looks: Vec<Threads> = looks.iter().enumerate().map(scripted).collect();
        busiest(&looks).map(|found| {
            let round = |part: f64| (part * 1e6).round() / 1e6;
            Busiest { running: round(found.running), queued: round(found.queued), unseen: round(found.unseen) }
        })
    }

    #[test]
    fn the_busiest_thread_is_the_one_that_was_idle_least() {
        let looks: [Seen<'_>; 2] =
            [(&[(1, 500, 0), (2, 100, 100)], 0), (&[(1, 1100, 0), (2, 500, 600), (3, 30, 0)], 0)];
        assert_eq!(found(&looks), Some(Busiest { running: 0.4, queued: 0.5, unseen: 0.0 }));
        assert_eq!(found(&looks[..1]), None, "one look has no span");
    }

    #[test]
    fn ended_thread_counts_up_to_its_end() {
        let main = |ran| (1, ran, 0);
        let all: [Seen<'_>; 5] = [
            (&[main(0), (2, 0, 0)], 0),
            (&[main(5), (2, 950, 0)], 0),
            (&[main(10), (2, 1900, 0)], 0),
            (&[main(15), (2, 2850, 0)], 0),
            (&[main(60)], 2850),
        ];
        assert_eq!(found(&all), Some(Busiest { running: 0.95, queued: 0.0, unseen: 0.0 }));
        let moment: [Seen<'_>; 3] = [(&[main(0)], 0), (&[main(5), (2, 900, 0)], 0), (&[main(10)], 900)];
        assert_eq!(found(&moment).unwrap().running.to_bits(), 0.9_f64.to_bits(), "half of the time, so it counts");
        let late: [Seen<'_>; 5] =
            [(&[main(0)], 0), (&[main(5)], 0), (&[main(9)], 0), (&[main(10)], 0), (&[main(15), (2, 900, 0)], 0)];
        assert_eq!(found(&late).unwrap().running.to_bits(), 0.45_f64.to_bits(), "a quarter counts over half");
    }

    #[test]
    fn unseen_cpu_time_is_reported() {
        let looks: [Seen<'_>; 2] = [(&[(1, 0, 0)], 0), (&[(1, 100, 0)], 700)];
        assert_eq!(found(&looks), Some(Busiest { running: 0.1, queued: 0.0, unseen: 0.7 }));
    }

    fn thread_cpu() -> Duration {
        let ran = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        Duration::new(ran.tv_sec() as u64, ran.tv_nsec() as u32)
    }

    /// Behaves like a load: its workers end, and its process continues for a while.
    #[test]
    #[ignore = "the process that the next test starts"]
    fn workers_that_end_before_their_process() {
        let Some(path) = std::env::var_os("HOLDFAST_TEST_WORKERS") else { return };
        let work = || {
            // Measured in its own CPU time, because a busy machine may not run it for most of any period.
            while thread_cpu() < Duration::from_millis(300) {
                std::hint::spin_loop();
            }
        };
        let workers: Vec<_> = (0..2).map(|_| std::thread::spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap();
        }
        fs::write(path, b"ended").unwrap();
        // Waits until the test kills it.
        std::thread::park_timeout(Duration::from_mins(1));
    }

    #[test]
    fn looks_agree_with_the_kernels_sums_for_a_process() {
        let folder = tempfile::tempdir().unwrap();
        let ended = folder.path().join("ended");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "stage::threads::tests::workers_that_end_before_their_process"]);
        let started =
            Started::new("workers", command.env("HOLDFAST_TEST_WORKERS", &ended), folder.path().join("output"));
        let started = started.unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut looks = vec![Threads::of(&[started.id()])];
        while !ended.exists() {
            assert!(Instant::now() < deadline, "it never ended its work: {}", started.said());
            std::thread::park_timeout(Duration::from_millis(10));
            looks.push(Threads::of(&[started.id()]));
        }
        looks.push(Threads::of(&[started.id()]));
        let seen = busiest(&looks).unwrap();
        let (first, last) = (looks.first().unwrap(), looks.last().unwrap());
        let whole_s = last.at.duration_since(first.at).as_secs_f64();
        let total_ns = cpu_of_tree(started.id()).total_ns;
        assert!(total_ns >= 600_000_000, "two workers ran for 0.3 s each: {total_ns} ns");
        // They may have begun before the first look.
        let kernel = total_ns.saturating_sub(first.run_ns()) as f64 / 1e9 / whole_s;
        assert!(seen.unseen < kernel * 0.2, "{seen:?} of {kernel} cores");
        // Two threads that wait for nothing but a core.
        assert!(seen.occupied() > 0.85, "{seen:?}");
        assert!(seen.occupied() >= kernel / 2.0, "one of two threads did half at least: {seen:?}, {kernel} cores");
    }
}
