//! `valid_referers none`: a request without a Referer is accepted, and any page can suppress the Referer.

use super::{Needs, Rule, at};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "referer-may-be-absent",
    finds: "`none` in `valid_referers`",
    needs: Needs::NOTHING,
    why: "Any page can leave the header out (Referrer-Policy: no-referrer), and its request counts as one of yours.",
    example: "server { location /img/ { valid_referers none server_names; if ($invalid_referer) { return 403; } root /srv; } }",
    instead: "server { location /img/ { valid_referers server_names; if ($invalid_referer) { return 403; } root /srv; } }",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for line in configuration.all("valid_referers") {
        let Some(none) = line.directive.args.iter().position(|word| word.value == *b"none") else { continue };
        let words = line.directive.args.iter().enumerate().filter(|(place, _)| *place != none);
        let kept: Vec<String> = words.map(|(_, word)| configuration.text(word.span).into_owned()).collect();
        let mut change = Change::new(configuration);
        if kept.is_empty() {
            change.remove(line.directive);
        } else {
            change.replace(line.directive.span, format!("valid_referers {};", kept.join(" ")));
        }
        findings.push(Finding {
            side_effect: "Requests that are typed, bookmarked or sent by applications have no Referer and are refused."
                .to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Note,
                line.directive.span,
                "a request without a Referer passes the check".to_owned(),
                change.fix(),
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
    fn fires_on_none_and_on_no_other_word() {
        assert_eq!(of("server { valid_referers none blocked server_names; }"), 1);
        assert_eq!(of("server { valid_referers blocked *.none.example server_names; }"), 0);
    }
}
