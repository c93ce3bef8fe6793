//! No request can use the pool: requests to the upstream use HTTP/1.0, or `Connection: close`.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::argument;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{group_of, kept};
use report::{Finding, Severity};

const NAME: &str = "keepalive-not-used";
const WHY: &str = "The group has a pool, but after each response the upstream closes, as it was asked to: the pool stays empty and \
    every request pays for a connection.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a pool that HTTP/1.0 or `Connection: close` keeps empty",
    needs: Needs::NOTHING,
    why: WHY,
    example: r#"upstream api { server 127.0.0.1:3000; keepalive 32; }
server {
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    location / { proxy_set_header Host $host; proxy_pass http://api; }
}"#,
    instead: r#"upstream api { server 127.0.0.1:3000; keepalive 32; }
server {
    proxy_http_version 1.1;
    location / { proxy_set_header Host $host; proxy_set_header Connection ""; proxy_pass http://api; }
}"#,
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass") {
        let Some(name) = argument(pass.directive, 0).and_then(|target| group_of(&target)) else { continue };
        let Some(upstream) = configuration.upstream(&name) else { continue };
        if kept(facts.dialect, upstream) == 0 || pass.upgrades() {
            continue;
        }
        let version = pass.inherited("proxy_http_version").and_then(|directive| argument(directive, 0));
        let version = version.unwrap_or_else(|| facts.dialect.upstream_version().to_owned());
        // Before 1.29.7 the default is `Connection: close`; since then the default lets connections be kept.
        let header = pass.sent_header("Connection");
        let header = header.or_else(|| (!facts.dialect.pools_by_default()).then(|| "close".to_owned()));
        let closes = header.is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let mut evidence = vec![quoted(configuration, pass.directive.span, &format!("proxy_pass to group \"{name}\""))];
        if version == "1.0" {
            evidence.push("proxy_http_version is 1.0 here".to_owned());
        }
        if closes {
            evidence.push("Connection: close is sent here; a block with any proxy_set_header inherits none".to_owned());
        }
        if evidence.len() == 1 {
            continue;
        }
        let mut change = Change::new(configuration);
        if version == "1.0" {
            change.set_for(&pass, "proxy_http_version 1.1;");
        }
        if closes {
            change.send(&pass, &[("Connection", "\"\"")]);
        }
        findings.push(Finding {
            place: Some(configuration.place(pass.directive.span)),
            why: WHY.to_owned(),
            evidence,
            fix: change.fix(),
            side_effect: "The upstream may answer in chunks and keeps idle connections open.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Warning, format!("the pool of upstream group \"{name}\" is never used from here"))
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{old, proxy, table};
    use super::*;

    const KEPT: &str = "server 127.0.0.1:1; keepalive 16;";
    const HTTP_1_1: &str = "proxy_http_version 1.1;";
    const NO_CLOSE: &str = "proxy_set_header Connection \"\";";

    #[test]
    fn fires_on_old_defaults_and_on_half_a_fix() {
        table(
            check,
            [
                (1, old(proxy(KEPT, "")), "the old defaults"),
                (1, old(proxy(KEPT, HTTP_1_1)), "Connection: close"),
                (1, old(proxy(KEPT, NO_CLOSE)), "HTTP/1.0"),
                (1, proxy(KEPT, "proxy_http_version 1.0;"), "HTTP/1.0 asked for"),
                (1, proxy(KEPT, "proxy_set_header Connection close;"), "Connection: close asked for"),
                (0, old(proxy(KEPT, &format!("{HTTP_1_1} {NO_CLOSE}"))), "the cure"),
                (0, proxy(KEPT, ""), "the new defaults"),
                (0, proxy(KEPT, "proxy_set_header Connection keep-alive;"), "another word than close"),
                (0, old(proxy("server 127.0.0.1:1;", "")), "no pool: another rule's finding"),
            ],
        );
    }
}
