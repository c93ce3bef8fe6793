//! This machine, as far as rules ask about it: sysctls from `/proc/sys`, memory, processors, descriptors. What cannot be read,
//! as some sysctls inside a container, is left out.

use crate::facts::System;
use std::fs;
use std::path::Path;

/// The sysctls that rules look at.
const SYSCTLS: [&str; 16] = [
    "fs.file-max",
    "fs.nr_open",
    "net.core.netdev_max_backlog",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_count",
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
    let mut system = System { descriptors: descriptors(&process), memory_bytes: memory(&process), ..System::default() };
    system.cpus = std::thread::available_parallelism().ok().map(|cpus| cpus.get() as u64);
    let elsewhere = pid.filter(|_| !same_network(&process));
    for name in SYSCTLS {
        // Files below /proc/sys/net tell of the namespace of whoever opens them.
        let text = match elsewhere.filter(|_| name.starts_with("net.")) {
            None => sysctl(name),
            Some(pid) => sockdiag::Namespace::Pid(pid).run(|| sysctl(name)).ok().flatten(),
        };
        if let Some(text) = text {
            system.sysctls.insert(name.to_owned(), text);
        }
    }
    Ok(system)
}

fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.trim().to_owned())
}

fn same_network(process: &str) -> bool {
    let of = |process: &str| fs::read_link(format!("{process}/ns/net")).ok();
    process == "/proc/self" || (of(process).is_some() && of(process) == of("/proc/self"))
}

/// The soft limit of a process, by its folder in /proc.
pub(crate) fn descriptors(process: &str) -> Option<u64> {
    let limits = fs::read_to_string(format!("{process}/limits")).ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// The least of the machine's memory and the limits of the control groups around the process.
fn memory(process: &str) -> Option<u64> {
    let total = fs::read_to_string("/proc/meminfo").ok()?;
    let line = total.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)?;
    let groups = fs::read_to_string(format!("{process}/cgroup")).unwrap_or_default();
    // `0::/system.slice/nginx.service`: the unified hierarchy, in which every group above limits as well.
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    let limit = |group: &Path| {
        let folder = Path::new("/sys/fs/cgroup").join(group.strip_prefix("/").unwrap_or(group));
        fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse::<u64>().ok()
    };
    Some(Path::new(&own).ancestors().filter_map(limit).fold(machine, u64::min))
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
