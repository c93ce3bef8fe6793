//! `proxy_pass`, `fastcgi_pass` and its kin, and the directives around them.

use crate::lower::Lowering;
use crate::plan::group::{GroupUseId, Sharing};
use crate::plan::location::Content;
use crate::plan::proxy::{FieldNames, PassUriPlan, ProxyId, ProxyPlan, SetField, SourcePlan, TriesLimits};
use crate::plan::tunnel::{TunnelKind, TunnelPlan};
use crate::plan::upstream_tls::UpstreamTlsPlan;
use conf::diagnostic::Diagnostic;
use conf::model::{
    Bind, BindAddress, FixedPass, HttpVersion, LocationSettings, ProxyPass, ProxySettings, Redirect, Scheme, SetHeader,
    TransportSettings, Upstream,
};
use conf::source::Span;
use conf::value::words::{IgnoredHeaders, NextUpstream};
use conf::value::{Address, Host};
use http1::outgoing::{FieldLine, FieldToken};
use http1::{FieldId, Limits, names_h2c};
use reactor::ConnectOptions;
use rules::redirect::{RedirectFrom, RedirectRule, Redirects};
use rules::template::Template;
use rules::variable::Variable;
use std::net::IpAddr;
use std::sync::Arc;
use upstream::retry::Conditions;

/// Client fields that are never passed on unchanged: those of the connection, and those that the proxy writes itself.
const REPLACED: [&[u8]; 9] = [
    b"Host",
    b"Connection",
    b"Keep-Alive",
    b"TE",
    b"Expect",
    b"Upgrade",
    b"Content-Length",
    b"Transfer-Encoding",
    b"Proxy-Connection",
];
/// Upstream fields that are not passed on unless `proxy_pass_header` says so.
const HIDDEN: [&[u8]; 9] = [
    b"Date",
    b"Server",
    b"X-Pad",
    b"X-Accel-Expires",
    b"X-Accel-Redirect",
    b"X-Accel-Limit-Rate",
    b"X-Accel-Buffering",
    b"X-Accel-Charset",
    b"Proxy-Connection",
];

/// The same for applications behind FastCGI, SCGI or uwsgi.
const HIDDEN_OF_APPLICATIONS: [&[u8]; 6] = [
    b"Status",
    b"X-Accel-Expires",
    b"X-Accel-Redirect",
    b"X-Accel-Limit-Rate",
    b"X-Accel-Buffering",
    b"X-Accel-Charset",
];

/// The same for gRPC servers.
const HIDDEN_OF_GRPC: [&[u8]; 7] = [
    b"Date",
    b"Server",
    b"X-Accel-Expires",
    b"X-Accel-Redirect",
    b"X-Accel-Limit-Rate",
    b"X-Accel-Buffering",
    b"X-Accel-Charset",
];

/// A location that passes requests on, and the scheme of its upstream.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub(super) settings: &'a Arc<LocationSettings>,
    /// What the location matches.
    pub(super) name: &'a [u8],
    pub(super) scheme: Scheme,
}

impl Pass<'_> {
    /// Upstream fields that are not passed on by default.
    fn hidden_by_default(&self) -> &'static [&'static [u8]] {
        match self.scheme {
            Scheme::Http | Scheme::Https => &HIDDEN,
            Scheme::Fastcgi | Scheme::Scgi => &HIDDEN_OF_APPLICATIONS,
            // As in nginx, its `Status` is an ordinary field.
            Scheme::Uwsgi | Scheme::Suwsgi => &HIDDEN_OF_APPLICATIONS[1..],
            Scheme::Memcached => &[],
            Scheme::Grpc | Scheme::Grpcs => &HIDDEN_OF_GRPC,
        }
    }

    /// Whether a request's body may be sent without a known length.
    fn takes_unknown_length(&self) -> bool {
        match self.scheme {
            Scheme::Http | Scheme::Https => self.proxy().http_version != HttpVersion::Http10,
            Scheme::Fastcgi | Scheme::Grpc | Scheme::Grpcs => true,
            Scheme::Scgi | Scheme::Uwsgi | Scheme::Suwsgi | Scheme::Memcached => false,
        }
    }

    /// Whether requests share HTTP/2 connections.
    pub(super) fn speaks_http2(&self) -> bool {
        self.scheme.is_grpc()
            || (matches!(self.scheme, Scheme::Http | Scheme::Https) && self.proxy().http_version == HttpVersion::Http2)
    }

    pub(super) fn proxy(&self) -> &ProxySettings {
        self.settings.words_of(self.scheme).0
    }

    pub(super) fn transport(&self) -> &TransportSettings {
        self.settings.words_of(self.scheme).1
    }
}

