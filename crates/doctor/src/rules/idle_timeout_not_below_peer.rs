//! Idle connections are kept at least as long as the peer keeps them: sometimes a request meets the peer's close.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, argument, seconds};
use crate::dialect::Dialect;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{Group, address, groups};
use report::{Finding, Severity};

const NAME: &str = "idle-timeout-not-below-peer";
const WHY: &str = "The peer may close just as a request goes out on the connection. A GET is tried again; a POST must not be, and its \
    client gets 502 for nothing.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "idle connections kept as long as the peer keeps them (`--peer-idle`, or a server of the same file)",
    needs: Needs { word: true, running: false },
    why: WHY,
    example: r#"# holdfast doctor --peer-idle 5
upstream api { server 127.0.0.1:3000; keepalive 32; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    instead: r#"# holdfast doctor --peer-idle 5
upstream api { server 127.0.0.1:3000; keepalive 32; keepalive_timeout 3s; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    check,
};
/// `keepalive_timeout` of a server by default.
const SERVER_IDLE_DEFAULT_SECONDS: u64 = 75;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for group in groups(configuration) {
        let (Some(upstream), false) = (group.upstream, group.kept(facts.dialect) == 0 || group.is_for_tunnels()) else {
            continue;
        };
        let learns = crate::group::setting(upstream, "keepalive_learn")
            .and_then(|line| argument(line, 0))
            .is_some_and(|on| on == "on");
        let Some((theirs, whose)) = peers_idle(facts, configuration, &group) else { continue };
        let (ours, said) = group.idle_seconds();
        // A peer that keeps no connections closes after each response and announces it, so no request can race with the
        // close.
        if ours < theirs || theirs == 0 || (learns && facts.dialect == Dialect::Holdfast) {
            continue;
        }
        let at = said.unwrap_or(upstream);
        let wanted = (theirs * 2 / 3).max(1);
        findings.push(Finding {
            place: Some(configuration.place(at.span)),
            why: WHY.to_owned(),
            evidence: vec![quoted(configuration, at.span, &format!("idle connections are kept for {ours} s")), whose],
            arithmetic: format!("{ours} s here >= {theirs} s there"),
            fix: Change::new(configuration).set(upstream, format!("keepalive_timeout {wanted}s;")).fix(),
            side_effect: "Connections that idle for longer are opened anew.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(
                NAME,
                Severity::Warning,
                format!("upstream group \"{}\" keeps idle connections for longer than its peers do", group.name),
            )
        });
    }
    findings
}

/// The peers' idle timeout: the operator's statement, or the setting of the server in this configuration that is the
/// peer.
fn peers_idle(facts: &Facts, configuration: &Configuration, group: &Group<'_>) -> Option<(u64, String)> {
    if let Some(theirs) = facts.expected.peer_idle_seconds {
        return Some((theirs, format!("peers close idle connections after {theirs} s")));
    }
    let peers = group.addresses();
    let listens = configuration.all("listen");
    let peer = listens.iter().find(|listen| {
        let here = argument(listen.directive, 0).and_then(|text| address(&text));
        here.is_some_and(|here| peers.contains(&here))
    })?;
    let said = peer.inherited("keepalive_timeout");
    let theirs = said.map_or(Some(SERVER_IDLE_DEFAULT_SECONDS), |directive| seconds(directive, 0))?;
    Some((
        theirs,
        quoted(
            configuration,
            peer.directive.span,
            &format!("the peer listens here and closes idle connections after {theirs} s"),
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{expecting, facts, fired, proxy};
    use super::*;
    use crate::facts::Expected;

    fn beside(theirs: u64, upstream: &str) -> usize {
        let expected = Expected { peer_idle_seconds: Some(theirs), ..Expected::default() };
        fired(&check(&expecting(proxy(&format!("server 127.0.0.1:1; keepalive 16; {upstream}"), ""), expected)))
    }

    #[test]
    fn fires_where_the_peer_may_close_first() {
        assert_eq!(beside(5, ""), 1, "Node's 5 s against 60 s by default");
        assert_eq!(beside(60, "keepalive_timeout 60s;"), 1);
        let chained = "events {}\nhttp { upstream api { server 127.0.0.1:8081; keepalive 8; }\n\
                       server { listen 127.0.0.1:8080; location / { proxy_pass http://api; } }\n\
                       server { listen 127.0.0.1:8081; keepalive_timeout 15s; } }\n";
        assert_eq!(fired(&check(&facts(chained))), 1);
        assert_eq!(fired(&check(&facts(&chained.replace("15s", "75s")))), 0);
    }

    #[test]
    fn silent_where_ours_is_shorter_learned_or_theirs_unknown() {
        assert_eq!(beside(60, "keepalive_timeout 20s;"), 0);
        assert_eq!(beside(5, "keepalive_learn on;"), 0);
        assert_eq!(beside(0, ""), 0);
        assert_eq!(fired(&check(&proxy("server 127.0.0.1:1; keepalive 16;", ""))), 0);
    }
}
