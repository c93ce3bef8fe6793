//! A header contains a decoded path: a percent-encoded line end in the request ends the header.

use super::{Needs, Rule, at};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "response-splitting",
    finds: "`$uri` or `$document_uri` in `return`, `add_header`, `proxy_set_header` or `proxy_pass`",
    needs: Needs::NOTHING,
    why: "$uri is decoded: %0d%0a in the request becomes a line end here, and what follows becomes a header, or a response, of the attacker's choice.",
    example: "server { location / { return 302 https://shop.example$uri; } }",
    instead: "server { location / { return 302 https://shop.example$request_uri; } }",
    check,
};

/// Directives that write a line of a head, and the index of the argument.
const LINES: [(&str, usize); 4] = [("return", 1), ("add_header", 1), ("proxy_set_header", 1), ("proxy_pass", 0)];
/// Longest first: `$request_uri` replaces the path together with the arguments.
const DECODED: [&str; 8] = [
    "$uri$is_args$args",
    "${uri}$is_args$args",
    "$uri?$args",
    "$document_uri$is_args$args",
    "${document_uri}",
    "$document_uri",
    "${uri}",
    "$uri",
];

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for (name, first) in LINES {
        for found in configuration.all(name) {
            let Some(word) = found.directive.args.get(first) else { continue };
            let text = configuration.text(word.span);
            // The body of a response may contain any byte.
            let is_body =
                name == "return" && !found.directive.args.first().is_some_and(|code| code.value.starts_with(b"3"));
            let Some(variable) = DECODED.iter().find(|variable| ends(&text, variable)).filter(|_| !is_body) else {
                continue;
            };
            let fix = Change::new(configuration).replace(word.span, text.replace(variable, "$request_uri")).fix();
            let what = format!(
                "a line end in the path gets into {}",
                if name == "proxy_pass" { "the request" } else { "a header" }
            );
            findings.push(Finding {
                side_effect: "$request_uri is the path as it was sent, with its arguments: not decoded, and as it was before any rewrite."
                    .to_owned(),
                ..at(facts, &RULE, Severity::Error, word.span, what, fix)
            });
        }
    }
    findings
}

/// Whether the text contains the variable, not a longer name such as `$uri_path`.
fn ends(text: &str, variable: &str) -> bool {
    text.match_indices(variable).any(|(place, _)| {
        let next = text.get(place + variable.len()..).and_then(|rest| rest.chars().next());
        variable.ends_with('}') || !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_decoded_paths_in_lines_and_not_on_others() {
        assert_eq!(of("server { return 301 https://$host$uri$is_args$args; add_header X $document_uri; }"), 2);
        assert_eq!(of("server { location / { proxy_pass http://127.0.0.1:1${uri}; } }"), 1);
        assert_eq!(of("server { return 301 https://$host$request_uri; add_header X $uri_path; }"), 0);
        assert_eq!(of("server { return 200 $uri; root /srv$uri; try_files $uri =404; }"), 0);
    }
}
