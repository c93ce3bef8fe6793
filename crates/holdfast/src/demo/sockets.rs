//! Sockets by TCP state, counted in /proc/net/tcp: each line of it costs the kernel some microseconds, so it is read
//! outside of what is measured. Only the sockets of the demo's own ports are counted.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};

/// The kernel's numbers (`include/net/tcp_states.h`), from 1. A listener is not a connection and is not counted.
const STATES: [&str; 12] = [
    ESTABLISHED,
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    TIME_WAIT,
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
];
const LISTEN: usize = 10;
/// Names of the two states that are looked at by themselves.
pub(super) const ESTABLISHED: &str = "ESTABLISHED";
pub(super) const TIME_WAIT: &str = "TIME_WAIT";

/// Sockets of one state. A connection within a machine has two, one at each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Ends {
    /// On the side that opened the connection: the port is the remote one.
    pub(super) opener: u64,
    /// On the side that accepted it: the port is the local one.
    pub(super) acceptor: u64,
}

impl Ends {
    pub(super) fn sum(self) -> u64 {
        self.opener + self.acceptor
    }
}

/// The sockets of one port by state; states that do not occur are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Census(BTreeMap<&'static str, Ends>);

impl Census {
    pub(super) fn of(&self, state: &str) -> Ends {
        self.0.get(state).copied().unwrap_or_default()
    }

    /// Sockets in all but these states.
    pub(super) fn others(&self, named: &[&str]) -> u64 {
        self.0.iter().filter(|(state, _)| !named.contains(state)).map(|(_, ends)| ends.sum()).sum()
    }
}

/// Counts the sockets of each port.
pub(super) fn count(ports: &[u16]) -> io::Result<Vec<Census>> {
    count_in(BufReader::new(File::open("/proc/net/tcp")?), ports)
}

fn count_in(mut lines: impl io::BufRead, ports: &[u16]) -> io::Result<Vec<Census>> {
    let mut all = vec![Census::default(); ports.len()];
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line has 150 bytes. Whatever else this is, it is not held in memory.
        if io::Read::take(&mut lines, 4096).read_until(b'\n', &mut line)? == 0 {
            return Ok(all);
        }
        let Some((local, remote, state)) = parse_line(&line) else { continue };
        let Some(name) = STATES.get(state.wrapping_sub(1)).filter(|_| state != LISTEN) else { continue };
        for (census, port) in all.iter_mut().zip(ports) {
            if local == *port {
                census.0.entry(name).or_default().acceptor += 1;
            } else if remote == *port {
                census.0.entry(name).or_default().opener += 1;
            }
        }
    }
}

/// Local port, remote port and state of `sl: ADDRESS:PORT ADDRESS:PORT STATE …`, all hexadecimal and, behind the first colon,
/// of fixed width (`net/ipv4/tcp_ipv4.c`, `get_tcp4_sock`). The head line has none.
fn parse_line(line: &[u8]) -> Option<(u16, u16, usize)> {
    let start = line.iter().position(|byte| *byte == b':')? + 2;
    let hexadecimal = |from: usize, length: usize| {
        let digits = line.get(start + from..start + from + length)?;
        usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let port = |from| hexadecimal(from, 4)?.try_into().ok();
    Some((port(9)?, port(23)?, hexadecimal(28, 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const TEXT: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
   3: 0100007F:1F90 0100007F:C351 06 00000000:00000000 03:000017A7 00000000     0        0 0 3 0
   4: 0100007F:C352 0100007F:0016 08 00000000:00000000 00:00000000 00000000     0        0 4 1 0 20 4 30 10 -1
";

    #[test]
    fn sockets_are_counted_by_state_and_end() {
        let all = count_in(TEXT.as_bytes(), &[8080, 22]).expect("a text can be read");
        let [http, ssh] = all.as_slice() else { panic!("two ports, not {all:?}") };
        assert_eq!(http.of("ESTABLISHED"), Ends { opener: 1, acceptor: 1 });
        assert_eq!(http.of("TIME_WAIT"), Ends { opener: 0, acceptor: 1 });
        assert_eq!(http.others(&["ESTABLISHED"]), 1);
        assert_eq!(http.of("LISTEN").sum(), 0);
        assert_eq!((ssh.of("CLOSE_WAIT").opener, ssh.others(&["CLOSE_WAIT"])), (1, 0));
    }

    #[test]
    fn a_connection_of_our_own_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let _client = TcpStream::connect(address).expect("it listens");
        let _server = listener.accept().expect("it was opened");
        let all = count(&[address.port()]).expect("/proc is there");
        assert_eq!(all.first().map(|census| census.of("ESTABLISHED")), Some(Ends { opener: 1, acceptor: 1 }));
    }
}
