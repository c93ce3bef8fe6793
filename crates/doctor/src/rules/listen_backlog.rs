//! The accept queue is shorter than configured, or is configured to be short. A burst overflows it, and clients retry
//! after 1, 3, 7 seconds.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::Configuration;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use conf::tree::Directive;
use report::{Finding, Severity};

const NAME: &str = "listen-backlog";
const WHY: &str = "Connections that arrive while the queue is full are dropped without a word. Their clients send the SYN again \
    after 1, 3 and 7 seconds, and some give up. (netdev_max_backlog is another queue and does not help.)";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a backlog that the kernel cuts, or that was set below nginx's own",
    needs: Needs::NOTHING,
    why: WHY,
    example: "server { listen 80 backlog=128; }",
    instead: "server { listen 80 backlog=4096; }",
    check,
};
const SYSCTL: &str = "net.core.somaxconn";
/// nginx's own default on Linux.
const BACKLOG_DEFAULT: u64 = 511;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    // The lower of the limits now and after the next boot decides about a burst.
    let (somaxconn, written) = least(facts);
    let mut findings = Vec::new();
    for listen in configuration.listens() {
        let asked =
            listen.directive.args.iter().find_map(|word| word.text().strip_prefix("backlog=")?.parse::<u64>().ok());
        let wanted = asked.unwrap_or(BACKLOG_DEFAULT);
        let granted = somaxconn.map_or(wanted, |somaxconn| somaxconn.min(wanted));
        let (what, fix, undo) = if granted < wanted {
            let fix = format!(
                "sysctl -w net.core.somaxconn={wanted}\n# then restart: a listener keeps the queue it was given"
            );
            (
                format!("a backlog of {wanted} is asked for and {granted} is granted"),
                fix,
                format!("sysctl -w net.core.somaxconn={granted}"),
            )
        } else if asked.is_some_and(|asked| asked < BACKLOG_DEFAULT) {
            let fix = with_backlog(configuration, listen.directive, somaxconn.unwrap_or(BACKLOG_DEFAULT));
            (
                format!("a backlog of {wanted} is asked for, less than the default of {BACKLOG_DEFAULT}"),
                fix,
                UNDO.to_owned(),
            )
        } else {
            continue;
        };
        let mut evidence = vec![quoted(configuration, listen.directive.span, &format!("backlog {wanted}"))];
        evidence.extend(somaxconn.map(|somaxconn| format!("{SYSCTL} = {somaxconn}{written}")));
        findings.push(Finding {
            place: Some(configuration.place(listen.directive.span)),
            why: WHY.to_owned(),
            evidence,
            arithmetic: format!(
                "a queue of {granted} holds {} connections; a burst of more at once loses the rest",
                granted + 1
            ),
            fix,
            side_effect:
                "No connection is dropped any more: under overload all wait longer, and throughput may fall by some percent."
                    .to_owned(),
            undo,
            ..finding(NAME, Severity::Warning, what)
        });
    }
    findings
}

/// The `listen` line with that backlog.
pub(super) fn with_backlog(configuration: &Configuration, listen: &Directive, wanted: u64) -> String {
    let mut change = Change::new(configuration);
    let old = listen.args.iter().find(|word| word.text().starts_with("backlog="));
    match (old, listen.args.last()) {
        (Some(old), _) => change.replace(old.span, format!("backlog={wanted}")),
        (None, Some(last)) => change.replace(last.span.after(), format!(" backlog={wanted}")),
        (None, None) => &mut change,
    };
    change.remark("then a restart: a listener keeps the queue it was given").fix()
}

/// The lowest current or future value of the limit, and the file that sets it, if any.
fn least(facts: &Facts) -> (Option<u64>, String) {
    let parsed = facts.values(SYSCTL).filter_map(|(place, value)| Some((value.trim().parse::<u64>().ok()?, place)));
    let Some((value, place)) = parsed.min_by_key(|(value, _)| *value) else { return (None, String::new()) };
    (Some(value), place.map_or_else(String::new, |(file, line, _)| format!(", by {file}:{line}")))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, with_sysctl};
    use super::*;

    fn of(listen: &str, somaxconn: &str) -> usize {
        let facts = facts(&format!("events {{}}\nhttp {{ server {{ listen {listen}; }} }}\n"));
        fired(&check(&with_sysctl(facts, "net.core.somaxconn", somaxconn)))
    }

    #[test]
    fn fires_where_the_kernel_cuts_it_or_the_operator_did() {
        assert_eq!(of("80", "128"), 1, "511 asked for, 128 granted: the founding report's case");
        assert_eq!(of("80 default_server backlog=8192", "4096"), 1);
        assert_eq!(of("80 backlog=128", "4096"), 1);
        let mut next_boot = facts("events {}\nhttp { server { listen 80; } }\n");
        next_boot.settings = crate::facts::parse_settings("/etc/sysctl.conf", "net.core.somaxconn = 128\n");
        let findings = check(&next_boot);
        assert_eq!(fired(&findings), 1);
        assert!(findings[0].evidence[1].ends_with("= 128, by /etc/sysctl.conf:1"), "{findings:?}");
    }

    #[test]
    fn silent_where_the_backlog_is_granted() {
        assert_eq!(of("80", "4096"), 0);
        assert_eq!(of("80 backlog=8192", "8192"), 0);
    }
}
