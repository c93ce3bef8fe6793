//! Half-open connections have less room than the backlog, because SYN cookies are off: a burst is lost before it
//! reaches the accept queue.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "syn-backlog";
const WHY: &str = "Without cookies the kernel drops SYNs beyond three quarters of tcp_max_syn_backlog; clients send them again after 1, 3 and 7 \
    seconds.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "without SYN cookies: less room for half-open connections than the backlog",
    needs: Needs::NOTHING,
    why: WHY,
    example: "",
    instead: "",
    check,
};
const SYSCTL: &str = "net.ipv4.tcp_max_syn_backlog";
const COOKIES: &str = "net.ipv4.tcp_syncookies";
/// nginx's own backlog on Linux.
const BACKLOG_DEFAULT: u64 = 511;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let number = |name| facts.values(name).last().and_then(|(place, value)| Some((place, value.parse::<u64>().ok()?)));
    // With cookies on, the kernel's default, a full queue answers with cookies, and the setting limits nothing.
    let (Some((_, 0)), Some((place, half_open))) = (number(COOKIES), number(SYSCTL)) else { return Vec::new() };
    let asked = |listen: &crate::configuration::Found<'_>| {
        listen.directive.args.iter().find_map(|word| word.text().strip_prefix("backlog=")?.parse::<u64>().ok())
    };
    let backlog = configuration.listens().iter().map(|listen| asked(listen).unwrap_or(BACKLOG_DEFAULT)).max();
    // The last quarter is reserved for known peers (tcp_conn_request).
    let room = half_open / 4 * 3;
    let Some(backlog) = backlog.filter(|backlog| *backlog > room) else { return Vec::new() };
    vec![Finding {
        place,
        why: WHY.to_owned(),
        evidence: vec![
            format!("{SYSCTL} = {half_open}"),
            format!("{COOKIES} = 0"),
            format!("the largest backlog is {backlog}"),
        ],
        arithmetic: format!("{half_open} x 3/4 = {room} < {backlog}"),
        fix: format!("{COOKIES} = 1\n{SYSCTL} = {}", backlog.saturating_mul(2)),
        side_effect:
            "Under a flood of SYNs connections made from cookies lack window scaling unless timestamps are on."
                .to_owned(),
        undo: format!("{COOKIES} = 0\n{SYSCTL} = {half_open}"),
        ..finding(
            NAME,
            Severity::Warning,
            format!("{room} half-open connections have room, and the backlog is {backlog}"),
        )
    }]
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, with_sysctl};
    use super::*;

    fn of(cookies: &str, half_open: &str) -> usize {
        let facts = facts("events {}\nhttp { server { listen 80 backlog=4096; } }\n");
        fired(&check(&with_sysctl(with_sysctl(facts, COOKIES, cookies), SYSCTL, half_open)))
    }

    #[test]
    fn fires_without_cookies_and_room_and_not_otherwise() {
        assert_eq!((of("0", "1024"), of("0", "8192"), of("1", "128")), (1, 0, 0));
        assert_eq!(fired(&check(&facts("events {}\nhttp { server { listen 80; } }\n"))), 0, "nothing is known");
    }
}
