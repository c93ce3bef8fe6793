//! What the kernel counts: `/proc/net/snmp`, `/proc/net/netstat` (TcpExt) and `/proc/net/sockstat{,6}` of a network namespace.
//! The texts are parsed by pure functions; a counter that this kernel does not have is `None`, never zero.

use std::fs;
use std::io;

/// Counts since the namespace began.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $group:literal $name:literal,)+) => {
        /// TCP counters of a network namespace, since it began. A counter that this kernel does not have is `None`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $field: Option<u64>,)+
        }

        impl Counters {
            fn set(&mut self, group: &str, name: &str, value: u64) {
                match (group, name) {
                    $(($group, $name) => self.$field = Some(value),)+
                    _ => {}
                }
            }

            /// What was counted since `earlier`. A counter that went back, as in another namespace, is `None`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                let less = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
                Self { $($field: less(self.$field, earlier.$field),)+ }
            }

            /// Each counter with the kernel's name for it.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
                [$(($name, self.$field),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Connections opened from here.
    active_opens = "Tcp" "ActiveOpens",
    /// Connections accepted.
    passive_opens = "Tcp" "PassiveOpens",
    /// Connection attempts that failed.
    attempt_fails = "Tcp" "AttemptFails",
    /// Connections ended by RST out of ESTABLISHED or CLOSE_WAIT.
    established_resets = "Tcp" "EstabResets",
    /// Connections in ESTABLISHED or CLOSE_WAIT now: a level, not a count.
    established_now = "Tcp" "CurrEstab",
    /// Segments received.
    segments_in = "Tcp" "InSegs",
    /// Segments sent, without those sent again.
    segments_out = "Tcp" "OutSegs",
    /// Segments sent again.
    segments_retrans = "Tcp" "RetransSegs",
    /// RST segments sent.
    resets_out = "Tcp" "OutRsts",
    /// Connections refused because an accept queue was full.
    listen_overflows = "TcpExt" "ListenOverflows",
    /// SYNs and connections dropped by listeners, for that and for other reasons.
    listen_drops = "TcpExt" "ListenDrops",
    /// SYNs dropped because the queue of half-open connections was full.
    request_queue_drops = "TcpExt" "TCPReqQFullDrop",
    /// The same, answered with a cookie instead.
    request_queue_cookies = "TcpExt" "TCPReqQFullDoCookies",
    /// TIME_WAIT sockets that ended by their timer.
    time_waits_ended = "TcpExt" "TW",
    /// TIME_WAIT sockets that were reused by `connect()` for the same addresses and ports (`tcp_tw_reuse`).
    time_waits_reused = "TcpExt" "TWRecycled",
    /// Connections that got no TIME_WAIT, since `tcp_max_tw_buckets` was reached.
    time_wait_overflows = "TcpExt" "TCPTimeWaitOverflow",
    /// Windows that were closed for lack of space.
    zero_windows_out = "TcpExt" "TCPToZeroWindowAdv",
    /// SYNs sent again.
    syn_retrans = "TcpExt" "TCPSynRetrans",
    /// Retransmission timers that fired.
    timeouts = "TcpExt" "TCPTimeouts",
    /// Connections given up for lack of an answer.
    aborted_on_timeout = "TcpExt" "TCPAbortOnTimeout",
    /// Connections reset because data was unread when they were closed.
    aborted_with_data = "TcpExt" "TCPAbortOnData",
    /// Connections closed by the application for which later data came.
    aborted_on_close = "TcpExt" "TCPAbortOnClose",
    /// Connections given up since TCP's memory was used up.
    aborted_on_memory = "TcpExt" "TCPAbortOnMemory",
    /// How often TCP's memory became short.
    memory_pressures = "TcpExt" "TCPMemoryPressures",
    /// Segments pruned or collapsed since a receive buffer was full.
    receive_prunes = "TcpExt" "PruneCalled",
}

impl Counters {
    /// Those of this thread's network namespace.
    pub fn read() -> io::Result<Self> {
        let snmp = fs::read_to_string("/proc/thread-self/net/snmp")?;
        // Without TcpExt the other counters are still valid.
        let netstat = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
        let mut counters = Self::parse(&snmp);
        counters.parse_into(&netstat);
        Ok(counters)
    }

    /// From the text of either file: pairs of lines, names and then values, each with their group in front.
    pub fn parse(text: &str) -> Self {
        let mut counters = Self::default();
        counters.parse_into(text);
        counters
    }

    fn parse_into(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (Some((group, names)), Some((again, values))) = (names.split_once(':'), values.split_once(':')) else {
                continue;
            };
            if group != again {
                continue;
            }
            for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
                // Some fields of other groups are signed; none of ours is.
                if let Ok(value) = value.parse() {
                    self.set(group, name, value);
                }
            }
        }
    }
}

