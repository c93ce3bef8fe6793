//! A location for a suffix that also matches in the middle of a path.

use super::{Needs, Rule, at};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "suffix-not-anchored",
    finds: r"a `location` for a suffix such as `\.php` without `$`",
    needs: Needs::NOTHING,
    why: "It also matches /upload/picture.php.jpg: an uploaded file is handed to the interpreter.",
    example: r"server { location ~ \.php { proxy_pass http://127.0.0.1:3000; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_read_timeout 900s; } }",
    instead: r"server { location ~ \.php$ { proxy_pass http://127.0.0.1:3000; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_read_timeout 900s; } }",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for location in configuration.all("location") {
        let [mark, pattern] = &location.directive.args[..] else { continue };
        let text = pattern.text();
        let suffix = text.rsplit_once("\\.").map(|(_, suffix)| suffix).unwrap_or_default();
        let is_suffix = (2..=5).contains(&suffix.len()) && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !matches!(&mark.value[..], b"~" | b"~*") || !is_suffix {
            continue;
        }
        let fix = Change::new(configuration).replace(pattern.span.after(), "$").fix();
        findings.push(Finding {
            side_effect: "Paths that go on after the suffix, such as /index.php/page, are matched by other locations."
                .to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Note,
                pattern.span,
                format!("{text} also matches in the middle of a path"),
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
    fn fires_on_suffixes_without_an_end_and_not_on_others() {
        assert_eq!(of(r"server { location ~* \.php { return 204; } }"), 1);
        assert_eq!(of(r"server { location ~ \.php$ { return 204; } location ~ \.(?:css|js)$ { return 204; } }"), 0);
        assert_eq!(
            of(
                r"server { location ~ \.php(/|$) { return 204; } location /a.php { return 204; } location ~ /\.git { return 404; } }"
            ),
            1
        );
    }
}
