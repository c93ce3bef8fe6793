//! Both ends of the port range are odd or both even, and the kernel warns about it: `connect()` tries every second port
//! first.

use super::{Needs, Rule, finding};
use crate::facts::{Facts, parse_numbers};
use report::{Finding, Severity};

const NAME: &str = "port-range-parity";
const WHY: &str = "connect() takes ports of one parity first and leaves the other to bind(); with ends of the same parity the halves \
    differ by one, and the kernel logs \"prefer different parity for start/end values\". Once half of the range is in \
    use, each connect() searches it in vain before it takes from the other half: CPU, not yet errors.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a port range with ends of the same parity",
    needs: Needs::NOTHING,
    why: WHY,
    example: "net.ipv4.ip_local_port_range = 1024 65000",
    instead: "net.ipv4.ip_local_port_range = 1024 65001",
    check,
};
const SYSCTL: &str = "net.ipv4.ip_local_port_range";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    facts.values(SYSCTL).filter_map(|(place, value)| complete(place, value)).collect()
}

fn complete(place: Option<(String, usize, usize)>, value: &str) -> Option<Finding> {
    let [first, last] = parse_numbers(value)?[..] else { return None };
    if first > last || first % 2 != last % 2 {
        return None;
    }
    // The end moves up if possible: there is no port 65536.
    let odd = if last < 65_535 { last + 1 } else { last - 1 };
    Some(Finding {
        place,
        why: WHY.to_owned(),
        evidence: vec![format!("{SYSCTL} = {value}")],
        arithmetic: format!("{first} and {last} are both {}", if first % 2 == 0 { "even" } else { "odd" }),
        fix: format!("{SYSCTL} = {first} {odd}"),
        side_effect: "One port more or less.".to_owned(),
        undo: format!("{SYSCTL} = {value}"),
        ..finding(NAME, Severity::Note, "the ends of the port range have the same parity".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, sysctl_file};
    use super::*;

    #[test]
    fn fires_on_ranges_of_the_field_reports_only() {
        let of = |range: &str| check(&sysctl_file(&format!("{SYSCTL} = {range}\n")));
        assert_eq!((fired(&of("11000 61000")), fired(&of("1024 65530")), fired(&of("1025 65535"))), (1, 1, 1));
        assert_eq!(of("1025 65535")[0].fix, format!("{SYSCTL} = 1025 65534"));
        assert_eq!(
            (fired(&of("32768 60999")), fired(&of("1024 65535")), fired(&of("9 x")), fired(&of("9 7"))),
            (0, 0, 0, 0)
        );
    }
}
