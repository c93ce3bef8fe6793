//! Evaluates the sockets towards the targets at each look: states, who closed first, retransmissions, closed windows, and
//! data the load has not read. Pure: it takes sockets and returns looks. `watch` decides who closed first.

use sockdiag::{Families, Filter, Side, Socket, State, Test};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;
use watch::model::closers::{Closers, Closes};
use watch::model::piles::{Cause, Pile};
use watch::model::tally::StateCounts;

/// Looks that are kept: as many as a series has rows. Beyond that, every second one is dropped.
const LOOKS_MAX: usize = 1024;
/// Addresses in the kernel's filter. With more, a filter program costs more than checking the sockets here.
const FILTERED_MAX: usize = 16;

/// The sockets towards the targets at one moment, with the counts up to then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Look {
    /// Time since the start of the run.
    pub(crate) at: Duration,
    pub(crate) states: StateCounts,
    /// Sockets whose peer's window is zero: the target does not read.
    pub(crate) window_zero: u64,
    /// Sockets with bytes that the load has not read.
    pub(crate) unread: u64,
    /// Sockets that retransmit without an answer.
    pub(crate) no_answer: u64,
    /// Retransmitted segments since the start, by live and dead sockets.
    pub(crate) sent_again: u64,
    /// Closes since the start.
    pub(crate) closes: Closes,
}

impl Look {
    /// Number of connections that are open or counted as closed. A connection that is closing may count twice.
    pub(crate) fn accounted(&self) -> u64 {
        let open = self.states.present().filter(|(state, _)| *state != State::TimeWait).map(|(_, count)| count);
        self.closes.sum() + open.sum::<u64>()
    }
}

/// State that is kept between looks.
#[derive(Debug)]
pub(crate) struct Account {
    targets: HashSet<SocketAddr>,
    closers: Closers,
    /// Whether the kernel reports dying sockets. Without these events, closes are inferred from the remaining sockets.
    has_events: bool,
    sent_again_by_dead: u64,
}

/// A look in progress.
#[derive(Debug)]
pub(crate) struct Gathering<'a> {
    account: &'a mut Account,
    elapsed_ms: Option<u32>,
    sent_again: u64,
    look: Look,
}

impl Account {
    pub(crate) fn new(targets: impl IntoIterator<Item = SocketAddr>, has_events: bool) -> Self {
        let targets = targets.into_iter().collect();
        Self { targets, closers: Closers::default(), has_events, sent_again_by_dead: 0 }
    }

    /// The filter for the kernel; `None` if all sockets have to be checked here.
    pub(crate) fn filter(&self) -> Option<Filter> {
        if self.targets.len() > FILTERED_MAX {
            return None;
        }
        let tests = self.targets.iter().map(|target| {
            let bits = if target.is_ipv4() { 32 } else { 128 };
            Filter::Test(Test::Net(Side::Remote, target.ip(), bits, Some(target.port())))
        });
        tests.reduce(|one, other| Filter::Or(Box::new(one), Box::new(other)))
    }

    /// The address families of the targets. A load connects to an address with a socket of its family.
    pub(crate) fn families(&self) -> Families {
        match (self.targets.iter().any(SocketAddr::is_ipv4), self.targets.iter().any(SocketAddr::is_ipv6)) {
            (true, false) => Families::V4,
            (false, true) => Families::V6,
            _ => Families::Both,
        }
    }

    /// Counts a socket that died.
    pub(crate) fn died(&mut self, socket: &Socket) {
        if self.is_ours(socket) {
            self.sent_again_by_dead += u64::from(socket.tcp.map_or(0, |tcp| tcp.retrans_total));
            // The load only connects, so none of its ports has a listener.
            self.closers.died(socket, |_| false);
        }
    }

    /// Begins a look. `at` is the time since the start, `elapsed` the time since the previous look.
    pub(crate) fn look(&mut self, at: Duration, elapsed: Duration) -> Gathering<'_> {
        let elapsed_ms = (!self.has_events).then(|| u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX));
        Gathering { account: self, elapsed_ms, sent_again: 0, look: Look { at, ..Look::default() } }
    }

    fn is_ours(&self, socket: &Socket) -> bool {
        socket.state != State::Listen && self.targets.contains(&socket.remote)
    }
}

