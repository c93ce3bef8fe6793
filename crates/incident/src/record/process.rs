//! The watched processes: a master and its workers, with their descriptors, CPU time and memory.

use crate::sample::Process;
use std::collections::HashMap;
use std::fs;

/// Most processes that are followed: a master with more workers has most of them alike.
const PROCESSES_MAX: usize = 64;
/// Most descriptors that are counted one by one on kernels before 6.2, which tell no number.
const COUNTED_MAX: usize = 100_000;
/// `USER_HZ`, as in `machine`.
const TICK_MS: u64 = 10;

/// Reads processes.
#[derive(Debug, Default)]
pub(super) struct ProcessReader {
    /// CPU time so far, by pid.
    cpu_ms: HashMap<u32, u64>,
}

impl ProcessReader {
    /// Reads a process and its children; a process that has ended is left out.
    pub(super) fn read(&mut self, master: u32) -> Vec<Process> {
        let path = format!("/proc/{master}/task/{master}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        let all: Vec<u32> = std::iter::once(master).chain(children).take(PROCESSES_MAX).collect();
        let before = std::mem::take(&mut self.cpu_ms);
        let mut found = Vec::new();
        for pid in all {
            let Some((mut process, cpu_ms)) = read(pid) else { continue };
            process.cpu_ms = before.get(&pid).map_or(0, |then| cpu_ms.saturating_sub(*then));
            self.cpu_ms.insert(pid, cpu_ms);
            found.push(process);
        }
        found
    }
}

fn read(pid: u32) -> Option<(Process, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces and parentheses in it.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    if fields.first().is_some_and(|state| *state == "Z") {
        return None;
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let status = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = status.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default();
    let process = Process {
        pid,
        name: name.to_owned(),
        descriptors: descriptors(pid),
        descriptors_max: limit.and_then(|limit| limit.split_ascii_whitespace().next()?.parse().ok()),
        cpu_ms: 0,
        memory_kb: pages * rustix::param::page_size() as u64 / 1024,
    };
    // utime and stime, fields 14 and 15 of proc_pid_stat(5).
    Some((process, (number(11) + number(12)) * TICK_MS))
}

/// How many descriptors a process has; `None` without the right to know.
fn descriptors(pid: u32) -> Option<u64> {
    let folder = format!("/proc/{pid}/fd");
    let listed = fs::read_dir(&folder).ok()?;
    // Since 6.2 the kernel writes the number into the size of the folder.
    match fs::metadata(&folder).map_or(0, |folder| folder.len()) {
        0 => Some(listed.take(COUNTED_MAX).count() as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn descriptors_of_this_process_are_counted() {
        let mut reader = ProcessReader::default();
        let of = |found: Vec<Process>| {
            found.into_iter().find(|process| process.pid == std::process::id()).expect("it lives")
        };
        let before = of(reader.read(std::process::id())).descriptors.expect("known");
        let files: Vec<File> = (0..50).map(|_| File::open("/dev/null").expect("opened")).collect();
        let now = of(reader.read(std::process::id()));
        // Other tests open and close files meanwhile.
        assert!(now.descriptors.expect("known") >= before + files.len() as u64 / 2, "{before} {now:?}");
        assert!(now.descriptors_max > Some(0) && now.memory_kb > 0);
        assert_eq!(reader.read(u32::MAX), []);
    }
}
