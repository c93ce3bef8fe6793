//! Reads this machine for the rules: sysctls from `/proc/sys`, memory, processors, descriptors. An unreadable value,
//! such as some sysctls inside a container, is left out.

use crate::facts::System;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The sysctls that rules use.
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

/// Reads this machine. With a process id, it reads that process's limits and network namespace instead of our own.
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
    let mut system =
        System { descriptors: descriptor_limits(&process).0, memory_bytes: memory(&process), ..System::default() };
    system.name_servers = name_servers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    system.cpus = std::thread::available_parallelism().ok().map(|cpus| cpus.get() as u64);
    let elsewhere = pid.filter(|_| !same_network(&process));
    for name in SYSCTLS {
        // Files below /proc/sys/net show the namespace of the process that opens them.
        let text = match elsewhere.filter(|_| name.starts_with("net.")) {
            None => sysctl(name),
            Some(pid) => sockdiag::Namespace::Pid(pid).run(|| sysctl(name)).ok().flatten(),
        };
        match text {
            Some(text) => drop(system.sysctls.insert(name.to_owned(), text)),
            None => system.unknown.push(name),
        }
    }
    Ok(system)
}

/// The addresses of `nameserver` lines, IPv6 in brackets. An address with a zone is left out: `resolver` does not
/// accept it.
fn name_servers(text: &str) -> Vec<String> {
    let addresses =
        text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse::<IpAddr>().ok());
    let written = addresses.map(|address| if address.is_ipv6() { format!("[{address}]") } else { address.to_string() });
    written.collect()
}

fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.trim().to_owned())
}

fn same_network(process: &str) -> bool {
    let of = |process: &str| fs::read_link(format!("{process}/ns/net")).ok();
    process == "/proc/self" || (of(process).is_some() && of(process) == of("/proc/self"))
}

/// The soft and the hard limit of a process, by its folder in /proc.
pub(crate) fn descriptor_limits(process: &str) -> (Option<u64>, Option<u64>) {
    let limits = fs::read_to_string(format!("{process}/limits")).unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let mut words = line.split_whitespace().skip(3).map(|word| word.parse().ok());
    (words.next().flatten(), words.next().flatten())
}

/// The least of the machine's memory and the limits of the control groups around the process.
fn memory(process: &str) -> Option<u64> {
    let total = fs::read_to_string("/proc/meminfo").ok()?;
    let line = total.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)?;
    let groups = fs::read_to_string(format!("{process}/cgroup")).unwrap_or_default();
    let limits = memory_limits(&groups);
    Some(limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).fold(machine, u64::min))
}

/// The files that may limit a process's memory, from its `/proc/PID/cgroup`: those of its own group and of all parent
/// groups. `0::/system.slice/nginx.service` is the unified hierarchy, `4:memory:/docker/0123` an older one.
fn memory_limits(groups: &str) -> impl Iterator<Item = PathBuf> + '_ {
    groups.lines().flat_map(|line| {
        let mut words = line.splitn(3, ':').skip(1);
        let (folder, name) = match words.next() {
            Some("") => ("/sys/fs/cgroup", "memory.max"),
            Some("memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => ("", ""),
        };
        let own = Path::new(words.next().unwrap_or_default());
        let groups = own.ancestors().filter(move |_| !folder.is_empty());
        groups.map(move |group| Path::new(folder).join(group.strip_prefix("/").unwrap_or(group)).join(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_processors_and_descriptors() {
        let system = read(None).expect("our own process is there");
        assert!(system.memory_bytes > Some(1 << 20) && system.cpus > Some(0) && system.descriptors > Some(2));
        assert!(system.number("fs.file-max").is_some() && !system.unknown.contains(&"fs.file-max"));
        assert_eq!(system.sysctls.len() + system.unknown.len(), SYSCTLS.len());
        assert_eq!(read(Some(std::process::id())).expect("the same").number("fs.nr_open"), system.number("fs.nr_open"));
    }

    #[test]
    fn reads_memory_limits_of_both_cgroup_versions() {
        let files = |groups: &str| -> Vec<String> {
            memory_limits(groups).map(|file| file.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(
            files("0::/a.slice/b.service\n"),
            [
                "/sys/fs/cgroup/a.slice/b.service/memory.max",
                "/sys/fs/cgroup/a.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            files("5:devices:/x\n4:memory:/y\n1:name=systemd:/\n"),
            ["/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
        assert_eq!(files(""), [""; 0]);
    }

    #[test]
    fn name_servers_are_written_as_resolver_takes_them() {
        let text = "search x\nnameserver 10.0.0.2\nnameserver ::1\nnameserver fe80::1%eth0\n# nameserver 1.1.1.1\n";
        assert_eq!(name_servers(text), ["10.0.0.2", "[::1]"]);
    }

    #[test]
    fn reports_a_process_that_is_gone() {
        assert!(read(Some(u32::MAX)).is_err_and(|error| error.contains("no process")));
    }
}
