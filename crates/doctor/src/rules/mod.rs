//! The rules, one file each. A rule looks at [`Facts`] and returns findings that are complete: what, why it hurts, evidence,
//! arithmetic, fix, side effect, how to undo. Each file ends with configurations in which it must and must not fire.

mod accept_queue_overflow;
mod buffers_beyond_memory;
mod close_wait_pile;
mod connection_always_upgrade;
mod connections_too_few;
mod conntrack_table;
mod descriptors_running_out;
mod descriptors_too_few;
mod fin_timeout_folklore;
mod folklore_sysctls;
mod go_transport_limits;
mod idle_timeout_not_below_peer;
mod keepalive_not_used;
mod keepalive_requests_churn;
mod listen_backlog;
mod listen_in_port_range;
mod name_resolved_once;
mod name_without_resolver;
mod netdev_backlog_mistaken;
mod one_page_buffer;
mod one_peer_max_fails;
mod pool_beyond_peer;
mod pool_too_small;
mod port_range_parity;
mod ports_running_out;
mod repeated_posts;
mod server_name_scheme;
mod socket_buffers_beyond_memory;
mod syn_backlog;
mod tcp_mem_in_bytes;
mod tunnel_broken;
mod tunnel_buffering;
mod tunnel_timeout;
mod tuples_too_few;
mod tw_buckets;
mod tw_reuse_without_timestamps;
mod unread_bytes;
mod upstream_without_keepalive;
mod websocket_without_upgrade;

use crate::configuration::Configuration;
use crate::facts::Facts;
use conf::source::Span;
use report::{Document, Finding, Section, Severity};

/// A rule and how it is called in reports.
struct Rule {
    name: &'static str,
    check: fn(&Facts) -> Vec<Finding>,
}

const RULES: [Rule; 39] = [
    Rule { name: upstream_without_keepalive::NAME, check: upstream_without_keepalive::check },
    Rule { name: keepalive_not_used::NAME, check: keepalive_not_used::check },
    Rule { name: connection_always_upgrade::NAME, check: connection_always_upgrade::check },
    Rule { name: pool_too_small::NAME, check: pool_too_small::check },
    Rule { name: pool_beyond_peer::NAME, check: pool_beyond_peer::check },
    Rule { name: idle_timeout_not_below_peer::NAME, check: idle_timeout_not_below_peer::check },
    Rule { name: keepalive_requests_churn::NAME, check: keepalive_requests_churn::check },
    Rule { name: connections_too_few::NAME, check: connections_too_few::check },
    Rule { name: descriptors_too_few::NAME, check: descriptors_too_few::check },
    Rule { name: descriptors_running_out::NAME, check: descriptors_running_out::check },
    Rule { name: listen_backlog::NAME, check: listen_backlog::check },
    Rule { name: accept_queue_overflow::NAME, check: accept_queue_overflow::check },
    Rule { name: syn_backlog::NAME, check: syn_backlog::check },
    Rule { name: netdev_backlog_mistaken::NAME, check: netdev_backlog_mistaken::check },
    Rule { name: tuples_too_few::NAME, check: tuples_too_few::check },
    Rule { name: ports_running_out::NAME, check: ports_running_out::check },
    Rule { name: port_range_parity::NAME, check: port_range_parity::check },
    Rule { name: listen_in_port_range::NAME, check: listen_in_port_range::check },
    Rule { name: tw_buckets::NAME, check: tw_buckets::check },
    Rule { name: tw_reuse_without_timestamps::NAME, check: tw_reuse_without_timestamps::check },
    Rule { name: fin_timeout_folklore::NAME, check: fin_timeout_folklore::check },
    Rule { name: folklore_sysctls::NAME, check: folklore_sysctls::check },
    Rule { name: conntrack_table::NAME, check: conntrack_table::check },
    Rule { name: tcp_mem_in_bytes::NAME, check: tcp_mem_in_bytes::check },
    Rule { name: socket_buffers_beyond_memory::NAME, check: socket_buffers_beyond_memory::check },
    Rule { name: one_page_buffer::NAME, check: one_page_buffer::check },
    Rule { name: buffers_beyond_memory::NAME, check: buffers_beyond_memory::check },
    Rule { name: unread_bytes::NAME, check: unread_bytes::check },
    Rule { name: close_wait_pile::NAME, check: close_wait_pile::check },
    Rule { name: tunnel_broken::NAME, check: tunnel_broken::check },
    Rule { name: websocket_without_upgrade::NAME, check: websocket_without_upgrade::check },
    Rule { name: tunnel_timeout::NAME, check: tunnel_timeout::check },
    Rule { name: tunnel_buffering::NAME, check: tunnel_buffering::check },
    Rule { name: repeated_posts::NAME, check: repeated_posts::check },
    Rule { name: one_peer_max_fails::NAME, check: one_peer_max_fails::check },
    Rule { name: name_without_resolver::NAME, check: name_without_resolver::check },
    Rule { name: name_resolved_once::NAME, check: name_resolved_once::check },
    Rule { name: server_name_scheme::NAME, check: server_name_scheme::check },
    Rule { name: go_transport_limits::NAME, check: go_transport_limits::check },
];

