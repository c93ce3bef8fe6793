//! The rules, one file each. A rule reads [`Facts`] and returns complete findings: what, why it matters, evidence,
//! arithmetic, fix, side effect, undo. Each file ends with configurations in which it must and must not report.

mod accept_queue_overflow;
mod alias_traversal;
mod allow_without_deny;
mod buffers_beyond_memory;
mod certificate_files;
mod close_wait_pile;
mod connection_always_upgrade;
mod connections_too_few;
mod conntrack_table;
mod content_type_twice;
mod descriptors_running_out;
mod descriptors_too_few;
mod error_log_off;
mod fin_timeout_folklore;
mod folklore_sysctls;
mod go_transport_limits;
mod header_of_several_lines;
mod headers_not_inherited;
mod host_spoofing;
mod idle_timeout_not_below_peer;
mod if_in_location;
mod keepalive_not_used;
mod keepalive_requests_churn;
mod listen_backlog;
mod listen_in_port_range;
mod name_resolved_once;
mod name_without_resolver;
mod netdev_backlog_mistaken;
mod one_page_buffer;
mod one_peer_max_fails;
mod origin_regex;
mod page;
mod pool_beyond_peer;
mod pool_too_small;
mod port_range_parity;
mod ports_running_out;
mod referer_may_be_absent;
mod repeated_posts;
mod request_chooses_upstream;
mod resolver_outside;
mod response_splitting;
mod return_before_access;
mod server_name_scheme;
mod slow_expression;
mod socket_buffers_beyond_memory;
mod status_page_open;
mod suffix_not_anchored;
mod syn_backlog;
mod tcp_mem_in_bytes;
mod tunnel_broken;
mod tunnel_buffering;
mod tunnel_timeout;
mod tuples_too_few;
mod tw_buckets;
mod tw_reuse_without_timestamps;
mod unread_bytes;
mod upstream_not_verified;
mod upstream_without_keepalive;
mod version_shown;
mod weak_tls;
mod websocket_without_upgrade;

pub use page::markdown;

use crate::configuration::Configuration;
use crate::edit::UNDO;
use crate::facts::Facts;
use conf::source::Span;
use report::{Document, Finding, Section, Severity};

/// A rule: its check, and its text in the guide. Each is at the beginning of its file.
#[derive(Debug)]
pub struct Rule {
    /// Its name in reports.
    pub name: &'static str,
    /// What it finds, in one line.
    pub finds: &'static str,
    /// What it needs besides a file.
    pub needs: Needs,
    /// The consequence of the fault.
    pub why: &'static str,
    /// A configuration or a sysctl file with the fault: the inside of `http {}`, or a whole file. The first line may
    /// have options as a comment. Empty if only a running server, or a file that the configuration names, shows the
    /// fault.
    pub example: &'static str,
    /// The same without the fault.
    pub instead: &'static str,
    check: fn(&Facts) -> Vec<Finding>,
}

/// What a rule needs besides a file.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Whether it needs a value from the operator.
    pub word: bool,
    /// Whether it needs a running server, or is more precise with one.
    pub running: bool,
}

impl Needs {
    const NOTHING: Self = Self { word: false, running: false };
}

const RULES: &[&Rule] = &[
    &upstream_without_keepalive::RULE,
    &keepalive_not_used::RULE,
    &connection_always_upgrade::RULE,
    &pool_too_small::RULE,
    &pool_beyond_peer::RULE,
    &idle_timeout_not_below_peer::RULE,
    &keepalive_requests_churn::RULE,
    &connections_too_few::RULE,
    &descriptors_too_few::RULE,
    &descriptors_running_out::RULE,
    &listen_backlog::RULE,
    &accept_queue_overflow::RULE,
    &syn_backlog::RULE,
    &netdev_backlog_mistaken::RULE,
    &tuples_too_few::RULE,
    &ports_running_out::RULE,
    &port_range_parity::RULE,
    &listen_in_port_range::RULE,
    &tw_buckets::RULE,
    &tw_reuse_without_timestamps::RULE,
    &fin_timeout_folklore::RULE,
    &folklore_sysctls::RULE,
    &conntrack_table::RULE,
    &tcp_mem_in_bytes::RULE,
    &socket_buffers_beyond_memory::RULE,
    &one_page_buffer::RULE,
    &buffers_beyond_memory::RULE,
    &unread_bytes::RULE,
    &close_wait_pile::RULE,
    &tunnel_broken::RULE,
    &websocket_without_upgrade::RULE,
    &tunnel_timeout::RULE,
    &tunnel_buffering::RULE,
    &repeated_posts::RULE,
    &one_peer_max_fails::RULE,
    &name_without_resolver::RULE,
    &name_resolved_once::RULE,
    &server_name_scheme::RULE,
    &go_transport_limits::RULE,
    &alias_traversal::RULE,
    &response_splitting::RULE,
    &host_spoofing::RULE,
    &request_chooses_upstream::RULE,
    &headers_not_inherited::RULE,
    &header_of_several_lines::RULE,
    &content_type_twice::RULE,
    &if_in_location::RULE,
    &origin_regex::RULE,
    &referer_may_be_absent::RULE,
    &allow_without_deny::RULE,
    &resolver_outside::RULE,
    &status_page_open::RULE,
    &weak_tls::RULE,
    &certificate_files::RULE,
    &upstream_not_verified::RULE,
    &version_shown::RULE,
    &slow_expression::RULE,
    &suffix_not_anchored::RULE,
    &return_before_access::RULE,
    &error_log_off::RULE,
];

