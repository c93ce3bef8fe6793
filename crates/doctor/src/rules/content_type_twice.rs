//! `add_header Content-Type` adds a second field besides the response's own.

use super::{Needs, Rule, at};
use crate::configuration::{argument, is};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "content-type-twice",
    finds: "`add_header Content-Type`",
    needs: Needs::NOTHING,
    why: "The response has a Content-Type already. Clients that see two take either, or guess: a text may be run as a script.",
    example: r#"server { location = /robots.txt { add_header Content-Type text/plain; return 200 "ok"; } }"#,
    instead: r#"server { location = /robots.txt { default_type text/plain; return 200 "ok"; } }"#,
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for header in configuration.all("add_header") {
        let is_type = argument(header.directive, 0).is_some_and(|name| name.eq_ignore_ascii_case("Content-Type"));
        let Some(value) = header.directive.args.get(1).filter(|_| is_type) else { continue };
        let block = header.within.last().and_then(|block| block.block.as_deref());
        let has_default = block.is_some_and(|block| block.directives.iter().any(|line| is(line, "default_type")));
        let mut change = Change::new(configuration);
        if has_default || header.within.last().is_some_and(|block| is(block, "if")) {
            change.remove(header.directive);
        } else {
            change.replace(header.directive.span, format!("default_type {};", configuration.text(value.span)));
        }
        findings.push(Finding {
            side_effect:
                "default_type applies to files without a known type; a response of an application keeps its own."
                    .to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Warning,
                header.directive.span,
                "responses from here have two Content-Type headers".to_owned(),
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
    fn fires_on_content_type_and_on_no_other_header() {
        assert_eq!(of("add_header content-type text/plain;"), 1);
        assert_eq!(of("default_type text/plain; add_header X-Content-Type-Options nosniff;"), 0);
    }
}
