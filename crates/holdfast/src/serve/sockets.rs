//! The listening sockets of a process that may open them: opened for a configuration that names them, and closed when
//! no configuration does. Reports errors in nginx's words, and names the process that holds the address.

mod activation;
mod handover;
mod holder;

pub(super) use activation::leave_activated;
pub(super) use handover::{Handover, INHERITED, leave_tickets, tickets_left};

use crate::report::errno;
use gateway::ListenerSpec;
use reactor::{ListenOptions, Listener, PeerAddress};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Attempts to bind at a start, and the pause between them. The numbers are nginx's, because scripts stop one instance
/// and start the next without waiting.
const TRIES: u32 = 5;
const PAUSE_MS: u16 = 500;
/// Identifies the message of an address in use.
const IN_USE: &str = "(98: ";

/// The sockets of one address: one, or one per worker with `reuseport`.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) address: PeerAddress,
    pub(super) options: ListenOptions,
    pub(super) listeners: Vec<Arc<Listener>>,
}

impl Bound {
    /// Whether these are the sockets of an address and its protocol: TCP and UDP have ports of their own.
    pub(super) fn is_of(&self, address: &PeerAddress, options: &ListenOptions) -> bool {
        self.address == *address && self.options.datagrams == options.datagrams
    }

    /// Address and protocol as the processes name them to each other.
    pub(super) fn name(&self) -> String {
        socket_name(&self.address, &self.options)
    }
}

/// `127.0.0.1:53`, or `udp 127.0.0.1:53` for datagrams.
pub(super) fn socket_name(address: &PeerAddress, options: &ListenOptions) -> String {
    if options.datagrams { format!("udp {address}") } else { address.to_string() }
}

/// Sockets of datagrams that no configuration names any more. Sessions answer through them, so their address stays taken.
#[derive(Debug)]
struct Left {
    address: PeerAddress,
    listeners: Vec<Weak<Listener>>,
}

impl Left {
    fn present(&self) -> impl Iterator<Item = Arc<Listener>> {
        self.listeners.iter().filter_map(Weak::upgrade)
    }
}

/// All open sockets.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    bound: Vec<Bound>,
    /// At most one for each address that was ever bound and still has sessions.
    left: Vec<Left>,
    /// The sockets that the service manager opened.
    activated: Vec<activation::Activated>,
    /// Whether another master has the same sockets: the files of Unix sockets stay then.
    pub(super) shared: bool,
}

/// The sockets of a configuration, with the warnings of opening them.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub(super) bound: Vec<Bound>,
    pub(super) warnings: Vec<String>,
}

impl Sockets {
    /// Opens the sockets that are not open yet. It closes none: [`Sockets::keep`] does, once the configuration is
    /// applied. An error is nginx's message.
    pub(super) fn open(&self, specs: &[ListenerSpec], workers: u16) -> Result<Opened, String> {
        let mut opened = Opened::default();
        for spec in specs {
            if let Err(message) = self.open_one(spec, workers, &mut opened) {
                self.discard(&opened.bound);
                return Err(message);
            }
        }
        Ok(opened)
    }

    /// Like [`Sockets::open`], but a socket that cannot be opened costs only itself: its number is in the result, with the
    /// message.
    #[cfg(feature = "kubernetes")]
    pub(super) fn open_each(
        &self,
        specs: &[ListenerSpec],
        workers: u16,
    ) -> (Opened, Vec<(gateway::ListenerId, String)>) {
        let (mut opened, mut failed) = (Opened::default(), Vec::new());
        for spec in specs {
            if let Err(message) = self.open_one(spec, workers, &mut opened) {
                failed.push((spec.id, message));
            }
        }
        (opened, failed)
    }

    fn open_one(&self, spec: &ListenerSpec, workers: u16, opened: &mut Opened) -> Result<(), String> {
        let known = self.known(&spec.address, &spec.options).map(|bound| bound.listeners.clone());
        let mut listeners = known.unwrap_or_else(|| self.left_at(spec));
        let wanted = if spec.options.reuseport { usize::from(workers) } else { 1 };
        // Surplus sockets are never closed: the kernel would reset the connections in their queues.
        while listeners.len() < wanted {
            let listener = bind(spec)?;
            if listeners.is_empty() {
                opened.warnings.extend(truncated(spec, &listener));
            }
            listeners.push(Arc::new(listener));
        }
        opened.bound.push(Bound { address: spec.address.clone(), options: spec.options.clone(), listeners });
        Ok(())
    }

