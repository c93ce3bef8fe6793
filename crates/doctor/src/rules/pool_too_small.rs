//! The pool is smaller than the number of concurrent requests: surplus connections are closed after their request and
//! opened again.

use super::{Needs, Rule, finding, quoted};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{Group, groups, setting};
use crate::kernel::TIME_WAIT_SECONDS;
use report::{Finding, Severity};

const NAME: &str = "pool-too-small";
const WHY: &str = "When a burst ends, the connections beyond the pool are closed, and opened again for the next one. Each waits in TIME_WAIT for 60 s, and its port with it.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "fewer idle connections than requests at once (`--concurrency`), or TIME_WAIT that shows it",
    needs: Needs { word: true, running: true },
    why: WHY,
    example: r#"# holdfast doctor --concurrency 200
upstream api { server 127.0.0.1:3000; keepalive 8; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    instead: r#"# holdfast doctor --concurrency 200
upstream api { server 127.0.0.1:3000; keepalive 200; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    check,
};
/// TIME_WAIT sockets towards a peer in normal use of a pool: below about sixteen closes per second.
const TIME_WAITS_MIN: u64 = 1000;
/// This many times more sockets in TIME_WAIT than open: each connection was closed after a few requests.
const CHURN_FACTOR: u64 = 10;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let workers = configuration.workers(facts.system.cpus).unwrap_or(1).max(1);
    let mut findings = Vec::new();
    for group in groups(configuration) {
        let kept = group.kept(facts.dialect);
        let (Some(upstream), false) = (group.upstream, kept == 0 || group.is_for_tunnels()) else { continue };
        let pool = kept.saturating_mul(workers);
        let at_once = facts.expected.concurrency.filter(|at_once| *at_once > pool);
        let churn = churn(facts, &group);
        if at_once.is_none() && churn.is_empty() {
            continue;
        }
        let at = setting(upstream, "keepalive").unwrap_or(upstream);
        let wanted = at_once.unwrap_or(pool.saturating_mul(4)).div_ceil(workers);
        let mut evidence =
            vec![quoted(configuration, at.span, &format!("{kept} idle connections for each of {workers} workers"))];
        evidence.extend(churn);
        findings.push(Finding {
            place: Some(configuration.place(at.span)),
            why: format!(
                "When a burst ends, the connections beyond the pool are closed, and opened again for the next one. Each is in \
                 TIME_WAIT for {TIME_WAIT_SECONDS} s, and its port with it."
            ),
            evidence,
            arithmetic: at_once.map_or_else(String::new, |at_once| {
                format!("{at_once} at once - {kept} x {workers} = {} connections closed after each burst", at_once - pool)
            }),
            fix: Change::new(configuration).set(upstream, format!("keepalive {wanted};")).fix(),
            side_effect: "As many idle connections stay open at the peers; they must allow them.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Warning, format!("the pool of upstream group \"{}\" is smaller than its load", group.name))
        });
    }
    findings
}

/// Evidence from the sockets, if there is any.
fn churn(facts: &Facts, group: &Group<'_>) -> Vec<String> {
    let Some(live) = &facts.live else { return Vec::new() };
    let seen = group.addresses().into_iter().filter_map(|peer| live.towards(peer));
    let churns =
        seen.filter(|seen| seen.time_wait >= TIME_WAITS_MIN && seen.time_wait > seen.established * CHURN_FACTOR);
    churns.map(|seen| seen.sentence()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{expecting, fired, old, proxy, table, with_sockets};
    use super::*;
    use crate::facts::Expected;

    const KEPT: &str = "server 127.0.0.1:3000; keepalive 16;";

    fn at_once(facts: Facts, concurrency: u64) -> Facts {
        expecting(facts, Expected { concurrency: Some(concurrency), ..Expected::default() })
    }

    fn beside(established: u64, time_wait: u64) -> Facts {
        with_sockets(proxy(KEPT, ""), "127.0.0.1:3000", established, time_wait)
    }

    #[test]
    fn fires_on_too_much_concurrency_and_on_observed_sockets() {
        table(
            check,
            [
                (1, at_once(proxy(KEPT, ""), 1000), "1000 at once, 16 kept"),
                (0, at_once(proxy(KEPT, ""), 16), "16 at once"),
                (0, proxy(KEPT, ""), "no load is known"),
                (0, at_once(old(proxy("server 127.0.0.1:1;", "")), 1000), "no pool: another rule's finding"),
                (1, beside(20, 12_000), "12,000 in TIME_WAIT"),
                (0, beside(16, 300), "300 in TIME_WAIT"),
            ],
        );
        let findings = check(&at_once(proxy(KEPT, ""), 1000));
        assert_eq!(fired(&findings), 1);
        assert!(findings[0].arithmetic.contains("1000 at once - 16 x 1 = 984"), "{findings:?}");
    }
}
