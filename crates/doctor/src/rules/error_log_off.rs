//! `error_log off`: `off` is not a special word here, so the log is a file with that name.

use super::{Needs, Rule, at};
use crate::configuration::argument;
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "error-log-off",
    finds: "`error_log off`",
    needs: Needs::NOTHING,
    why: "access_log knows off, error_log does not: errors are written to a file named off in the server's folder.",
    example: "error_log off;",
    instead: "error_log /dev/null crit;",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for line in configuration.all("error_log") {
        if argument(line.directive, 0).as_deref() != Some("off") {
            continue;
        }
        let fix = Change::new(configuration).replace(line.directive.span, "error_log /dev/null crit;").fix();
        findings.push(Finding {
            side_effect: "Errors are lost, as was meant. Better: a file, and the level crit.".to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Warning,
                line.directive.span,
                "errors are logged to a file named off".to_owned(),
                fix,
            )
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_off_and_not_on_files() {
        assert_eq!(of("error_log off;"), 1);
        assert_eq!(of("error_log /var/log/off.log; access_log off;"), 0);
    }
}