/// `/proc/net/sockstat` and `sockstat6`: what sockets there are, by the kernel's own books. What these do not say is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketUse {
    /// TCP sockets of IPv4 that are not TIME_WAIT, bound or connected.
    pub tcp: Option<u64>,
    /// The same of IPv6.
    pub tcp6: Option<u64>,
    /// Sockets that no process holds any more, of both families.
    pub orphans: Option<u64>,
    /// TIME_WAIT sockets, of both families.
    pub time_waits: Option<u64>,
    /// TCP sockets allocated, in any state, of the whole machine.
    pub allocated: Option<u64>,
    /// Memory of TCP in pages, of the whole machine.
    pub memory_pages: Option<u64>,
}

impl SocketUse {
    /// That of this thread's network namespace.
    pub fn read() -> io::Result<Self> {
        let sockstat = fs::read_to_string("/proc/thread-self/net/sockstat")?;
        let sockstat6 = fs::read_to_string("/proc/thread-self/net/sockstat6").unwrap_or_default();
        Ok(Self::parse(&sockstat, &sockstat6))
    }

    /// From the two texts.
    pub fn parse(sockstat: &str, sockstat6: &str) -> Self {
        Self {
            tcp: field(sockstat, "TCP", "inuse"),
            tcp6: field(sockstat6, "TCP6", "inuse"),
            orphans: field(sockstat, "TCP", "orphan"),
            time_waits: field(sockstat, "TCP", "tw"),
            allocated: field(sockstat, "TCP", "alloc"),
            memory_pages: field(sockstat, "TCP", "mem"),
        }
    }
}

/// `TCP: inuse 5 orphan 0`: the number behind the name, in the line of the group.
fn field(text: &str, group: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(group)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().skip_while(|word| *word != name).nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 77 88 9 10 11 1200 1300 14 0 15 0
";
    const NETSTAT: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TW TWRecycled TCPTimeWaitOverflow
TcpExt: 0 3 4 5 6 7
IpExt: InNoRoutes
IpExt: 0
";

    #[test]
    fn absent_counters_are_not_zero() {
        let mut counters = Counters::parse(SNMP);
        assert_eq!(
            (counters.active_opens, counters.passive_opens, counters.segments_retrans),
            (Some(77), Some(88), Some(14))
        );
        assert_eq!(counters.listen_overflows, None);
        counters.parse_into(NETSTAT);
        assert_eq!((counters.listen_overflows, counters.time_wait_overflows), (Some(3), Some(7)));
        assert_eq!(counters.aborted_on_memory, None);
        let later = Counters { active_opens: Some(80), passive_opens: Some(1), ..counters };
        let between = later.since(&counters);
        assert_eq!((between.active_opens, between.passive_opens, between.aborted_on_memory), (Some(3), None, None));
        assert_eq!(Counters::parse("Tcp: a b\nUdp: 1 2\nTcp:\n"), Counters::default());
    }

    #[test]
    fn the_books_of_sockets_are_read() {
        let text = "sockets: used 290\nTCP: inuse 15 orphan 1 tw 28 alloc 17 mem 4\nUDP: inuse 3 mem 2\n";
        let found = SocketUse::parse(text, "TCP6: inuse 2\nUDP6: inuse 1\n");
        let expected = SocketUse {
            tcp: Some(15),
            tcp6: Some(2),
            orphans: Some(1),
            time_waits: Some(28),
            allocated: Some(17),
            memory_pages: Some(4),
        };
        assert_eq!(found, expected);
        assert_eq!(SocketUse::parse("", "TCP6"), SocketUse::default());
    }

    #[test]
    fn this_kernel_has_them() {
        let counters = Counters::read().expect("/proc is there");
        assert!(counters.active_opens.is_some() && counters.listen_overflows.is_some());
        assert!(SocketUse::read().expect("/proc is there").allocated > Some(0));
    }
}
