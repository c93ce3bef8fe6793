//! What rules may know: the configuration, whose defaults it has, and the settings of the system.

use crate::configuration::Configuration;
use std::collections::BTreeMap;

/// Whose defaults and habits a configuration is read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// nginx before 1.29.7, as Debian 12 ships it: HTTP/1.0 to upstreams, and no pool that was not asked for.
    Nginx1_22,
    /// nginx since 1.29.7: HTTP/1.1 to upstreams, and `keepalive 32 local` in every `upstream {}`, though not for implicit ones.
    Nginx1_31,
    /// As nginx 1.31, with one pool for the whole process.
    #[default]
    Holdfast,
}

impl Dialect {
    /// Whether an `upstream {}` without a word about it keeps connections.
    pub fn pools_by_default(self) -> bool {
        self != Self::Nginx1_22
    }

    /// `proxy_http_version` where nothing is said.
    pub fn upstream_version(self) -> &'static str {
        if self == Self::Nginx1_22 { "1.0" } else { "1.1" }
    }

    /// How people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx1_22 => "nginx-1.22",
            Self::Nginx1_31 => "nginx-1.31",
            Self::Holdfast => "holdfast",
        }
    }
}

/// A line of a sysctl file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// `net.core.somaxconn`; slashes are written as dots.
    pub name: String,
    /// What it is set to, without surrounding blanks.
    pub value: String,
    /// The file.
    pub file: String,
    /// From 1.
    pub line: usize,
}

/// Settings and sizes of the system. What could not be read is absent, and rules say nothing about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct System {
    /// Values of sysctls by name, as `/proc/sys` shows them.
    pub sysctls: BTreeMap<String, String>,
    /// Memory that processes here may have in bytes: the cgroup's limit or the machine's size.
    pub memory_bytes: Option<u64>,
    /// Processors that `worker_processes auto` counts.
    pub cpus: Option<u64>,
    /// Descriptors that a process has unless it asks for others: the soft limit, of `--pid` if that was given.
    pub descriptors: Option<u64>,
}

impl System {
    /// The first number of a sysctl.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.sysctls.get(name)?.split_whitespace().next()?.parse().ok()
    }
}

/// Everything that rules see.
#[derive(Debug, Default)]
pub struct Facts {
    /// Whose defaults apply.
    pub dialect: Dialect,
    /// The configuration, if one was given.
    pub configuration: Option<Configuration>,
    /// This system or one that was described.
    pub system: System,
    /// What sysctl files would set at the next boot.
    pub settings: Vec<Setting>,
    /// How often tunnels carry something at least, in seconds, if the operator said so.
    pub heartbeat_seconds: Option<u64>,
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
    fn a_sysctl_file_has_comments_dashes_and_slashes() {
        let settings =
            parse_settings("s", "# a = 1\n; b\n\n-net/core/somaxconn=128\nnet.ipv4.tcp_mem = 1\t2 3\nnonsense\n");
        let seen: Vec<_> = settings.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.line)).collect();
        assert_eq!(seen, [("net.core.somaxconn", "128", 4), ("net.ipv4.tcp_mem", "1\t2 3", 5)]);
    }
}
