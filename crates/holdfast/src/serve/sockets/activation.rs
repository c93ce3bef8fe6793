//! Sockets that a service manager opened for this process (`sd_listen_fds(3)`): descriptors from 3 upwards, counted in
//! `LISTEN_FDS`, for the process `LISTEN_PID`, with names in `LISTEN_FDNAMES`. A socket serves the `listen` with its
//! address. Its file, if it is a Unix socket, belongs to the service manager.

use super::Sockets;
use super::handover::take;
use gateway::ListenerSpec;
use reactor::PeerAddress;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::Command;

/// The first descriptor.
const FIRST: i32 = 3;
/// Most descriptors taken: more than any unit lists, and a wrong number does not keep the start busy.
const SOCKETS_MAX: i32 = 4096;
/// Paths of Unix sockets that the service manager opened, for the next program of an upgrade, one a line.
const ACTIVATED: &str = "HOLDFAST_ACTIVATED";

/// A socket of the service manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Activated {
    address: PeerAddress,
    datagrams: bool,
    /// `FileDescriptorName=` of the unit, or the unit's name.
    name: String,
}

impl Sockets {
    /// Takes the sockets that the service manager passes; returns the errors.
    pub(super) fn take_activated(&mut self) -> Vec<String> {
        let variable = |name: &str| std::env::var(name).ok();
        let count = count(variable("LISTEN_PID"), variable("LISTEN_FDS"), std::process::id());
        let names = variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut troubles = Vec::new();
        for number in FIRST..FIRST + count {
            let name = names.next().unwrap_or_default().to_owned();
            match take(number) {
                Ok((address, listener)) => {
                    let datagrams = listener.is_datagrams();
                    self.activated.push(Activated { address: address.clone(), datagrams, name });
                    self.add(address, listener);
                }
                Err(trouble) => {
                    troubles.push(format!("invalid socket \"{name}\" of the service manager, ignored: {trouble}"));
                }
            }
        }
        troubles
    }

    /// Remembers the Unix sockets that a service manager opened for the previous program.
    pub(super) fn recall_activated(&mut self) {
        let Some(value) = std::env::var_os(ACTIVATED) else { return };
        let paths = value.as_bytes().split(|byte| *byte == b'\n').filter(|path| !path.is_empty());
        let known = |path: &[u8]| Activated {
            address: PeerAddress::Unix(PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()))),
            datagrams: false,
            name: String::new(),
        };
        self.activated.extend(paths.map(known));
    }

    /// The addresses of the sockets that the service manager opened.
    pub(in crate::serve) fn activated(&self) -> Vec<PeerAddress> {
        self.activated.iter().map(|socket| socket.address.clone()).collect()
    }

    /// Whether the service manager opened the socket of this address.
    pub(super) fn is_activated(&self, address: &PeerAddress) -> bool {
        self.activated.iter().any(|socket| socket.address == *address)
    }

    /// Warnings about sockets of the service manager that no `listen` has the address of.
    pub(in crate::serve) fn unmatched(&self, specs: &[ListenerSpec]) -> Vec<String> {
        let serves = |socket: &Activated, spec: &ListenerSpec| {
            spec.address == socket.address && spec.options.datagrams == socket.datagrams
        };
        let is_unmatched =
            |socket: &&Activated| !socket.name.is_empty() && !specs.iter().any(|spec| serves(socket, spec));
        self.activated.iter().filter(is_unmatched).map(|socket| warning(socket, specs)).collect()
    }
}

/// Names the sockets of Unix paths for the next program: their files are not ours to remove.
pub(in crate::serve) fn leave_activated(command: &mut Command, addresses: &[PeerAddress]) {
    let mut value = Vec::new();
    for address in addresses {
        if let PeerAddress::Unix(path) = address {
            value.extend_from_slice(path.as_os_str().as_bytes());
            value.push(b'\n');
        }
    }
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
        command.env_remove(name);
    }
    command.env(ACTIVATED, OsStr::from_bytes(&value));
}

fn count(pid: Option<String>, sockets: Option<String>, own_pid: u32) -> i32 {
    let is_ours = pid.is_some_and(|pid| pid.parse() == Ok(own_pid));
    let count = sockets.and_then(|count| count.parse::<i32>().ok()).filter(|count| is_ours && *count > 0);
    count.unwrap_or(0).min(SOCKETS_MAX)
}

fn warning(socket: &Activated, specs: &[ListenerSpec]) -> String {
    let Activated { address, name, .. } = socket;
    let mut text = format!(
        "the service manager passes the socket \"{name}\" of {address}, and no \"listen\" has this address: nothing accepts \
         its connections"
    );
    if let PeerAddress::Ip(SocketAddr::V6(ip)) = address
        && ip.ip().is_unspecified()
        && let Some(port) =
            specs.iter().find_map(|spec| port_of_all_v4(&spec.address)).filter(|port| *port == ip.port())
    {
        let _ = write!(text, "; for `listen {port}` write ListenStream=0.0.0.0:{port} in the socket unit");
    }
    text
}

fn port_of_all_v4(address: &PeerAddress) -> Option<u16> {
    match address {
        PeerAddress::Ip(SocketAddr::V4(ip)) if ip.ip().is_unspecified() => Some(ip.port()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_count_only_for_the_named_process() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(count(text("7"), text("2"), 7), 2);
        assert_eq!(count(text("8"), text("2"), 7), 0);
        assert_eq!(count(None, text("2"), 7), 0);
        assert_eq!(count(text("7"), text("-1"), 7), 0);
        assert_eq!(count(text("7"), text("999999999"), 7), SOCKETS_MAX);
        assert_eq!(count(text("7"), text("x"), 7), 0);
    }
}
