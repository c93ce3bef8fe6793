//! A regular expression on which a crafted request can spend seconds.

use super::{Needs, Rule, at};
use crate::configuration::is;
use crate::facts::Facts;
use conf::tree::Word;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "slow-expression",
    finds: "a repeated group with a repetition in it, such as `(a+)+`",
    needs: Needs::NOTHING,
    why: "A repetition inside a repetition can match the same text in many ways. A text that almost matches makes the worker try them all, and everything else waits.",
    example: "server { location ~ ^/(a+)+$ { return 204; } }",
    instead: "server { location ~ ^/a+$ { return 204; } }",
    check,
};

/// Directives with expressions, and the mark before one; `rewrite` has it first and unmarked.
const WITH_EXPRESSIONS: [&str; 4] = ["location", "if", "server_name", "rewrite"];

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    let mut words: Vec<&Word> = Vec::new();
    for name in WITH_EXPRESSIONS {
        for found in configuration.all(name) {
            let args = &found.directive.args;
            match name {
                "rewrite" => words.extend(args.first()),
                "server_name" => words.extend(args.iter().filter(|word| word.value.starts_with(b"~"))),
                _ => {
                    let mark = args.iter().position(|word| matches!(&word.value[..], b"~" | b"~*" | b"!~" | b"!~*"));
                    words.extend(mark.and_then(|mark| args.get(mark + 1)));
                }
            }
        }
    }
    for map in configuration.all("map") {
        let lines = map.directive.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
        words.extend(
            lines
                .iter()
                .filter(|line| !is(line, "include"))
                .map(|line| &line.name)
                .filter(|name| name.value.starts_with(b"~")),
        );
    }
    for word in words {
        let Some(group) = repeated_repetition(&word.text()) else { continue };
        let fix = "# take one of the two repetitions away: (a+)+ matches what a+ matches, and ([a-z]+\\.)* may repeat as its parts differ";
        findings.push(Finding {
            side_effect: "None, if the expression matches the same texts.".to_owned(),
            undo: "# nothing was changed".to_owned(),
            ..at(facts, &RULE, Severity::Warning, word.span, format!("{group} repeats a repetition"), fix.to_owned())
        });
    }
    findings
}

/// Finds a group that is repeated without limit and consists of one part that is also repeated without limit: only then
/// can a text be divided between the two in many ways. `([a-z]+\.)+` cannot.
fn repeated_repetition(pattern: &str) -> Option<String> {
    let bytes: Vec<char> = pattern.chars().collect();
    let mut open = Vec::new();
    let (mut escaped, mut in_class) = (false, false);
    for (place, c) in bytes.iter().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => open.push(place),
            ')' if !in_class => {
                let start = open.pop()?;
                let inner = place.checked_sub(1).and_then(|last| bytes.get(last));
                let is_literal = place.checked_sub(2).and_then(|last| bytes.get(last)) == Some(&'\\');
                let repeats = matches!(inner, Some('+' | '*')) && !is_literal;
                let is_repeated = matches!(bytes.get(place + 1), Some('+' | '*'));
                let text: String = bytes.get(start..=place)?.iter().collect();
                // A required part before the repeated one makes the division unique.
                let body = text.trim_start_matches("(?:").trim_start_matches('(');
                let is_one_part = one_part(body.trim_end_matches(')'));
                if repeats && is_repeated && is_one_part {
                    return Some(format!("{text}{}", bytes.get(place + 1)?));
                }
            }
            _ => {}
        }
    }
    None
}

/// A class, an escape or one character with its repetition, such as `[a-z]+`, `\\w*` or `.+`.
fn one_part(body: &str) -> bool {
    let part = body.trim_end_matches(['+', '*']);
    let count = part.chars().count();
    count == 1
        || (count == 2 && part.starts_with('\\'))
        || (part.starts_with('[') && part.find(']') == Some(part.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_nested_repetitions_and_not_on_separated_ones() {
        assert_eq!(of("server { location ~ ^/(a+)+$ { return 204; } location ~* (.*)* { return 204; } }"), 2);
        assert_eq!(of(r"server { rewrite ^/(\w+)*x$ /y; if ($uri ~ '([a-z]*)+!') { return 403; } }"), 2);
        assert_eq!(of(r"server { server_name ~^([a-z]+\.)+example$; location ~ ^/(.+)$ { return 204; } }"), 0);
        assert_eq!(of(r"server { location ~ ^/(a\+)+$ { return 204; } location ~ ([a+]x)+ { return 204; } }"), 0);
    }
}
