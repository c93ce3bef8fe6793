//! Limits of a Go gateway's `http.Transport` that contradict each other or the load: Go does not check them.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use crate::go_transport::GoTransport;
use crate::kernel::TIME_WAIT_SECONDS;
use report::{Finding, Severity};

const NAME: &str = "go-transport-limits";
const WHY: &str = "Connections beyond the limits are closed after their response and opened again for the next request; thousands are in \
    TIME_WAIT, and in the end connect fails with \"cannot assign requested address\". Go checks neither limit against the \
    other.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "limits of a Go `http.Transport` that contradict each other, the load or the peer",
    needs: Needs { word: true, running: false },
    why: WHY,
    example: "",
    instead: "",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(transport) = facts.expected.go_transport else { return Vec::new() };
    let (per_host, hosts) = (transport.idle_per_host_taken(), transport.hosts);
    let at_once = facts.expected.concurrency;
    if transport.closes {
        let fix = "DisableKeepAlives: false,".to_owned();
        let evidence = "DisableKeepAlives is true".to_owned();
        return vec![complete(
            &transport,
            Severity::Warning,
            "every request opens a connection".to_owned(),
            evidence,
            String::new(),
            &fix,
        )];
    }
    let mut findings = Vec::new();
    let all = per_host.saturating_mul(hosts);
    if transport.idle > 0 && transport.idle < all && transport.idle_per_host > 0 {
        let what = format!("MaxIdleConns of {} cuts MaxIdleConnsPerHost of {per_host}", transport.idle);
        let evidence = format!("MaxIdleConns {}, MaxIdleConnsPerHost {per_host}, {hosts} hosts", transport.idle);
        let sum = format!("{per_host} x {hosts} hosts = {all} > {}", transport.idle);
        findings.push(complete(
            &transport,
            Severity::Warning,
            what,
            evidence,
            sum,
            &format!("MaxIdleConns: {all},\nMaxIdleConnsPerHost: {per_host},"),
        ));
    }
    let kept = if transport.idle == 0 { per_host } else { per_host.min(transport.idle / hosts.max(1)) };
    if let Some(at_once) =
        at_once.filter(|at_once| *at_once > kept && (transport.per_host == 0 || transport.per_host > kept))
    {
        let busy = if transport.per_host == 0 { at_once } else { at_once.min(transport.per_host) };
        let what = format!("{} of {busy} connections to a host are thrown away after use", busy - kept);
        let evidence =
            format!("{kept} idle connections are kept for each host, {at_once} requests are in flight at once");
        let sum = format!(
            "{busy} - {kept} = {} closed after each request, each {TIME_WAIT_SECONDS} s in TIME_WAIT",
            busy - kept
        );
        let fix = format!("MaxIdleConns: {},\nMaxIdleConnsPerHost: {busy},", busy.saturating_mul(hosts));
        findings.push(complete(&transport, Severity::Warning, what, evidence, sum, &fix));
    }
    if let (Some(theirs), false) = (
        facts.expected.peer_idle_seconds,
        transport.idle_seconds > 0 && facts.expected.peer_idle_seconds > Some(transport.idle_seconds),
    ) {
        let ours =
            if transport.idle_seconds == 0 { "for ever".to_owned() } else { format!("{} s", transport.idle_seconds) };
        let what = format!("idle connections are kept {ours}, and the peer closes them after {theirs} s");
        let evidence = format!("IdleConnTimeout {ours}, the peer's {theirs} s");
        let fix = format!("IdleConnTimeout: {} * time.Second,", (theirs * 2 / 3).max(1));
        findings.push(complete(&transport, Severity::Warning, what, evidence, String::new(), &fix));
    }
    findings
}

fn complete(
    transport: &GoTransport,
    severity: Severity,
    what: String,
    evidence: String,
    arithmetic: String,
    fix: &str,
) -> Finding {
    Finding {
        why: WHY.to_owned(),
        evidence: vec![evidence],
        arithmetic,
        fix: format!("&http.Transport{{\n    {}\n}}", fix.replace('\n', "\n    ")),
        side_effect: "As many idle connections stay open at the peers, until IdleConnTimeout.".to_owned(),
        undo: format!(
            "MaxIdleConns: {}, MaxIdleConnsPerHost: {}, MaxConnsPerHost: {}",
            transport.idle, transport.idle_per_host, transport.per_host
        ),
        ..finding(NAME, severity, what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::fired;
    use super::*;
    use crate::facts::Expected;

    fn of(transport: &str, concurrency: Option<u64>, peer_idle_seconds: Option<u64>) -> Vec<Finding> {
        let go_transport = Some(transport.parse().expect("understood"));
        let expected = Expected { concurrency, peer_idle_seconds, go_transport, ..Expected::default() };
        check(&Facts { expected, ..Facts::default() })
    }

    #[test]
    fn fires_on_the_founding_limits() {
        let findings = of("MaxIdleConnsPerHost=200", Some(1000), None);
        assert_eq!(fired(&findings), 2, "{findings:?}");
        assert_eq!(findings[0].arithmetic, "200 x 1 hosts = 200 > 100");
        assert!(findings[1].what.starts_with("900 of 1000 connections"), "{findings:?}");
        assert_eq!(fired(&of("", Some(50), None)), 1, "Go keeps two for each host unless told otherwise");
        assert_eq!(fired(&of("DisableKeepAlives=true", None, None)), 1);
        assert_eq!(fired(&of("", None, Some(60))), 1, "90 s against 60");
    }

    #[test]
    fn silent_on_consistent_limits() {
        assert_eq!(fired(&of("MaxIdleConns=1000,MaxIdleConnsPerHost=1000", Some(1000), Some(120))), 0);
        assert_eq!(fired(&of("", None, None)), 0);
        assert_eq!(fired(&of("MaxIdleConnsPerHost=50,MaxConnsPerHost=50", Some(1000), None)), 0, "the rest waits");
        assert_eq!(fired(&check(&Facts::default())), 0);
    }
}