/// What all rules find, the worst first, otherwise in the order of the rules and of the text.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| (rule.check)(facts)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The names of all rules.
pub fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Findings as a document. `made_by` is program and version.
pub fn document(facts: &Facts, findings: Vec<Finding>, made_by: &str) -> Document {
    let mut section = Section::new("Findings");
    if findings.is_empty() {
        section = section.note(Severity::Note, format!("None of the {} rules found anything.", RULES.len()));
    }
    for finding in findings {
        section = section.finding(finding);
    }
    let absent = if facts.configuration.is_some() { "" } else { "; no configuration was given" };
    let document = Document::new("Doctor", made_by)
        .fact("read as", facts.dialect.name())
        .fact("rules", format!("{}{absent}", RULES.len()))
        .section(section);
    let unknown = &facts.system.unknown;
    // Silence of a rule that could not look would read as "in order".
    if unknown.is_empty() {
        return document;
    }
    document.fact("not known here", format!("{}; rules that need one say nothing about it", unknown.join(", ")))
}

/// A finding with its place; the other parts are for the rule to fill.
fn finding(rule: &str, severity: Severity, what: String) -> Finding {
    let nothing = String::new;
    Finding {
        rule: rule.to_owned(),
        severity,
        what,
        place: None,
        why: nothing(),
        evidence: Vec::new(),
        arithmetic: nothing(),
        fix: nothing(),
        side_effect: nothing(),
        undo: nothing(),
    }
}

/// `file:line: text of the directive` as evidence.
fn quoted(configuration: &Configuration, span: Span, text: &str) -> String {
    let (file, line, _) = configuration.place(span);
    format!("{file}:{line}: {text}")
}

#[cfg(test)]
pub(crate) mod fixture {
    //! Facts for the tests of rules: a configuration from a text, and a system that lacks nothing.

    use super::{Facts, Finding};
    use crate::configuration::Configuration;
    use crate::facts::{Dialect, Expected, System, parse_settings};
    use crate::live::{Destination, Live};
    use sockdiag::State;
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::path::{Path, PathBuf};

    struct OneText(Vec<u8>);

    impl conf::Loader for OneText {
        fn read(&mut self, _: &Path) -> io::Result<Vec<u8>> {
            Ok(self.0.clone())
        }

        fn glob(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(Vec::new())
        }
    }

    pub(crate) fn facts(text: &str) -> Facts {
        let loaded = conf::load(Path::new("nginx.conf"), Path::new("/etc/nginx"), None, &mut OneText(text.into()));
        assert!(loaded.is_ok(), "{:?}", loaded.diagnostics);
        let sysctls = [
            ("net.core.somaxconn", "4096"),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
            ("net.ipv4.ip_local_port_range", "32768 60999"),
            ("net.ipv4.tcp_tw_reuse", "2"),
            ("fs.nr_open", "1048576"),
        ];
        let sysctls = sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let system = System {
            sysctls,
            memory_bytes: Some(8 << 30),
            cpus: Some(4),
            descriptors: Some(1024),
            ..System::default()
        };
        Facts { configuration: Some(Configuration::new(loaded)), system, ..Facts::default() }
    }

    /// The rest of a proxying configuration around what a test says of the upstream and the location.
    pub(crate) fn proxy(upstream: &str, location: &str) -> Facts {
        facts(&format!(
            "events {{}}\nhttp {{\nupstream api {{\n{upstream}\n}}\nserver {{\nlocation / {{\n{location}\nproxy_pass http://api;\n}}\n}}\n}}\n"
        ))
    }

    pub(crate) fn expecting(facts: Facts, expected: Expected) -> Facts {
        Facts { expected, ..facts }
    }

    /// A server that has such connections towards a peer, and the shipped port range.
    pub(crate) fn with_sockets(facts: Facts, peer: &str, established: u64, time_wait: u64) -> Facts {
        let remote: SocketAddr = peer.parse().expect("an address");
        let local = if remote.ip().is_loopback() { remote.ip() } else { IpAddr::from([10, 0, 0, 1]) };
        let destination =
            Destination { local, remote, established, time_wait, close_wait: 0, connecting: 0, others: 0 };
        let states = [(State::Established, established), (State::TimeWait, time_wait)].into();
        let live = Live { destinations: vec![destination], ports: Some(28_232), states, ..Live::default() };
        Facts { live: Some(live), ..facts }
    }

    pub(crate) fn old(facts: Facts) -> Facts {
        Facts { dialect: Dialect::Nginx1_22, ..facts }
    }

    pub(crate) fn sysctl_file(text: &str) -> Facts {
        Facts { settings: parse_settings("/etc/sysctl.conf", text), ..Facts::default() }
    }

    pub(crate) fn with_sysctl(mut facts: Facts, name: &str, value: &str) -> Facts {
        facts.system.sysctls.insert(name.to_owned(), value.to_owned());
        facts
    }

    /// Runs a rule over a table: how often it fires, on which facts, and what these are.
    pub(crate) fn table<const ROWS: usize>(check: fn(&Facts) -> Vec<Finding>, rows: [(usize, Facts, &str); ROWS]) {
        for (times, facts, what) in rows {
            let findings = check(&facts);
            assert_eq!(fired(&findings), times, "{what}: {findings:?}");
        }
    }

    /// How often it fired, having checked that every part that people need is there.
    pub(crate) fn fired(findings: &[Finding]) -> usize {
        for finding in findings {
            let parts = [&finding.what, &finding.why, &finding.fix, &finding.side_effect, &finding.undo];
            assert!(
                parts.iter().all(|part| !part.is_empty()) && !finding.evidence.is_empty(),
                "incomplete: {finding:?}"
            );
        }
        findings.len()
    }
}
