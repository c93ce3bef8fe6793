//! Most ports towards one destination are in use or in TIME_WAIT.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "ports-running-out";
const WHY: &str = "connect() searches the range for a port that no other connection between these addresses has; when there is none it \
    fails with \"Cannot assign requested address\", which clients see as 502.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "four fifths of the ports towards a destination taken",
    needs: Needs { word: false, running: true },
    why: WHY,
    example: "",
    instead: "",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some((live, ports)) = facts.live.as_ref().and_then(|live| Some((live, live.ports.filter(|ports| *ports > 0)?)))
    else {
        return Vec::new();
    };
    let reuse = facts.system.number("net.ipv4.tcp_tw_reuse");
    let mut findings = Vec::new();
    for destination in &live.destinations {
        let loopback = destination.local.is_loopback() && destination.remote.ip().is_loopback();
        // If the setting is unknown, ports in TIME_WAIT do not count as taken.
        let reuses = reuse.is_none_or(|reuse| reuse == 1 || (reuse == 2 && loopback));
        // If ports are reused after a second, those in TIME_WAIT do not count as taken.
        let gone = if reuses { destination.used() - destination.time_wait } else { destination.used() };
        if gone < ports.saturating_mul(4) / 5 {
            continue;
        }
        let severity = if gone >= ports.saturating_mul(19) / 20 { Severity::Error } else { Severity::Warning };
        findings.push(Finding {
            why: WHY.to_owned(),
            evidence: vec![destination.sentence(), format!("{ports} ports to choose from, tcp_tw_reuse {}", reuse.map_or_else(|| "unknown".to_owned(), |reuse| reuse.to_string()))],
            arithmetic: format!("{gone} of {ports} = {} %", gone * 100 / ports),
            fix: "# keepalive in the upstream, if most are in TIME_WAIT\nsysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"\n\
                  # more peers, ports or source addresses if most are open: `holdfast plan`"
                .to_owned(),
            side_effect: "Kept connections are open at the upstream as well; ports listened on in the range must be reserved.".to_owned(),
            undo: "The settings as they were.".to_owned(),
            ..finding(NAME, severity, format!("{gone} of {ports} ports from {} to {} are taken", destination.local, destination.remote))
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, proxy, with_sockets, with_sysctl};
    use super::*;

    fn of(established: u64, time_wait: u64, reuse: &str) -> Vec<Finding> {
        let facts = with_sockets(proxy("server 10.0.0.9:3000;", ""), "10.0.0.9:3000", established, time_wait);
        check(&with_sysctl(facts, "net.ipv4.tcp_tw_reuse", reuse))
    }

    #[test]
    fn time_wait_is_free_if_tw_reuse_is_unknown() {
        let of = |established, time_wait| {
            let facts = with_sockets(proxy("server 10.0.0.9:3000;", ""), "10.0.0.9:3000", established, time_wait);
            let mut without = facts;
            without.system.sysctls.remove("net.ipv4.tcp_tw_reuse");
            fired(&check(&without))
        };
        assert_eq!((of(100, 27_000), of(27_000, 0)), (0, 1));
    }

    #[test]
    fn fires_near_the_end_of_ports_without_reuse() {
        assert_eq!((fired(&of(100, 23_000, "2")), of(100, 23_000, "2")[0].severity), (1, Severity::Warning));
        assert_eq!(of(27_000, 0, "1")[0].severity, Severity::Error);
        assert_eq!((fired(&of(100, 23_000, "1")), fired(&of(100, 2000, "0"))), (0, 0));
    }
}
