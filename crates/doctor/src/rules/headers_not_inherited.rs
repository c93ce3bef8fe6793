//! A block with its own `add_header` inherits none: the outer headers are missing in it.

use super::{Needs, Rule, at};
use crate::configuration::{argument, is};
use crate::edit::Change;
use crate::facts::Facts;
use conf::tree::Directive;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "headers-not-inherited",
    finds: "an `add_header` that drops those of the blocks around it",
    needs: Needs::NOTHING,
    why: "A block with one add_header inherits none. The headers from outside, often those that browsers need for security, are not sent from here.",
    example: "server {
    add_header X-Frame-Options DENY always;
    location /new { add_header Cache-Control no-cache; }
}",
    instead: "server {
    add_header X-Frame-Options DENY always;
    location /new { add_header X-Frame-Options DENY always; add_header Cache-Control no-cache; }
}",
    check,
};

/// Headers that protect the client, so that their loss is serious.
const PROTECTING: [&str; 6] = [
    "strict-transport-security",
    "x-frame-options",
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "permissions-policy",
];

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for header in configuration.all("add_header") {
        let Some((own, outer)) = header.within.split_last() else { continue };
        let merges =
            header.inherited("add_header_inherit").is_some_and(|line| argument(line, 0).as_deref() == Some("merge"));
        if seen.contains(&own.span) || merges {
            continue;
        }
        seen.push(own.span);
        let name = |line: &Directive| argument(line, 0).unwrap_or_default().to_ascii_lowercase();
        let here = headers(own);
        let around = outer.iter().rev().map(|block| headers(block)).find(|lines| !lines.is_empty()).unwrap_or_default();
        let lost: Vec<_> = around.into_iter().filter(|line| here.iter().all(|own| name(own) != name(line))).collect();
        let names: Vec<String> = lost.iter().filter_map(|line| argument(line, 0)).collect();
        let is_protecting = lost.iter().any(|line| PROTECTING.contains(&name(line).as_str()));
        // An `if` may send other headers on purpose, as for a preflight request.
        if lost.is_empty() || (is(own, "if") && !is_protecting) {
            continue;
        }
        let lines: Vec<String> = lost.iter().map(|line| configuration.text(line.span).into_owned()).collect();
        let fix = Change::new(configuration).before(header.directive, &lines).fix();
        let severity = if is_protecting { Severity::Warning } else { Severity::Note };
        findings.push(Finding {
            side_effect: "Responses from here have these headers as well.".to_owned(),
            ..at(
                facts,
                &RULE,
                severity,
                header.directive.span,
                format!("{} is not sent from here", names.join(", ")),
                fix,
            )
        });
    }
    findings
}

fn headers(block: &Directive) -> Vec<&Directive> {
    let lines = block.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
    lines.iter().filter(|line| is(line, "add_header")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_lost_headers_only() {
        assert_eq!(of("add_header A 1; server { add_header B 2; location / { add_header C 3; } }"), 2);
        assert_eq!(of("add_header A 1; server { add_header a 2; }"), 0, "replaced on purpose");
        assert_eq!(of("add_header A 1; server { location / { root /srv; } }"), 0);
        assert_eq!(of("server { location /a { add_header A 1; } location /b { add_header B 1; } }"), 0);
        assert_eq!(of("add_header A 1; server { add_header_inherit merge; add_header B 2; }"), 0);
    }
}
