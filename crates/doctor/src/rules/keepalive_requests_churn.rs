//! Kept connections are closed after so few requests that the pool has little effect.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::number;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{groups, setting};
use crate::kernel::TIME_WAIT_SECONDS;
use report::{Finding, Severity};

const NAME: &str = "keepalive-requests-churn";
const WHY: &str = "After that many requests the connection is closed and a new one opened: a burst of TIME_WAIT, and a request that \
    waits for a handshake.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "connections closed after few requests, or often at this `--rate`",
    needs: Needs { word: true, running: false },
    why: WHY,
    example: r#"upstream api { server 127.0.0.1:3000; keepalive 32; keepalive_requests 10; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    instead: r#"upstream api { server 127.0.0.1:3000; keepalive 32; keepalive_requests 100000; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    check,
};
/// nginx's own number since 1.19.10; it was 100 before.
const REQUESTS_DEFAULT: u64 = 1000;
/// With fewer, the operator chose to close often.
const REQUESTS_FEW: u64 = 100;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for group in groups(configuration) {
        let (Some(upstream), false) = (group.upstream, group.kept(facts.dialect) == 0 || group.is_for_tunnels()) else {
            continue;
        };
        let said = setting(upstream, "keepalive_requests");
        let requests =
            said.map_or(Some(REQUESTS_DEFAULT), |directive| number(directive, 0)).unwrap_or(REQUESTS_DEFAULT).max(1);
        let closes = facts.expected.requests_per_second.map(|rate| rate / requests as f64);
        let waiting = closes.map(|closes| (closes * TIME_WAIT_SECONDS as f64).ceil() as u64);
        let ports = facts.system.ports().map(|ports| ports.saturating_mul(group.peers()));
        // A quarter of the ports in TIME_WAIT leaves no room for a burst.
        let many = waiting.zip(ports).is_some_and(|(waiting, ports)| waiting > ports / 4);
        if !many && (said.is_none() || requests >= REQUESTS_FEW) {
            continue;
        }
        let at = said.unwrap_or(upstream);
        findings.push(Finding {
            place: Some(configuration.place(at.span)),
            why: WHY.to_owned(),
            evidence: vec![quoted(configuration, at.span, &format!("keepalive_requests is {requests}"))],
            arithmetic: waiting.map_or_else(String::new, |waiting| {
                let rate = facts.expected.requests_per_second.unwrap_or(0.0);
                let of = ports.map_or_else(String::new, |ports| format!(", of {ports} ports"));
                format!("{rate} requests/s / {requests} x {TIME_WAIT_SECONDS} s = {waiting} in TIME_WAIT{of}")
            }),
            fix: Change::new(configuration).set(upstream, "keepalive_requests 100000;").fix(),
            side_effect: "A connection lives longer, up to keepalive_time (1h); memory that nginx allocates for it is freed later."
                .to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Warning, format!("connections of upstream group \"{}\" are closed after {requests} requests", group.name))
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{expecting, proxy, table};
    use super::*;
    use crate::facts::Expected;

    #[test]
    fn fires_on_low_keepalive_requests_and_high_rates() {
        let kept = |upstream: &str| proxy(&format!("server 127.0.0.1:1; keepalive 16; {upstream}"), "");
        let at_rate = |rate: f64, upstream: &str| {
            expecting(kept(upstream), Expected { requests_per_second: Some(rate), ..Expected::default() })
        };
        table(
            check,
            [
                (1, kept("keepalive_requests 10;"), "ten requests each"),
                (0, kept(""), "the default"),
                (1, at_rate(20_000.0, "keepalive_requests 100;"), "12,000 in TIME_WAIT"),
                (0, at_rate(20_000.0, ""), "1,200 in TIME_WAIT"),
                (0, at_rate(1000.0, "keepalive_requests 100;"), "600 in TIME_WAIT"),
            ],
        );
    }
}