impl Lowering<'_> {
    pub(super) fn proxy(&mut self, pass: &ProxyPass, settings: &Arc<LocationSettings>, name: &[u8]) -> Content {
        let pass = match pass {
            ProxyPass::Fixed(pass) => pass,
            ProxyPass::Template { url, span } => return self.variable_pass(url, *span, settings, name),
        };
        match self.proxy_plan(pass, settings, name) {
            Some(plan) => Content::Proxy(self.add_proxy(plan)),
            None => Content::Nothing,
        }
    }

    fn proxy_plan(&mut self, pass: &FixedPass, settings: &Arc<LocationSettings>, name: &[u8]) -> Option<ProxyPlan> {
        let words = Pass { settings, name, scheme: pass.scheme };
        let binding = self.connect_options(words, pass.span);
        let location = self.pool_of(Some(&pass.upstream), words, &binding.1);
        let tls = match pass.scheme {
            Scheme::Http | Scheme::Fastcgi | Scheme::Scgi | Scheme::Uwsgi | Scheme::Memcached | Scheme::Grpc => None,
            Scheme::Https | Scheme::Suwsgi | Scheme::Grpcs => {
                Some(self.upstream_tls(words, Some(&pass.host_header), pass.span)?)
            }
        };
        let shared = tls.as_ref().map(UpstreamTlsPlan::shared);
        let group = self.group_use(&pass.upstream, Sharing { source: binding.0.source, location, tls: shared })?;
        self.note_tls(group, true, tls.as_ref());
        self.note_floors(&pass.upstream, group, &binding, words, tls.as_ref());
        let uri = pass.uri.as_ref().map_or(PassUriPlan::Absent, |uri| PassUriPlan::Replace(uri.as_slice().into()));
        let mut plan = self.plan_with(group, binding, uri, pass.port, words);
        plan.host = pass.host_header.as_slice().into();
        plan.tls = tls;
        if plan.application.is_none() && !pass.scheme.is_grpc() {
            plan.redirects = self.redirects(Some(pass), &settings.proxy, name);
        }
        self.mark_route(&mut plan, words, None);
        Some(plan)
    }

    pub(super) fn add_proxy(&mut self, plan: ProxyPlan) -> ProxyId {
        let id = self.plan.proxies.push(plan);
        if let Some(sharing) = &mut self.sharing {
            sharing.note_proxy(id);
        }
        ProxyId(id)
    }

    /// Everything of a proxy that does not depend on the URL's target, as `$proxy_host` and the default
    /// `proxy_redirect` do.
    pub(super) fn plan_with(
        &mut self,
        group: GroupUseId,
        (connect, source): (ConnectOptions, SourcePlan),
        uri: PassUriPlan,
        port: Option<u16>,
        pass: Pass<'_>,
    ) -> ProxyPlan {
        let (settings, proxy, transport) = (pass.settings, pass.proxy(), pass.transport());
        let application = self.application_plan(settings, pass.scheme).map(Box::new);
        let is_application = application.is_some();
        let (set_fields, replaced) = if is_application { Default::default() } else { self.set_fields(pass) };
        let (unbuffered_bytes, buffered_bytes) = (transport.buffer_size as usize, transport.buffers.total() as usize);
        // A gRPC message is passed on at once in both directions: the other side may wait for it.
        let is_grpc = pass.scheme.is_grpc();
        // As in nginx, a value is passed on as it comes, in the ranges that the client asks for.
        let is_value = pass.scheme == Scheme::Memcached;
        let buffering = transport.buffering && !is_grpc && !is_value;
        let buffer_bytes = if buffering { buffered_bytes } else { unbuffered_bytes };
        let ignored = proxy.ignore_headers;
        ProxyPlan {
            group,
            host: Box::default(),
            uri,
            port,
            set_fields,
            replaced,
            hidden: hidden(proxy, pass.hidden_by_default()),
            redirects: if is_grpc { Redirects::default() } else { self.redirects(None, proxy, pass.name) },
            cookies: self.cookie_rules(proxy),
            application,
            is_grpc,
            sets_te: proxy.set_headers.iter().any(|field| field.name.eq_ignore_ascii_case(b"TE")),
            force_ranges: (proxy.force_ranges || is_value) && settings.files.max_ranges != Some(0),
            http_1_1: pass.takes_unknown_length(),
            http2: pass.speaks_http2(),
            connect,
            source,
            tls: None,
            connect_timeout: transport.connect_timeout,
            send_timeout: transport.send_timeout,
            read_timeout: transport.read_timeout,
            request_timeout: Some(transport.request_timeout).filter(|time| !time.is_zero()),
            limits: Limits::response(transport.buffer_size as usize),
            buffer_bytes,
            accel_buffer_bytes: [unbuffered_bytes, buffered_bytes],
            obeys_buffering: !ignored.contains(IgnoredHeaders::X_ACCEL_BUFFERING),
            flushes: !buffering,
            limit_rate: self.proxy_rate(transport),
            obeys_limit_rate: !ignored.contains(IgnoredHeaders::X_ACCEL_LIMIT_RATE),
            obeys_charset: !ignored.contains(IgnoredHeaders::X_ACCEL_CHARSET),
            accel_redirect: !ignored.contains(IgnoredHeaders::X_ACCEL_REDIRECT),
            request_buffering: transport.request_buffering && !is_grpc,
            intercept_errors: proxy.intercept_errors || is_value,
            ignore_client_abort: transport.ignore_client_abort,
            pass_request_headers: proxy.pass_request_headers && !is_value,
            pass_request_body: proxy.pass_request_body && !is_value,
            method: proxy.method.as_ref().map(|method| self.template(method)),
            set_body: proxy.set_body.as_ref().map(|body| self.template(body)),
            pass_trailers: proxy.pass_trailers || is_grpc,
            conditions: conditions(transport.next_upstream),
            tries: tries_limits(transport),
            // The proof needs the last byte of the request to be a segment of its own.
            retry_unsent: settings.transport.retry_unsent && !is_application && !is_grpc,
            tunnel: self.tunnel_plan(pass),
            cache: self.cache_plan(pass),
            store: self.store_plan(pass),
        }
    }

    fn tunnel_plan(&mut self, pass: Pass<'_>) -> TunnelPlan {
        let (settings, client, transport) = (pass.settings, &pass.settings.client, pass.transport());
        let idle_max = client.tunnel_timeout.unwrap_or(transport.read_timeout);
        if let Some((ping, span)) = client.tunnel_ping.filter(|(ping, _)| *ping >= idle_max) {
            let message =
                format!("\"tunnel_ping\" of {ping:?} is not shorter than the idle limit of tunnels, {idle_max:?}");
            if !self.found.iter().any(|known| known.message == message) {
                let hint = "a tunnel is closed before it is pinged: raise `tunnel_timeout` (or `proxy_read_timeout`)";
                self.found.push(Diagnostic::warning(span, message).with_hint(hint));
            }
        }
        TunnelPlan {
            marks: Arc::default(),
            idle_max,
            ping: client.tunnel_ping.map(|(ping, _)| ping),
            buffer_bytes: transport.buffer_size as usize,
            kind: TunnelKind::Upgraded,
            error_log: self.error_log(&settings.log),
        }
    }

    /// What else connections must have in common to be interchangeable. With `keepalive … local`, locations do not
    /// share them; connections from several source addresses are only shared among the same addresses.
    pub(super) fn pool_of(&self, upstream: Option<&Upstream>, pass: Pass<'_>, source: &SourcePlan) -> Option<Box<str>> {
        let local = upstream.is_some_and(|upstream| upstream.settings.keepalive.local && !upstream.implicit);
        let location = || format!("{}#{}", String::from_utf8_lossy(pass.name), self.plan.locations.next());
        let identity = match source {
            SourcePlan::Options => local.then(location),
            SourcePlan::Template(_) => Some(format!("{} from the request's own source", location())),
            SourcePlan::Pool(pool) if local => Some(format!("{} from {pool:?}", location())),
            SourcePlan::Pool(pool) => Some(format!("from {pool:?}")),
        };
        // Connections with another protocol are separate.
        match pass.scheme {
            Scheme::Http | Scheme::Https if pass.speaks_http2() => {
                Some(format!("{} by HTTP/2", identity.unwrap_or_default()).into())
            }
            Scheme::Http | Scheme::Https => identity.map(Into::into),
            scheme => Some(format!("{} by {}", identity.unwrap_or_default(), scheme.as_str()).into()),
        }
    }

    pub(super) fn connect_options(&mut self, pass: Pass<'_>, span: Span) -> (ConnectOptions, SourcePlan) {
        let transport = pass.transport();
        let mut options = ConnectOptions {
            so_keepalive: transport.socket_keepalive,
            send_buffer_bytes: transport.socket_sndbuf.map(|bytes| bytes as usize),
            receive_buffer_bytes: transport.socket_rcvbuf.map(|bytes| bytes as usize),
            ..ConnectOptions::default()
        };
        let mut source = SourcePlan::Options;
        if let Some(bind) = &transport.bind {
            source = self.bind_source(bind, &mut options);
        }
        if !transport.bind_pool.is_empty() {
            if transport.bind.is_some() {
                let message = "\"proxy_bind\" and \"proxy_bind_pool\" cannot both hold in one location";
                self.found
                    .push(Diagnostic::error(span, message).with_hint("`proxy_bind off;` takes an outer one back"));
            }
            source = SourcePlan::Pool(self.bind_pool(&transport.bind_pool, span));
        }
        (options, source)
    }

    /// `proxy_bind`: the source address of connections.
    pub(super) fn bind_source(&mut self, bind: &Bind, options: &mut ConnectOptions) -> SourcePlan {
        options.transparent = bind.transparent;
        self.plan.transparent |= bind.transparent;
        match &bind.address {
            BindAddress::Fixed(address) => {
                if let Host::Ip(ip) = address.host {
                    options.source = Some(ip);
                    options.source_port = Some(address.port).filter(|&port| port > 0);
                }
                SourcePlan::Options
            }
            BindAddress::Template(template) => SourcePlan::Template(self.template(template)),
        }
    }

    fn bind_pool(&mut self, written: &[Address], span: Span) -> Box<[IpAddr]> {
        let mut pool = Vec::new();
        for address in written {
            match address.host {
                Host::Ip(ip) if address.port == 0 && !pool.contains(&ip) => pool.push(ip),
                Host::Ip(_) if address.port == 0 => {}
                _ => {
                    let message = format!("\"proxy_bind_pool\" takes addresses without ports, not \"{address}\"");
                    self.found.push(Diagnostic::error(span, message));
                }
            }
        }
        pool.into()
    }

    /// The fields that the configuration sets, with the remaining defaults, and the client's fields that they replace.
    fn set_fields(&mut self, pass: Pass<'_>) -> (Vec<SetField>, FieldNames) {
        let proxy = pass.proxy();
        let directive = format!("{}_set_header", pass.scheme.family());
        let mut replaced = FieldNames::default();
        for name in REPLACED {
            replaced.insert(name);
        }
        let is_set = |name: &[u8]| proxy.set_headers.iter().any(|field| field.name.eq_ignore_ascii_case(name));
        let mut fields = Vec::new();
        if !is_set(b"Host") {
            let name = FieldToken::new(b"Host");
            fields.extend(name.map(|name| SetField::Made { name, value: Template::variable(Variable::ProxyHost) }));
        }
        for field in &proxy.set_headers {
            replaced.insert(&field.name);
            fields.extend(self.set_field(&directive, field));
        }
        (fields, replaced)
    }

    /// One `proxy_set_header` or `grpc_set_header`; `None` if it is never sent.
    fn set_field(&mut self, directive: &str, written: &SetHeader) -> Option<SetField> {
        let name = self.field_token(directive, &written.name, written.value.span)?;
        if matches!(name.id(), FieldId::ContentLength | FieldId::TransferEncoding) {
            if !written.value.is_empty() {
                let message = format!("\"{directive} {}\" has no effect", written.name.escape_ascii());
                let hint = "Holdfast writes Content-Length itself, from the body";
                self.found.push(Diagnostic::warning(written.value.span, message).with_hint(hint));
            }
            return None;
        }
        let value = self.template(&written.value);
        let Some(text) = value.as_constant() else { return Some(SetField::Made { name, value }) };
        if name.id() == FieldId::Upgrade && names_h2c(text) {
            let message = format!("\"{directive} Upgrade\" does not send h2c");
            let hint = "an upgrade to h2c takes a connection out of HTTP/1.1 (RFC 9113 §3.1)";
            self.found.push(Diagnostic::warning(written.value.span, message).with_hint(hint));
            return None;
        }
        let line = if text.is_empty() { None } else { FieldLine::new(&name, text) };
        line.map(SetField::Constant)
    }

    /// The name of a field that a directive writes; an invalid token cannot be sent.
    pub(super) fn field_token(&mut self, directive: &str, name: &[u8], span: Span) -> Option<FieldToken> {
        let token = FieldToken::new(name);
        if token.is_none() {
            let message =
                format!("\"{directive}\": \"{}\" is no header name, so it is never sent", name.escape_ascii());
            let hint = "a name has letters, digits and some marks such as `-` and `_`; the colon is not part of it";
            self.found.push(Diagnostic::warning(span, message).with_hint(hint));
        }
        token
    }

    /// `default` needs the URL of `proxy_pass`: as in nginx, it does nothing if the URL is not known.
    pub(super) fn redirects(&mut self, pass: Option<&FixedPass>, proxy: &ProxySettings, name: &[u8]) -> Redirects {
        let mut rules = Vec::new();
        for redirect in &proxy.redirects {
            rules.push(match redirect {
                Redirect::Default => {
                    let Some(pass) = pass else { continue };
                    let mut url = format!("{}://", pass.scheme.as_str()).into_bytes();
                    url.extend_from_slice(&pass.host_header);
                    url.extend_from_slice(pass.uri.as_deref().unwrap_or_default());
                    RedirectRule::for_proxy_pass(&url, pass.uri.is_some(), name)
                }
                Redirect::Prefix { from, to } => {
                    RedirectRule { from: RedirectFrom::Prefix(self.template(from)), to: self.template(to) }
                }
                Redirect::Regex { from, to } => {
                    let Some(pattern) = self.pattern(from) else { continue };
                    RedirectRule { from: RedirectFrom::Regex(pattern), to: self.template(to) }
                }
            });
        }
        Redirects(rules.into())
    }
}