    /// The sockets of an address of datagrams at which sessions have not ended yet: no others can be bound there.
    fn left_at(&self, spec: &ListenerSpec) -> Vec<Arc<Listener>> {
        let here = self.left.iter().filter(|left| spec.options.datagrams && left.address == spec.address);
        let found: Vec<_> = here.flat_map(Left::present).collect();
        for listener in &found {
            // What fails here has failed for the same socket before.
            let _ = listener.apply(&spec.options);
        }
        found
    }

    fn known(&self, address: &PeerAddress, options: &ListenOptions) -> Option<&Bound> {
        self.bound.iter().find(|bound| bound.is_of(address, options))
    }

    /// Removes what was opened for a configuration that was not applied.
    pub(super) fn discard(&self, opened: &[Bound]) {
        for new in opened.iter().filter(|new| self.known(&new.address, &new.options).is_none()) {
            self.unlink(&new.address);
        }
    }

    /// Like [`Sockets::open`], for a start: the previous instance may be about to end, so an address in use is tried
    /// again for as long as nginx tries.
    pub(super) fn open_patiently(&self, specs: &[ListenerSpec], workers: u16) -> Result<Opened, String> {
        let mut tries_left = TRIES;
        loop {
            let outcome = self.open(specs, workers);
            tries_left -= 1;
            if tries_left == 0 || !outcome.as_ref().is_err_and(|message| message.contains(IN_USE)) {
                return outcome;
            }
            // The kernel does not notify anyone when another process closes its socket, so this pauses.
            let _ = nix::poll::poll(&mut [], nix::poll::PollTimeout::from(PAUSE_MS));
        }
    }

    /// Makes these the open sockets, closes all others, and sets new options on those that stay. Returns the errors.
    pub(super) fn keep(&mut self, opened: Vec<Bound>) -> Vec<String> {
        let mut troubles = Vec::new();
        for new in &opened {
            if self.known(&new.address, &new.options).is_none_or(|old| old.options == new.options) {
                continue;
            }
            for listener in &new.listeners {
                let applied = listener.apply(&new.options);
                troubles.extend(applied.err().map(|error| failed("setsockopt()", &new.address, &error)));
            }
        }
        for gone in self.bound.iter().filter(|old| !opened.iter().any(|new| new.is_of(&old.address, &old.options))) {
            self.unlink(&gone.address);
            if gone.options.datagrams {
                let listeners = gone.listeners.iter().map(Arc::downgrade).collect();
                self.left.push(Left { address: gone.address.clone(), listeners });
            }
        }
        self.bound = opened;
        let bound = &self.bound;
        let is_bound = |left: &Left| bound.iter().any(|one| one.options.datagrams && one.address == left.address);
        self.left.retain(|left| !is_bound(left) && left.present().next().is_some());
        troubles
    }

    /// Adds sockets that another process opened, unless their address is known already.
    pub(super) fn take_over(&mut self, bound: Vec<Bound>) {
        for new in bound {
            if self.known(&new.address, &new.options).is_none() {
                self.bound.push(new);
            }
        }
    }

    /// Adds one socket. A socket of an address that is known is one more of its `reuseport`.
    fn add(&mut self, address: PeerAddress, listener: Arc<Listener>) {
        let options = ListenOptions { datagrams: listener.is_datagrams(), ..ListenOptions::default() };
        match self.bound.iter_mut().find(|bound| bound.is_of(&address, &options)) {
            Some(bound) => bound.listeners.push(listener),
            // The socket's real options are unknown; those of the configuration are set when it is applied.
            None => {
                self.bound.push(Bound { address, options, listeners: vec![listener] });
            }
        }
    }

    /// Closes all sockets, at the end.
    pub(super) fn close(&mut self) {
        let _ = self.keep(Vec::new());
    }

