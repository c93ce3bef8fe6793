//! A listening port is in the range of `connect()`: an outgoing connection may hold it when the server restarts.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::argument;
use crate::facts::{Facts, parse_numbers, parse_ports};
use report::{Finding, Severity};

const NAME: &str = "listen-in-port-range";
const WHY: &str = "While the server is down, connect() of any program may take the port; the restart then fails with \"Address already in \
    use\", for as long as that connection lives or is in TIME_WAIT.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a port listened on that `connect()` may take",
    needs: Needs::NOTHING,
    why: WHY,
    example: "server { listen 40000; }",
    instead: "server { listen 8080; }",
    check,
};
const RANGE: &str = "net.ipv4.ip_local_port_range";
const RESERVED: &str = "net.ipv4.ip_local_reserved_ports";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let ranges: Vec<Vec<u64>> = facts.values(RANGE).filter_map(|(_, value)| parse_numbers(value)).collect();
    let reserved: Vec<(u64, u64)> = facts.values(RESERVED).flat_map(|(_, value)| parse_ports(value)).collect();
    let mut seen = Vec::new();
    let mut findings = Vec::new();
    for listen in configuration.listens() {
        let Some(port) = argument(listen.directive, 0).and_then(|text| port(&text)) else { continue };
        let Some(range) =
            ranges.iter().find(|range| matches!(range[..], [first, last] if (first..=last).contains(&port)))
        else {
            continue;
        };
        if seen.contains(&port) || reserved.iter().any(|(first, last)| (*first..=*last).contains(&port)) {
            continue;
        }
        seen.push(port);
        let range: Vec<String> = range.iter().map(u64::to_string).collect();
        findings.push(Finding {
            place: Some(configuration.place(listen.directive.span)),
            why: WHY.to_owned(),
            evidence: vec![
                quoted(configuration, listen.directive.span, &format!("listens on port {port}")),
                format!("{RANGE} = {}", range.join(" ")),
            ],
            fix: format!("{RESERVED} = {}", with_port(facts, port)),
            side_effect: "connect() has one port less.".to_owned(),
            undo: format!("{RESERVED} = {}", facts.system.sysctls.get(RESERVED).map_or("", String::as_str)),
            ..finding(NAME, Severity::Warning, format!("port {port} is listened on and handed out to connections"))
        });
    }
    findings
}

/// The list of reserved ports with one port added.
fn with_port(facts: &Facts, port: u64) -> String {
    let now = facts.values(RESERVED).last().map(|(_, value)| value.trim()).unwrap_or_default();
    if now.is_empty() { port.to_string() } else { format!("{now},{port}") }
}

/// The port of a `listen`; `None` for Unix sockets and ranges.
fn port(text: &str) -> Option<u64> {
    if text.starts_with("unix:") {
        return None;
    }
    let last = text.rsplit_once(':').filter(|_| !text.ends_with(']')).map_or(text, |(_, port)| port);
    last.parse::<u16>().ok().map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, with_sysctl};
    use super::*;

    fn of(listen: &str, range: &str, reserved: &str) -> usize {
        let facts = facts(&format!("events {{}}\nhttp {{ server {{ listen {listen}; }} }}\n"));
        fired(&check(&with_sysctl(with_sysctl(facts, RANGE, range), RESERVED, reserved)))
    }

    #[test]
    fn fires_on_unreserved_ports_within_the_range() {
        assert_eq!(of("8080", "1024 65535", ""), 1);
        assert_eq!(of("[::]:9090", "1024\t65535", "8080"), 1);
        assert_eq!(of("80", "1024 65535", ""), 0);
        assert_eq!(of("10.0.0.1:8080", "1024 65535", "8000-8100"), 0);
        assert_eq!(of("8080", "32768 60999", ""), 0);
        assert_eq!(of("unix:/run/a:1", "1024 65535", ""), 0);
    }
}
