//! What processes use, as reported by /proc: CPU of a process and its descendants, memory, descriptors.
//! [`threads`](super::threads) has the times of single threads. Read-only. Called by the stage during a load, and by `cargo
//! xtask bench`.

use nix::sys::time::TimeValLike as _;
use nix::time::clock_getcpuclockid;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// CPU time of a process tree since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Time on a core, from the scheduler, in nanoseconds.
    pub total_ns: u64,
    /// User time in clock ticks: too coarse for sums, but good enough to split the total.
    pub user_ticks: u64,
    /// System time in clock ticks.
    pub system_ticks: u64,
}

impl Cpu {
    /// The CPU time between two readings, as (user, system) microseconds.
    pub fn since(self, before: Self) -> (f64, f64) {
        let total = self.total_ns.saturating_sub(before.total_ns) as f64 / 1e3;
        let user = self.user_ticks.saturating_sub(before.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(before.system_ticks) as f64;
        if user + system == 0.0 {
            return (0.0, total);
        }
        (total * user / (user + system), total * system / (user + system))
    }
}

/// The fields of /proc/PID/stat from the third on. The command name before them may contain anything; it ends at the last
/// closing parenthesis.
fn stat_of(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.to_owned())
}

/// The field with this number in `proc_pid_stat(5)`, which counts from 1.
fn field(stat: &str, number: usize) -> Option<u64> {
    stat.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The CPU time of a process, its descendants and all their threads.
pub fn cpu_of_tree(root: u32) -> Cpu {
    cpu_of(&tree(root))
}

/// The same for known processes. It includes threads that have ended and children that were reaped. A zombie keeps its
/// times until it is reaped.
pub fn cpu_of(pids: &[u32]) -> Cpu {
    let mut sum = Cpu::default();
    for pid in pids {
        let stat = stat_of(*pid).unwrap_or_default();
        let ticks = |number| field(&stat, number).unwrap_or(0);
        let own_ns = run_ns_of(*pid).unwrap_or_else(|| nanoseconds(ticks(14) + ticks(15)));
        // The kernel has no finer sum for reaped children.
        sum.total_ns += own_ns + nanoseconds(ticks(16) + ticks(17));
        sum.user_ticks += ticks(14) + ticks(16);
        sum.system_ticks += ticks(15) + ticks(17);
    }
    sum
}

/// The kernel's sum of the time that a process was on a core, including ended threads.
fn run_ns_of(pid: u32) -> Option<u64> {
    let clock = clock_getcpuclockid(nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    u64::try_from(clock.now().ok()?.num_nanoseconds()).ok()
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The time of all cores since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cores {
    idle: u64,
    /// Time that the host of a virtual machine took.
    stolen: u64,
    all: u64,
}

impl Cores {
    /// The current times.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        parse_cores(&stat)
    }

    /// The share of all cores that any process used since an earlier reading.
    pub fn used_since(self, earlier: Self) -> f64 {
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        let all = self.all.saturating_sub(earlier.all) as f64;
        if all > 0.0 { 1.0 - idle / all } else { 0.0 }
    }

    /// The share of all cores that the host of a virtual machine took meanwhile although there was work.
    pub fn stolen_since(self, earlier: Self) -> f64 {
        let stolen = self.stolen.saturating_sub(earlier.stolen) as f64;
        let all = self.all.saturating_sub(earlier.all) as f64;
        if all > 0.0 { stolen / all } else { 0.0 }
    }
}

/// The first line: `cpu user nice system idle iowait irq softirq steal …`; the fields after it are part of user and nice.
fn parse_cores(stat: &str) -> Cores {
    let ticks: Vec<u64> = stat.split_ascii_whitespace().skip(1).take(8).map_while(|word| word.parse().ok()).collect();
    let of = |place: usize| ticks.get(place).copied().unwrap_or(0);
    Cores { idle: of(3) + of(4), stolen: of(7), all: ticks.iter().sum() }
}

/// Resident memory of a process tree in KiB.
pub fn rss_kib_of_tree(root: u32) -> u64 {
    rss_kib_of(&tree(root))
}

/// The same for known processes. Processes that run the same program share the pages of its file and of shared memory:
/// those count once, as many as the process with most of them has.
pub fn rss_kib_of(pids: &[u32]) -> u64 {
    let mut shared_of: BTreeMap<Option<(u64, u64)>, u64> = BTreeMap::new();
    let mut pages = 0;
    for pid in pids {
        let Some(memory) = fs::read_to_string(format!("/proc/{pid}/statm")).ok().and_then(|statm| parse_statm(&statm))
        else {
            continue;
        };
        pages += memory.own;
        let program = fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()));
        let most = shared_of.entry(program).or_default();
        *most = memory.shared.max(*most);
    }
    (pages + shared_of.values().sum::<u64>()) * (rustix::param::page_size() as u64 / 1024)
}

/// Resident pages of a process: its own, and those of files and of shared memory.
#[derive(Debug, PartialEq, Eq)]
struct ResidentPages {
    own: u64,
    shared: u64,
}

/// The second and third field of /proc/PID/statm: all resident pages, and those of files and of shared memory.
fn parse_statm(statm: &str) -> Option<ResidentPages> {
    let mut words = statm.split_ascii_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
    let (all, shared) = (words.next()?, words.next()?);
    Some(ResidentPages { own: all.saturating_sub(shared), shared })
}

