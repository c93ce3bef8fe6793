//! Reads from the kernel the sockets of a server: its processes and their children, in their network namespace. It
//! changes nothing.

use super::{Live, Look, Process, Tally};
use sockdiag::{Census, Counters, Namespace, Owners, Question, Settings, Source, State, StateSet};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;

/// Most processes whose descriptors are counted; further workers are alike.
const PROCESSES_MAX: usize = 256;

/// Reads the sockets of process `pid` and its descendants. `peers` are the addresses in the configuration.
pub fn look(pid: u32, peers: &[SocketAddr]) -> Result<Live, String> {
    let pids = family(pid)?;
    let held = Owners::of_processes(pids.iter().copied());
    if held.is_empty() && held.refused() > 0 {
        return Err(format!("only root and the user of process {pid} may see its sockets: run this as one of them"));
    }
    let seen = if is_elsewhere(pid)? {
        Namespace::Pid(pid).run(|| count(&held, peers)).map_err(|error| error.to_string())?
    } else {
        count(&held, peers)
    };
    let mut live = seen.map_err(|error| error.to_string())?;
    live.processes = pids.iter().take(PROCESSES_MAX).filter_map(|pid| process(*pid)).collect();
    live.source = format!("{}, of process {pid} and {} below it", live.source, pids.len().saturating_sub(1));
    if held.refused() > 0 {
        let _ = write!(live.source, ", without {} that this user may not read", held.refused());
    }
    if live.unshown > 0 {
        let _ = write!(live.source, ", without {} listeners and sockets towards too many destinations", live.unshown);
    }
    if held.is_cut() {
        live.source.push_str(", with only a part of their sockets, which are too many");
    }
    Ok(live)
}

/// Whether the process is in another network namespace. A user who may not know that must not read the sockets here
/// instead.
fn is_elsewhere(pid: u32) -> Result<bool, String> {
    let of = |process: &str| {
        let link = fs::read_link(format!("/proc/{process}/ns/net"));
        link.map_err(|error| format!("the network namespace of process {process} cannot be read: {error}; only root and the user of the process may read it"))
    };
    Ok(of(&pid.to_string())? != of("self")?)
}

fn count(held: &Owners, peers: &[SocketAddr]) -> Result<Live, sockdiag::Error> {
    let mut census = Census::open()?;
    let listeners =
        Question { states: StateSet::of(&[State::Listen]), tcp_info: false, memory: false, ..Question::default() };
    let mut listening = HashSet::new();
    census.for_each(&listeners, |socket| {
        listening.insert(socket.local.port());
    })?;
    let question = Question { tcp_info: false, ..Question::default() };
    let settings = Settings::read();
    let from_proc = matches!(census.source(), Source::Proc(_));
    let begin = || Tally::new(Look { settings: &settings, listening: &listening, peers, from_proc });
    let visit = |tally: &mut Tally<'_>, socket: &sockdiag::Socket| tally.count(socket, held.of(socket.inode).is_some());
    let (tally, summary) = census.collect(&question, begin, visit)?;
    let mut live = tally.finish();
    let unsure = if summary.interrupted { ", which changed during the look" } else { "" };
    live.source = format!("{}{unsure}", census.source());
    let counters = Counters::read().unwrap_or_default();
    live.listen_overflows = counters.listen_overflows;
    live.time_wait_overflows = counters.time_wait_overflows;
    Ok(live)
}

/// The process and all its descendants.
fn family(pid: u32) -> Result<BTreeSet<u32>, String> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").map_err(|error| format!("/proc cannot be read: {error}"))?;
    let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for child in all {
        if let Some(parent) = parent_of(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    if parent_of(pid).is_none() {
        return Err(format!("no process {pid}: /proc/{pid} is not there"));
    }
    let (mut family, mut next) = (BTreeSet::new(), vec![pid]);
    // Each process is entered once, so the loop ends even if the processes change meanwhile.
    while let Some(member) = next.pop() {
        if family.insert(member) {
            next.extend(children.get(&member).into_iter().flatten());
        }
    }
    Ok(family)
}

/// The fourth field of `/proc/PID/stat`; the name before it may hold blanks and parentheses.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn process(pid: u32) -> Option<Process> {
    let used = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
    let (limit, hard_limit) = crate::system::descriptor_limits(&format!("/proc/{pid}"));
    Some(Process { pid, used, limit, hard_limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_sockets_are_seen_with_their_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let waiting: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        // A socket that stays open is found at the first reading, although other tests of this process open and close
        // sockets meanwhile.
        let live = look(std::process::id(), &[]).expect("we may look at ourselves");
        let seen = live.listeners.iter().find(|seen| seen.address == address).expect("it is ours");
        assert_eq!((seen.queue, seen.granted.is_some()), (3, true));
        assert!(live.towards(address).is_some_and(|seen| seen.established == 3), "{:?}", live.destinations);
        assert!(live.processes.iter().any(|process| process.used > 5 && process.limit > Some(5)));
        drop(waiting);
    }

    #[test]
    fn reports_a_process_that_is_gone() {
        assert!(look(u32::MAX, &[]).is_err_and(|error| error.contains("no process")));
    }
}
