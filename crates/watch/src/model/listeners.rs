//! Listeners: the length and the limit of their accept queues. Pure.

use sockdiag::{Settings, Socket};
use std::net::SocketAddr;

/// Most listeners that are shown; a machine with more has a program that listens on a range of
/// ports.
pub(crate) const LISTENERS_MAX: usize = 1024;

/// A listener in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfiguredListener {
    pub(crate) address: SocketAddr,
    pub(crate) backlog: u32,
}

/// A listener.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    /// Connections that wait for `accept()`.
    pub(crate) queue: u32,
    /// The backlog that the kernel granted; a queue with backlog n holds n + 1. Unknown from
    /// `/proc`.
    pub(crate) granted: Option<u32>,
    /// The backlog that the configuration requests, if there is one.
    pub(crate) asked: Option<u32>,
    /// SYNs and connections that this listener has dropped since it was opened, for any reason.
    pub(crate) drops: Option<u32>,
    /// Drops since the previous look.
    pub(crate) drops_new: u32,
    pub(crate) process: Option<String>,
    cookie: u64,
}

impl Listener {
    pub(crate) fn of(socket: &Socket, process: Option<String>, asked: &[ConfiguredListener], from_proc: bool) -> Self {
        let local = socket.local;
        // A listener without an address in the configuration listens on all addresses.
        let wanted = asked.iter().find(|asked| asked.address == local).or_else(|| {
            asked.iter().find(|asked| asked.address.port() == local.port() && asked.address.ip().is_unspecified())
        });
        Self {
            address: local,
            queue: socket.recv_queue,
            granted: (!from_proc).then_some(socket.send_queue),
            asked: wanted.map(|asked| asked.backlog),
            drops: socket.memory.map(|memory| memory.drops),
            drops_new: 0,
            process,
            cookie: socket.cookie,
        }
    }

    /// Whether the queue has no room for another connection.
    pub(crate) fn is_full(&self) -> bool {
        self.granted.is_some_and(|granted| self.queue > granted)
    }

    /// The problem of this listener, if it has one.
    pub(crate) fn remark(&self, settings: &Settings) -> Option<String> {
        if self.is_full() {
            return Some("full: not accepting".to_owned());
        }
        if self.drops_new > 0 {
            return Some(format!("{} dropped just now", self.drops_new));
        }
        match (self.asked, self.granted) {
            (Some(asked), Some(granted)) if granted < asked => Some(format!("{asked} asked for: somaxconn")),
            (None, Some(granted)) if settings.somaxconn == Some(granted) => Some("at somaxconn".to_owned()),
            _ => None,
        }
    }
}

/// Computes the drops since `before`, and sorts the listeners, the fullest first.
pub(crate) fn finish(mut listeners: Vec<Listener>, before: &[Listener]) -> Vec<Listener> {
    for listener in &mut listeners {
        let same = |other: &&Listener| other.cookie == listener.cookie && other.address == listener.address;
        let then = before.iter().find(same).and_then(|other| other.drops);
        listener.drops_new = listener.drops.zip(then).map_or(0, |(now, then)| now.saturating_sub(then));
    }
    let fullness = |listener: &Listener| {
        (u64::from(listener.queue) << 32) / u64::from(listener.granted.unwrap_or(u32::MAX).max(1))
    };
    listeners.sort_by(|a, b| {
        let need = |listener: &Listener| (listener.drops_new, fullness(listener));
        need(b).cmp(&need(a)).then(a.address.port().cmp(&b.address.port())).then(a.address.cmp(&b.address))
    });
    listeners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::socket;
    use sockdiag::State;

    fn listener(address: &str, queue: u32, granted: u32, asked: &[ConfiguredListener]) -> Listener {
        let mut found = socket(State::Listen, address, "0.0.0.0:0");
        (found.recv_queue, found.send_queue, found.cookie) = (queue, granted, u64::from(found.local.port()));
        Listener::of(&found, None, asked, false)
    }

    #[test]
    fn fullest_listener_comes_first_with_its_problem() {
        let settings = Settings { somaxconn: Some(128), ..Settings::default() };
        let asked = [ConfiguredListener { address: "0.0.0.0:80".parse().unwrap(), backlog: 511 }];
        let mut dropping = listener("0.0.0.0:443", 0, 511, &[]);
        dropping.drops = Some(9);
        let before = [Listener { drops: Some(4), ..dropping.clone() }];
        let rows = finish(
            vec![
                listener("0.0.0.0:22", 0, 128, &[]),
                listener("10.0.0.1:80", 3, 128, &asked),
                dropping,
                listener("0.0.0.0:81", 6, 5, &asked),
            ],
            &before,
        );
        let remarks: Vec<_> = rows.iter().map(|row| (row.address.port(), row.remark(&settings))).collect();
        assert_eq!(
            remarks,
            [
                (443, Some("5 dropped just now".to_owned())),
                (81, Some("full: not accepting".to_owned())),
                (80, Some("511 asked for: somaxconn".to_owned())),
                (22, Some("at somaxconn".to_owned())),
            ]
        );
    }
}
