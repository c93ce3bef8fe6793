//! Failure accounting for a group of one peer, which has nowhere else to go: the words are ignored.

use super::{finding, quoted};
use crate::configuration::{argument, is};
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const NAME: &str = "one-peer-max-fails";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for upstream in configuration.all("upstream") {
        let Some(block) = upstream.directive.block.as_deref() else { continue };
        let servers: Vec<_> = block.directives.iter().filter(|directive| is(directive, "server")).collect();
        let [only] = servers[..] else { continue };
        // A name may stand for several addresses, and each is a peer.
        let address = argument(only, 0).unwrap_or_default();
        let is_one = address.starts_with("unix:") || address.starts_with(|c: char| c.is_ascii_digit() || c == '[');
        let words = only.args.iter().skip(1).map(|word| word.text().into_owned());
        let ignored: Vec<String> = words
            .filter(|word| {
                word.starts_with("max_fails=") || word.starts_with("fail_timeout=") || word.starts_with("slow_start=")
            })
            .collect();
        if !is_one || ignored.is_empty() || ignored.iter().any(|word| word == "max_fails=0") {
            continue;
        }
        findings.push(Finding {
            place: Some(configuration.place(only.span)),
            why: "With a single peer nginx counts no failures, so that these words change nothing: requests keep going to a peer that is \
                  down, and each waits for its own error."
                .to_owned(),
            evidence: vec![quoted(configuration, only.span, &format!("{} beside no other server", ignored.join(" ")))],
            fix: format!("server {address};\nserver ANOTHER-ADDRESS;   # a second peer is what makes failures avoidable"),
            side_effect: "A second peer takes its share of the requests; mark it backup if it should not.".to_owned(),
            undo: "The line as it was, and a reload.".to_owned(),
            ..finding(NAME, Severity::Note, format!("{} of the only peer have no effect", ignored.join(" and ")))
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, proxy};
    use super::*;

    #[test]
    fn it_fires_on_one_address_and_not_on_two_or_a_name_or_an_explicit_zero() {
        let of = |upstream: &str| fired(&check(&proxy(upstream, "")));
        assert_eq!(of("server 127.0.0.1:1 max_fails=3 fail_timeout=30s;"), 1);
        assert_eq!(of("server 127.0.0.1:1 max_fails=3; server 127.0.0.1:2;"), 0);
        assert_eq!(of("server api.example max_fails=3;"), 0);
        assert_eq!(of("server 127.0.0.1:1 max_fails=0;"), 0);
        assert_eq!(of("server 127.0.0.1:1;"), 0);
    }
}
