//! The server's version is shown to every client.

use super::{Needs, Rule, at};
use crate::configuration::argument;
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "version-shown",
    finds: "`server_tokens on` or `build`",
    needs: Needs::NOTHING,
    why: "Scanners look for versions with known faults; there is no use in telling them.",
    example: "server_tokens on;",
    instead: "server_tokens off;",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for line in configuration.all("server_tokens") {
        let value = argument(line.directive, 0).unwrap_or_default();
        if value != "on" && value != "build" {
            continue;
        }
        let fix = Change::new(configuration).replace(line.directive.span, "server_tokens off;").fix();
        findings.push(Finding {
            side_effect: "None; the header still names the program.".to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Note,
                line.directive.span,
                "responses and error pages tell the version".to_owned(),
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
    fn fires_where_somebody_asked_for_it() {
        assert_eq!((of("server_tokens on;"), of("server_tokens build;")), (1, 1));
        assert_eq!((of("server_tokens off;"), of("")), (0, 0));
    }
}
