//! The input of rules: the configuration and the program that reads it, the system's settings, the operator's
//! expectations, and the sockets of the running server.

use crate::certificates::CertificatePair;
use crate::configuration::Configuration;
use crate::dialect::Dialect;
use crate::go_transport::GoTransport;
use crate::live::Live;
use std::collections::BTreeMap;

/// A line of a sysctl file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// `net.core.somaxconn`; slashes are written as dots.
    pub name: String,
    /// Its value, without surrounding blanks.
    pub value: String,
    /// The file.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
}

/// Settings and sizes of the system. A value that could not be read is absent, and rules do not report on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct System {
    /// Values of sysctls by name, as in `/proc/sys`.
    pub sysctls: BTreeMap<String, String>,
    /// Sysctls that were looked up and do not exist: a namespace lacks some, and a container may hide all.
    pub unknown: Vec<&'static str>,
    /// Memory available to processes here, in bytes: the cgroup's limit or the machine's size.
    pub memory_bytes: Option<u64>,
    /// Processors that `worker_processes auto` counts.
    pub cpus: Option<u64>,
    /// Default limit of descriptors of a process: the soft limit, or that of `--pid` if given.
    pub descriptors: Option<u64>,
    /// The name servers of `/etc/resolv.conf`, in the syntax of `resolver`.
    pub name_servers: Vec<String>,
}

impl System {
    /// The first number of a sysctl.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers(name)?.first().copied()
    }

    /// All numbers of a sysctl.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        parse_numbers(self.sysctls.get(name)?)
    }

    /// A name server for `resolver`: the system's first, or systemd's local address.
    pub(crate) fn resolver(&self) -> &str {
        self.name_servers.first().map_or("127.0.0.53", String::as_str)
    }

    /// How many ports `connect()` chooses from: the range minus the reserved ports; `None` if the range is unknown.
    pub fn ports(&self) -> Option<u64> {
        let range = self.numbers("net.ipv4.ip_local_port_range");
        let (first, last) = match range.as_deref() {
            Some([first, last]) if first <= last => (*first, *last),
            _ => return None,
        };
        let reserved =
            self.sysctls.get("net.ipv4.ip_local_reserved_ports").map(|text| parse_ports(text)).unwrap_or_default();
        let within = |(from, to): &(u64, u64)| (*to.min(&last) + 1).saturating_sub(*from.max(&first));
        Some((last - first + 1).saturating_sub(reserved.iter().map(within).sum()))
    }
}

/// The operator's statements about load and peers. A rule that needs a missing one reports nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expected {
    /// Longest time between messages on a tunnel, in seconds.
    pub heartbeat_seconds: Option<u64>,
    /// Requests a second through the gateway.
    pub requests_per_second: Option<f64>,
    /// Requests in flight at once towards each group.
    pub concurrency: Option<u64>,
    /// Connections of clients held at once.
    pub connections: Option<u64>,
    /// Seconds after which a peer closes idle connections.
    pub peer_idle_seconds: Option<u64>,
    /// Connections that a peer accepts.
    pub peer_connections_max: Option<u64>,
    /// The limits of a Go gateway.
    pub go_transport: Option<GoTransport>,
}

/// All facts for the rules.
#[derive(Debug, Default)]
pub struct Facts {
    /// The program whose defaults apply.
    pub dialect: Dialect,
    /// The configuration, if one was given.
    pub configuration: Option<Configuration>,
    /// Its certificates, as read from their files.
    pub certificates: Vec<CertificatePair>,
    /// This system, or a described one.
    pub system: System,
    /// Settings in sysctl files, which apply at the next boot.
    pub settings: Vec<Setting>,
    /// The operator's statements about load and peers.
    pub expected: Expected,
    /// The sockets of the running server, if they were read.
    pub live: Option<Live>,
}

impl Facts {
    /// The values of a sysctl: the current one, without a place, and each line of a file that sets it.
    pub(crate) fn values<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (Option<(String, usize, usize)>, &'a str)> {
        let now = self.system.sysctls.get(name).map(|value| (None, value.as_str()));
        let written = self.settings.iter().filter(move |setting| setting.name == name);
        let place = |setting: &Setting| Some((setting.file.clone(), setting.line, 1));
        now.into_iter().chain(written.map(move |setting| (place(setting), setting.value.as_str())))
    }

    /// Only the values in files: for settings whose current value may be a default that the operator did not choose.
    pub(crate) fn written<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Setting> {
        self.settings.iter().filter(move |setting| setting.name == name)
    }
}

/// Numbers separated by blanks; `None` if one is invalid.
pub(crate) fn parse_numbers(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// `8080,9148-9150` as first and last ports; an invalid part is left out.
pub(crate) fn parse_ports(text: &str) -> Vec<(u64, u64)> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    text.split(',').filter_map(range).collect()
}

/// Reads a sysctl file: `name = value`, comments with `#` or `;`, a `-` in front for settings that may fail.
pub fn parse_settings(file: &str, text: &str) -> Vec<Setting> {
    let lines = text.lines().zip(1..);
    lines
        .filter_map(|(text, line)| {
            let text = text.trim();
            if text.starts_with(['#', ';']) {
                return None;
            }
            let (name, value) = text.split_once('=')?;
            let name = name.trim().trim_start_matches('-').trim().replace('/', ".");
            Some(Setting { name, value: value.trim().to_owned(), file: file.to_owned(), line })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_ports_exclude_reserved_ones() {
        let of = |range: &str, reserved: &str| {
            let range = ("net.ipv4.ip_local_port_range".to_owned(), range.to_owned());
            let reserved = ("net.ipv4.ip_local_reserved_ports".to_owned(), reserved.to_owned());
            System { sysctls: [range, reserved].into(), ..System::default() }.ports()
        };
        assert_eq!(of("32768\t60999", ""), Some(28_232));
        assert_eq!(of("1024 65535", "1000-1033,8080,x"), Some(64_512 - 11));
        assert_eq!((of("9 8", ""), System::default().ports()), (None, None));
    }

    #[test]
    fn a_sysctl_file_has_comments_dashes_and_slashes() {
        let settings =
            parse_settings("s", "# a = 1\n; b\n\n-net/core/somaxconn=128\nnet.ipv4.tcp_mem = 1\t2 3\nnonsense\n");
        let seen: Vec<_> = settings.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.line)).collect();
        assert_eq!(seen, [("net.core.somaxconn", "128", 4), ("net.ipv4.tcp_mem", "1\t2 3", 5)]);
    }
}
