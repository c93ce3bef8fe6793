//! A new connection to a peer: its source address and port, and the error if no port is left.

use crate::base::logs::error::{Level, errno, quoted};
use crate::base::stall_timeout::StallTimeout;
use crate::connector::lease::Wanted;
use crate::connector::leased::Leased;
use crate::connector::opening::{OpenedFor, open_for_pool};
use crate::connector::pending::{Handshake, OpenStep, Pending};
use crate::connector::{Caller, WaitTimes};
use crate::plan::proxy::SourcePlan;
use crate::registry::pool::IdleSocket;
use crate::registry::ports::PortUse;
use crate::thread::WorkerThread;
use reactor::{ConnectOptions, PeerAddress, TaskId, Woken};
use smallvec::SmallVec;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use transport::Transport;
use upstream::retry::Failure;
use upstream::shared::{Connecting, Seeker};

/// The source of a connection: an address and, seldom, a port; `None` lets the kernel choose.
type LocalSource = Option<(IpAddr, Option<u16>)>;

/// Starts to connect, and enters the local port into the ledger.
pub(crate) fn dial(
    thread: &WorkerThread,
    address: &PeerAddress,
    options: &ConnectOptions,
    task: TaskId,
) -> io::Result<(Transport, Option<PortUse>)> {
    let stream = thread.reactor.connect(address, options, task)?;
    let port = thread.registry.ports.opened(&stream, address);
    Ok((Transport::plain(stream), port))
}

/// Opens a connection, but takes a pooled one if that comes free sooner. Its own then goes to the pool once it is open.
pub(crate) async fn connect<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    permit: Connecting<'static, IdleSocket>,
    mut seeker: Option<Seeker<'static, IdleSocket>>,
    handshake: Option<Handshake>,
    times: &mut WaitTimes,
) -> Result<Box<Leased>, Failure> {
    let reactor = &caller.thread().reactor;
    let (began, began_us) = (reactor.now(), reactor.now_us());
    let (stream, port) = wanted.open_socket(caller)?;
    let mut pending = Pending::new(stream, port, permit, handshake);
    let mut stall = StallTimeout::new((), began);
    let mut taken = None;
    let end = loop {
        let (stepped, step) = pending.step();
        pending = stepped;
        let interest = match step {
            OpenStep::Ready => break Ok(()),
            OpenStep::Failed(error) => break Err(Some(error)),
            OpenStep::Wait(interest) => interest,
        };
        // As in nginx, the handshake gets the rest of `connect_timeout`.
        let left = stall.left((), wanted.connect_timeout, reactor.now());
        match caller.wait_for(Some((&pending.stream, interest)), left).await {
            Woken::Ready => {}
            Woken::Deadline => break Err(None),
            Woken::PeerGone => return Err(Failure::ClientGone),
        }
        taken = wanted.take_free(caller, &mut seeker);
        if taken.is_some() {
            break Ok(());
        }
    };
    // A connection given at the last moment must be taken too: no task watches it for its end.
    let given = seeker.and_then(Seeker::finish);
    let taken = taken.or_else(|| wanted.take_over(caller, given?));
    if let Some(up) = taken {
        let (group, address) = (Arc::clone(wanted.group), wanted.peer.address.clone());
        let reason = OpenedFor::Exchange { group, index: wanted.index, address };
        match end {
            Err(Some(error)) => reason.fail(&error, caller.thread()),
            _ => open_for_pool(caller.thread(), pending, reason, began.after(wanted.connect_timeout)),
        }
        return Ok(up);
    }
    match end {
        Ok(()) => {}
        Err(None) => {
            let place = pending.place();
            pending.count_timeout(caller.thread());
            caller.log_line(Level::Error, &format!("upstream timed out (110: Connection timed out) while {place}"));
            return Err(Failure::ConnectTimeout);
        }
        Err(Some(error)) => {
            error.count(caller.thread());
            caller.log_line(Level::Error, &format!("{error} while {}", pending.place()));
            return Err(Failure::ConnectFailed);
        }
    }
    times.connect_us = Some(reactor.now_us().since(began_us));
    let Pending { stream, port, permit, .. } = pending;
    Ok(Leased::fresh(permit, stream, port, wanted.is_own(), caller.thread().pool_now()))
}

