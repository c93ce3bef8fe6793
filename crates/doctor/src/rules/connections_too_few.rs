//! `worker_connections` is too small for the load: a proxied client takes two. Further clients get a 500 or no answer.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, number};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "worker-connections-too-few";
const WHY: &str = "A worker that has no connection left closes idle clients and answers others with 500 or not at all; the log has \
    \"worker_connections are not enough\".";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "fewer than `--connections` or `--concurrency` need",
    needs: Needs { word: true, running: false },
    why: WHY,
    example: "# holdfast doctor --connections 5000
worker_rlimit_nofile 65536;
events { worker_connections 1024; }
http {
    server { location / { return 204; } }
}",
    instead: "# holdfast doctor --connections 5000
worker_rlimit_nofile 65536;
events { worker_connections 8192; }
http {
    server { location / { return 204; } }
}",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let Some(workers) = configuration.workers(facts.system.cpus) else { return Vec::new() };
    let Some(clients) = facts.expected.connections.max(facts.expected.concurrency) else { return Vec::new() };
    let each = configuration.worker_connections();
    let sockets: u64 = if configuration.all("proxy_pass").is_empty() { 1 } else { 2 };
    let wanted = clients.saturating_mul(sockets);
    if each.saturating_mul(workers) >= wanted {
        return Vec::new();
    }
    let said = configuration.events("worker_connections");
    let needed = wanted.div_ceil(workers.max(1)).saturating_mul(5) / 4;
    vec![Finding {
        place: said.map(|directive| configuration.place(directive.span)),
        why: WHY.to_owned(),
        evidence: vec![said.map_or_else(
            || format!("worker_connections is {each} by default"),
            |directive| quoted(configuration, directive.span, &format!("worker_connections {each};")),
        )],
        arithmetic: format!(
            "{clients} clients x {sockets} = {wanted} > {each} x {workers} workers = {}",
            each.saturating_mul(workers)
        ),
        fix: fix(facts, configuration, needed),
        side_effect: "nginx reserves 424 bytes for each possible connection and worker; Holdfast none.".to_owned(),
        undo: UNDO.to_owned(),
        ..finding(
            NAME,
            Severity::Error,
            format!("{workers} workers take {} connections, and {wanted} are expected", each.saturating_mul(workers)),
        )
    }]
}

/// Twice as many descriptors as connections, unless there are already enough; the rest is for files.
fn fix(facts: &Facts, configuration: &Configuration, needed: u64) -> String {
    let mut change = Change::new(configuration);
    let line = format!("worker_connections {needed};");
    match configuration.main("events") {
        Some(events) => change.set(events, line),
        None => change.remark(format!("events {{ {line} }}")),
    };
    let said = configuration.main("worker_rlimit_nofile").and_then(|line| number(line, 0));
    if said.or(facts.system.descriptors).is_none_or(|limit| limit < needed.saturating_mul(2)) {
        change.set_main(format!("worker_rlimit_nofile {};", needed.saturating_mul(2)));
    }
    change.fix()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{expecting, facts, fired, proxy, table};
    use super::*;
    use crate::facts::Expected;

    fn of_300(facts: Facts) -> Facts {
        expecting(facts, Expected { connections: Some(300), ..Expected::default() })
    }

    #[test]
    fn fires_where_clients_and_upstream_connections_do_not_fit() {
        const ONE: &str = "server 127.0.0.1:1;";
        let findings = check(&of_300(proxy(ONE, "")));
        assert_eq!(fired(&findings), 1);
        assert_eq!(findings[0].arithmetic, "300 clients x 2 = 600 > 512 x 1 workers = 512");
        table(
            check,
            [
                (0, of_300(facts("events {}\nhttp {}\n")), "nothing is proxied"),
                (0, proxy(ONE, ""), "nothing is expected"),
            ],
        );
    }
}
