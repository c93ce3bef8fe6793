//! The host of a `proxy_pass` is known only at run time, and there is no `resolver`: each request gets a 502.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, Found, argument, is};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{host_of, is_address};
use conf::tree::Directive;
use report::{Finding, Severity};

const NAME: &str = "name-without-resolver";
const WHY: &str = "With a variable in it the address is worked out for each request. A name that is no upstream {} then needs a resolver; \
    the system's own is asked at load only. The log has \"no resolver defined to resolve\".";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a host that is known while running alone, and no `resolver`",
    needs: Needs::NOTHING,
    why: WHY,
    example: "server { location / { proxy_pass http://$host; } }",
    instead: "server { location / { resolver 127.0.0.53; proxy_pass http://$host; } }",
    check,
};

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
            why: WHY.to_owned(),
            evidence: vec![quoted(
                configuration,
                pass.directive.span,
                &format!("proxy_pass {target}; and no resolver in the blocks around it"),
            )],
            fix: Change::new(configuration)
                .set_for(&pass, format!("resolver {} valid=30s;", facts.system.resolver()))
                .fix(),
            side_effect: "Names are asked for again every 30 s; /etc/hosts is not read.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Error, format!("{target} needs a resolver, and there is none"))
        });
    }
    findings
}

/// Whether the target may be a name that is not an `upstream {}`.
fn is_looked_up(configuration: &Configuration, pass: &Found<'_>, target: &str) -> bool {
    let rest = target.split_once("://").map_or(target, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    // The value of these variables begins with a slash, so the address ends before them.
    let authority = PATHS.iter().filter_map(|path| authority.split_once(path)).map(|(before, _)| before).min();
    let authority = authority.unwrap_or_else(|| rest.split(['/', '?']).next().unwrap_or(rest));
    // The text after the colon is always the port.
    let host = match authority.rsplit_once(':') {
        Some((host, _)) if !authority.starts_with('[') || host.ends_with(']') => host,
        _ => authority,
    };
    if !host.contains('$') {
        return is_foreign(configuration, host);
    }
    match alone(host) {
        Some(name) => may_be_foreign(configuration, pass, name, VARIABLES_MAX),
        // Several parts, usually with values from the request.
        None => true,
    }
}

/// Variables that hold a path.
const PATHS: [&str; 6] = ["$uri", "${uri}", "$request_uri", "${request_uri}", "$document_uri", "${document_uri}"];

/// Most variables that refer to one another: real chains are shorter, and a cycle must end.
const VARIABLES_MAX: usize = 8;

/// The name of the variable if the text is only a variable.
fn alone(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')).then_some(name)
}

/// Whether the variable's value may be a name to resolve. Values from `set`, `map`, `split_clients` or `geo` are known;
/// all others come from the request.
fn may_be_foreign(configuration: &Configuration, pass: &Found<'_>, name: &str, variables: usize) -> bool {
    let values = values(configuration, pass, name);
    if values.is_empty() || variables == 0 {
        return true;
    }
    values.iter().any(|value| match alone(value) {
        Some(other) => may_be_foreign(configuration, pass, other, variables - 1),
        None => value.contains('$') || is_foreign(configuration, value),
    })
}

fn is_foreign(configuration: &Configuration, authority: &str) -> bool {
    let rest = authority.split_once("://").map_or(authority, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    configuration.upstream(authority).is_none() && !is_address(host_of(authority)) && !authority.starts_with("unix:")
}

/// The values that `set` and the tables give a variable.
fn values(configuration: &Configuration, pass: &Found<'_>, name: &str) -> Vec<String> {
    let server = pass.within.get(1).map(|server| server.span);
    let gives = |directive: &Directive, place| argument(directive, place).as_deref().and_then(alone) == Some(name);
    let sets = configuration.all("set").into_iter();
    let sets = sets.filter(|set| gives(set.directive, 0) && set.within.get(1).map(|server| server.span) == server);
    let mut values: Vec<String> = sets.filter_map(|set| argument(set.directive, 1)).collect();
    for table in ["map", "split_clients", "geo"].into_iter().flat_map(|table| configuration.all(table)) {
        let last = table.directive.args.len().saturating_sub(1);
        if gives(table.directive, last)
            && let Some(block) = table.directive.block.as_deref()
        {
            let is_value = |line: &&Directive| !WORDS_OF_TABLES.iter().any(|word| is(line, word));
            let lines = block.directives.iter().filter(is_value);
            values.extend(lines.filter_map(|line| argument(line, 0)).filter(|value| !value.is_empty()));
        }
    }
    values
}

/// Lines of `map` and `geo` that have no value.
const WORDS_OF_TABLES: [&str; 7] = ["hostnames", "volatile", "include", "ranges", "proxy", "proxy_recursive", "delete"];

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
    fn fires_on_names_that_only_a_resolver_knows() {
        assert_eq!(of("", "set $to app.internal; proxy_pass http://$to:8080;"), 1);
        assert_eq!(of("", "proxy_pass http://$host;"), 1);
        assert_eq!(of("", "proxy_pass http://api.example.com/$request_uri;"), 1);
        assert_eq!(of("", "proxy_pass http://127.0.0.1$1;"), 1, "the request may go on with the name");
    }

    #[test]
    fn silent_with_resolver_group_address_or_map() {
        assert_eq!(of("resolver 127.0.0.53;", "proxy_pass http://$host;"), 0);
        assert_eq!(of("", "proxy_pass http://api/$1;"), 0);
        assert_eq!(of("", "set $to api; proxy_pass http://$to;"), 0);
        assert_eq!(of("map $uri $to { default api; /x 127.0.0.1:2; }", "proxy_pass http://$to;"), 0);
        assert_eq!(of("", "proxy_pass http://api.example.com;"), 0, "looked up at load");
        for target in
            ["127.0.0.1:3000$uri", "127.0.0.1$request_uri", "api${uri}", "[::1]:80$uri", "127.0.0.1:$arg_port/"]
        {
            assert_eq!(of("", &format!("proxy_pass http://{target};")), 0, "{target}: the address is known");
        }
        let canary = "upstream new { server 127.0.0.1:2; } split_clients $uri $share { 10% new; * api; }\n\
                      map $http_x $to { default $share; new new; }";
        assert_eq!(of(canary, "proxy_pass http://$to;"), 0, "one means the other");
        assert_eq!(of(canary, "set $here ${to}; proxy_pass http://${here}:80;"), 0);
    }

    #[test]
    fn fires_on_values_that_are_names_or_from_the_request() {
        let share = |other: &str| {
            format!("split_clients $uri $share {{ 10% {other}; * api; }} map $http_x $to {{ default $share; }}")
        };
        for other in ["new.example", "$host", "$http_x.example", "$to"] {
            assert_eq!(of(&share(other), "proxy_pass http://$to;"), 1, "{other}");
        }
        assert_eq!(of("geo $to { default api; 10.0.0.0/8 inner.example; }", "proxy_pass http://$to;"), 1);
    }
}