    /// The file of a Unix socket is removed with the socket, so that the next start can bind it; the service manager does
    /// that for its own.
    fn unlink(&self, address: &PeerAddress) {
        if let PeerAddress::Unix(path) = address
            && !self.shared
            && !self.is_activated(address)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(spec: &ListenerSpec) -> Result<Listener, String> {
    let listener = Listener::bind(&spec.address, &spec.options).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let holder = holder::find(&spec.address, spec.options.datagrams)
                .map_or_else(String::new, |holder| format!("; {holder}"));
            failed("bind()", &spec.address, &error) + &holder
        }
        io::ErrorKind::PermissionDenied => failed("bind()", &spec.address, &error) + &hint(&spec.address),
        _ => failed("bind()", &spec.address, &error),
    })?;
    if let PeerAddress::Unix(path) = &spec.address {
        // Any user may connect, as to a port; the permissions of the directory restrict access.
        let _ = std::fs::set_permissions(path, Permissions::from_mode(0o666));
    }
    Ok(listener)
}

/// `bind() to 127.0.0.1:80 failed (98: Address already in use)`
fn failed(call: &str, address: &PeerAddress, error: &io::Error) -> String {
    format!("{call} to {address} failed {}", errno(error))
}

fn hint(address: &PeerAddress) -> String {
    match address {
        PeerAddress::Ip(ip) => {
            let path = Path::new("/proc/sys/net/ipv4/ip_unprivileged_port_start");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let first: u16 = text.trim().parse().unwrap_or(1024);
            if ip.port() < first {
                format!(
                    "; ports below {first} need a right: start as root, give the program \
                     cap_net_bind_service, or listen on port {first} or above"
                )
            } else {
                String::new()
            }
        }
        PeerAddress::Unix(path) => {
            format!("; the directory of {} must be writable for the user that starts it", path.display())
        }
    }
}

/// The kernel silently shortens an accept queue.
fn truncated(spec: &ListenerSpec, listener: &Listener) -> Option<String> {
    let backlog = listener.backlog_granted(spec.options.backlog)?;
    (backlog.granted < backlog.asked).then(|| {
        format!(
            "the accept queue of {} holds {} connections, not the {} asked for: net.core.somaxconn is lower; \
             raise it with `sysctl -w net.core.somaxconn={}`",
            spec.address, backlog.granted, backlog.asked, backlog.asked
        )
    })
}

/// The sockets of one address that a worker accepts from: each socket has a worker, and each worker has a socket. Of
/// `datagrams` each socket has one worker only, since the datagrams of a client belong to one session; `number` spreads
/// the addresses over the workers.
pub(super) fn share_of(worker: u16, workers: u16, sockets: usize, datagrams: bool, number: u32) -> Vec<usize> {
    if !datagrams {
        return share(worker, workers, sockets);
    }
    let workers = usize::from(workers).max(1);
    (0..sockets).filter(|index| (index + number as usize) % workers == usize::from(worker)).collect()
}

/// The same for connections.
fn share(worker: u16, workers: u16, sockets: usize) -> Vec<usize> {
    let (worker, workers) = (usize::from(worker), usize::from(workers).max(1));
    let mut mine: Vec<usize> = (0..sockets.max(workers))
        .filter(|turn| turn % workers == worker)
        .filter_map(|turn| turn.checked_rem(sockets))
        .collect();
    mine.dedup();
    mine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_socket_has_a_worker_and_every_worker_a_socket() {
        assert_eq!([share(0, 2, 1), share(1, 2, 1)], [[0], [0]]);
        assert_eq!([share(0, 2, 2), share(1, 2, 2)], [[0], [1]]);
        assert_eq!([share(0, 2, 3), share(1, 2, 3)], [vec![0, 2], vec![1]]);
        assert_eq!(share(0, 1, 2), [0, 1]);
        assert_eq!(share(0, 1, 0), [0; 0]);
    }

    #[test]
    fn a_socket_of_datagrams_has_one_worker() {
        assert_eq!([0, 1].map(|worker| share_of(worker, 2, 1, true, 6)), [vec![0], vec![]]);
        assert_eq!([0, 1].map(|worker| share_of(worker, 2, 1, true, 7)), [vec![], vec![0]]);
        assert_eq!([0, 1].map(|worker| share_of(worker, 2, 2, true, 0)), [vec![0], vec![1]]);
    }
}
