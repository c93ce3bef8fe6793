//! Settings copied from article to article, although the kernel no longer has them, or they never had the wanted
//! effect.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "folklore-sysctl";
const WHY: &str = "The line does nothing. An operator who trusts it looks for the fault elsewhere.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "settings that the kernel no longer has",
    needs: Needs::NOTHING,
    why: WHY,
    example: "net.ipv4.tcp_tw_recycle = 1
net.ipv4.ip_conntrack_max = 2000000",
    instead: "net.netfilter.nf_conntrack_max = 2000000",
    check,
};

/// Name, why it is useless, and what to write instead.
const FOLKLORE: [(&str, &str, &str); 11] = [
    (
        "net.ipv4.tcp_tw_recycle",
        "it was removed in Linux 4.12, since it dropped clients behind NAT",
        "# delete {name}\n# and keep connections, with keepalive in the upstream",
    ),
    (
        "net.ipv4.ip_conntrack_max",
        "its name has been net.netfilter.nf_conntrack_max since Linux 2.6.20",
        "# delete {name}\nnet.netfilter.nf_conntrack_max = {value}",
    ),
    (
        "net.ipv4.netfilter.ip_conntrack_max",
        "its name has been net.netfilter.nf_conntrack_max since Linux 2.6.20",
        "# delete {name}\nnet.netfilter.nf_conntrack_max = {value}",
    ),
    (
        "net.netfilter.ip_conntrack_max",
        "no kernel had this name",
        "# delete {name}\nnet.netfilter.nf_conntrack_max = {value}",
    ),
    (
        "netfilter.ip_conntrack_max",
        "no kernel had this name",
        "# delete {name}\nnet.netfilter.nf_conntrack_max = {value}",
    ),
    (
        "netfilter.nf_conntrack_max",
        "no kernel had this name",
        "# delete {name}\nnet.netfilter.nf_conntrack_max = {value}",
    ),
    ("ip_conntrack_max", "no kernel had this name", "# delete {name}\nnet.netfilter.nf_conntrack_max = {value}"),
    (
        "net.ipv4.tcp_low_latency",
        "it has done nothing since Linux 4.14",
        "# delete {name}\n# tcp_nodelay is on in nginx by default",
    ),
    ("net.ipv4.tcp_dma_copybreak", "it was removed in Linux 3.13", "# delete {name}\n# nothing takes its place"),
    ("net.ipv4.tcp_frto_response", "it was removed in Linux 3.10", "# delete {name}\n# nothing takes its place"),
    ("net.ipv4.tcp_fack", "it has done nothing since Linux 4.15", "# delete {name}\n# RACK took its place and is on"),
];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for setting in &facts.settings {
        let Some((name, reason, instead)) = FOLKLORE.iter().find(|(name, _, _)| *name == setting.name) else {
            continue;
        };
        findings.push(Finding {
            place: Some((setting.file.clone(), setting.line, 1)),
            why: format!("The line does nothing: {reason}. An operator who trusts it looks for the fault elsewhere."),
            evidence: vec![format!("{}:{}: {name} = {}", setting.file, setting.line, setting.value)],
            fix: instead.replace("{value}", &setting.value).replace("{name}", name),
            side_effect:
                "A table of tracked flows costs 256 bytes for each flow that is in it; a removed line costs nothing."
                    .to_owned(),
            undo: format!("{name} = {}", setting.value),
            ..finding(NAME, Severity::Warning, format!("{name} has no effect"))
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, sysctl_file};
    use super::*;

    #[test]
    fn fires_on_settings_of_the_field_reports() {
        let text =
            "net.ipv4.tcp_tw_recycle = 1\nnet.ipv4.ip_conntrack_max = 2000000\nnetfilter.ip_conntrack_max=2000000\n";
        assert_eq!(fired(&check(&sysctl_file(text))), 3);
        assert_eq!(
            check(&sysctl_file(text))[1].fix,
            "# delete net.ipv4.ip_conntrack_max\nnet.netfilter.nf_conntrack_max = 2000000"
        );
    }

    #[test]
    fn silent_on_working_settings() {
        assert_eq!(
            fired(&check(&sysctl_file(
                "net.netfilter.nf_conntrack_max=2000000\nnet.ipv4.tcp_tw_reuse = 1\n# net.ipv4.tcp_tw_recycle=1\n"
            ))),
            0
        );
    }
}
