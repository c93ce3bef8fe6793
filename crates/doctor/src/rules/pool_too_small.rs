//! A pool that is smaller than what is in flight at once: what does not fit is closed after its request and opened anew.

use super::{finding, quoted};
use crate::facts::Facts;
use crate::group::{Group, groups, setting};
use crate::kernel::TIME_WAIT_SECONDS;
use report::{Finding, Severity};

pub(super) const NAME: &str = "pool-too-small";
/// Sockets in TIME_WAIT towards a peer, below which a pool is merely being used: about sixteen closes a second.
const TIME_WAITS_MIN: u64 = 1000;
/// So many more in TIME_WAIT than open: each connection was closed after a handful of requests.
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
                "When a burst ends, the connections beyond the pool are closed, and opened again for the next one. Each stands in \
                 TIME_WAIT for {TIME_WAIT_SECONDS} s, and its port with it."
            ),
            evidence,
            arithmetic: at_once.map_or_else(String::new, |at_once| {
                format!("{at_once} at once - {kept} x {workers} = {} connections closed after each burst", at_once - pool)
            }),
            fix: format!("keepalive {wanted};   # for each of {workers} workers"),
            side_effect: "As many idle connections stay open at the peers; they must allow them.".to_owned(),
            undo: format!("keepalive {kept}; and a reload."),
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
    use super::super::fixture::{expecting, fired, old, proxy, with_sockets};
    use super::*;
    use crate::facts::Expected;

    const KEPT: &str = "server 127.0.0.1:3000; keepalive 16;";

    #[test]
    fn it_fires_on_more_at_once_than_kept_and_on_sockets_that_show_it() {
        let expected = Expected { concurrency: Some(1000), ..Expected::default() };
        let findings = check(&expecting(proxy(KEPT, ""), expected));
        assert_eq!(fired(&findings), 1);
        assert!(findings[0].arithmetic.contains("1000 at once - 16 x 1 = 984"), "{findings:?}");
        assert_eq!(fired(&check(&with_sockets(proxy(KEPT, ""), "127.0.0.1:3000", 20, 12_000))), 1);
    }

    #[test]
    fn it_does_not_on_a_pool_that_suffices_nor_without_load_nor_without_a_pool() {
        let expected = Expected { concurrency: Some(16), ..Expected::default() };
        assert_eq!(fired(&check(&expecting(proxy(KEPT, ""), expected))), 0);
        assert_eq!(fired(&check(&proxy(KEPT, ""))), 0);
        assert_eq!(fired(&check(&with_sockets(proxy(KEPT, ""), "127.0.0.1:3000", 16, 300))), 0);
        let expected = Expected { concurrency: Some(1000), ..Expected::default() };
        assert_eq!(
            fired(&check(&expecting(old(proxy("server 127.0.0.1:1;", "")), expected))),
            0,
            "another rule's finding"
        );
    }
}
