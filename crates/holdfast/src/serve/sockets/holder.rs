//! Finds the process that listens on an address in use, as far as /proc shows it: the socket's inode from the table of
//! TCP sockets, and the process that has it open. Only root sees the processes of other users.

use reactor::PeerAddress;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state LISTEN in /proc/net/tcp.
const LISTEN: &str = "0A";
/// The state of a socket without a peer in /proc/net/udp.
const UNCONNECTED: &str = "07";

/// `nginx (pid 4711) listens on 0.0.0.0:80`.
pub(super) fn find(address: &PeerAddress, datagrams: bool) -> Option<String> {
    let PeerAddress::Ip(wanted) = address else { return None };
    let tables = if datagrams { ["/proc/net/udp", "/proc/net/udp6"] } else { ["/proc/net/tcp", "/proc/net/tcp6"] };
    let state = if datagrams { UNCONNECTED } else { LISTEN };
    let texts: Vec<String> = tables.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let (held, inode) = texts.iter().flat_map(|text| text.lines()).find_map(|line| listener(line, state, *wanted))?;
    let (pid, name) = owner(inode)?;
    Some(format!("{name} (pid {pid}) listens on {held}"))
}

/// Address and inode of a table line whose socket blocks the wanted address.
fn listener(line: &str, expected: &str, wanted: SocketAddr) -> Option<(SocketAddr, u64)> {
    let mut words = line.split_ascii_whitespace();
    let local = parse_address(words.nth(1)?)?;
    let state = words.nth(1)?;
    let inode = words.nth(5)?.parse().ok()?;
    let overlaps = local.ip() == wanted.ip() || local.ip().is_unspecified() || wanted.ip().is_unspecified();
    (state == expected && local.port() == wanted.port() && overlaps).then_some((local, inode))
}

/// `0100007F:0050`: 32-bit words in host byte order, the port in network byte order.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The first process that has a socket open, and its name.
fn owner(inode: u64) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        let links = descriptors.filter_map(Result::ok).filter_map(|entry| fs::read_link(entry.path()).ok());
        if links.into_iter().any(|link| link.as_os_str() == wanted.as_str()) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, name.trim_end().to_owned()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let held = find(&PeerAddress::Ip(address), false).expect("it is there");
        assert!(held.contains(&format!("(pid {}) listens on {address}", std::process::id())), "{held}");
    }
}
