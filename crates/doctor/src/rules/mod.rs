//! The rules, one file each. A rule looks at [`Facts`] and returns findings that are complete: what, why it hurts, evidence,
//! arithmetic, fix, side effect, how to undo. Each file ends with configurations in which it must and must not fire.

mod buffers_beyond_memory;
mod descriptors_too_few;
mod folklore_sysctls;
mod keepalive_not_used;
mod listen_backlog;
mod one_page_buffer;
mod one_peer_max_fails;
mod repeated_posts;
mod server_name_scheme;
mod tunnel_broken;
mod tunnel_timeout;
mod upstream_without_keepalive;

use crate::configuration::Configuration;
use crate::facts::Facts;
use conf::source::Span;
use report::{Document, Finding, Section, Severity};

/// A rule and how it is called in reports.
struct Rule {
    name: &'static str,
    check: fn(&Facts) -> Vec<Finding>,
}

const RULES: [Rule; 12] = [
    Rule { name: upstream_without_keepalive::NAME, check: upstream_without_keepalive::check },
    Rule { name: keepalive_not_used::NAME, check: keepalive_not_used::check },
    Rule { name: descriptors_too_few::NAME, check: descriptors_too_few::check },
    Rule { name: listen_backlog::NAME, check: listen_backlog::check },
    Rule { name: folklore_sysctls::NAME, check: folklore_sysctls::check },
    Rule { name: one_page_buffer::NAME, check: one_page_buffer::check },
    Rule { name: buffers_beyond_memory::NAME, check: buffers_beyond_memory::check },
    Rule { name: tunnel_broken::NAME, check: tunnel_broken::check },
    Rule { name: tunnel_timeout::NAME, check: tunnel_timeout::check },
    Rule { name: repeated_posts::NAME, check: repeated_posts::check },
    Rule { name: one_peer_max_fails::NAME, check: one_peer_max_fails::check },
    Rule { name: server_name_scheme::NAME, check: server_name_scheme::check },
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
    Document::new("Doctor", made_by)
        .fact("read as", facts.dialect.name())
        .fact("rules", format!("{}{absent}", RULES.len()))
        .section(section)
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
    use crate::facts::{Dialect, System, parse_settings};
    use std::io;
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
        let sysctls =
            [("net.core.somaxconn", "4096"), ("net.ipv4.tcp_rmem", "4096 131072 6291456"), ("fs.nr_open", "1048576")];
        let sysctls = sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let system = System { sysctls, memory_bytes: Some(8 << 30), cpus: Some(4), descriptors: Some(1024) };
        Facts { configuration: Some(Configuration::new(loaded)), system, ..Facts::default() }
    }

    /// The rest of a proxying configuration around what a test says of the upstream and the location.
    pub(crate) fn proxy(upstream: &str, location: &str) -> Facts {
        facts(&format!(
            "events {{}}\nhttp {{\nupstream api {{\n{upstream}\n}}\nserver {{\nlocation / {{\n{location}\nproxy_pass http://api;\n}}\n}}\n}}\n"
        ))
    }

    pub(crate) fn old(facts: Facts) -> Facts {
        Facts { dialect: Dialect::Nginx1_22, ..facts }
    }

    pub(crate) fn sysctl_file(text: &str) -> Facts {
        Facts { settings: parse_settings("/etc/sysctl.conf", text), ..Facts::default() }
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
