//! Processors, memory and control groups, from `/proc` and `/sys/fs/cgroup`. Counts are kept from reading to reading.

use crate::sample::{ControlGroup, Machine};
use std::fs;
use std::path::{Path, PathBuf};

/// `USER_HZ`, in which `/proc/stat` counts time on every architecture that we build for, as milliseconds.
const TICK_MS: u64 = 10;

/// Counts since the machine was started.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    busy_ms: u64,
    steal_ms: u64,
    cpu_wait_us: u64,
    memory_wait_us: u64,
    disk_wait_us: u64,
    oom_kills: u64,
    group_oom_kills: u64,
    group_throttled_us: u64,
}

/// Reads the machine.
#[derive(Debug, Default)]
pub(super) struct MachineReader {
    before: Option<Totals>,
}

/// Files of a control group: those of version 2, and of the two controllers of version 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GroupFiles {
    unified: Option<PathBuf>,
    memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
}

impl GroupFiles {
    /// Those of a process.
    pub(super) fn of_process(pid: u32) -> Self {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default(), Path::new("/sys/fs/cgroup"))
    }

    /// From the text of `/proc/PID/cgroup`: `0::/path` of version 2, `4:memory:/path` of version 1.
    fn parse(text: &str, root: &Path) -> Self {
        let mut files = Self::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let path = path.trim_start_matches('/');
            for controller in controllers.split(',') {
                match controller {
                    "memory" => files.memory = Some(root.join("memory").join(path)),
                    "cpu" => files.cpu = Some(root.join("cpu").join(path)),
                    "" if number == "0" => files.unified = Some(root.join(path)),
                    _ => {}
                }
            }
        }
        files
    }

    /// Limit and use of memory, kills and throttled time so far.
    fn read(&self) -> ControlGroup {
        let text = |folder: &Option<PathBuf>, name: &str| {
            folder.as_ref().and_then(|folder| fs::read_to_string(folder.join(name)).ok()).unwrap_or_default()
        };
        let number = |text: String| text.trim().parse::<u64>().ok();
        // Version 1 writes a number near the largest one for "no limit".
        let limit = number(text(&self.unified, "memory.max"))
            .or_else(|| number(text(&self.memory, "memory.limit_in_bytes")))
            .filter(|limit| *limit < 1 << 60);
        let used = number(text(&self.unified, "memory.current"))
            .or_else(|| number(text(&self.memory, "memory.usage_in_bytes")));
        let kills = field(&text(&self.unified, "memory.events"), "oom_kill")
            .or_else(|| field(&text(&self.memory, "memory.oom_control"), "oom_kill"));
        let throttled_us = field(&text(&self.unified, "cpu.stat"), "throttled_usec")
            .or_else(|| field(&text(&self.cpu, "cpu.stat"), "throttled_time").map(|nanoseconds| nanoseconds / 1000));
        ControlGroup {
            memory_limit_kb: limit.map(|bytes| bytes / 1024),
            memory_kb: used.map(|bytes| bytes / 1024),
            oom_kills: kills.unwrap_or_default(),
            throttled_us: throttled_us.unwrap_or_default(),
        }
    }
}

impl MachineReader {
    /// Reads everything; counts are those since the last reading.
    pub(super) fn read(&mut self, group: Option<&GroupFiles>) -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, memory) = (text("/proc/stat"), text("/proc/meminfo"));
        let group = group.map(GroupFiles::read);
        let (busy_ms, steal_ms) = processor_times(&stat);
        let now = Totals {
            busy_ms,
            steal_ms,
            cpu_wait_us: pressure(&text("/proc/pressure/cpu")),
            memory_wait_us: pressure(&text("/proc/pressure/memory")),
            disk_wait_us: pressure(&text("/proc/pressure/io")),
            oom_kills: field(&text("/proc/vmstat"), "oom_kill").unwrap_or_default(),
            group_oom_kills: group.as_ref().map_or(0, |group| group.oom_kills),
            group_throttled_us: group.as_ref().map_or(0, |group| group.throttled_us),
        };
        let before = self.before.replace(now).unwrap_or(now);
        let since = |of: fn(&Totals) -> u64| of(&now).saturating_sub(of(&before));
        Machine {
            busy_ms: since(|t| t.busy_ms),
            steal_ms: since(|t| t.steal_ms),
            cpu_wait_us: since(|t| t.cpu_wait_us),
            memory_wait_us: since(|t| t.memory_wait_us),
            disk_wait_us: since(|t| t.disk_wait_us),
            memory_kb: field(&memory, "MemTotal:").unwrap_or_default(),
            memory_available_kb: field(&memory, "MemAvailable:").unwrap_or_default(),
            oom_kills: since(|t| t.oom_kills),
            group: group.map(|group| ControlGroup {
                oom_kills: since(|t| t.group_oom_kills),
                throttled_us: since(|t| t.group_throttled_us),
                ..group
            }),
        }
    }
}

/// Busy time and stolen time of all processors in milliseconds: `cpu  user nice system idle iowait irq softirq steal …`.
fn processor_times(stat: &str) -> (u64, u64) {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let at = |place: usize| ticks.get(place).copied().unwrap_or_default();
    ([0, 1, 2, 5, 6].map(at).iter().sum::<u64>() * TICK_MS, at(7) * TICK_MS)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`: the total in microseconds.
fn pressure(text: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with("some ")).unwrap_or_default();
    line.rsplit_once("total=").and_then(|(_, total)| total.trim().parse().ok()).unwrap_or_default()
}

/// The number behind the name, in its line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t']))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(processor_times("cpu  10 1 5 900 7 2 3 4 0 0\ncpu0 1 1 1 1\n"), (210, 40));
        assert_eq!(pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0 total=3\n"), 77);
        assert_eq!(field("MemTotal:       2048 kB\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!(field("oom_kill_disable 1\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!((processor_times(""), pressure(""), field("", "x")), ((0, 0), 0, None));
    }

    #[test]
    fn both_versions_of_control_groups_are_found() {
        let root = Path::new("/cg");
        let files = GroupFiles::parse("9:memory:/web\n4:cpu,cpuacct:/\n0::/system.slice/web.service\n", root);
        assert_eq!(files.unified.as_deref(), Some(Path::new("/cg/system.slice/web.service")));
        assert_eq!(
            (files.memory.as_deref(), files.cpu.as_deref()),
            (Some(Path::new("/cg/memory/web")), Some(Path::new("/cg/cpu/")))
        );
    }

    #[test]
    fn this_machine_has_processors_and_memory() {
        let mut reader = MachineReader::default();
        assert_eq!(reader.read(None).busy_ms, 0, "the first reading has no counts");
        let machine = reader.read(Some(&GroupFiles::of_process(std::process::id())));
        assert!(machine.memory_kb > machine.memory_available_kb && machine.memory_available_kb > 0);
    }
}