/// Peak resident memory of a process in KiB; 0 once it has ended.
pub fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Number of open descriptors of some processes.
pub fn descriptors_of(pids: &[u32]) -> usize {
    let count = |pid: &u32| {
        let folder = format!("/proc/{pid}/fd");
        // Since Linux 6.2 the folder's size is their number, which avoids listing a million of them.
        match fs::metadata(&folder).map(|metadata| metadata.len()) {
            Ok(0) => fs::read_dir(&folder).map_or(0, Iterator::count),
            Ok(count) => count as usize,
            Err(_) => 0,
        }
    };
    pids.iter().map(count).sum()
}

/// The process and its descendants, itself first.
pub fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = children_of(parent);
        // Excludes the root, which can appear as its own descendant if its pid was reused during the search.
        found.extend(children.into_iter().filter(|child| *child != root));
        next += 1;
        if next > TREE_MAX {
            break;
        }
    }
    found
}

/// No experiment starts this many processes; a larger tree changes as fast as it is read.
const TREE_MAX: usize = 4096;

/// Uses /proc/PID/task/TID/children if the kernel has it (`CONFIG_PROC_CHILDREN`), otherwise the parent of every process.
fn children_of(parent: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => children.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && thread.path().is_dir() => {
                return children_by_parent(parent);
            }
            Err(_) => {}
        }
    }
    children
}

fn children_by_parent(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| stat_of(*pid).and_then(|stat| field(&stat, 4)) == Some(u64::from(parent));
    all_processes().filter(is_child).collect()
}

/// Every process in /proc.
fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Identifies a process: its pid, and its start time in ticks since boot. Pids are reused, but not together with the start
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its process id.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub started_ticks: u64,
}

impl Identity {
    /// The identity of a running process.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = stat_of(pid)?;
        Some(Self { pid, started_ticks: field(&stat, 22)? })
    }

    /// Whether it still runs; a zombie does not.
    pub fn is_there(&self) -> bool {
        let Some(stat) = stat_of(self.pid) else { return false };
        let is_zombie = stat.split_ascii_whitespace().next().is_none_or(|state| matches!(state, "Z" | "X"));
        !is_zombie && field(&stat, 22) == Some(self.started_ticks)
    }

    /// Kills it, if the pid still belongs to it.
    pub fn kill(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.is_there()) {
            // If it has ended in between, the goal is reached.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The processes of the group that this process leads or led: itself, and what it started. Empty if another process has
    /// its pid now.
    pub fn group(&self) -> Vec<Self> {
        Self::groups(std::slice::from_ref(self))
    }

    /// The same for several groups, with one scan of all processes.
    pub fn groups(leaders: &[Self]) -> Vec<Self> {
        let is_own = |leader: &&Self| Self::of(leader.pid).is_none_or(|now| now == **leader);
        let leaders: Vec<&Self> = leaders.iter().filter(is_own).collect();
        if leaders.is_empty() {
            return Vec::new();
        }
        let member = |pid: u32| {
            let stat = stat_of(pid)?;
            let (group, started_ticks) = (field(&stat, 5)?, field(&stat, 22)?);
            let is_led = |leader: &&Self| u64::from(leader.pid) == group && started_ticks >= leader.started_ticks;
            leaders.iter().any(is_led).then_some(Self { pid, started_ticks })
        };
        all_processes().filter_map(member).collect()
    }

    /// The processes whose working directory is this folder or below it.
    pub fn working_in(folder: &Path) -> Vec<Self> {
        let works_there = |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(folder));
        all_processes().filter(works_there).filter_map(Self::of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::Started;
    use super::*;
    use std::process::Command;

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
    fn used_cores_exclude_idle_and_io_wait() {
        let before = parse_cores("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 2 3\n");
        let after = parse_cores("cpu  110 10 110 740 110 10 5 5 60 0\n");
        assert!((after.used_since(before) - 0.5).abs() < 1e-9);
        assert!((before.used_since(before)).abs() < 1e-9 && parse_cores("").all == 0);
    }

    #[test]
    fn pages_of_a_programs_file_count_once() {
        assert_eq!(parse_statm("1523 263 231 5 0 115 0\n"), Some(ResidentPages { own: 32, shared: 231 }));
        assert_eq!(parse_statm("1523"), None);
        let folder = tempfile::tempdir().unwrap();
        let start = |name: &str| Started::new(name, Command::new("sleep").arg("60"), folder.path().join(name)).unwrap();
        let (first, second) = (start("first"), start("second"));
        let begun = std::time::Instant::now();
        loop {
            let [one, other] = [first.id(), second.id()].map(|pid| rss_kib_of(&[pid]));
            let both = rss_kib_of(&[first.id(), second.id()]);
            if one.max(other) < both && both < one + other {
                break;
            }
            // Both are still starting: they run another program at first, and their memory grows.
            assert!(begun.elapsed().as_secs() < 20, "{one} KiB and {other} KiB, together {both} KiB");
            std::thread::yield_now();
        }
    }

    #[test]
    fn own_usage_includes_time_memory_and_its_child() {
        let folder = tempfile::tempdir().unwrap();
        let child = Started::new("sleep", Command::new("sleep").arg("60"), folder.path().join("out")).unwrap();
        let own = std::process::id();
        assert!(tree(own).contains(&child.id()));
        assert!(children_by_parent(own).contains(&child.id()), "where the kernel does not tell it by itself");
        assert!(cpu_of_tree(own).total_ns > 0 && rss_kib_of_tree(own) > 0 && descriptors_of(&tree(own)) > 2);
        let identity = Identity::of(child.id()).unwrap();
        assert!(identity.is_there() && identity.group() == [identity], "it leads a group of its own");
        let id = child.id();
        drop(child);
        assert!(!tree(own).contains(&id) && !identity.is_there(), "dropping it ends it");
    }
}