fn tries_limits(transport: &TransportSettings) -> TriesLimits {
    TriesLimits {
        most: transport.next_upstream_tries,
        timeout_ms: Some(transport.next_upstream_timeout.as_millis() as u64).filter(|&time| time > 0),
        again: transport.next_upstream_again && transport.next_upstream_tries > 0,
        pause: Some(transport.next_upstream_pause).filter(|pause| !pause.is_zero()),
    }
}

fn hidden(proxy: &ProxySettings, by_default: &[&[u8]]) -> FieldNames {
    let mut hidden = FieldNames::default();
    for name in by_default {
        hidden.insert(name);
    }
    for name in &proxy.hide_headers {
        hidden.insert(name.as_bytes());
    }
    for name in &proxy.pass_headers {
        hidden.remove(name.as_bytes());
    }
    if proxy.force_ranges {
        // The gateway decides about ranges, not the upstream.
        hidden.insert(b"Accept-Ranges");
    }
    hidden
}

pub(super) fn conditions(listed: NextUpstream) -> Conditions {
    let table = [
        (NextUpstream::ERROR, Conditions::ERROR),
        (NextUpstream::TIMEOUT, Conditions::TIMEOUT),
        (NextUpstream::INVALID_HEADER, Conditions::INVALID_HEADER),
        (NextUpstream::NON_IDEMPOTENT, Conditions::NON_IDEMPOTENT),
        (NextUpstream::HTTP_500, Conditions::HTTP_500),
        (NextUpstream::HTTP_502, Conditions::HTTP_502),
        (NextUpstream::HTTP_503, Conditions::HTTP_503),
        (NextUpstream::HTTP_504, Conditions::HTTP_504),
        (NextUpstream::HTTP_403, Conditions::HTTP_403),
        (NextUpstream::HTTP_404, Conditions::HTTP_404),
        (NextUpstream::HTTP_429, Conditions::HTTP_429),
    ];
    table.into_iter().filter(|(word, _)| listed.contains(*word)).fold(Conditions::OFF, |all, (_, bit)| all | bit)
}
