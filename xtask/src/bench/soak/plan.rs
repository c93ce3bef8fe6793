//! The plan of the soak: the habits of peers, one group of the proxies for each, and the behaviour of the clients.
//! Values only.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// How a peer ends its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Habit {
    /// FIN after this time without a request.
    ClosesIdle(Duration),
    /// FIN of one side after this time. A later request is executed, and the connection ends without an answer.
    HalfCloses(Duration),
    /// FIN after the answer to every N-th request, unannounced.
    ClosesAfter(u32),
    /// Every N-th request is executed and answered with RST.
    ExecutesAndResets(u32),
    Well,
}

impl fmt::Display for Habit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Habit::ClosesIdle(idle) => format!("closes after {idle:?} idle"),
            Habit::HalfCloses(idle) => format!("half-closes after {idle:?} idle"),
            Habit::ClosesAfter(count) => format!("closes after {count} requests"),
            Habit::ExecutesAndResets(count) => format!("resets after {count} requests"),
            Habit::Well => "well".to_owned(),
        };
        f.pad(&text)
    }
}

impl Habit {
    /// How long a connection may be idle.
    pub(super) fn idle(self) -> Option<Duration> {
        match self {
            Habit::ClosesIdle(idle) | Habit::HalfCloses(idle) => Some(idle),
            _ => None,
        }
    }

    /// Peers with an idle limit delay their answers. So each client of a burst needs its own connection, and all these
    /// connections reach the limit together.
    pub(super) fn answers_after(self) -> Duration {
        self.idle().map_or(Duration::ZERO, |_| Duration::from_millis(3))
    }
}

/// One upstream group of the proxy: its peers' habit, and the load on it.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) habit: Habit,
    pub(super) clients: u64,
    /// Numbers of its requests.
    pub(super) ids: Range<u64>,
}

/// Clients of each group that has bursts, and requests of each client in a burst.
pub(super) const BURST_CLIENTS: u64 = 16;
pub(super) const BURST_REQUESTS: u64 = 4;
/// Before a burst all clients of the group pause for the peers' idle limit, plus or minus at most this.
pub(super) const BURST_OFFSET_MS: u64 = 12;
/// In multiples of the shortest limit: 1 to 15 s.
const IDLE_TIMES: [u32; 4] = [1, 2, 5, 15];
/// The habits of peers that get all requests besides bursts.
const BUSY: [Habit; 3] = [Habit::ClosesAfter(50), Habit::ExecutesAndResets(400), Habit::Well];

/// All groups: bursts for a time of `pausing` to the peers with idle limits, and the rest of `requests` in closed loops
/// of `clients`.
pub(super) fn groups(requests: u64, clients: u64, idle: Duration, pausing: Duration) -> Vec<Group> {
    let mut habits: Vec<Habit> = IDLE_TIMES.map(|times| Habit::ClosesIdle(idle * times)).to_vec();
    habits.push(Habit::HalfCloses(idle));
    let mut groups = Vec::new();
    let mut next = 0;
    let mut group = |habit, clients, count: u64| {
        groups.push(Group { habit, clients, ids: next..next + count });
        next += count;
        next
    };
    let mut used = 0;
    for habit in habits {
        let limit = habit.idle().unwrap_or(idle).as_millis().max(1);
        // The first burst needs no pause before it. Even a limit longer than the whole soak gets one burst after a
        // pause.
        let bursts = (pausing.as_millis() / limit).max(1) as u64 + 1;
        used = group(habit, BURST_CLIENTS, bursts * BURST_CLIENTS * BURST_REQUESTS);
    }
    let share = requests.saturating_sub(used) / BUSY.len() as u64;
    for habit in BUSY {
        group(habit, (clients / BUSY.len() as u64).max(1), share);
    }
    groups
}

/// A pseudo-random number (splitmix64), the same in every arm.
pub(super) fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Half of the requests are POST.
pub(super) fn is_post(id: u64) -> bool {
    (mixed(id) >> 40).is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_all_requests_are_sent() {
        let groups = groups(1_000_000, 48, Duration::from_secs(1), Duration::from_secs(100));
        let mut next = 0;
        for group in &groups {
            assert_eq!(group.ids.start, next);
            next = group.ids.end;
        }
        assert!((999_990..=1_000_000).contains(&next), "{next}");
        let limits: Vec<_> = groups.iter().filter_map(|group| group.habit.idle()).map(|idle| idle.as_secs()).collect();
        assert_eq!(limits, [1, 2, 5, 15, 1]);
        assert_eq!(groups[3].ids.end - groups[3].ids.start, 7 * BURST_CLIENTS * BURST_REQUESTS);
    }

    #[test]
    fn about_half_are_post() {
        let posts = (0..10_000).filter(|id| is_post(*id)).count();
        assert!((4800..5200).contains(&posts), "{posts}");
    }
}
