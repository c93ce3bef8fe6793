//! Rule: the wall clock is read only to show a time (logs, `Date`). It jumps when it is set, and a deadline computed
//! from it would come an hour early or late. Deadlines use `reactor::Millis` or `Instant`.

use super::Finding;
use super::source::{Source, walk};
use proc_macro2::TokenTree;

/// Words that read the wall clock.
const WORDS: [&str; 6] = ["SystemTime", "wall_clock", "OffsetDateTime", "now_utc", "now_local", "CLOCK_REALTIME"];

/// Files that show the time or check certificates against it, and the one that reads the clock for them.
const ALLOWED: [&str; 32] = [
    "crates/control/src/acme/mod.rs",
    "crates/control/src/acme/renewal.rs",
    "crates/control/src/ocsp/mod.rs",
    "crates/reactor/src/clock.rs",
    "crates/reactor/src/lib.rs",
    "crates/gateway/src/thread/clock.rs",
    "crates/gateway/src/base/logs/error.rs",
    "crates/gateway/src/registry/bind/mod.rs",
    "crates/gateway/src/registry/process.rs",
    "crates/gateway/src/registry/recent_errors.rs",
    "crates/gateway/src/registry/cache/purging.rs",
    "crates/gateway/src/content/status/snapshot.rs",
    "crates/holdfast/src/doctor.rs",
    "crates/holdfast/src/serve/certificate_watch.rs",
    "crates/holdfast/src/serve/syslog.rs",
    "crates/holdfast/src/verdict.rs",
    "crates/holdfast/src/lab/began.rs",
    "crates/load/src/drive/push/mod.rs",
    "crates/load/src/websocket/received_events.rs",
    "crates/origin/src/events.rs",
    "crates/origin/src/reply.rs",
    "crates/incident/src/moment.rs",
    "crates/testkit/src/kubernetes/pod_status.rs",
    "crates/testkit/src/responder.rs",
    "crates/kubernetes/src/acme/order_schedule.rs",
    "crates/kubernetes/src/acme/order_schedule/tests.rs",
    "crates/kubernetes/src/acme/leader.rs",
    "crates/kubernetes/src/acme/secrets.rs",
    "crates/kubernetes/src/dates.rs",
    "crates/incident/src/record/mod.rs",
    "crates/tls/src/renewal.rs",
    "crates/watch/src/timestamp.rs",
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_product = source.path.starts_with("crates/") && source.path.contains("/src/");
    if !is_product || ALLOWED.contains(&source.path.as_str()) {
        return findings;
    }
    walk(source.tokens.clone(), &mut |siblings| {
        for token in siblings {
            if let TokenTree::Ident(word) = token
                && WORDS.iter().any(|forbidden| word == forbidden)
            {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: word.span().start().line,
                    rule: "wall-clock",
                    text: format!("`{word}`: deadlines are monotonic; what shows the time is listed in this rule"),
                });
            }
        }
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: &str = "use std::time::SystemTime;\nfn late(at: u64) -> bool { reactor::wall_clock() > at }\n";

    #[test]
    fn a_deadline_by_the_wall_clock_is_found() {
        let found = check(&Source::fixture("crates/gateway/src/worker/mod.rs", DEADLINE));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn time_stamps_tests_and_tasks_may_read_it() {
        for path in ["crates/gateway/src/base/logs/error.rs", "crates/gateway/tests/x.rs", "xtask/src/bench/proxy.rs"] {
            assert_eq!(check(&Source::fixture(path, DEADLINE)), [], "{path}");
        }
        let text = "// SystemTime\nfn f(now: Millis) {}\n";
        assert_eq!(check(&Source::fixture("crates/gateway/src/worker/mod.rs", text)), []);
    }
}
