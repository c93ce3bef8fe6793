//! An `if` in a location does more than return or rewrite. It acts as a location of its own and inherits less than it
//! seems.

use super::{Needs, Rule, at};
use crate::configuration::is;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "if-in-location",
    finds: "an `if` in a location with more than `return`, `rewrite`, `set` or `break` in it",
    needs: Needs::NOTHING,
    why: "When its condition holds, the if takes the place of the location: of several, the last that holds, without try_files and without what the others say.",
    example: "server {
    location / {
        if ($arg_debug) { add_header X-Debug 1; }
        if ($arg_slow) { add_header X-Slow 1; }
        root /srv;
    }
}",
    instead: "map $arg_debug $debug { default 1; '' ''; }
server { location / { add_header X-Debug $debug; root /srv; } }",
    check,
};

const SAFE: [&str; 8] =
    ["return", "rewrite", "set", "break", "rewrite_log", "access_log", "limit_rate", "limit_rate_after"];

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for condition in configuration.all("if") {
        let Some(block) = condition
            .directive
            .block
            .as_deref()
            .filter(|_| condition.within.last().is_some_and(|it| is(it, "location")))
        else {
            continue;
        };
        let location = condition.within.last().and_then(|location| location.block.as_deref());
        let ifs = location.map_or(0, |location| location.directives.iter().filter(|line| is(line, "if")).count());
        let has_files = location.is_some_and(|location| location.directives.iter().any(|line| is(line, "try_files")));
        let Some(unsafe_line) = block.directives.iter().find(|line| !SAFE.iter().any(|safe| is(line, safe))) else {
            continue;
        };
        // A single `if`, without `try_files`, works as expected.
        if ifs < 2 && !has_files {
            continue;
        }
        let fix = "# choose the value with a map, or answer from the if with return or rewrite … last";
        findings.push(Finding {
            side_effect: "None from a map: it is worked out where it is used.".to_owned(),
            undo: "# nothing was changed".to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Note,
                condition.directive.span,
                format!("{} in an if takes the place of the location", unsafe_line.name.text()),
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
    fn fires_where_conditions_hide_something_and_not_on_returns() {
        assert_eq!(of("server { location / { try_files $uri /x; if ($arg_a) { expires 1h; } } }"), 1);
        assert_eq!(of("server { location / { if ($arg_a) { return 403; } if ($arg_b) { rewrite ^ /b last; } } }"), 0);
        assert_eq!(of("server { location / { if ($arg_a) { proxy_pass http://127.0.0.1:1; } } }"), 0, "one alone");
        assert_eq!(of("server { if ($host = a) { return 301 http://b; } }"), 0);
    }
}
