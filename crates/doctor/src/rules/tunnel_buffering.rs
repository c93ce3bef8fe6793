//! `proxy_buffering` and `proxy_buffers` are set for tunnels. They have no effect after a 101: a tunnel has one buffer
//! for each direction, of `proxy_buffer_size`.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::is;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "tunnel-buffering";
const WHY: &str = "Once a connection is upgraded, bytes are passed on as they come, through one buffer of proxy_buffer_size for each \
    direction. These words govern answers that are no tunnel, so that memory is not what they were set for.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`proxy_buffering` or `proxy_buffers` expected to act on tunnels",
    needs: Needs::NOTHING,
    why: WHY,
    example: r#"server {
    location /ws {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_read_timeout 900s;
        proxy_buffering off;
        proxy_pass http://127.0.0.1:3000;
    }
}"#,
    instead: r#"server {
    location /ws {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_read_timeout 900s;
        proxy_buffer_size 4k;
        proxy_pass http://127.0.0.1:3000;
    }
}"#,
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass").into_iter().filter(crate::configuration::Found::upgrades) {
        // With proxy_buffer_size the tunnel is bounded. Inherited directives are ignored, because they were meant for
        // other locations.
        let own = pass
            .within
            .last()
            .and_then(|location| location.block.as_deref())
            .filter(|_| pass.inherited("proxy_buffer_size").is_none());
        let words = ["proxy_buffering", "proxy_buffers", "proxy_busy_buffers_size"];
        let said = own.and_then(|block| block.directives.iter().find(|line| words.iter().any(|word| is(line, word))));
        let Some(said) = said else { continue };
        let name = said.name.text().into_owned();
        findings.push(Finding {
            place: Some(configuration.place(said.span)),
            why: WHY.to_owned(),
            evidence: vec![
                quoted(configuration, said.span, &format!("{name} where Upgrade is passed on")),
                "proxy_buffer_size is not set: 4k or 8k, a page of the machine".to_owned(),
            ],
            fix: Change::new(configuration).set_for(&pass, "proxy_buffer_size 4k;").fix(),
            side_effect: "The head of every response must fit it: 4 KB hold some cookies.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Note, format!("{name} does not act on tunnels"))
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, proxy};
    use super::*;

    fn of(location: &str) -> usize {
        fired(&check(&proxy("server 127.0.0.1:1;", location)))
    }

    #[test]
    fn fires_on_buffering_directives_without_effect_on_tunnels() {
        const UPGRADE: &str = "proxy_set_header Upgrade $http_upgrade;";
        assert_eq!(of(&format!("{UPGRADE} proxy_buffering off;")), 1);
        assert_eq!(of(&format!("{UPGRADE} proxy_busy_buffers_size 256m; proxy_buffers 4 128m;")), 1);
        assert_eq!(of(&format!("{UPGRADE} proxy_buffering off; proxy_buffer_size 4k;")), 0, "the founding cure");
        assert_eq!((of(UPGRADE), of("proxy_buffering off;")), (0, 0));
    }
}