impl Wanted<'_> {
    /// Starts a socket connecting from the first source that has a port left.
    pub(crate) fn open_socket(&self, caller: &impl Caller) -> Result<(Transport, Option<PortUse>), Failure> {
        let address = &self.peer.address;
        for source in self.sources(caller) {
            let options = ConnectOptions {
                source: source.map(|(ip, _)| ip),
                source_port: source.and_then(|(_, port)| port),
                ..self.connect.clone()
            };
            match dial(caller.thread(), address, &options, caller.task()) {
                Ok(opened) => return Ok(opened),
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    log_no_port(caller, &error, source, self.connect.transparent, address);
                }
                Err(error) if reactor::is_shortage(&error) => {
                    let message = format!("socket() failed ({}) while connecting to upstream", errno(&error));
                    caller.log_line(Level::Error, &message);
                    return Err(Failure::NoSocket);
                }
                Err(error) => {
                    log_refused_at_once(caller, &error, address);
                    return Err(Failure::ConnectFailed);
                }
            }
        }
        Err(Failure::NoLocalPort)
    }

    /// The possible sources of the connection, in the order of trying. At least one.
    pub(super) fn sources(&self, caller: &impl Caller) -> SmallVec<[LocalSource; 1]> {
        let mut sources = SmallVec::new();
        match (self.source, &self.peer.address) {
            (SourcePlan::Template(template), _) => {
                let text = caller.value(template);
                let source = parse_source(&text);
                if source.is_none() && !text.is_empty() {
                    caller.log_line(Level::Error, &format!("invalid local address \"{}\"", quoted(&text)));
                }
                sources.push(source);
            }
            (SourcePlan::Pool(pool), PeerAddress::Ip(to)) => {
                let ordered = caller.thread().registry.ports.by_free_ports(pool, *to);
                sources.extend(ordered.into_iter().map(|ip| Some((ip, None))));
            }
            _ => {}
        }
        if sources.is_empty() {
            sources.push(self.connect.source.map(|ip| (ip, self.connect.source_port)));
        }
        sources
    }
}

/// Logs a connection that fails before it has begun. As in nginx the line names the peer. An error that starting the
/// upstream would not fix (no such socket, no permission) is `crit`.
pub(super) fn log_refused_at_once(caller: &impl Caller, error: &io::Error, address: &PeerAddress) {
    let is_down = matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
    );
    let message = format!("connect() to {address} failed ({}) while connecting to upstream", errno(error));
    caller.log_line(if is_down { Level::Error } else { Level::Crit }, &message);
}

/// Logs EADDRNOTAVAIL: which source and peer have no port left, and what uses them.
pub(super) fn log_no_port(
    caller: &impl Caller,
    error: &io::Error,
    source: LocalSource,
    transparent: bool,
    peer: &PeerAddress,
) {
    let PeerAddress::Ip(peer) = peer else { return };
    let ip = source.map(|(ip, _)| ip);
    let error = errno(error);
    let reason = match ip {
        // bind() fails with the same error for an address that no interface has.
        Some(ip) if !transparent && UdpSocket::bind((ip, 0)).is_err() => {
            format!("bind({ip}) failed ({error}), no interface has this address")
        }
        _ => {
            let from = ip.map_or_else(|| "any address".to_owned(), |ip| ip.to_string());
            let count = caller.thread().registry.ports.usage_of(ip, *peer).map_or_else(String::new, |usage| {
                format!(" (of {} ports {} are in use and {} in TIME_WAIT)", usage.ports, usage.used, usage.time_wait)
            });
            format!("connect() failed ({error}), no local port is free from {from} to {peer}{count}")
        }
    };
    caller.log_line(Level::Error, &format!("{reason} while connecting to upstream"));
}

/// An address, or address and port, as a variable may contain it. Empty text gives `None`.
fn parse_source(text: &[u8]) -> LocalSource {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(ip) = text.parse() {
        return Some((ip, None));
    }
    let address: SocketAddr = text.parse().ok()?;
    Some((address.ip(), Some(address.port()).filter(|&port| port > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_address_with_or_without_a_port() {
        assert_eq!(parse_source(b"127.0.0.2"), Some(([127, 0, 0, 2].into(), None)));
        assert_eq!(parse_source(b"127.0.0.2:80"), Some(([127, 0, 0, 2].into(), Some(80))));
        assert_eq!(parse_source(b"[::1]:0"), Some((IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), None)));
        assert_eq!(parse_source(b"::1").map(|(ip, _)| ip.is_ipv6()), Some(true));
        for text in [&b""[..], b"localhost", b"127.0.0.2:x", b"\xff"] {
            assert_eq!(parse_source(text), None);
        }
    }
}
