//! The kernel settings that limit connections, of this thread's network namespace. A namespace that lacks one (some are
//! the first namespace's alone) has `None`.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

/// What limits connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `net.core.somaxconn`: the longest accept queue.
    pub somaxconn: Option<u32>,
    /// `net.ipv4.ip_local_port_range`: the ports that `connect()` chooses from.
    pub port_range: Option<RangeInclusive<u16>>,
    /// `net.ipv4.ip_local_reserved_ports`: those of them that it leaves out, as ranges.
    pub reserved_ports: Vec<RangeInclusive<u16>>,
    /// `net.ipv4.tcp_tw_reuse`: whether `connect()` takes ports out of TIME_WAIT: 0 never, 1 always, 2 on loopback.
    pub tw_reuse: Option<u8>,
    /// `net.ipv4.tcp_max_tw_buckets`: the most TIME_WAIT sockets.
    pub tw_buckets_max: Option<u32>,
    /// `net.ipv4.tcp_fin_timeout` in seconds.
    pub fin_timeout_s: Option<u32>,
}

impl Settings {
    /// As they are now.
    pub fn read() -> Self {
        Self::read_below(Path::new("/proc/sys/net"))
    }

    /// From the files of such a folder.
    fn read_below(folder: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let number = |name: &str| text(name).trim().parse().ok();
        Self {
            somaxconn: number("core/somaxconn"),
            port_range: parse_port_range(&text("ipv4/ip_local_port_range")),
            reserved_ports: parse_port_list(&text("ipv4/ip_local_reserved_ports")),
            tw_reuse: text("ipv4/tcp_tw_reuse").trim().parse().ok(),
            tw_buckets_max: number("ipv4/tcp_max_tw_buckets"),
            fin_timeout_s: number("ipv4/tcp_fin_timeout"),
        }
    }

    /// Settings that could not be read, by the kernel's names; conclusions that depend on them are unknown.
    pub fn unknown(&self) -> Vec<&'static str> {
        let known = [
            ("net.core.somaxconn", self.somaxconn.is_some()),
            ("net.ipv4.ip_local_port_range", self.port_range.is_some()),
            ("net.ipv4.tcp_tw_reuse", self.tw_reuse.is_some()),
            ("net.ipv4.tcp_max_tw_buckets", self.tw_buckets_max.is_some()),
            ("net.ipv4.tcp_fin_timeout", self.fin_timeout_s.is_some()),
        ];
        known.into_iter().filter(|(_, known)| !known).map(|(name, _)| name).collect()
    }

    /// Ports that `connect()` can choose from, for one pair of addresses and one remote port.
    pub fn ports_usable(&self) -> Option<u32> {
        let range = self.port_range.clone()?;
        let reserved = range.clone().filter(|port| self.reserved_ports.iter().any(|reserved| reserved.contains(port)));
        Some(u32::try_from(range.count()).unwrap_or(u32::MAX).saturating_sub(reserved.count() as u32))
    }

    /// Whether `connect()` would choose this port by itself.
    pub fn is_ephemeral(&self, port: u16) -> bool {
        self.port_range.as_ref().is_some_and(|range| range.contains(&port))
            && !self.reserved_ports.iter().any(|reserved| reserved.contains(&port))
    }
}

/// `32768 60999`, with a tab between.
fn parse_port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_ascii_whitespace();
    let (first, last) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// `8080,9148-9150`.
fn parse_port_list(text: &str) -> Vec<RangeInclusive<u16>> {
    let parse = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_count_excludes_reserved_ones() {
        let settings = Settings {
            port_range: parse_port_range("32768\t60999\n"),
            reserved_ports: parse_port_list("8080,40000-40009,60999\n"),
            ..Settings::default()
        };
        assert_eq!(settings.ports_usable(), Some(28_232 - 11));
        assert!(settings.is_ephemeral(32_768) && !settings.is_ephemeral(40_005) && !settings.is_ephemeral(8080));
        assert_eq!(parse_port_range("9 8"), None);
        assert_eq!(parse_port_list("\n"), []);
        assert_eq!(Settings::default().ports_usable(), None);
    }

    #[test]
    fn a_missing_file_is_unknown_and_not_zero() {
        let folder = std::env::temp_dir().join(format!("holdfast-settings-{}", std::process::id()));
        fs::create_dir_all(folder.join("ipv4")).unwrap();
        fs::write(folder.join("ipv4/ip_local_port_range"), "1024\t65535\n").unwrap();
        fs::write(folder.join("ipv4/tcp_max_tw_buckets"), "no number\n").unwrap();
        let settings = Settings::read_below(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((settings.ports_usable(), settings.tw_buckets_max), (Some(64_512), None));
        let unknown =
            ["net.core.somaxconn", "net.ipv4.tcp_tw_reuse", "net.ipv4.tcp_max_tw_buckets", "net.ipv4.tcp_fin_timeout"];
        assert_eq!(settings.unknown(), unknown);
        assert_eq!(Settings::read_below(Path::new("/nonexistent")), Settings::default());
    }
}
