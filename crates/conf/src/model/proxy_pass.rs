//! `proxy_pass`, `fastcgi_pass`, `scgi_pass`, `uwsgi_pass`, `memcached_pass`, `grpc_pass`: splits the URL as nginx does, and finds the
//! group that it names or makes an implicit one.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::proxy::{FixedPass, ProxyPass, Scheme};
use super::upstream::{Keepalive, Upstream, UpstreamPeer, UpstreamServer, UpstreamSettings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Directive;
use crate::value::template::has_variables;
use crate::value::{Address, Host, Parsed, Part, Template, address};

/// The groups that `proxy_pass` may name.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// Written groups by name, in lower case.
    by_name: FxHashMap<String, Arc<Upstream>>,
    /// Implicit groups by host and port.
    by_address: FxHashMap<Address, Arc<Upstream>>,
    /// The written groups that were found since [`Self::begin`]; `None`: an implicit one was found, too.
    found: Option<Vec<Arc<Upstream>>>,
}

impl Groups {
    /// Begins a list of the groups that are found.
    pub(crate) fn begin(&mut self) {
        self.found = Some(Vec::new());
    }

    /// The list: each written group once; `None` if an implicit one is among them.
    pub(crate) fn end(&mut self) -> Option<Vec<Arc<Upstream>>> {
        self.found.take()
    }

    /// Adds a written group.
    pub(crate) fn add(&mut self, group: Arc<Upstream>, out: &mut Vec<Diagnostic>) {
        let key = group.name.to_ascii_lowercase();
        if let Some(first) = self.by_name.get(&key) {
            let error = Diagnostic::error(group.span, format!("duplicate upstream \"{}\"", group.name));
            out.push(error.with_related(first.span, "first defined here"));
            return;
        }
        self.by_name.insert(key, Arc::clone(&group));
        self.upstreams.push(group);
    }

    /// Finds or makes the group of a URL. `scheme` is the URL's; `stream` has none.
    pub(crate) fn resolve(
        &mut self,
        host: Host,
        port: Option<u16>,
        scheme: Option<Scheme>,
        text: &str,
        span: Span,
    ) -> Parsed<Arc<Upstream>> {
        if let Host::Name(name) = &host
            && let Some(group) = self.by_name.get(name)
        {
            if let Some(port) = port {
                return Err(Diagnostic::error(span, format!("upstream \"{}\" may not have port {port}", group.name))
                    .with_related(group.span, "the group is defined here; its servers have the ports"));
            }
            if let Some(found) =
                self.found.as_mut().filter(|found| !found.iter().any(|known| Arc::ptr_eq(known, group)))
            {
                found.push(Arc::clone(group));
            }
            return Ok(Arc::clone(group));
        }
        self.found = None;
        let port_written = port.is_some();
        let port = match (&host, port.or(scheme.and_then(Scheme::default_port))) {
            (Host::Unix(_), _) => 0,
            (_, Some(port)) => port,
            (_, None) => return Err(Diagnostic::error(span, format!("no port in upstream \"{text}\""))),
        };
        let address = Address { host, port };
        if let Some(known) = self.by_address.get(&address) {
            return Ok(Arc::clone(known));
        }
        // `http://a` and `https://a` are different groups, and counters identify a group by its name.
        let name = match (port_written, scheme, &address.host) {
            (false, Some(Scheme::Https), Host::Name(_) | Host::Ip(_)) => format!("{text}:{}", address.port),
            _ => text.to_owned(),
        };
        let group = Arc::new(implicit(address.clone(), &name, text, span));
        self.upstreams.push(Arc::clone(&group));
        self.by_address.insert(address, Arc::clone(&group));
        Ok(group)
    }
}

/// A group of one server, without a pool: by default, nginx pools connections of written groups only.
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

/// What the block around a `proxy_pass` allows.
#[derive(Clone, Copy)]
pub(crate) struct PassPlace {
    /// A URI part may appear: not in a regex or named location, `if` or `limit_except`.
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
    let upstream = groups.resolve(url.host, url.port, Some(scheme), &name, word.span)?;
    Ok(ProxyPass::Fixed(FixedPass {
        scheme,
        upstream,
        host_header: if is_unix { b"localhost".to_vec() } else { host_text.to_vec() },
        port: url.port.or(scheme.default_port()).filter(|_| !is_unix),
        uri,
        matched_length: place.matched_length,
        span: directive.span,
    }))
}

/// The schemes that `grpc_pass` and `uwsgi_pass` may begin with, in any case; without a scheme they use no TLS.
const WRITTEN_SCHEMES: [(&str, Scheme); 4] = [
    ("grpc://", Scheme::Grpc),
    ("grpcs://", Scheme::Grpcs),
    ("uwsgi://", Scheme::Uwsgi),
    ("suwsgi://", Scheme::Suwsgi),
];

/// Reads a `fastcgi_pass`, `scgi_pass`, `uwsgi_pass`, `memcached_pass` or `grpc_pass`.
pub(crate) fn parse_application_pass(
    directive: &Directive,
    mut scheme: Scheme,
    groups: &mut Groups,
) -> Parsed<ProxyPass> {
    let name = String::from_utf8_lossy(&directive.name.value);
    let Some(word) = directive.args.first() else {
        let message = format!("invalid number of arguments in \"{name}\" directive");
        return Err(Diagnostic::error(directive.name.span, message));
    };
    let begins = |(prefix, known): &(&str, Scheme)| {
        known.family() == scheme.family()
            && word.value.get(..prefix.len()).is_some_and(|text| text.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    let known = WRITTEN_SCHEMES.into_iter().find(begins);
    scheme = known.map_or(scheme, |(_, known)| known);
    let address = &word.value[known.map_or(0, |(prefix, _)| prefix.len())..];
    if has_variables(&word.value) && scheme == Scheme::Memcached {
        let message = format!("\"{name}\" takes no variables");
        return Err(Diagnostic::error(word.span, message).with_hint("an address, or the name of a group"));
    }
    if has_variables(&word.value) {
        let mut url = Template::parse(&name, word)?;
        if address.len() == word.value.len() {
            url.parts.insert(0, Part::Text(format!("{}://", scheme.as_str()).into_bytes()));
        }
        return Ok(ProxyPass::Template { url, span: directive.span });
    }
    let text = String::from_utf8_lossy(address).into_owned();
    let invalid = |reason: &str| Diagnostic::error(word.span, format!("{reason} in upstream \"{text}\""));
    let url = address::parse_url(address).map_err(invalid)?;
    if !url.uri.is_empty() {
        return Err(invalid("invalid host").with_hint("an address or the name of a group, without a path"));
    }
    let is_unix = matches!(url.host, Host::Unix(_));
    let port = url.port.filter(|_| !is_unix);
    let host_header = if is_unix && scheme.is_grpc() { &b"localhost"[..] } else { address };
    let upstream = groups.resolve(url.host, url.port, Some(scheme), &text, word.span)?;
    Ok(ProxyPass::Fixed(FixedPass {
        scheme,
        upstream,
        host_header: host_header.to_vec(),
        port,
        uri: None,
        matched_length: 0,
        span: directive.span,
    }))
}
