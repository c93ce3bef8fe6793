//! Failure accounting in a group of one peer, which has no alternative: nginx ignores these words. But if the other
//! peers are marked down, nginx does count failures, and excludes the only remaining peer.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, argument, is};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use conf::tree::Directive;
use report::{Finding, Severity};

const NAME: &str = "one-peer-max-fails";
const WHY: &str = "With one server nginx counts no failures. With others that are down beside it, it does: one failure leaves no peer for ten seconds, and every request gets 502.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "failure accounting that a single peer makes void, or that shuts out the only one that is not `down`",
    needs: Needs::NOTHING,
    why: WHY,
    example: "upstream api { server 127.0.0.1:3000; server 127.0.0.1:3001 down; }",
    instead: "upstream api { server 127.0.0.1:3000 max_fails=0; server 127.0.0.1:3001 down; }",
    check,
};

/// With one of these words the operator wants no failure to count, which a single peer does anyway.
const UNCOUNTED: [&str; 3] = ["max_fails=0", "fail_timeout=0", "fail_timeout=0s"];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for upstream in configuration.all("upstream") {
        let Some(block) = upstream.directive.block.as_deref() else { continue };
        let servers: Vec<_> = block.directives.iter().filter(|directive| is(directive, "server")).collect();
        let up: Vec<_> = servers.iter().copied().filter(|server| !has(server, "down")).collect();
        if let ([only], true) = (&up[..], servers.len() > 1) {
            findings.extend(shut_out(configuration, only));
            continue;
        }
        let [only] = servers[..] else { continue };
        // A name may have several addresses, and each is a peer.
        let address = argument(only, 0).unwrap_or_default();
        let is_one = address.starts_with("unix:") || address.starts_with(|c: char| c.is_ascii_digit() || c == '[');
        let words = only.args.iter().skip(1).map(|word| word.text().into_owned());
        let ignored: Vec<String> = words
            .filter(|word| {
                word.starts_with("max_fails=") || word.starts_with("fail_timeout=") || word.starts_with("slow_start=")
            })
            .collect();
        if !is_one || ignored.is_empty() || UNCOUNTED.iter().any(|word| has(only, word)) {
            continue;
        }
        let words = only.args.iter().map(|word| configuration.text(word.span).into_owned());
        let kept: Vec<String> = words.filter(|word| !ignored.contains(word)).collect();
        let mut fix = Change::new(configuration);
        findings.push(Finding {
            place: Some(configuration.place(only.span)),
            why: "With a single peer nginx counts no failures, so that these words change nothing: requests keep going to a peer that is \
                  down, and each waits for its own error."
                .to_owned(),
            evidence: vec![quoted(configuration, only.span, &format!("{} beside no other server", ignored.join(" ")))],
            fix: fix.replace(only.span, format!("server {};", kept.join(" "))).remark("a second server line is what makes failures avoidable").fix(),
            side_effect: "None: the words did nothing. A second peer takes its share of the requests, unless it is marked backup.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Note, format!("{} of the only peer have no effect", ignored.join(" and ")))
        });
    }
    findings
}

fn fix(configuration: &Configuration, only: &Directive) -> String {
    let mut change = Change::new(configuration);
    let old = only.args.iter().find(|word| word.text().starts_with("max_fails="));
    match (old, only.args.last()) {
        (Some(old), _) => change.replace(old.span, "max_fails=0"),
        (None, Some(last)) => change.replace(last.span.after(), " max_fails=0"),
        (None, None) => &mut change,
    };
    change.remark("or without the lines that are down").fix()
}

fn has(server: &Directive, word: &str) -> bool {
    server.args.iter().skip(1).any(|argument| argument.text() == word)
}

/// The only peer that is not down, unless its failures do not count.
fn shut_out(configuration: &Configuration, only: &Directive) -> Option<Finding> {
    let address = argument(only, 0)?;
    // A name may have several addresses, which are alternatives for one another.
    let is_one = address.starts_with("unix:") || address.starts_with(|c: char| c.is_ascii_digit() || c == '[');
    if !is_one || UNCOUNTED.iter().any(|word| has(only, word)) {
        return None;
    }
    Some(Finding {
        place: Some(configuration.place(only.span)),
        why: "With one server in the group nginx counts no failures, since there is nowhere else to go. With others beside it, though they \
              are down, it does: after one failure the only peer is left out for ten seconds, and every request gets 502, \"no live \
              upstreams while connecting to upstream\"."
            .to_owned(),
        evidence: vec![quoted(configuration, only.span, &format!("{address} is the only one that is not down"))],
        fix: fix(configuration, only),
        side_effect: "A peer that fails gets every request still; there is no other.".to_owned(),
        undo: UNDO.to_owned(),
        ..finding(NAME, Severity::Warning, format!("one failure of {address} leaves no peer for ten seconds"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, proxy};
    use super::*;

    #[test]
    fn fires_on_one_address_only() {
        let of = |upstream: &str| fired(&check(&proxy(upstream, "")));
        assert_eq!(of("server 127.0.0.1:1 max_fails=3 fail_timeout=30s;"), 1);
        assert_eq!(of("server 127.0.0.1:1 max_fails=3; server 127.0.0.1:2;"), 0);
        assert_eq!(of("server api.example max_fails=3;"), 0);
        assert_eq!(of("server 127.0.0.1:1 max_fails=0;"), 0);
        assert_eq!(of("server unix:/run/app.sock fail_timeout=0;"), 0);
        assert_eq!(of("server 127.0.0.1:1;"), 0);
    }

    #[test]
    fn fires_if_all_other_peers_are_down() {
        let of = |upstream: &str| fired(&check(&proxy(upstream, "")));
        assert_eq!(of("server 172.17.0.2:9000; server 127.0.0.1 down;"), 1);
        assert_eq!(of("server 172.17.0.2:9000 max_fails=0; server 127.0.0.1 down;"), 0);
        assert_eq!(of("server 172.17.0.2:9000; server 172.17.0.3:9000; server 127.0.0.1 down;"), 0);
        assert_eq!(of("server 172.17.0.2:9000; server 172.17.0.3:9000 backup;"), 0);
        assert_eq!(of("server app.example; server 127.0.0.1 down;"), 0);
    }
}
