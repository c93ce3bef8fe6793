//! A page with the server's counters is open to every client.

use super::{Needs, Rule, at};
use crate::configuration::{argument, is};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "status-page-open",
    finds: "`stub_status` without `allow`, `deny` or a password",
    needs: Needs::NOTHING,
    why: "The counters tell what the load is and when a flood begins to work.",
    example: "server { location = /status { stub_status; } }",
    instead: "server { location = /status { stub_status; allow 127.0.0.1; deny all; } }",
    check,
};

const GUARDS: [&str; 5] = ["allow", "deny", "auth_basic", "auth_request", "ssl_verify_client"];

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    // `status_page` without a check of its own answers other hosts with 403.
    for page in configuration.all("stub_status") {
        let Some(own) = page.within.last() else { continue };
        let is_internal =
            own.block.as_deref().is_some_and(|block| block.directives.iter().any(|line| is(line, "internal")));
        let is_guarded = GUARDS.iter().any(|guard| page.inherited(guard).is_some());
        let server = page.around("server").and_then(|server| server.block.as_deref());
        let listens =
            server.map(|server| &server.directives[..]).unwrap_or_default().iter().filter(|line| is(line, "listen"));
        let near = |text: String| {
            ["127.", "localhost", "[::1]", "unix:", "10.", "192.168."].iter().any(|start| text.starts_with(start))
        };
        let mut listens = listens.filter_map(|listen| argument(listen, 0)).peekable();
        let is_near = listens.peek().is_some() && listens.all(near);
        if is_internal || is_guarded || is_near {
            continue;
        }
        let lines = ["allow 127.0.0.1;", "allow ::1;", "deny all;"];
        let mut change = Change::new(configuration);
        for line in lines {
            change.after(page.directive, line);
        }
        findings.push(Finding {
            side_effect: "Readers on other hosts must be allowed by address.".to_owned(),
            ..at(
                facts,
                &RULE,
                Severity::Warning,
                page.directive.span,
                "every client may read the counters".to_owned(),
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
    fn fires_on_open_pages_and_not_on_guarded_ones() {
        assert_eq!(of("server { listen 80; location /s { stub_status; } location /t { status_page; } }"), 1);
        assert_eq!(of("server { listen 127.0.0.1:8080; location /s { stub_status; } }"), 0);
        assert_eq!(of("server { allow 10.0.0.0/8; deny all; location /s { stub_status; } }"), 0);
        assert_eq!(of("server { location /s { internal; stub_status; } }"), 0);
    }
}
