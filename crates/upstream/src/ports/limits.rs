//! The system's port settings: the range of ephemeral ports, the reserved ones, and the reuse of ports in TIME_WAIT.
//! Texts as in `/proc/sys/net/ipv4`.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// `tcp_tw_reuse`: whether `connect()` takes ports out of TIME_WAIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// 0: never.
    Off,
    /// 1: to any destination.
    Everywhere,
    /// 2, the default since Linux 4.19: if either end is a loopback address.
    Loopback,
}

/// The system's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `ip_local_port_range`.
    range: RangeInclusive<u16>,
    /// `ip_local_reserved_ports`, in order, as far as they are in the range.
    reserved: Vec<RangeInclusive<u16>>,
    /// `tcp_tw_reuse`.
    reuse: Reuse,
    /// Milliseconds in TIME_WAIT after which a port may be reused (`tcp_tw_reuse_delay`, since Linux 6.14).
    reuse_delay_ms: u64,
}

/// The kernel's own defaults.
impl Default for Limits {
    fn default() -> Self {
        Self { range: 32_768..=60_999, reserved: Vec::new(), reuse: Reuse::Loopback, reuse_delay_ms: REUSE_DELAY_MS }
    }
}

/// The delay of kernels without `tcp_tw_reuse_delay`.
const REUSE_DELAY_MS: u64 = 1000;

/// Most parts of the reserved list: there cannot be more in 65,536 ports.
const RESERVED_MAX: usize = 32_768;

impl Limits {
    /// From the texts of the files; a missing or invalid one counts as the kernel's default. Without `tcp_timestamps`
    /// the kernel reuses nothing.
    pub fn parse(range: &str, reserved: &str, reuse: &str, delay: &str, timestamps: &str) -> Self {
        let mut limits = Self::default();
        let mut ends = range.split_ascii_whitespace().map(str::parse);
        if let (Some(Ok(first)), Some(Ok(last))) = (ends.next(), ends.next())
            && first <= last
        {
            limits.range = first..=last;
        }
        limits.reserved = parse_reserved(reserved, &limits.range);
        limits.reuse = match reuse.trim() {
            "0" => Reuse::Off,
            "1" => Reuse::Everywhere,
            _ => Reuse::Loopback,
        };
        if timestamps.trim() == "0" {
            limits.reuse = Reuse::Off;
        }
        limits.reuse_delay_ms = delay.trim().parse().unwrap_or(REUSE_DELAY_MS);
        limits
    }

    /// Ports that `connect()` may choose.
    pub fn ports(&self) -> u32 {
        let size = |range: &RangeInclusive<u16>| u32::from(*range.end()) - u32::from(*range.start()) + 1;
        size(&self.range) - self.reserved.iter().map(size).sum::<u32>()
    }

    /// Whether `connect()` may choose this one.
    pub fn contains(&self, port: u16) -> bool {
        let after = self.reserved.partition_point(|piece| *piece.end() < port);
        self.range.contains(&port) && self.reserved.get(after).is_none_or(|piece| !piece.contains(&port))
    }

    /// `tcp_tw_reuse`.
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Milliseconds in TIME_WAIT after which a port between two addresses may be reused; `None`: not before the state
    /// ends.
    pub fn reuse_after_ms(&self, source: IpAddr, peer: IpAddr) -> Option<u64> {
        let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
        match self.reuse {
            Reuse::Off => None,
            Reuse::Loopback if !is_loopback(source) && !is_loopback(peer) => None,
            Reuse::Everywhere | Reuse::Loopback => Some(self.reuse_delay_ms),
        }
    }
}

/// A list such as `8080,9000-9010`; overlapping parts are joined, parts outside of the range are left out.
fn parse_reserved(text: &str, range: &RangeInclusive<u16>) -> Vec<RangeInclusive<u16>> {
    let piece = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let (first, last) = (first.max(*range.start()), last.min(*range.end()));
        (first <= last).then_some((first, last))
    };
    let mut pieces: Vec<_> = text.split(',').take(RESERVED_MAX).filter_map(piece).collect();
    pieces.sort_unstable();
    let mut joined: Vec<RangeInclusive<u16>> = Vec::new();
    for (first, last) in pieces {
        match joined.last_mut() {
            Some(before) if first <= *before.end() => *before = *before.start()..=last.max(*before.end()),
            _ => joined.push(first..=last),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(range: &str, reserved: &str) -> Limits {
        Limits::parse(range, reserved, "2\n", "", "1\n")
    }

    #[test]
    fn kernel_texts_are_parsed_and_missing_ones_default() {
        assert_eq!(limits("", ""), Limits::default());
        assert_eq!(limits("32768\t60999\n", "\n").ports(), 28_232);
        assert_eq!(limits("1024 65535", "").ports(), 64_512);
        assert_eq!(limits("9 5", "").ports(), 28_232, "nonsense is no range");
        assert_eq!(limits("0 65535", "").ports(), 65_536);
    }

    #[test]
    fn reserved_ports_are_left_out_once() {
        let limits = limits("40000 40063", "80,40060-40070,40010,40005-40012,40012\n");
        assert_eq!(limits.ports(), 64 - 8 - 4);
        let free: Vec<bool> = [39_999, 40_000, 40_004, 40_005, 40_012, 40_013, 40_059, 40_060, 40_063, 40_064]
            .iter()
            .map(|port| limits.contains(*port))
            .collect();
        assert_eq!(free, [false, true, true, false, false, true, true, false, false, false]);
    }

    #[test]
    fn tcp_tw_reuse_shortens_time_wait() {
        let (near, far) = (IpAddr::from([127, 0, 0, 2]), IpAddr::from([10, 0, 0, 1]));
        let after = |reuse: &str, delay: &str, timestamps: &str| {
            let limits = Limits::parse("", "", reuse, delay, timestamps);
            (limits.reuse_after_ms(near, near), limits.reuse_after_ms(far, far))
        };
        assert_eq!(after("0", "", "1"), (None, None));
        assert_eq!(after("1", "", "1"), (Some(1000), Some(1000)));
        assert_eq!(after("2\n", "250\n", "1\n"), (Some(250), None));
        assert_eq!(after("1", "", "0"), (None, None));
    }
}
