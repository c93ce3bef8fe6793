//! A request that changes data may be executed twice: it is repeated although the first peer may have processed it.

use super::{Needs, Rule, finding, quoted};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "repeated-posts";
const WHY: &str =
    "When a peer takes a POST and then fails or is slow, the same POST goes to the next peer: orders are placed twice.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`proxy_next_upstream … non_idempotent`",
    needs: Needs::NOTHING,
    why: WHY,
    example: "proxy_next_upstream error timeout non_idempotent;",
    instead: "proxy_next_upstream error timeout;",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for next in configuration.all("proxy_next_upstream") {
        if !next.directive.args.iter().any(|word| word.value == *b"non_idempotent") {
            continue;
        }
        let kept: Vec<String> = next
            .directive
            .args
            .iter()
            .map(|word| word.text().into_owned())
            .filter(|word| word != "non_idempotent")
            .collect();
        let kept = if kept.is_empty() { "error timeout".to_owned() } else { kept.join(" ") };
        let line = format!("proxy_next_upstream {kept};");
        findings.push(Finding {
            place: Some(configuration.place(next.directive.span)),
            why: WHY.to_owned(),
            evidence: vec![quoted(configuration, next.directive.span, "proxy_next_upstream … non_idempotent")],
            fix: Change::new(configuration).replace(next.directive.span, line).fix(),
            side_effect: "A POST that meets a dying peer is answered with 502 instead of being tried elsewhere; where nothing was sent \
                          yet it is still tried."
                .to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Warning, "POST, PATCH and LOCK may be carried out twice".to_owned())
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, proxy};
    use super::*;

    #[test]
    fn fires_on_non_idempotent_and_on_nothing_else() {
        let of = |location: &str| check(&proxy("server 127.0.0.1:1;", location));
        let findings = of("proxy_next_upstream error timeout non_idempotent;");
        assert_eq!(fired(&findings), 1);
        assert!(findings[0].fix.contains("\n+proxy_next_upstream error timeout;\n"), "{findings:?}");
        assert_eq!(
            fired(&of("proxy_next_upstream error timeout invalid_header http_500 http_502 http_503 http_504;")),
            0
        );
        assert_eq!(fired(&of("")), 0);
    }
}
