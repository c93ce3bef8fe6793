//! This machine, as far as rules ask about it: sysctls from `/proc/sys`, memory, processors, descriptors. What cannot be read,
//! as some sysctls inside a container, is left out.

use crate::facts::System;
use std::fs;
use std::path::Path;

/// The sysctls that rules look at.
const SYSCTLS: [&str; 12] = [
    "fs.file-max",
    "fs.nr_open",
    "net.core.netdev_max_backlog",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
];

/// Reads this machine. With a process id, its limits and network namespace instead of our own.
pub fn read(pid: Option<u32>) -> Result<System, String> {
    let process = match pid {
        Some(pid) => {
            let folder = format!("/proc/{pid}");
            if !Path::new(&folder).is_dir() {
                return Err(format!("no process {pid}: {folder} is not there"));
            }
            folder
        }
        None => "/proc/self".to_owned(),
    };
    let mut system = System { descriptors: descriptors(&process), memory_bytes: memory(), ..System::default() };
    system.cpus = std::thread::available_parallelism().ok().map(|cpus| cpus.get() as u64);
    for name in SYSCTLS {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        // net.* belong to the namespace of whoever opens them; another one's cannot be read from here, and ours would lie.
        if name.starts_with("net.") && !same_network(&process) {
            continue;
        }
        if let Ok(value) = fs::read_to_string(path) {
            system.sysctls.insert(name.to_owned(), value.trim().to_owned());
        }
    }
    Ok(system)
}

fn same_network(process: &str) -> bool {
    let of = |process: &str| fs::read_link(format!("{process}/ns/net")).ok();
    process == "/proc/self" || (of(process).is_some() && of(process) == of("/proc/self"))
}

fn descriptors(process: &str) -> Option<u64> {
    let limits = fs::read_to_string(format!("{process}/limits")).ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// The least of the machine's memory and the cgroup's limit.
fn memory() -> Option<u64> {
    let total = fs::read_to_string("/proc/meminfo").ok()?;
    let line = total.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)?;
    let cgroup = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|max| max.trim().parse().ok());
    Some(cgroup.map_or(machine, |cgroup: u64| machine.min(cgroup)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_processors_and_descriptors() {
        let system = read(None).expect("our own process is there");
        assert!(system.memory_bytes > Some(1 << 20) && system.cpus > Some(0) && system.descriptors > Some(2));
        assert!(system.number("fs.file-max").is_some());
        assert_eq!(read(Some(std::process::id())).expect("the same").number("fs.nr_open"), system.number("fs.nr_open"));
    }

    #[test]
    fn a_process_that_is_gone_is_said_to_be() {
        assert!(read(Some(u32::MAX)).is_err_and(|error| error.contains("no process")));
    }
}
