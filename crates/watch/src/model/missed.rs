//! What sampling missed: compares the connections that the kernel counted as opened and closed with those that were seen.
//! Pure.

use sockdiag::{Counters, Socket, State};

/// Most connections of one look that are distinguished, at 8 bytes each: 64 MB for two looks at four million. With more,
/// nothing is computed.
const PRESENT_MAX: usize = 1 << 22;

/// The connections of one look, each by a unique number.
#[derive(Debug, Default)]
pub(crate) struct Present {
    identities: Vec<u64>,
    /// Connections of the previous look that are missing in this one.
    gone: Vec<u64>,
    /// Whether there were too many connections.
    is_cut: bool,
}

impl Present {
    /// Adds a connection. TIME_WAIT and half-open sockets are skipped, because the kernel counts only established
    /// connections as opened.
    pub(crate) fn note(&mut self, socket: &Socket) {
        let is_connection =
            !matches!(socket.state, State::Listen | State::TimeWait | State::SynSent | State::SynRecv | State::Close);
        // A FIN_WAIT2 without a socket has no TCP_INFO, and a number of its own.
        let is_remnant = socket.state == State::FinWait2 && socket.inode == 0 && socket.tcp.is_none();
        if !is_connection || is_remnant {
            return;
        }
        if self.identities.len() < PRESENT_MAX {
            self.identities.push(identity(socket));
        } else {
            self.is_cut = true;
        }
    }

    /// Ends the look; no more connections follow.
    pub(crate) fn seal(&mut self, before: Option<&Self>) {
        self.identities.sort_unstable();
        self.gone = before.map(|before| before.not_in(self).collect()).unwrap_or_default();
    }

    /// Number of connections that are distinguished.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.identities.len()
    }

    /// Whether there were too many connections to distinguish, so that opens and closes are unknown.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn contains(&self, identity: u64) -> bool {
        self.identities.binary_search(&identity).is_ok()
    }

    /// The connections of this look that are not in the other one.
    fn not_in<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u64> + 'a {
        let mut theirs = other.identities.iter().copied().peekable();
        self.identities.iter().copied().filter(move |identity| {
            while theirs.next_if(|their| their < identity).is_some() {}
            theirs.peek() != Some(identity)
        })
    }

    /// Number of connections that this look and the one before the previous have, but the previous one lacks. A cookie is
    /// never reused, so the previous look missed them. Sockets without a number (an orphan, from `/proc`) are not counted.
    fn passed_over(&self, before: &Self) -> u64 {
        let again = |identity: &u64| *identity != 0 && before.gone.binary_search(identity).is_ok();
        self.not_in(before).filter(again).count() as u64
    }
}

/// The cookie, which is never reused; from `/proc` the inode, which may be.
fn identity(socket: &Socket) -> u64 {
    if socket.cookie == 0 { u64::from(socket.inode) } else { socket.cookie }
}

/// The figures of one interval, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Missed {
    /// Opened connections by the kernel's counters, both connected and accepted.
    pub(crate) opened: u64,
    /// Opened connections that the look at the end of the interval saw.
    pub(crate) opens_seen: u64,
    /// Connections that the look at the start of the interval missed: they existed before it and after it.
    pub(crate) passed_over: u64,
    /// Opened connections that were closed before the next look, but were seen dying.
    pub(crate) opens_seen_dying: u64,
    /// Closed connections by the kernel's counters: the opened ones less the growth of their number.
    pub(crate) closed: u64,
    /// Closed connections that were seen dying.
    pub(crate) closes_seen: u64,
    /// How often the kernel's event queue overflowed.
    pub(crate) overruns: u64,
}

impl Missed {
    pub(crate) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.opens_seen += other.opens_seen;
        self.passed_over += other.passed_over;
        self.opens_seen_dying += other.opens_seen_dying;
        self.closed += other.closed;
        self.closes_seen += other.closes_seen;
        self.overruns += other.overruns;
    }

    /// Opens that were seen in either way, in percent of those counted.
    pub(crate) fn opens_seen_percent(&self) -> Option<f64> {
        percent(self.opens_seen + self.opens_seen_dying, self.opened)
    }

    /// Closes that were seen, in percent of those counted.
    pub(crate) fn closes_seen_percent(&self) -> Option<f64> {
        percent(self.closes_seen, self.closed)
    }
}

/// At most 100: the counters and the sockets are read a moment apart, and a connection may change in between.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 100.0).min(100.0))
}

/// The deaths between two looks.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Identities of connections that died.
    identities: Vec<u64>,
    overruns: u64,
}

/// Most deaths that are stored between two looks, at 8 bytes each; further ones count as missed.
const DEATHS_MAX: usize = 1 << 20;

