//! Programs that a bench starts: pinned to a core, ended by their pid on every way out, and what the kernel says they used.

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What runs now, so that a signal that ends us ends it too.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A server that was asked to end and has not within this time is killed.
const END_SECONDS: u64 = 5;

/// Ends every started program on SIGINT and SIGTERM. Whatever the main thread waits for fails then, and it returns.
pub(super) fn end_all_when_interrupted() -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for _ in &mut signals {
            eprintln!("xtask: interrupted; ending what was started");
            for pid in RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
                let _ = kill_process(*pid, Signal::TERM);
            }
        }
    });
    Ok(())
}

/// `program`, confined to one core.
pub(super) fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("--cpu-list").arg(core.to_string()).arg(program);
    command
}

/// `program`, confined to a core if there is one.
pub(super) fn placed(core: Option<usize>, program: &Path) -> Command {
    core.map_or_else(|| Command::new(program), |core| pinned(core, program))
}

/// A running program. Dropping it ends it.
pub(super) struct Started {
    child: Child,
    /// Where it writes, for error messages.
    output: PathBuf,
    name: String,
}

impl Started {
    /// Starts the command with standard output and error in a file.
    pub(super) fn new(name: &str, command: &mut Command, output: PathBuf) -> Result<Started> {
        let file = File::create(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let stderr = file.try_clone()?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(stderr).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(pid_of(&child));
        Ok(Started { child, output, name: name.to_owned() })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` says so; an error with the program's own words when it ends or takes too long.
    pub(super) fn wait_ready(&mut self, mut ready: impl FnMut() -> bool) -> Result<()> {
        const READY_SECONDS: u64 = 10; // a loaded machine; idle, all of them are ready within 100 ms
        let deadline = Instant::now() + Duration::from_secs(READY_SECONDS);
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} instead of serving:\n{}", self.name, self.said());
            }
            if ready() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{} did not serve within {READY_SECONDS} s:\n{}", self.name, self.said());
            }
            pause();
        }
    }

    /// Waits for it to end by itself.
    pub(super) fn wait(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} ended with {status}:\n{}", self.name, self.said());
        }
        Ok(())
    }

    /// The last lines that it wrote.
    pub(super) fn said(&self) -> String {
        const LINES: usize = 12;
        let text = fs::read(&self.output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Asks it to end, as ctrl-C would.
    pub(super) fn interrupt(&self) {
        let _ = kill_process(pid_of(&self.child), Signal::INT);
    }

    /// Ends it and everything it started.
    fn end(&mut self) -> Result<()> {
        let tree = tree(self.id());
        kill_process(pid_of(&self.child), Signal::TERM)?;
        let deadline = Instant::now() + Duration::from_secs(END_SECONDS);
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            pause();
        }
        if self.child.try_wait()?.is_none() {
            for pid in tree {
                let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::KILL));
            }
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // What cannot be signalled has ended meanwhile; there is nobody left to tell.
            let _ = self.end();
        }
        RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner).retain(|pid| *pid != pid_of(&self.child));
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The time between two looks at a condition that nothing announces.
pub(super) fn pause() {
    std::thread::park_timeout(Duration::from_millis(10));
}

/// CPU time of a process tree since it started.
#[derive(Clone, Copy, Default)]
pub(super) struct Cpu {
    /// Time on a core, from the scheduler, in nanoseconds.
    pub(super) total_ns: u64,
    /// User and system time in clock ticks: too coarse to add up, good enough to divide the total by.
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
}

impl Cpu {
    /// What was used between two readings, as (user, system) microseconds.
    pub(super) fn since(self, before: Cpu) -> (f64, f64) {
        let total = self.total_ns.saturating_sub(before.total_ns) as f64 / 1e3;
        let user = self.user_ticks.saturating_sub(before.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(before.system_ticks) as f64;
        if user + system == 0.0 {
            return (0.0, total);
        }
        (total * user / (user + system), total * system / (user + system))
    }
}

/// Adds up the CPU time of a process, its descendants and all their threads.
pub(super) fn cpu_of_tree(root: u32) -> Cpu {
    let mut sum = Cpu::default();
    for pid in tree(root) {
        // Fields 14 and 15, counted behind the command name, which may hold anything but ends at the last bracket.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        sum.user_ticks += ticks();
        sum.system_ticks += ticks();
        sum.total_ns += threads_of(pid).map(|(_, thread)| thread.run_ns).sum::<u64>();
    }
    sum
}

/// What one thread has had since it started: time on a core, and time that it was ready and waited for one.
#[derive(Clone, Copy, Default)]
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
pub(super) struct Threads {
    at: Instant,
    each: BTreeMap<u32, Thread>,
}

/// How the busiest thread of some processes spent a time, in parts of it. What is left it was idle.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Busiest {
    pub(super) running: f64,
    /// It had work and waited for a core.
    pub(super) queued: f64,
}

impl Threads {
    pub(super) fn of(pids: &[u32]) -> Threads {
        Threads { at: Instant::now(), each: pids.iter().copied().flat_map(threads_of).collect() }
    }

    /// The thread that was idle least since an earlier look. One that began meanwhile counts from its start.
    pub(super) fn busiest_since(&self, earlier: &Threads) -> Busiest {
        let elapsed_ns = self.at.duration_since(earlier.at).as_nanos() as f64;
        let spent = self.each.iter().map(|(id, thread)| {
            let before = earlier.each.get(id).copied().unwrap_or_default();
            let part = |now: u64, then: u64| now.saturating_sub(then) as f64 / elapsed_ns.max(1.0);
            let queued = part(thread.queued_ns, before.queued_ns);
            Busiest { running: part(thread.run_ns, before.run_ns), queued }
        });
        let occupied = |spent: &Busiest| spent.running + spent.queued;
        spent.max_by(|one, other| occupied(one).total_cmp(&occupied(other))).unwrap_or_default()
    }
}

/// What all cores together have done since the system began, in clock ticks.
#[derive(Clone, Copy, Default)]
pub(super) struct Cores {
    idle_ticks: u64,
    all_ticks: u64,
}

impl Cores {
    pub(super) fn read() -> Cores {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        parse_cores(&stat)
    }

    /// The part of all cores that was used since an earlier reading, whoever used it.
    pub(super) fn used_since(self, earlier: Cores) -> f64 {
        let idle = self.idle_ticks.saturating_sub(earlier.idle_ticks) as f64;
        let all = self.all_ticks.saturating_sub(earlier.all_ticks) as f64;
        if all > 0.0 { 1.0 - idle / all } else { 0.0 }
    }
}

/// The first line: `cpu user nice system idle iowait irq softirq steal …`, where what follows is part of user and nice.
fn parse_cores(stat: &str) -> Cores {
    let ticks: Vec<u64> = stat.split_ascii_whitespace().skip(1).take(8).map_while(|word| word.parse().ok()).collect();
    let of = |place: usize| ticks.get(place).copied().unwrap_or(0);
    Cores { idle_ticks: of(3) + of(4), all_ticks: ticks.iter().sum() }
}

/// Resident memory of a process tree in KiB, shared pages counted once per process.
pub(super) fn rss_kib_of_tree(root: u32) -> u64 {
    let rss = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
    };
    tree(root).iter().map(rss).sum()
}

/// The most memory that a process has had resident, in KiB; 0 once it has ended.
pub(super) fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Whether a child has ended. It stays a zombie, whose times can still be read, until it is waited for.
pub(super) fn wait_without_reaping(child: u32) -> Result<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let pid = Pid::from_raw(child as i32).context("a child has a pid")?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Raises this process's limit of open descriptors, which the programs that it starts inherit; as far as it may, and with an
/// error if that is not enough.
pub(super) fn raise_descriptors(wanted: u64) -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    limit.current = Some(hard.min(wanted));
    setrlimit(Resource::Nofile, limit).context("cannot raise the limit of descriptors")?;
    if hard < wanted {
        bail!("{wanted} descriptors are wanted, and the hard limit is {hard}: raise it (ulimit -Hn)");
    }
    Ok(())
}

/// Open descriptors of a process tree.
pub(super) fn descriptors_of_tree(root: u32) -> usize {
    tree(root).iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok()).map(Iterator::count).sum()
}

/// The process and its descendants.
pub(super) fn tree(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|field| field.parse().ok()) {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_divide_the_schedulers_total() {
        let before = Cpu { total_ns: 1_000_000, user_ticks: 10, system_ticks: 20 };
        let after = Cpu { total_ns: 9_000_000, user_ticks: 11, system_ticks: 23 };
        assert_eq!(after.since(before), (2000.0, 6000.0));
        assert_eq!(
            Cpu { total_ns: 2_000_000, ..before }.since(before),
            (0.0, 1000.0),
            "less than a tick: all of it is shown"
        );
    }

    #[test]
    fn the_busiest_thread_is_the_one_that_was_idle_least() {
        let at = Instant::now();
        let look = |at: Instant, times: &[(u32, u64, u64)]| {
            let each = times.iter().map(|&(id, run_ns, queued_ns)| (id, Thread { run_ns, queued_ns }));
            Threads { at, each: each.collect() }
        };
        let before = look(at, &[(1, 500, 0), (2, 100, 100)]);
        let after = look(at + Duration::from_micros(1), &[(1, 1100, 0), (2, 500, 600), (3, 30, 0)]);
        assert_eq!(after.busiest_since(&before), Busiest { running: 0.4, queued: 0.5 });
        assert_eq!(look(at, &[]).busiest_since(&before), Busiest::default());
    }

    #[test]
    fn cores_are_used_when_they_are_neither_idle_nor_waiting_for_a_disk() {
        let before = parse_cores("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 2 3\n");
        let after = parse_cores("cpu  110 10 110 740 110 10 5 5 60 0\n");
        assert!((after.used_since(before) - 0.5).abs() < 1e-9);
        assert!((before.used_since(before)).abs() < 1e-9 && parse_cores("").all_ticks == 0);
    }

    #[test]
    fn our_own_process_has_used_some_time_and_memory_and_its_child_belongs_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let child = Started::new("sleep", Command::new("sleep").arg("60"), folder.path().join("out")).unwrap();
        let own = std::process::id();
        assert!(tree(own).contains(&child.id()));
        assert!(cpu_of_tree(own).total_ns > 0 && rss_kib_of_tree(own) > 0 && descriptors_of_tree(own) > 2);
        let id = child.id();
        drop(child);
        assert!(!tree(own).contains(&id), "dropping it ends it");
    }

    #[test]
    fn a_program_that_ends_instead_of_serving_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the reason >&2; exit 3"]);
        let mut child = Started::new("broken", &mut command, folder.path().join("out")).unwrap();
        let error = child.wait_ready(|| false).unwrap_err().to_string();
        assert!(error.contains("the reason") && error.contains("exit status: 3"), "{error}");
    }
}