/// The findings of all rules, most severe first, otherwise in the order of the rules and of the text.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| (rule.check)(facts)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// All rules, in the order of the guide.
pub fn all() -> &'static [&'static Rule] {
    RULES
}

/// Findings as a document. The title names the program that the configuration is read as; `made_by` is program and
/// version.
pub fn document(facts: &Facts, findings: Vec<Finding>, title: &str, made_by: &str) -> Document {
    let mut section = Section::new("Findings");
    if findings.is_empty() {
        section = section.note(Severity::Note, format!("None of the {} rules found anything.", RULES.len()));
    }
    for finding in findings {
        section = section.finding(finding);
    }
    let absent = if facts.configuration.is_some() { "" } else { "; no configuration was given" };
    let document = Document::new(title, made_by).fact("rules", format!("{}{absent}", RULES.len())).section(section);
    let unknown = &facts.system.unknown;
    // If a rule could not check, the report says so, because silence would mean "in order".
    if unknown.is_empty() {
        return document;
    }
    document.fact("not known here", format!("{}; rules that need one say nothing about it", unknown.join(", ")))
}

/// A finding with its rule, severity and title; the rule fills the other parts.
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

/// A finding at a place of the configuration, with that place as evidence, a change as its fix, and the rule's own
/// reason. The rule fills the side effect.
fn at(facts: &Facts, rule: &Rule, severity: Severity, span: Span, what: String, fix: String) -> Finding {
    let configuration = facts.configuration.as_ref();
    let text = |configuration: &Configuration| quoted(configuration, span, &configuration.text(span));
    Finding {
        place: configuration.map(|configuration| configuration.place(span)),
        why: rule.why.to_owned(),
        evidence: configuration.map(text).into_iter().collect(),
        fix,
        undo: UNDO.to_owned(),
        ..finding(rule.name, severity, what)
    }
}

/// `file:line: text of the directive` as evidence.
fn quoted(configuration: &Configuration, span: Span, text: &str) -> String {
    let (file, line, _) = configuration.place(span);
    format!("{file}:{line}: {text}")
}

#[cfg(test)]
pub(crate) mod fixture {
    //! Facts for the tests of rules: a configuration from a text, and a system with sufficient limits.

    use super::{Facts, Finding};
    use crate::configuration::Configuration;
    use crate::dialect::Dialect;
    use crate::facts::{Expected, System, parse_settings};
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

    /// Facts with this text inside of `http {}`.
    pub(crate) fn http(text: &str) -> Facts {
        facts(&format!("events {{}}\nhttp {{\n{text}\n}}\n"))
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

    /// A proxying configuration with the given directives in the upstream and the location.
    pub(crate) fn proxy(upstream: &str, location: &str) -> Facts {
        facts(&format!(
            "events {{}}\nhttp {{\nupstream api {{\n{upstream}\n}}\nserver {{\nlocation / {{\n{location}\nproxy_pass http://api;\n}}\n}}\n}}\n"
        ))
    }

    pub(crate) fn expecting(facts: Facts, expected: Expected) -> Facts {
        Facts { expected, ..facts }
    }

    /// A server with these connections to a peer, and the kernel's default port range.
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
        Facts { dialect: Dialect::NGINX_1_22, ..facts }
    }

    pub(crate) fn sysctl_file(text: &str) -> Facts {
        Facts { settings: parse_settings("/etc/sysctl.conf", text), ..Facts::default() }
    }

    pub(crate) fn with_sysctl(mut facts: Facts, name: &str, value: &str) -> Facts {
        facts.system.sysctls.insert(name.to_owned(), value.to_owned());
        facts
    }

    /// Runs a rule over a table: the expected number of findings, the facts, and a description of them.
    pub(crate) fn table<const ROWS: usize>(check: fn(&Facts) -> Vec<Finding>, rows: [(usize, Facts, &str); ROWS]) {
        for (times, facts, what) in rows {
            let findings = check(&facts);
            assert_eq!(fired(&findings), times, "{what}: {findings:?}");
        }
    }

    /// The number of findings. Asserts that each has all parts that readers need.
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