impl Gathering<'_> {
    pub(crate) fn add(&mut self, socket: &Socket) {
        if !self.account.is_ours(socket) {
            return;
        }
        self.look.states.add(socket.state, 1);
        self.sent_again += u64::from(socket.tcp.map_or(0, |tcp| tcp.retrans_total));
        match Pile::of(socket).map(|pile| pile.cause) {
            Some(Cause::PeerWindowZero) => self.look.window_zero += 1,
            Some(Cause::NotRead) => self.look.unread += 1,
            Some(Cause::NoAnswer) => self.look.no_answer += 1,
            _ => {}
        }
        self.account.closers.seen(socket, self.elapsed_ms, |_| false);
    }

    pub(crate) fn finish(self) -> Look {
        let Self { account, sent_again, mut look, .. } = self;
        account.closers.look_ends(0, |_| false);
        look.sent_again = account.sent_again_by_dead + sent_again;
        look.closes = account.closers.total();
        look
    }
}

/// All looks of a run, in bounded memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looks {
    kept: Vec<Look>,
    /// Keep one of this many looks.
    every: u64,
    count: u64,
    /// The largest count of each state in any look.
    most: StateCounts,
    window_zero_most: u64,
    unread_most: u64,
    /// The last look during the load, and the one after its end.
    last: Option<Look>,
    after: Option<Look>,
}

impl Looks {
    /// Adds a look during the load.
    pub(crate) fn add(&mut self, look: Look) {
        self.see(&look);
        if self.count.is_multiple_of(self.every.max(1)) {
            self.kept.push(look);
        }
        self.count += 1;
        self.last = Some(look);
        if self.kept.len() > LOOKS_MAX {
            let mut is_even = false;
            self.kept.retain(|_| {
                is_even = !is_even;
                is_even
            });
            self.every = self.every.max(1) * 2;
        }
    }

    /// Adds the look after the end.
    pub(crate) fn end(&mut self, look: Look) {
        self.see(&look);
        self.after = Some(look);
    }

    fn see(&mut self, look: &Look) {
        for (state, count) in look.states.present() {
            self.most.add(state, count.saturating_sub(self.most.of(state)));
        }
        self.window_zero_most = self.window_zero_most.max(look.window_zero);
        self.unread_most = self.unread_most.max(look.unread);
    }

    /// The kept looks, in order.
    pub(crate) fn kept(&self) -> &[Look] {
        &self.kept
    }

    /// Number of looks during the load.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The largest count of each state at one time.
    pub(crate) fn most(&self) -> &StateCounts {
        &self.most
    }

    /// The most sockets at one time with a zero window at the peer, and with bytes that the load had not read.
    pub(crate) fn most_stuck(&self) -> (u64, u64) {
        (self.window_zero_most, self.unread_most)
    }

    /// The last look during the load.
    pub(crate) fn last(&self) -> Option<&Look> {
        self.last.as_ref()
    }

    /// The look after the end.
    pub(crate) fn after(&self) -> Option<&Look> {
        self.after.as_ref().or(self.last.as_ref())
    }

