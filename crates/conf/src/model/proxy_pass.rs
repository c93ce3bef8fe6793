//! `proxy_pass`: splits the URL as nginx does, and finds the group that it names, or makes an implicit one.

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::proxy::{FixedPass, ProxyPass, Scheme, UpstreamId};
use super::upstream::{Keepalive, Upstream, UpstreamPeer, UpstreamServer, UpstreamSettings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Directive;
use crate::value::template::has_variables;
use crate::value::{Address, Host, Parsed, Template, address};

/// The groups that `proxy_pass` may name.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) upstreams: Vec<Upstream>,
    /// Written groups by name, in lower case.
    by_name: FxHashMap<String, UpstreamId>,
    /// Implicit groups by host and port.
    by_address: FxHashMap<Address, UpstreamId>,
}

impl Groups {
    /// Adds a written group.
    pub(crate) fn add(&mut self, group: Upstream, out: &mut Vec<Diagnostic>) {
        let key = group.name.to_ascii_lowercase();
        if let Some(&UpstreamId(first)) = self.by_name.get(&key) {
            let error = Diagnostic::error(group.span, format!("duplicate upstream \"{}\"", group.name));
            out.push(error.with_related(self.upstreams[first as usize].span, "first defined here"));
            return;
        }
        self.by_name.insert(key, UpstreamId(self.upstreams.len() as u32));
        self.upstreams.push(group);
    }

    fn resolve(&mut self, host: Host, port: Option<u16>, scheme: Scheme, text: &str, span: Span) -> Parsed<UpstreamId> {
        if let Host::Name(name) = &host
            && let Some(&id) = self.by_name.get(name)
        {
            if let Some(port) = port {
                let group = &self.upstreams[id.0 as usize];
                return Err(Diagnostic::error(span, format!("upstream \"{}\" may not have port {port}", group.name))
                    .with_related(group.span, "the group is defined here; its servers have the ports"));
            }
            return Ok(id);
        }
        let port_written = port.is_some();
        let port = if matches!(host, Host::Unix(_)) { 0 } else { port.unwrap_or(scheme.default_port()) };
        let address = Address { host, port };
        if let Some(&id) = self.by_address.get(&address) {
            return Ok(id);
        }
        let id = UpstreamId(self.upstreams.len() as u32);
        // `http://a` and `https://a` are different groups, and counters know a group by its name.
        let name = match (port_written, scheme, &address.host) {
            (false, Scheme::Https, Host::Name(_) | Host::Ip(_)) => format!("{text}:{}", address.port),
            _ => text.to_owned(),
        };
        self.upstreams.push(implicit(address.clone(), &name, text, span));
        self.by_address.insert(address, id);
        Ok(id)
    }
}

/// A group of one server, without a pool: what nginx pools by default is written groups only.
fn implicit(address: Address, name: &str, text: &str, span: Span) -> Upstream {
    let server = UpstreamServer {
        address: UpstreamPeer { address, text: text.to_owned() },
        weight: 1,
        max_conns: 0,
        max_fails: 0,
        fail_timeout: Duration::ZERO,
        backup: false,
        down: false,
        resolve: false,
        service: None,
        route: None,
        drain: false,
        slow_start: Duration::ZERO,
        span,
    };
    let keepalive = Keepalive { idle: 0, local: false, per_peer: None, floor: 0, span: None };
    let settings = UpstreamSettings { keepalive, ..UpstreamSettings::default() };
    Upstream { name: name.to_owned(), implicit: true, servers: vec![server], settings, span }
}

/// What the place of a `proxy_pass` allows.
#[derive(Clone, Copy)]
pub(crate) struct PassPlace {
    /// A URI part may stand: not in a regex or named location, `if` or `limit_except`.
    pub(crate) uri_allowed: bool,
    /// Length of what the location matches.
    pub(crate) matched_length: usize,
}

/// Reads a `proxy_pass`.
pub(crate) fn parse_proxy_pass(directive: &Directive, place: PassPlace, groups: &mut Groups) -> Parsed<ProxyPass> {
    let Some(word) = directive.args.first() else {
        return Err(Diagnostic::error(directive.name.span, "invalid number of arguments in \"proxy_pass\" directive"));
    };
    let lower = word.value.get(..8).unwrap_or(&word.value).to_ascii_lowercase();
    if has_variables(&word.value) {
        return Ok(ProxyPass::Template { url: Template::parse("proxy_pass", word)?, span: directive.span });
    }
    let (scheme, rest) = if lower.starts_with(b"http://") {
        (Scheme::Http, &word.value[7..])
    } else if lower == b"https://" {
        (Scheme::Https, &word.value[8..])
    } else {
        return Err(
            Diagnostic::error(word.span, "invalid URL prefix").with_hint("the URL must start http:// or https://")
        );
    };
    let text = String::from_utf8_lossy(rest).into_owned();
    let url = address::parse_url(rest)
        .map_err(|reason| Diagnostic::error(word.span, format!("{reason} in upstream \"{text}\"")))?;
    let uri = match url.uri {
        [] => None,
        [b'?', ..] => Some([b"/", url.uri].concat()),
        uri => Some(uri.to_vec()),
    };
    if uri.is_some() && !place.uri_allowed {
        let message = "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, \
                       or inside \"if\" statement, or inside \"limit_except\" block";
        return Err(Diagnostic::error(word.span, message)
            .with_hint("leave out everything behind host and port, also a lone `/`"));
    }
    let is_unix = matches!(url.host, Host::Unix(_));
    let host_text = &rest[..rest.len() - url.uri.len()];
    let name =
        String::from_utf8_lossy(host_text.strip_suffix(b":").filter(|_| is_unix).unwrap_or(host_text)).into_owned();
    let upstream = groups.resolve(url.host, url.port, scheme, &name, word.span)?;
    Ok(ProxyPass::Fixed(FixedPass {
        scheme,
        upstream,
        host_header: if is_unix { b"localhost".to_vec() } else { host_text.to_vec() },
        port: (!is_unix).then(|| url.port.unwrap_or(scheme.default_port())),
        uri,
        matched_length: place.matched_length,
        span: directive.span,
    }))
}
