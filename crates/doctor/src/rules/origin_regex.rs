//! An expression that should check an origin or a referer also matches other hosts.

use super::{Needs, Rule, at};
use crate::configuration::argument;
use crate::edit::Change;
use crate::facts::Facts;
use conf::tree::Word;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "origin-regex",
    finds: "an expression on `$http_origin` or `$http_referer` that is not anchored, or has a dot that means any character",
    needs: Needs::NOTHING,
    why: "An expression that may begin or end anywhere, or whose dots mean any character, also matches an address that an attacker registers.",
    example: "server { location / { if ($http_origin ~* https://shop.example$) { add_header Access-Control-Allow-Origin $http_origin; } } }",
    instead: r"server { location / { if ($http_origin ~* ^https://shop\.example$) { add_header Access-Control-Allow-Origin $http_origin; } } }",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    let mut patterns: Vec<(&Word, bool)> = Vec::new();
    for condition in configuration.all("if") {
        let [variable, mark, pattern] = &condition.directive.args[..] else { continue };
        let variable = variable.text();
        let variable = variable.trim_start_matches('(');
        let is_match = mark.value == *b"~" || mark.value == *b"~*";
        if is_match && ["$http_origin", "$http_referer"].contains(&variable) {
            patterns.push((pattern, variable == "$http_origin"));
        }
    }
    for map in configuration.all("map") {
        let source = argument(map.directive, 0).unwrap_or_default();
        let is_checked = ["$http_origin", "$http_referer"].contains(&source.as_str());
        let lines = map.directive.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
        let named = lines.iter().map(|line| &line.name).filter(|name| is_checked && name.value.starts_with(b"~"));
        patterns.extend(named.map(|name| (name, source == "$http_origin")));
    }
    for (word, is_origin) in patterns {
        let text = word.text();
        let pattern = text.trim_start_matches(['~', '*']).trim_end_matches(')');
        let Some((fault, better)) = mended(pattern, is_origin) else { continue };
        let raw = configuration.text(word.span);
        let fix = Change::new(configuration).replace(word.span, raw.replacen(pattern, &better, 1)).fix();
        findings.push(Finding {
            side_effect: "Origins that matched by accident no longer do: look at the log for those that should."
                .to_owned(),
            ..at(facts, &RULE, Severity::Warning, word.span, format!("{pattern} {fault}"), fix)
        });
    }
    findings
}

/// The fault of the expression, and the corrected expression.
fn mended(pattern: &str, is_origin: bool) -> Option<(&'static str, String)> {
    let mut better = String::new();
    let (mut escaped, mut in_class, mut had_dot) = (false, false, false);
    let mut before = ' ';
    let mut characters = pattern.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied().unwrap_or(' ');
        match c {
            '[' if !escaped => in_class = true,
            ']' if !escaped => in_class = false,
            // A dot between letters is meant literally.
            '.' if !escaped && !in_class && before.is_ascii_alphanumeric() && next.is_ascii_alphanumeric() => {
                had_dot = true;
                better.push('\\');
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        before = c;
        better.push(c);
    }
    let (begins, ends) = (pattern.starts_with('^'), pattern.ends_with('$') || pattern.ends_with("(/|$)"));
    if !begins {
        better = if pattern.starts_with("http") {
            format!("^{better}")
        } else {
            format!("^https?://([a-z0-9-]+\\.)*{better}")
        };
    }
    // In a referer, a path follows the host.
    let host_ends = ends || (!is_origin && (pattern.ends_with('/') || pattern.contains("(/|")));
    if !host_ends {
        better.push_str(if is_origin { "$" } else { "(/|$)" });
    }
    match (begins, host_ends, had_dot) {
        (false, _, _) => Some(("may begin anywhere", better)),
        (_, false, _) => Some(("may go on after its end", better)),
        (_, _, true) => Some(("has a dot that means any character", better)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_loose_expressions_and_not_on_tight_ones() {
        assert_eq!(of("server { if ($http_origin ~ example.com) { return 200; } }"), 1);
        assert_eq!(of(r"map $http_origin $ok { ~^https://a\.example 1; ~^https://a\.example$ 1; }"), 1);
        assert_eq!(of(r"server { if ($http_referer ~ ^https://a.example/) { return 200; } }"), 1, "any character");
        assert_eq!(
            of(r"server { if ($http_origin ~* ^https?://([a-z]+\.)?a\.example(:[0-9]+)?$) { return 200; } }"),
            0
        );
        assert_eq!(of("server { if ($http_user_agent ~ curl) { return 403; } }"), 0);
    }

    #[test]
    fn its_fixes_have_no_findings() {
        for (pattern, is_origin) in [("example.com", true), ("https://a.example", false), ("^http://a.b$", true)] {
            let (_, better) = mended(pattern, is_origin).expect("it is loose");
            assert_eq!(mended(&better, is_origin), None, "{better}");
        }
    }
}
