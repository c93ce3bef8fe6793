//! Idle tunnels are cut: the timeout is not longer than the time between heartbeats.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, Found, is, seconds};
use crate::dialect::Dialect;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "tunnel-timeout";
const WHY: &str = "Holdfast or nginx closes a tunnel after this time without data and logs no error. Tunnels that go silent together \
    close together, and their clients reconnect together.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "tunnels cut by a default timeout, or by one not above the `--heartbeat`",
    needs: Needs { word: true, running: false },
    why: WHY,
    example: r#"server {
    location /ws {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_pass http://127.0.0.1:3000;
    }
}"#,
    instead: r#"server {
    location /ws {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_read_timeout 900s;
        proxy_send_timeout 900s;
        proxy_pass http://127.0.0.1:3000;
    }
}"#,
    check,
};
/// The default of `proxy_read_timeout`.
const TIMEOUT_DEFAULT_SECONDS: u64 = 60;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    let passes: Vec<Found<'_>> = configuration.all("proxy_pass").into_iter().filter(Found::upgrades).collect();
    for pass in &passes {
        let own = pass.inherited("tunnel_timeout").filter(|_| facts.dialect == Dialect::Holdfast);
        let said = own.or_else(|| pass.inherited("proxy_read_timeout"));
        let timeout = said.map_or(Some(TIMEOUT_DEFAULT_SECONDS), |directive| seconds(directive, 0));
        let Some(timeout) = timeout else { continue };
        // The gateway's own pings count as heartbeats. A value that is not a time, such as `off`, sends none.
        let pings = pass.inherited("tunnel_ping").filter(|_| facts.dialect == Dialect::Holdfast);
        if pings.and_then(|directive| seconds(directive, 0)).is_some_and(|interval| interval < timeout) {
            continue;
        }
        // If the operator did not state a heartbeat, a written timeout is assumed to fit it.
        let arithmetic = match facts.expected.heartbeat_seconds {
            Some(heartbeat) if heartbeat >= timeout => {
                format!("heartbeat every {heartbeat} s >= timeout of {timeout} s")
            }
            None if said.is_none() && !is_elsewhere(pass, &passes) => {
                format!("heartbeat unknown, timeout of {timeout} s by default")
            }
            _ => continue,
        };
        let at = said.unwrap_or(pass.directive);
        let wanted = facts.expected.heartbeat_seconds.map_or(900, |heartbeat| heartbeat.saturating_mul(3));
        findings.push(Finding {
            place: Some(configuration.place(at.span)),
            why: WHY.to_owned(),
            evidence: vec![quoted(configuration, at.span, &format!("tunnels end after {timeout} s without a byte"))],
            arithmetic,
            fix: fix(configuration, pass, own.is_some(), wanted),
            side_effect: "A peer that vanishes without a FIN is noticed that much later.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Warning, format!("tunnels are cut after {timeout} s of silence"))
        });
    }
    findings
}

fn fix(configuration: &Configuration, pass: &Found<'_>, is_ours: bool, wanted: u64) -> String {
    let mut change = Change::new(configuration);
    if is_ours {
        return change.set_for(pass, format!("tunnel_timeout {wanted}s;")).fix();
    }
    change.set_for(pass, format!("proxy_read_timeout {wanted}s;"));
    change.set_for(pass, format!("proxy_send_timeout {wanted}s;")).fix()
}

/// Whether the tunnels of this server are probably in another location: the fields are inherited from an outer level,
/// and another `proxy_pass` of the server has a timeout.
fn is_elsewhere(pass: &Found<'_>, passes: &[Found<'_>]) -> bool {
    let server = |pass: &Found<'_>| pass.within.iter().find(|block| is(block, "server")).map(|server| server.span);
    let own = pass.within.last().and_then(|block| block.block.as_deref());
    let sets_none = own.is_some_and(|own| !own.directives.iter().any(|directive| is(directive, "proxy_set_header")));
    let chosen = |other: &Found<'_>| server(other) == server(pass) && other.inherited("proxy_read_timeout").is_some();
    sets_none && passes.iter().any(chosen)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, proxy};
    use super::*;
    use crate::facts::Expected;

    fn of(location: &str, heartbeat_seconds: Option<u64>) -> usize {
        let location =
            format!("proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; {location}");
        let expected = Expected { heartbeat_seconds, ..Expected::default() };
        fired(&check(&Facts { expected, ..proxy("server 127.0.0.1:1;", &location) }))
    }

    #[test]
    fn fires_on_the_default_and_on_slow_heartbeats() {
        assert_eq!(of("", None), 1);
        assert_eq!(of("proxy_read_timeout 180s;", Some(180)), 1);
        assert_eq!(of("tunnel_timeout 1m;", Some(90)), 1);
        assert_eq!(of("tunnel_ping 60s;", None), 1, "as late as the timeout");
        assert_eq!(of("tunnel_ping off;", None), 1);
    }

    #[test]
    fn silent_if_tunnels_have_their_own_location() {
        let of = |server: &str, location: &str, live: &str| {
            let fields = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
            let text = format!(
                "events {{}}\nhttp {{ server {{ {} location / {{ {} proxy_pass http://127.0.0.1:1; }}\n\
                 location /live {{ proxy_pass http://127.0.0.1:1; {live} }} }} }}\n",
                server.replace("FIELDS", fields),
                location.replace("FIELDS", fields)
            );
            fired(&check(&facts(&text)))
        };
        assert_eq!(of("FIELDS", "", "proxy_read_timeout 1d;"), 0);
        assert_eq!(of("FIELDS", "", ""), 2, "no location was chosen");
        assert_eq!(of("FIELDS", "FIELDS", "proxy_read_timeout 1d;"), 1, "it says so itself");
    }

    #[test]
    fn silent_on_chosen_or_long_timeouts() {
        assert_eq!(of("proxy_read_timeout 900s;", None), 0);
        assert_eq!(of("proxy_read_timeout 180s;", Some(60)), 0);
        assert_eq!(of("", Some(30)), 0);
        assert_eq!(of("tunnel_ping 30s;", None), 0, "the gateway pings");
        assert_eq!(fired(&check(&proxy("server 127.0.0.1:1;", ""))), 0, "no tunnel");
    }
}
