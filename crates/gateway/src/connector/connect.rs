//! A new connection to a peer: from which address, on which port, and what is said when none is left.

use crate::base::logs::error::{Level, errno, quoted};
use crate::connector::lease::Aim;
use crate::connector::leased::Leased;
use crate::connector::opening::{OpenedFor, Pending, open_for_pool};
use crate::exchange::Exchange;
use crate::exchange::patience::Patience;
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::Wants;
use crate::plan::generation::{ProxyPlan, SourcePlan};
use crate::registry::group::PeerPlan;
use crate::registry::pool::IdleSocket;
use crate::registry::ports::PortUse;
use reactor::{ConnectOptions, Interest, Millis, PeerAddress, Stream, Woken};
use smallvec::SmallVec;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use upstream::retry::Failure;
use upstream::shared::{Connecting, Seeker};

/// Where a connection may come from: an address and, seldom, a port; the kernel's choice where there is none.
type Source = Option<(IpAddr, Option<u16>)>;

impl Exchange {
    /// Opens a connection, and takes one that comes free where that is sooner. Then its own is opened for the pool.
    pub(crate) async fn connect(
        &mut self,
        to: Aim<'_>,
        permit: Connecting<'static, IdleSocket>,
        mut seeker: Option<Seeker<'static, IdleSocket>>,
    ) -> Result<Leased, Failure> {
        let began = self.thread.reactor.now();
        let (stream, port) = self.open_socket(to.plan, to.peer)?;
        let mut patience = Patience::new((), began);
        let mut end = Ok(());
        let mut taken = None;
        while end.is_ok() && taken.is_none() && !stream.is_writable() && !stream.is_failed() {
            let left = patience.left((), to.plan.connect_timeout, self.thread.reactor.now());
            match self.wait(Wants::of_upstream(&stream, Interest::WRITE), left).await {
                Woken::Ready => {}
                Woken::Deadline => end = Err(Failure::ConnectTimeout),
                Woken::PeerGone => return Err(Failure::ClientGone),
            }
            taken = self.take_free(to, &mut seeker);
        }
        // What was given at the last moment is taken all the same: nobody watches it for its end.
        let given = seeker.and_then(Seeker::finish);
        let taken = taken.or_else(|| self.take_over(to, given?));
        if let Some(up) = taken {
            self.leave_to_pool(to, Pending { stream, port, permit }, began.after(to.plan.connect_timeout));
            return Ok(up);
        }
        if end.is_err() {
            self.error_log("upstream timed out (110: Connection timed out) while connecting to upstream");
            return Err(Failure::ConnectTimeout);
        }
        match stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => {
                self.error_log(&format!("connect() failed ({}) while connecting to upstream", errno(&error)));
                return Err(Failure::ConnectFailed);
            }
        }
        let now = self.thread.reactor.now();
        if let Some(record) = self.attempts.last_mut() {
            record.connect_ms = Some(now.since(began));
        }
        Ok(Leased::fresh(permit, stream, port, to.is_own(), self.thread.pool_now()))
    }

    /// The exchange needs its own connection no more: whoever comes next may.
    fn leave_to_pool(&self, to: Aim<'_>, pending: Pending, deadline: Millis) {
        let Some(set) = to.tries.set(to.plan) else { return };
        let (group, address) = (Arc::clone(&set.balance), to.peer.address.clone());
        open_for_pool(&self.thread, pending, OpenedFor::Exchange { group, index: to.index, address }, deadline);
    }

    /// A socket that is connecting, from the first source that has a port left.
    fn open_socket(&self, plan: &ProxyPlan, peer: &PeerPlan) -> Result<(Stream, Option<PortUse>), Failure> {
        let reactor = &self.thread.reactor;
        for source in self.sources(plan, peer) {
            let options = ConnectOptions {
                source: source.map(|(ip, _)| ip),
                source_port: source.and_then(|(_, port)| port),
                ..plan.connect.clone()
            };
            match reactor.connect(&peer.address, &options, self.task()) {
                Ok(stream) => {
                    let port = self.thread.shared.ports.opened(&stream, &peer.address);
                    return Ok((stream, port));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    self.log_no_port(&error, source, plan.connect.transparent, &peer.address);
                }
                Err(error) if reactor::is_shortage(&error) => {
                    self.error_log(&format!("socket() failed ({}) while connecting to upstream", errno(&error)));
                    return Err(Failure::NoSocket);
                }
                Err(error) => {
                    self.log_refused_at_once(&error, peer);
                    return Err(Failure::ConnectFailed);
                }
            }
        }
        Err(Failure::NoLocalPort)
    }

    /// A connection that fails before it has begun. As in nginx the line names the peer, and what an upstream cannot mend
    /// by being started (no such socket, no permission) is `crit`.
    fn log_refused_at_once(&self, error: &io::Error, peer: &PeerPlan) {
        let is_down = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::NetworkDown
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
        );
        let message = format!("connect() to {} failed ({}) while connecting to upstream", peer.address, errno(error));
        self.log_at(if is_down { Level::Error } else { Level::Crit }, &message);
    }

    /// Where the connection may come from, in the order in which to try. At least one.
    fn sources(&self, plan: &ProxyPlan, peer: &PeerPlan) -> SmallVec<[Source; 1]> {
        let mut sources = SmallVec::new();
        match (&plan.source, &peer.address) {
            (SourcePlan::Template(template), _) => {
                let mut text = Vec::new();
                template.write(&ExchangeView::of(self), &mut text);
                let source = parse_source(&text);
                if source.is_none() && !text.is_empty() {
                    self.error_log(&format!("invalid local address \"{}\"", quoted(&text)));
                }
                sources.push(source);
            }
            (SourcePlan::Pool(pool), PeerAddress::Ip(to)) => {
                let ordered = self.thread.shared.ports.by_free_ports(pool, *to);
                sources.extend(ordered.into_iter().map(|ip| Some((ip, None))));
            }
            _ => {}
        }
        if sources.is_empty() {
            sources.push(plan.connect.source.map(|ip| (ip, plan.connect.source_port)));
        }
        sources
    }

    /// EADDRNOTAVAIL by its name: which tuple is full, and of what.
    fn log_no_port(&self, error: &io::Error, source: Source, transparent: bool, peer: &PeerAddress) {
        let PeerAddress::Ip(peer) = peer else { return };
        let ip = source.map(|(ip, _)| ip);
        let error = errno(error);
        let reason = match ip {
            // bind() says the same of an address that no interface has.
            Some(ip) if !transparent && UdpSocket::bind((ip, 0)).is_err() => {
                format!("bind({ip}) failed ({error}), no interface has this address")
            }
            _ => {
                let from = ip.map_or_else(|| "any address".to_owned(), |ip| ip.to_string());
                let count = self.thread.shared.ports.stand(ip, *peer).map_or_else(String::new, |stand| {
                    format!(
                        " (of {} ports {} are in use and {} in TIME_WAIT)",
                        stand.ports, stand.used, stand.time_wait
                    )
                });
                format!("connect() failed ({error}), no local port is free from {from} to {peer}{count}")
            }
        };
        self.error_log(&format!("{reason} while connecting to upstream"));
    }
}

/// An address, or address and port, as a variable may say it. An empty text is none.
fn parse_source(text: &[u8]) -> Source {
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
