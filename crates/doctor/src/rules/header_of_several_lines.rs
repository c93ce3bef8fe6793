//! A header value contains a line end, which HTTP no longer allows.

use super::{Needs, Rule, at};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "header-of-several-lines",
    finds: "a line end in the value of `add_header`",
    needs: Needs::NOTHING,
    why: "Line folding is forbidden since RFC 7230: clients over HTTP/2 end the connection, others read what follows as a header of its own.",
    example: r#"add_header Content-Security-Policy "
    default-src 'self';
    img-src *";"#,
    instead: r#"add_header Content-Security-Policy "default-src 'self'; img-src *";"#,
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for header in configuration.all("add_header").into_iter().chain(configuration.all("proxy_set_header")) {
        let Some(value) = header.directive.args.get(1).filter(|value| value.value.contains(&b'\n')) else { continue };
        let text = configuration.text(value.span);
        let (quote, inner) = match text.chars().next().filter(|c| "\"'".contains(*c)) {
            Some(quote) => (quote.to_string(), text.get(1..text.len() - 1).unwrap_or_default()),
            None => (String::new(), &*text),
        };
        let one: Vec<&str> = inner.split_whitespace().collect();
        let fix = Change::new(configuration).replace(value.span, format!("{quote}{}{quote}", one.join(" "))).fix();
        findings.push(Finding {
            side_effect: "None: white space between the words means the same to every reader.".to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Warning,
                header.directive.span,
                "the value of a header has several lines".to_owned(),
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
    fn fires_on_line_ends_in_values_alone() {
        assert_eq!(of("add_header A 'b;\n  c';"), 1);
        assert_eq!(of("add_header A\n  'b; c'\n  always;"), 0);
    }
}
