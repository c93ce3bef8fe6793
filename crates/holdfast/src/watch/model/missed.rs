//! What sampling missed: connections opened and closed by the kernel's counters, against those that were seen. Pure.

use sockdiag::{Counters, Socket, State};

/// Connections of one look, by a number that stands for each.
#[derive(Debug, Default)]
pub(crate) struct Present(Vec<u64>);

impl Present {
    /// Notes a connection. TIME_WAIT and half-open ones are none: what the kernel counts as opened is established.
    pub(crate) fn note(&mut self, socket: &Socket) {
        let is_connection =
            !matches!(socket.state, State::Listen | State::TimeWait | State::SynSent | State::SynRecv | State::Close);
        // What stands in FIN_WAIT2 after its socket died has no TCP_INFO, and a number of its own.
        let is_remnant = socket.state == State::FinWait2 && socket.inode == 0 && socket.tcp.is_none();
        if is_connection && !is_remnant {
            self.0.push(identity(socket));
        }
    }

    /// No more will come.
    pub(crate) fn seal(&mut self) {
        self.0.sort_unstable();
    }

    fn contains(&self, identity: u64) -> bool {
        self.0.binary_search(&identity).is_ok()
    }

    /// How many are here that are not there.
    fn not_in(&self, other: &Self) -> u64 {
        let mut theirs = other.0.iter().copied().peekable();
        let mut count = 0;
        for identity in &self.0 {
            while theirs.next_if(|their| their < identity).is_some() {}
            count += u64::from(theirs.peek() != Some(identity));
        }
        count
    }
}

/// The cookie, which is never used again; from `/proc` the inode, which may be.
fn identity(socket: &Socket) -> u64 {
    if socket.cookie == 0 { u64::from(socket.inode) } else { socket.cookie }
}

/// One interval, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Missed {
    /// Connections opened, by the kernel's counters: opened from here and accepted here.
    pub(crate) opened: u64,
    /// Of those, at the look at the interval's end.
    pub(crate) opens_seen: u64,
    /// Of those, opened and closed between two looks, and seen dying.
    pub(crate) opens_seen_dying: u64,
    /// Connections ended, by the counters: those opened less those that there are more now.
    pub(crate) closed: u64,
    /// Of those, seen dying.
    pub(crate) closes_seen: u64,
    /// How often the kernel's queue of events ran over.
    pub(crate) overruns: u64,
}

impl Missed {
    pub(crate) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.opens_seen += other.opens_seen;
        self.opens_seen_dying += other.opens_seen_dying;
        self.closed += other.closed;
        self.closes_seen += other.closes_seen;
        self.overruns += other.overruns;
    }

    /// Opens that were seen in one way or the other, in percent of those counted.
    pub(crate) fn opens_seen_percent(&self) -> Option<f64> {
        percent(self.opens_seen + self.opens_seen_dying, self.opened)
    }

    /// Closes that were seen, in percent of those counted.
    pub(crate) fn closes_seen_percent(&self) -> Option<f64> {
        percent(self.closes_seen, self.closed)
    }
}

/// At most 100: the counters are read a moment apart from the sockets, and a connection may fall between.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 100.0).min(100.0))
}

/// Between two looks.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Identities of connections that died.
    identities: Vec<u64>,
    overruns: u64,
}

/// Deaths that are noted between two looks, at 8 bytes each; further ones are counted as missed.
const DEATHS_MAX: usize = 1 << 20;

impl Deaths {
    /// A socket that was no listener died.
    pub(crate) fn note(&mut self, socket: &Socket) {
        // Without a port of its own it was never connected.
        if socket.local.port() != 0 && self.identities.len() < DEATHS_MAX {
            self.identities.push(identity(socket));
        }
    }

    pub(crate) fn overran(&mut self, times: u32) {
        self.overruns += u64::from(times);
    }
}

/// What happened between two looks; `None` if a counter is lacking.
pub(crate) fn between(
    before: &Present,
    now: &Present,
    deaths: &Deaths,
    counted: &Counters,
    grown: i64,
) -> Option<Missed> {
    let failed = counted.attempt_fails?;
    let opened = (counted.active_opens? + counted.passive_opens?).saturating_sub(failed);
    let short = deaths.identities.iter().filter(|identity| !before.contains(**identity) && !now.contains(**identity));
    Some(Missed {
        opened,
        opens_seen: now.not_in(before),
        // Attempts that failed die as well, and are not opens.
        opens_seen_dying: (short.count() as u64).saturating_sub(failed),
        closed: opened.saturating_add_signed(grown.saturating_neg()),
        closes_seen: (deaths.identities.len() as u64).saturating_sub(failed),
        overruns: deaths.overruns,
    })
}

impl Present {
    /// How many more there are than before.
    pub(crate) fn grown_since(&self, before: &Self) -> i64 {
        self.0.len() as i64 - before.0.len() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::model::tests::socket;

    fn with_cookie(cookie: u64) -> Socket {
        Socket { cookie, ..socket(State::Established, "10.0.0.1:80", "10.0.0.2:40000") }
    }

    fn present(cookies: &[u64]) -> Present {
        let mut present = Present::default();
        for cookie in cookies {
            present.note(&with_cookie(*cookie));
        }
        present.seal();
        present
    }

    #[test]
    fn what_lived_between_two_looks_is_seen_by_its_death() {
        let (before, now) = (present(&[5, 1, 2]), present(&[2, 9, 8]));
        let mut deaths = Deaths::default();
        for cookie in [1, 5, 100, 101] {
            deaths.note(&with_cookie(cookie));
        }
        deaths.note(&socket(State::Close, "0.0.0.0:0", "0.0.0.0:0"));
        deaths.overran(2);
        // 8 and 9 were opened and stay, 100 and 101 came and went, and so did two more; 101 was refused.
        let counted =
            Counters { active_opens: Some(4), passive_opens: Some(2), attempt_fails: Some(1), ..Counters::default() };
        let missed = between(&before, &now, &deaths, &counted, now.grown_since(&before)).unwrap();
        let expected = Missed { opened: 5, opens_seen: 2, opens_seen_dying: 1, closed: 5, closes_seen: 3, overruns: 2 };
        assert_eq!(missed, expected);
        assert_eq!((missed.opens_seen_percent(), missed.closes_seen_percent()), (Some(60.0), Some(60.0)));
        assert_eq!(Missed::default().opens_seen_percent(), None);
        assert_eq!(between(&before, &now, &deaths, &Counters::default(), 0), None);
    }
}
