//! The host of `proxy_pass` comes from the request: a client can reach everything that the server can reach.

use super::{Needs, Rule, at};
use crate::configuration::{Found, argument, is};
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "request-chooses-upstream",
    finds: "`proxy_pass` to a host that an argument, a header, a cookie, a part of the path or a name in TLS names",
    needs: Needs::NOTHING,
    why: "A client names the address, and the server asks it: internal services, the metadata of a cloud, other customers.",
    example: "server { location /fetch { proxy_pass http://$arg_host; } }",
    instead: "map $arg_host $shop { default 127.0.0.1:3000; b 127.0.0.1:3001; }
server { location /fetch { proxy_pass http://$shop; } }",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass") {
        let target = argument(pass.directive, 0).unwrap_or_default();
        let rest = target.split_once("://").map_or(target.as_str(), |(_, rest)| rest);
        let host = rest.split(['/', '?']).next().unwrap_or(rest);
        // The text after the colon is a port.
        let host = host.split(':').next().unwrap_or(host);
        let blocks = pass.within.iter().filter_map(|block| block.block.as_deref());
        let is_internal = blocks.flat_map(|block| &block.directives).any(|line| is(line, "internal"));
        let Some(source) = source(&pass, host).filter(|_| !is_internal) else { continue };
        let fix = "# name what may be reached, in http:\n# map $arg_host $shop { default 127.0.0.1:3000; b 127.0.0.1:3001; }\n\
                   # and proxy_pass http://$shop; or mark the location internal";
        let title = format!("{source} names the host that is asked");
        findings.push(finding(facts, &pass, title, fix));
    }
    findings.extend(of_stream(facts));
    findings
}

fn finding(facts: &Facts, pass: &Found<'_>, title: String, fix: &str) -> Finding {
    Finding {
        side_effect: "Hosts that are not in the map are no longer reached.".to_owned(),
        undo: "# nothing was changed".to_owned(),
        ..at(facts, &RULE, Severity::Error, pass.directive.span, title, fix.to_owned())
    }
}

/// `stream`: the name in the client's first message of TLS, or what its header of the PROXY protocol says.
fn of_stream(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.of_stream("proxy_pass") {
        let target = argument(pass.directive, 0).unwrap_or_default();
        let free = ["ssl_preread_server_name", "ssl_server_name", "proxy_protocol_server_addr", "proxy_protocol_tlv_"];
        let names = |name: &&&str| target.starts_with(&format!("${name}")) || target.starts_with(&format!("${{{name}"));
        let Some(source) = free.iter().find(names) else { continue };
        let rest = target.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_${}".contains(c));
        // A suffix that begins with a dot keeps the session within a domain.
        if rest.starts_with('.') {
            continue;
        }
        let fix = "# name what may be reached, in stream:\n# map $ssl_preread_server_name $peer { a.example 10.0.0.1:443; default 127.0.0.1:9; }\n\
                   # and proxy_pass $peer;";
        let title = format!("${source} names the host that is reached");
        findings.push(finding(facts, &pass, title, fix));
    }
    findings
}

/// The variable in the host that a client can set freely.
fn source(pass: &Found<'_>, host: &str) -> Option<String> {
    let free = ["$arg_", "$http_", "$cookie_", "${arg_", "${http_", "${cookie_"];
    let location = pass.home()?;
    let is_regex = location.args.first().is_some_and(|mark| mark.value.starts_with(b"~"));
    // A suffix that begins with a dot keeps the request within a domain.
    let last = host.rsplit('$').next().unwrap_or_default();
    let suffix = last.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_{}".contains(c));
    let is_bounded = suffix.starts_with('.') && suffix.len() > 1;
    let group = ["$1", "$2", "$3"].into_iter().find(|group| is_regex && host.contains(group)).filter(|_| !is_bounded);
    let variable = free.into_iter().find_map(|start| {
        let place = host.find(start).filter(|_| !is_bounded)?;
        let rest = host.get(place..)?;
        let end = rest.get(1..)?.find(|c: char| !(c.is_ascii_alphanumeric() || "_{}".contains(c)));
        rest.get(..end.map_or(rest.len(), |end| end + 1))
    });
    variable.or(group).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_names_that_clients_of_stream_send() {
        let of = |text: &str| {
            let text = format!("events {{}}\nhttp {{ server {{ listen 1; }} }}\nstream {{ {text} }}\n");
            fired(&check(&facts(&text)))
        };
        let map = "map $ssl_preread_server_name $peer { default 127.0.0.1:1; }";
        assert_eq!(of("server { listen 2; ssl_preread on; proxy_pass $ssl_preread_server_name:443; }"), 1);
        assert_eq!(of("server { listen 2; ssl_preread on; proxy_pass ${ssl_preread_server_name}:443; }"), 1);
        assert_eq!(
            of("server { listen 2; ssl_preread on; proxy_pass $ssl_preread_server_name.internal.example:443; }"),
            0
        );
        assert_eq!(of(&format!("{map} server {{ listen 2; ssl_preread on; proxy_pass $peer; }}")), 0);
        assert_eq!(of("server { listen 2; proxy_pass 127.0.0.1:1; }"), 0);
    }

    #[test]
    fn fires_on_unbounded_request_hosts_only() {
        assert_eq!(of("server { location / { proxy_pass http://$arg_to; } }"), 1);
        assert_eq!(of("server { location ~ ^/p/(.*)$ { proxy_pass http://$1; } }"), 1);
        assert_eq!(of("server { location / { proxy_pass http://127.0.0.1:$arg_port; } }"), 0);
        assert_eq!(of("server { location / { proxy_pass http://$http_x.internal.example/; } }"), 0);
        assert_eq!(of("server { location / { internal; proxy_pass http://$arg_to; } }"), 0);
        assert_eq!(of("server { location / { proxy_pass http://127.0.0.1:1/$arg_to; } }"), 0);
    }
}
