//! Ports for programs that need a port number in advance: nginx, `HAProxy` and the Holdfast binary. Listeners in the test's own
//! process bind port 0 instead and keep what they get.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Names of the ports that this process has taken, until it ends.
static TAKEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// The lowest port that is given out: below are the ports that tests and configurations name.
const LOWEST: u16 = 10_000;
/// Tries until a port is found. A tenth of the ports is taken at most, so that three tries would nearly always do.
const TRIES_MAX: u64 = 200;

/// A free port of 127.0.0.1 that no other process gets while this process lives. The kernel chooses none of these ports for
/// connections and for sockets that bind port 0: they are below its range. A socket with the port's name keeps them
/// from other test processes.
pub fn free_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let behind = range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768_u16);
    assert!(behind > LOWEST + 1000, "the kernel's range of ports, {}, leaves too few below it", range.trim());
    let random = RandomState::new();
    for attempt in 0..TRIES_MAX {
        let offset = random.hash_one(attempt) % u64::from(behind - LOWEST);
        let port = LOWEST + u16::try_from(offset).expect("less than the range");
        let name = SocketAddr::from_abstract_name(format!("holdfast-test-port-{port}")).expect("a short name");
        let Ok(taken) = UnixListener::bind_addr(&name) else { continue };
        // A program that another test has left behind, or a service of this machine.
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            continue;
        }
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(taken);
        return port;
    }
    panic!("{TRIES_MAX} ports in a row are taken");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_port_is_given_out_twice() {
        let ports: BTreeSet<u16> = (0..300).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 300);
        assert!(ports.iter().all(|port| *port >= LOWEST));
    }
}
