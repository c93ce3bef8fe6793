//! `tcp_fin_timeout` is set low to shorten TIME_WAIT. It affects FIN_WAIT2, which is another state.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use crate::kernel::TIME_WAIT_SECONDS;
use report::{Finding, Severity};

const NAME: &str = "fin-timeout-folklore";
const WHY: &str = "It limits how long a socket that no process holds waits in FIN_WAIT2. TIME_WAIT always lasts 60 s, so ports run out as before.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`tcp_fin_timeout` lowered against TIME_WAIT",
    needs: Needs::NOTHING,
    why: WHY,
    example: "net.ipv4.tcp_fin_timeout = 5",
    instead: "net.ipv4.tcp_fin_timeout = 60",
    check,
};
const SYSCTL: &str = "net.ipv4.tcp_fin_timeout";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let low = facts.written(SYSCTL).filter_map(|setting| {
        let seconds = setting.value.parse::<u64>().ok().filter(|seconds| *seconds < TIME_WAIT_SECONDS)?;
        Some(Finding {
            place: Some((setting.file.clone(), setting.line, 1)),
            why: format!(
                "It limits how long a socket that no process holds waits in FIN_WAIT2 for the peer's FIN. TIME_WAIT lasts \
                 {TIME_WAIT_SECONDS} s at any value of it (TCP_TIMEWAIT_LEN is compiled in), so ports run out as before."
            ),
            evidence: vec![format!("{}:{}: {SYSCTL} = {seconds}", setting.file, setting.line)],
            fix: format!("{SYSCTL} = 60\n# against TIME_WAIT: keep connections, with keepalive in the upstream"),
            side_effect: "Sockets whose peer vanished stay in FIN_WAIT2 for a minute, some 256 bytes each.".to_owned(),
            undo: format!("{SYSCTL} = {seconds}"),
            ..finding(NAME, Severity::Note, "tcp_fin_timeout does not shorten TIME_WAIT".to_owned())
        })
    });
    low.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, sysctl_file};
    use super::*;

    #[test]
    fn fires_on_a_low_one_that_somebody_wrote_down() {
        assert_eq!(fired(&check(&sysctl_file(&format!("{SYSCTL} = 15\n")))), 1);
        assert_eq!(fired(&check(&sysctl_file(&format!("{SYSCTL} = 60\n{SYSCTL} = x\n")))), 0);
    }
}