    /// The last kept look up to this moment; an interval that ends then shows it.
    pub(crate) fn at(&self, moment: Duration) -> Option<&Look> {
        let behind = self.kept.partition_point(|look| look.at <= moment);
        behind.checked_sub(1).and_then(|at| self.kept.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket with this state and these ends; its other fields do not matter.
    fn socket(state: State, local: &str, remote: &str) -> Socket {
        let ends = Socket::between(local.parse().expect("an address"), remote.parse().expect("an address"));
        Socket { state, ..ends }
    }
    use sockdiag::{TcpInfo, Timer, Traffic};

    const TARGET: &str = "10.0.0.2:80";

    fn account() -> Account {
        Account::new([TARGET.parse().unwrap()], true)
    }

    fn ours(state: State, port: u16) -> Socket {
        socket(state, &format!("10.0.0.1:{port}"), TARGET)
    }

    fn with_info(socket: &Socket, retrans_total: u32, bytes_acked: u64) -> Socket {
        let traffic = Traffic { bytes_acked, bytes_sent: 100, ..Traffic::default() };
        Socket { tcp: Some(TcpInfo { retrans_total, traffic: Some(traffic), ..TcpInfo::default() }), ..*socket }
    }

    #[test]
    fn only_sockets_towards_the_targets_count() {
        let mut account = account();
        let mut look = account.look(Duration::ZERO, Duration::ZERO);
        for found in [
            ours(State::Established, 40_000),
            with_info(&ours(State::Established, 40_001), 3, 0),
            ours(State::SynSent, 40_002),
            socket(State::Established, TARGET, "10.0.0.1:40000"),
            socket(State::Established, "10.0.0.1:5", "10.0.0.2:81"),
            socket(State::Listen, "0.0.0.0:80", "0.0.0.0:0"),
        ] {
            look.add(&found);
        }
        let look = look.finish();
        assert_eq!(look.states.present().collect::<Vec<_>>(), [(State::Established, 2), (State::SynSent, 1)]);
        assert_eq!(look.sent_again, 3);
    }

    #[test]
    fn closed_sockets_keep_retransmits_and_closer() {
        let mut account = account();
        // Both ends have closed and no TIME_WAIT is left: the target closed first.
        account.died(&with_info(&ours(State::Close, 40_000), 2, 102));
        // TIME_WAIT is left: the load closed first.
        account.died(&with_info(&ours(State::Close, 40_001), 5, 102));
        account.died(&with_info(&socket(State::Close, "10.0.0.1:40002", "10.0.0.2:81"), 7, 102));
        let mut look = account.look(Duration::from_secs(1), Duration::from_secs(1));
        look.add(&Socket { timer: Timer::TimeWait(59_000), ..ours(State::TimeWait, 40_001) });
        let look = look.finish();
        assert_eq!(look.sent_again, 7);
        assert_eq!(look.closes, Closes { this_side: 1, peer: 1, unknown: 0 });
    }

    #[test]
    fn a_death_that_is_reported_late_is_missed_until_then() {
        let mut account = account();
        let look = |account: &mut Account| {
            let mut look = account.look(Duration::from_secs(1), Duration::from_secs(1));
            look.add(&ours(State::Established, 40_000));
            look.add(&ours(State::TimeWait, 40_001));
            look.finish().accounted()
        };
        assert_eq!(look(&mut account), 1);
        account.died(&with_info(&ours(State::Close, 40_001), 0, 102));
        assert_eq!(look(&mut account), 2);
    }

    #[test]
    fn queues_have_their_cause() {
        let mut account = account();
        let mut look = account.look(Duration::ZERO, Duration::ZERO);
        look.add(&Socket { inode: 1, recv_queue: 9, ..ours(State::Established, 1) });
        look.add(&Socket { send_queue: 9, timer: Timer::Probe(5), ..ours(State::Established, 2) });
        let look = look.finish();
        assert_eq!((look.unread, look.window_zero, look.no_answer), (1, 1, 0));
    }

    #[test]
    fn kernel_is_queried_for_few_addresses_only() {
        let filter = account().filter().unwrap();
        assert!(filter.matches(&ours(State::TimeWait, 1), None));
        assert!(!filter.matches(&socket(State::TimeWait, TARGET, "10.0.0.1:40000"), None));
        let many = (1..=17).map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        assert_eq!(Account::new(many, true).filter(), None);
    }

    #[test]
    fn only_families_of_targets_are_asked_for() {
        let of = |targets: &[&str]| Account::new(targets.iter().map(|target| target.parse().unwrap()), true).families();
        assert_eq!((of(&[TARGET]), of(&["[::1]:80"])), (Families::V4, Families::V6));
        assert_eq!(of(&[TARGET, "[::1]:80"]), Families::Both);
    }

    #[test]
    fn a_long_run_keeps_few_looks_and_its_extremes() {
        let mut looks = Looks::default();
        for second in 0..5_000u64 {
            let mut look = Look { at: Duration::from_secs(second), unread: second % 7, ..Look::default() };
            look.states.add(State::Established, if second == 4_321 { 90 } else { 30 });
            looks.add(look);
        }
        assert!(looks.kept().len() <= LOOKS_MAX && looks.kept().len() > LOOKS_MAX / 4, "{}", looks.kept().len());
        assert!(looks.kept().windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!((looks.count(), looks.most().of(State::Established), looks.most_stuck()), (5_000, 90, (0, 6)));
        assert_eq!(looks.at(Duration::from_secs(17)).map(|look| look.at), Some(Duration::from_secs(16)));
        assert_eq!(looks.after().map(|look| look.at), Some(Duration::from_secs(4_999)));
        assert!(Looks::default().at(Duration::MAX).is_none());
    }
}
