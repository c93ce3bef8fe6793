//! `allow` without `deny`: all other clients are allowed, too.

use super::{Needs, Rule, at};
use crate::configuration::{argument, is};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "allow-without-deny",
    finds: "`allow` lines without a `deny`",
    needs: Needs::NOTHING,
    why: "The first rule that matches decides, and a client that matches none is allowed: without deny all the list has no effect.",
    example: "server { location /admin { allow 10.0.0.0/8; root /srv; } }",
    instead: "server { location /admin { allow 10.0.0.0/8; deny all; root /srv; } }",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for allow in configuration.all("allow") {
        let Some(block) = allow.within.last() else { continue };
        let lines = block.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
        let allows: Vec<_> = lines.iter().filter(|line| is(line, "allow")).collect();
        let is_all = allows.iter().any(|line| argument(line, 0).as_deref() == Some("all"));
        let denies = lines.iter().any(|line| is(line, "deny"));
        // With `satisfy any`, all other clients are asked for a password.
        let is_any = allow.inherited("satisfy").is_some_and(|line| argument(line, 0).as_deref() == Some("any"));
        if denies || is_all || is_any || seen.contains(&block.span) {
            continue;
        }
        seen.push(block.span);
        let Some(last) = allows.last() else { continue };
        let fix = Change::new(configuration).after(last, "deny all;").fix();
        findings.push(Finding {
            side_effect: "Clients that are not in the list get 403 from now on.".to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Warning,
                last.span,
                "who is not in the list is allowed as well".to_owned(),
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
    fn fires_only_on_lists_without_effect() {
        assert_eq!(of("server { allow 10.0.0.1; allow 10.0.0.2; }"), 1);
        assert_eq!(of("server { allow 10.0.0.1; deny all; }"), 0);
        assert_eq!(of("server { deny 10.0.0.1; allow all; location /a { allow all; } }"), 0);
        assert_eq!(of("server { satisfy any; allow 10.0.0.1; auth_basic x; }"), 0);
    }
}
