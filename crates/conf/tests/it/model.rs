//! Text to model: inheritance, merging, and relations between directives, as nginx documents them.

use crate::support::Files;
use conf::diagnostic::{Diagnostic, Severity};
use conf::model::{Content, Http, Location, Matcher, Model, ProxyPass, lower};
use conf::source::SourceMap;

/// Lowers a whole configuration, which must parse.
fn lowered(text: &str) -> (Model, Vec<Diagnostic>, SourceMap) {
    let loaded = Files::new([("/etc/nginx/nginx.conf", text)]).load();
    assert!(loaded.is_ok(), "{text}: {:?}", loaded.diagnostics);
    let (model, found) = lower(&loaded.tree, &loaded.sources);
    (model, found, loaded.sources)
}

/// The body of `http`, which must have no findings.
fn http(body: &str) -> Http {
    let (model, found, _) = lowered(&format!("events {{}} http {{ {body} }}"));
    assert!(found.is_empty(), "{body}: {found:?}");
    model.http.expect("the text has an http block")
}

/// The only server's locations.
fn locations(body: &str) -> Vec<Location> {
    let http = http(&format!("server {{ {body} }}"));
    http.servers[0].locations.clone()
}

/// The findings in the body of `http`: severity, message, and the marked text.
fn found(body: &str) -> Vec<String> {
    let (_, found, sources) = lowered(&format!("events {{}} http {{ {body} }}"));
    let line = |found: &Diagnostic| {
        let text = &sources.source(found.span.file).text[found.span.start as usize..found.span.end as usize];
        let severity = if found.severity == Severity::Error { "" } else { "warning: " };
        format!("{severity}{} <- {}", found.message, String::from_utf8_lossy(text))
    };
    found.iter().map(line).collect()
}

mod acme;
mod arbitrary;
mod auth_jwt;
mod caching;
mod ctl_socket;
mod filters;
mod founding;
mod http2;
mod inherit;
mod listen;
mod logs;
mod otel;
mod proxy;
mod rewrite;
mod storing;
mod stream;
mod tls;
mod upstream;

fn fixed(content: Option<&Content>) -> &conf::model::FixedPass {
    match content {
        Some(Content::Proxy(pass)) => match &**pass {
            ProxyPass::Fixed(fixed) => fixed,
            ProxyPass::Template { .. } => panic!("has variables"),
        },
        other => panic!("no proxy_pass: {other:?}"),
    }
}

fn uri(location: &Location) -> &str {
    match &location.matcher {
        Matcher::Named(name) => name,
        other => other.uri().and_then(|uri| std::str::from_utf8(uri).ok()).expect("a location with a URI"),
    }
}