impl Deaths {
    /// Adds the death of a socket other than a listener.
    pub(crate) fn note(&mut self, socket: &Socket) {
        // Without a local port it was never connected.
        if socket.local.port() != 0 && self.identities.len() < DEATHS_MAX {
            self.identities.push(identity(socket));
        }
    }

    pub(crate) fn overran(&mut self, times: u32) {
        self.overruns += u64::from(times);
    }
}

/// The figures between two looks; `None` if a counter is missing.
pub(crate) fn between(
    before: &Present,
    now: &Present,
    deaths: &Deaths,
    counted: &Counters,
    grown: i64,
) -> Option<Missed> {
    let failed = counted.attempt_fails?;
    let opened = (counted.active_opens? + counted.passive_opens?).saturating_sub(failed);
    let passed_over = now.passed_over(before);
    let short = deaths.identities.iter().filter(|identity| !before.contains(**identity) && !now.contains(**identity));
    Some(Missed {
        opened,
        opens_seen: (now.not_in(before).count() as u64).saturating_sub(passed_over),
        passed_over,
        // Failed attempts die as well, but are not opens.
        opens_seen_dying: (short.count() as u64).saturating_sub(failed),
        closed: opened.saturating_add_signed(grown.saturating_neg()),
        closes_seen: (deaths.identities.len() as u64).saturating_sub(failed),
        overruns: deaths.overruns,
    })
}

impl Present {
    /// Growth of the number of connections since `before`.
    pub(crate) fn grown_since(&self, before: &Self) -> i64 {
        self.identities.len() as i64 - before.identities.len() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::socket;

    fn with_cookie(cookie: u64) -> Socket {
        Socket { cookie, ..socket(State::Established, "10.0.0.1:80", "10.0.0.2:40000") }
    }

    fn present_after(before: Option<&Present>, cookies: &[u64]) -> Present {
        let mut present = Present::default();
        for cookie in cookies {
            present.note(&with_cookie(*cookie));
        }
        present.seal(before);
        present
    }

    fn present(cookies: &[u64]) -> Present {
        present_after(None, cookies)
    }

    #[test]
    fn sees_short_connections_when_they_close() {
        let (before, now) = (present(&[5, 1, 2]), present(&[2, 9, 8]));
        let mut deaths = Deaths::default();
        for cookie in [1, 5, 100, 101] {
            deaths.note(&with_cookie(cookie));
        }
        deaths.note(&socket(State::Close, "0.0.0.0:0", "0.0.0.0:0"));
        deaths.overran(2);
        // 8 and 9 were opened and stay; 100 and 101 were opened and closed, and so were two more; 101 was refused.
        let counted =
            Counters { active_opens: Some(4), passive_opens: Some(2), attempt_fails: Some(1), ..Counters::default() };
        let missed = between(&before, &now, &deaths, &counted, now.grown_since(&before)).unwrap();
        let expected = Missed {
            opened: 5,
            opens_seen: 2,
            passed_over: 0,
            opens_seen_dying: 1,
            closed: 5,
            closes_seen: 3,
            overruns: 2,
        };
        assert_eq!(missed, expected);
        assert_eq!((missed.opens_seen_percent(), missed.closes_seen_percent()), (Some(60.0), Some(60.0)));
        assert_eq!(Missed::default().opens_seen_percent(), None);
        assert_eq!(between(&before, &now, &deaths, &Counters::default(), 0), None);
    }

    #[test]
    fn a_socket_that_one_look_missed_is_no_new_connection() {
        let counted =
            Counters { active_opens: Some(1), passive_opens: Some(0), attempt_fails: Some(0), ..Counters::default() };
        let none = Counters { active_opens: Some(0), ..counted };
        let first = present(&[1, 2, 3, 4]);
        // 2 has ended, and the look missed 3.
        let second = present_after(Some(&first), &[1, 4]);
        let third = present_after(Some(&second), &[1, 3, 4, 9]);
        let at_second = between(&first, &second, &Deaths::default(), &none, second.grown_since(&first)).unwrap();
        let at_third = between(&second, &third, &Deaths::default(), &counted, third.grown_since(&second)).unwrap();
        assert_eq!((at_second.opens_seen, at_second.passed_over, at_second.closed), (0, 0, 2));
        assert_eq!((at_third.opens_seen, at_third.passed_over), (1, 1));
        // From /proc, a socket without an owner has no number.
        let orphans = [present(&[0, 5]), present(&[5])];
        let again = present_after(Some(&present_after(Some(&orphans[0]), &[5])), &[0, 5]);
        assert_eq!(again.passed_over(&present_after(Some(&orphans[0]), &[5])), 0);
    }
}
