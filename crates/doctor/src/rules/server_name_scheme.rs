//! A server name that is a URL: no Host field ever equals it, so the server is reached only as the default.

use super::{Needs, Rule, finding, quoted};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "server-name-scheme";
const WHY: &str = "Requests name the host alone, so none matches; they go to the default server of the listener, which is this one \
    only by luck.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`server_name http://…`",
    needs: Needs::NOTHING,
    why: WHY,
    example: "server { server_name http://shop.example; }",
    instead: "server { server_name shop.example; }",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for names in configuration.all("server_name") {
        for word in &names.directive.args {
            let name = word.text();
            let Some((_, rest)) = name.split_once("://").filter(|_| !name.starts_with('~')) else { continue };
            let host = rest.split(['/', ':']).next().unwrap_or(rest);
            findings.push(Finding {
                place: Some(configuration.place(word.span)),
                why: WHY.to_owned(),
                evidence: vec![quoted(configuration, word.span, &format!("server_name {name};"))],
                fix: Change::new(configuration).replace(word.span, host).fix(),
                side_effect:
                    "Requests for this host come here from now on, also where another server had them by default."
                        .to_owned(),
                undo: UNDO.to_owned(),
                ..finding(NAME, Severity::Warning, format!("no request matches the server name \"{name}\""))
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired};
    use super::*;

    #[test]
    fn fires_on_a_scheme_and_not_on_names_or_patterns() {
        let of = |names: &str| check(&facts(&format!("events {{}}\nhttp {{ server {{ server_name {names}; }} }}\n")));
        let findings = of("a.example http://10.0.0.1:8080/x");
        assert_eq!(fired(&findings), 1);
        assert!(findings[0].fix.contains("server_name a.example 10.0.0.1;"), "{findings:?}");
        assert_eq!(fired(&of("a.example *.b.example _ \"\"")), 0);
        assert_eq!(fired(&of("~^http://x$")), 0);
    }
}
