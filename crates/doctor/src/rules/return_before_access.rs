//! A `return` besides `deny` or a password: it answers before these are checked.

use super::{Needs, Rule, at};
use crate::configuration::{argument, is};
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "return-before-access",
    finds: "`return` in a block with `deny` or `auth_basic`",
    needs: Needs::NOTHING,
    why: "return answers in an earlier phase than allow, deny and passwords: every client gets the answer.",
    example: r#"server { location /secret { deny all; return 200 "secret"; } }"#,
    instead: "server { location /secret { deny all; try_files /secret.txt =404; } }",
    check,
};

const GUARDS: [&str; 3] = ["deny", "auth_basic", "auth_request"];

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for answer in configuration.all("return") {
        let Some(own) = answer.within.last().filter(|block| is(block, "location") || is(block, "server")) else {
            continue;
        };
        let code = argument(answer.directive, 0).unwrap_or_default();
        // A refusal or a redirect reveals nothing.
        let gives = code.starts_with('2') || !code.starts_with(|c: char| c.is_ascii_digit());
        let lines = own.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
        let Some(guard) = lines.iter().find(|line| GUARDS.iter().any(|guard| is(line, guard))).filter(|_| gives) else {
            continue;
        };
        let off = argument(guard, 0).as_deref() == Some("off");
        if off {
            continue;
        }
        let fix = "# serve it from a file or an application: root, try_files or proxy_pass wait for the check, return does not";
        findings.push(Finding {
            side_effect: "Clients that are not allowed get 403 or 401 from now on.".to_owned(),
            undo: "# nothing was changed".to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Warning,
                answer.directive.span,
                format!("return answers before {} is looked at", guard.name.text()),
                fix.to_owned(),
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
    fn fires_on_answers_that_somebody_meant_to_guard() {
        assert_eq!(
            of("server { location / { deny all; return 200 x; } location /b { auth_basic b; return 200 x; } }"),
            2
        );
        assert_eq!(
            of("server { location / { deny all; return 403; } location /b { auth_basic off; return 200 x; } }"),
            0
        );
        assert_eq!(of("server { deny all; location / { if ($arg_a) { return 200; } root /srv; } }"), 0);
    }
}
