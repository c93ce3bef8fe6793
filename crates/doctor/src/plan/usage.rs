//! What processes and their sockets use now: descriptors, local ports, and memory of kernel and programs. `plan --verify`
//! counts before and after it opens tunnels.

use super::verify::Round;
use sockdiag::{Census, Filter, Question};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// Kernel objects of one socket, by slab name: the socket, its inode, its file with the security module's part, and its
/// directory entry.
const OBJECTS: [&str; 5] = ["TCP", "sock_inode_cache", "filp", "lsm_file_cache", "dentry"];
/// Kernel object of a descriptor in an epoll.
const WATCHED: &str = "eventpoll_epi";

/// Looks at the descriptors of a process, and the time between two of them. What a process opens for a moment is closed in
/// one of them.
const LOOKS: usize = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Counts what these processes use now, and the sockets towards these addresses.
///
/// # Errors
/// The kernel does not report its sockets, or its memory.
pub fn count(pids: &[u32], hops: &[SocketAddr]) -> Result<Round, String> {
    let mut ports = Vec::new();
    let (mut sockets, mut queued) = (0_u64, 0_u64);
    let mut census = Census::open().map_err(|error| error.to_string())?;
    for hop in hops {
        let (address, port) = (hop.ip(), hop.port());
        let words = format!(
            "state established ( ( dst {address} and dport = :{port} ) or ( src {address} and sport = :{port} ) )"
        );
        let filter = Filter::parse(&words, &mut ()).map_err(|error| error.to_string())?;
        let question = Question { filter: Some(&filter), tcp_info: false, ..Question::default() };
        let mut used = BTreeSet::new();
        census
            .for_each(&question, |socket| {
                sockets += 1;
                queued += socket
                    .memory
                    .map_or(0, |memory| u64::from(memory.recv_allocated) + u64::from(memory.send_allocated));
                if socket.remote == *hop {
                    used.insert(socket.local);
                }
            })
            .map_err(|error| error.to_string())?;
        ports.push(used.len() as u64);
    }
    let watched = pids.iter().map(|pid| watched_by(*pid)).sum();
    Ok(Round {
        descriptors: held_descriptors(pids),
        ports,
        kernel_bytes: kernel_bytes(sockets, watched, queued).ok_or("/proc/meminfo cannot be read")?,
        program_bytes: pids.iter().filter_map(|pid| resident_bytes(*pid)).sum(),
    })
}

/// Number of descriptors that each process holds: the smallest of several looks. A process opens others for a moment, such
/// as a file of /proc.
fn held_descriptors(pids: &[u32]) -> Vec<u64> {
    let look = |pid: &u32| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |list| list.count() as u64);
    let mut held: Vec<u64> = pids.iter().map(look).collect();
    for _ in 1..LOOKS {
        thread::park_timeout(BETWEEN_LOOKS);
        for (least, pid) in held.iter_mut().zip(pids) {
            *least = look(pid).min(*least);
        }
    }
    held
}

/// Number of descriptors that the epolls of a process watch.
fn watched_by(pid: u32) -> u64 {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let epolls = folder
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:[eventpoll]"));
    let lines = |number: &str| fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let watched = epolls.filter_map(|entry| Some(lines(entry.file_name().to_str()?)));
    watched.map(|text| text.lines().filter(|line| line.starts_with("tfd:")).count() as u64).sum()
}

/// Kernel memory of this many sockets: the objects of each kind, in this kernel's sizes including their share of unused
/// space, plus queued bytes. The object counts of the slabs would tell less: they are for the whole machine and include
/// freed objects. Without permission to read the sizes, this returns all slabs of the machine.
fn kernel_bytes(sockets: u64, watched: u64, queued: u64) -> Option<u64> {
    let Ok(slabs) = fs::read_to_string("/proc/slabinfo") else { return kilobytes("/proc/meminfo", "Slab:") };
    let each = OBJECTS.iter().filter_map(|name| object_bytes(&slabs, name)).sum::<f64>();
    let watching = object_bytes(&slabs, WATCHED).unwrap_or(0.0);
    Some((sockets as f64 * each + watched as f64 * watching) as u64 + queued)
}

/// Bytes per object of a slab cache. The kernel may have merged the cache with another; it is not found by its name
/// then.
fn object_bytes(slabs: &str, cache: &str) -> Option<f64> {
    const PAGE_BYTES: f64 = 4096.0;
    let line = slabs.lines().find_map(|line| line.strip_prefix(cache)?.strip_prefix(' '))?;
    // active objects, all objects, object size, objects per slab, pages per slab
    let numbers: Vec<f64> = line.split_ascii_whitespace().take(5).map_while(|word| word.parse().ok()).collect();
    let [_, _, _, per_slab, pages] = numbers[..] else { return None };
    Some(pages * PAGE_BYTES / per_slab.max(1.0))
}

fn resident_bytes(pid: u32) -> Option<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "RssAnon:")
}

/// `RssAnon:    1234 kB`, in bytes.
fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_read_by_their_whole_names() {
        let slabs = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables\n\
                     TCPv6 39 39 2496 13 8 : tunables 0 0 0\nTCP 91 143 2368 13 8 : tunables 0 0 0\nodd 1 2\n";
        let bytes = object_bytes(slabs, "TCP").expect("it is there");
        assert!((bytes - 32_768.0 / 13.0).abs() < 0.1, "{bytes}");
        assert_eq!((object_bytes(slabs, "odd"), object_bytes(slabs, "dentry")), (None, None));
    }
}
