//! A prefix location without a final slash, and an alias with one: `..` leads out of the folder.

use super::{Needs, Rule, at};
use crate::configuration::argument;
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "alias-traversal",
    finds: "a `location` without a slash at its end whose `alias` has one",
    needs: Needs::NOTHING,
    why: "The location also matches its own name with ../ behind it, and what follows the name is put behind the alias: a file above the folder is served.",
    example: "server { location /files { alias /srv/files/; } }",
    instead: "server { location /files/ { alias /srv/files/; } }",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for alias in configuration.all("alias") {
        let Some(location) = alias.home() else { continue };
        let (path, word) = match &location.args[..] {
            [path] => (path.text(), path),
            [mark, path] if mark.value == *b"^~" => (path.text(), path),
            _ => continue,
        };
        let folder = argument(alias.directive, 0).unwrap_or_default();
        if path.ends_with('/') || !folder.ends_with('/') {
            continue;
        }
        let fix = Change::new(configuration).replace(word.span, format!("{path}/")).fix();
        findings.push(Finding {
            side_effect: format!("{path} itself, without a slash, is no longer matched here."),
            ..at(facts, &RULE, Severity::Error, word.span, format!("{path}../ leads out of {folder}"), fix)
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
    fn fires_only_where_a_path_may_traverse() {
        assert_eq!(of("server { location /a { alias /srv/a/; } location ^~ /b { alias /srv/b/; } }"), 2);
        assert_eq!(of("server { location /a/ { alias /srv/a/; } location /b { alias /srv/b; } }"), 0);
        assert_eq!(of("server { location = /a { alias /srv/a/; } location ~ ^/b(.*)$ { alias /srv/b/$1; } }"), 0);
        assert_eq!(of("server { location /a { root /srv/a/; } }"), 0);
    }
}
