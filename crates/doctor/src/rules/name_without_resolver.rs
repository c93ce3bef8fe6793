//! A `proxy_pass` whose host is only known while running, and no `resolver` to look it up: each request is a 502.

use super::{finding, quoted};
use crate::configuration::{Configuration, Found, argument, is};
use crate::facts::Facts;
use crate::group::{host_of, is_address};
use report::{Finding, Severity};

pub(super) const NAME: &str = "name-without-resolver";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass") {
        let Some(target) = argument(pass.directive, 0).filter(|target| target.contains('$')) else { continue };
        if pass.inherited("resolver").is_some() || !is_looked_up(configuration, &pass, &target) {
            continue;
        }
        findings.push(Finding {
            place: Some(configuration.place(pass.directive.span)),
            why: "With a variable in it the address is worked out for each request. A name that is no upstream {} then needs a resolver; \
                  the system's own is asked at load only. The log has \"no resolver defined to resolve\"."
                .to_owned(),
            evidence: vec![quoted(configuration, pass.directive.span, &format!("proxy_pass {target}; and no resolver in the blocks around it"))],
            fix: "resolver 127.0.0.53 valid=30s;   # the system's: see /etc/resolv.conf".to_owned(),
            side_effect: "Names are asked for again every 30 s; /etc/hosts is not read.".to_owned(),
            undo: "The line removed, and a reload.".to_owned(),
            ..finding(NAME, Severity::Error, format!("{target} needs a resolver, and there is none"))
        });
    }
    findings
}

/// Whether some value that the target may have is a name which is no `upstream {}`.
fn is_looked_up(configuration: &Configuration, pass: &Found<'_>, target: &str) -> bool {
    let rest = target.split_once("://").map_or(target, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    if !authority.contains('$') {
        return is_foreign(configuration, authority);
    }
    // What stands in a variable alone can be known: from `set`, and from `map`. The rest comes from the request.
    let name = authority.trim_start_matches('$').trim_matches(['{', '}']);
    let values = values(configuration, pass, name);
    if !values.is_empty() && format!("${name}").len() >= authority.len().saturating_sub(2) {
        return values.iter().any(|value| value.contains('$') || is_foreign(configuration, value));
    }
    true
}

fn is_foreign(configuration: &Configuration, authority: &str) -> bool {
    let rest = authority.split_once("://").map_or(authority, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    configuration.upstream(authority).is_none() && !is_address(host_of(authority)) && !authority.starts_with("unix:")
}

/// What `set` and `map` give a variable.
fn values(configuration: &Configuration, pass: &Found<'_>, name: &str) -> Vec<String> {
    let variable = format!("${name}");
    let server = pass.within.get(1).map(|server| server.span);
    let sets = configuration.all("set").into_iter().filter(|set| {
        argument(set.directive, 0).as_deref() == Some(&variable)
            && set.within.get(1).map(|server| server.span) == server
    });
    let mut values: Vec<String> = sets.filter_map(|set| argument(set.directive, 1)).collect();
    for map in configuration.all("map") {
        if argument(map.directive, 1).as_deref() == Some(&variable)
            && let Some(block) = map.directive.block.as_deref()
        {
            let lines = block.directives.iter().filter(|line| !is(line, "hostnames") && !is(line, "volatile"));
            values.extend(lines.filter_map(|line| argument(line, 0)).filter(|value| !value.is_empty()));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired};
    use super::*;

    fn of(http: &str, location: &str) -> usize {
        fired(&check(&facts(&format!(
            "events {{}}\nhttp {{ upstream api {{ server 127.0.0.1:1; }} {http}\nserver {{ location / {{ {location} }} }} }}\n"
        ))))
    }

    #[test]
    fn it_fires_on_names_that_only_a_resolver_knows() {
        assert_eq!(of("", "set $to app.internal; proxy_pass http://$to:8080;"), 1);
        assert_eq!(of("", "proxy_pass http://$host;"), 1);
        assert_eq!(of("", "proxy_pass http://api.example.com/$request_uri;"), 1);
    }

    #[test]
    fn it_does_not_with_a_resolver_nor_on_groups_addresses_and_maps_of_them() {
        assert_eq!(of("resolver 127.0.0.53;", "proxy_pass http://$host;"), 0);
        assert_eq!(of("", "proxy_pass http://api/$1;"), 0);
        assert_eq!(of("", "set $to api; proxy_pass http://$to;"), 0);
        assert_eq!(of("map $uri $to { default api; /x 127.0.0.1:2; }", "proxy_pass http://$to;"), 0);
        assert_eq!(of("", "proxy_pass http://api.example.com;"), 0, "looked up at load");
    }
}
