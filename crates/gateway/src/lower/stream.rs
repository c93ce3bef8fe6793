//! `stream`: servers, their listeners and proxies. Groups, logs, limits, tables and templates are lowered like those of
//! `http`.

use crate::lower::listener::{head_limits, is_behind_a_wildcard, join_sockets, listen_options};
use crate::lower::route_marks::entries;
use crate::lower::tls::{TlsServer, listens_with_tls};
use crate::lower::upstream_tls::TlsKind;
use crate::lower::{LowerOptions, Lowering};
use crate::plan::Plan;
use crate::plan::filters::SizePlan;
use crate::plan::group::{GroupPlan, GroupUseId, Sharing};
use crate::plan::listener::{ListenerPlan, Serves, covers};
use crate::plan::proxy::SourcePlan;
use crate::plan::stream::{
    PassPlan, PrereadPlan, StreamContentPlan, StreamProxyId, StreamProxyPlan, StreamServerPlan, StreamVariablePlan,
};
use crate::plan::tls::TlsPlan;
use crate::plan::tunnel::{TunnelKind, TunnelPlan};
use crate::plan::upstream_tls::UpstreamTlsPlan;
use crate::plan::variable_pass::{GuestsId, GuestsPlan};
use conf::diagnostic::Diagnostic;
use conf::model::{
    Amount, HeadSettings, Http, Listener, NameForm, RESPONSES_UNLIMITED, ServerId, SetVariable, Stream, StreamContent,
    StreamPass, StreamServer, StreamSettings, Upstream, VerifyClient,
};
use conf::source::Span;
use conf::value::address::parse_url;
use conf::value::{Address, Host};
use reactor::{ConnectOptions, PeerAddress};
use rules::variable::{Assignable, Scope, Slot};
use std::sync::Arc;
use upstream::retry::Conditions;
use upstream::shared::GroupLimits;

/// The pool group for connections to peers that only variables name.
const GUESTS: &str = "stream proxy_pass with variables";

/// Lowers `stream` into a plan that may already have `http`.
pub(super) fn lower_stream(
    stream: &Stream,
    empty: &Http,
    options: &LowerOptions<'_>,
    plan: Plan,
) -> (Plan, Vec<Diagnostic>) {
    let session = &stream.settings.session;
    let mut lowering = Lowering::new(Scope::Stream, &stream.declared, empty, options, plan);
    lowering.has_tls_listener = stream.listeners.iter().any(|listener| listener.options.ssl);
    lowering.outer_resolver = session.resolver.clone().map(|resolver| (resolver, session.resolver_timeout));
    lowering.declare_tables();
    for server in &stream.servers {
        lowering.declare_names(server);
    }
    lowering.plan.stream.definitions = lowering.stream_definitions(stream);
    lowering.compile_zone_keys();
    lowering.stream_listeners(stream);
    let servers = (0..).map(ServerId).zip(&stream.servers);
    let servers = servers.filter_map(|(id, server)| lowering.stream_server(stream, id, server)).collect();
    lowering.plan.stream.servers = servers;
    let Lowering { mut plan, found, .. } = lowering;
    // A template of any server may use them, so this is only known now.
    for tls in plan.stream.servers.iter_mut().filter_map(|server| server.tls.as_deref_mut()) {
        tls.keep_offers = plan.wants_tls_offers;
    }
    (plan, found)
}

/// How a server's connections to its peers are made.
struct StreamBinding {
    connect: ConnectOptions,
    source: SourcePlan,
    tls: Option<UpstreamTlsPlan>,
}

impl Lowering<'_> {
    fn declare_names(&mut self, server: &StreamServer) {
        for name in &server.names {
            if let NameForm::Regex(regex) = &name.form {
                for group in regex.names.iter().flatten() {
                    self.declare(group, regex.span);
                }
            }
        }
        for set in &server.sets {
            self.declare(&set.variable, set.span);
        }
    }

    fn stream_definitions(&mut self, stream: &Stream) -> rules::user_variables::Definitions {
        let mut list = self.tables();
        let sets = stream.servers.iter().flat_map(|server| &server.sets);
        let set = |set: &SetVariable| Some((self.users.slot(&set.variable)?, rules::user_variables::Definition::Set));
        list.extend(sets.filter_map(set));
        rules::user_variables::Definitions::build(&self.users, list)
    }

    fn stream_listeners(&mut self, stream: &Stream) {
        let mut plans = Vec::new();
        for listener in &stream.listeners {
            for address in self.addresses(&listener.address, listener.span) {
                let is_same =
                    |known: &ListenerPlan| known.address == address && known.datagrams == listener.options.udp;
                if self.plan.listeners.iter().any(|known| is_same(known)) {
                    let message = format!("{address} is listened on by \"http\" already");
                    let hint = "a socket serves one of the two blocks: choose another port";
                    let error = Diagnostic::error(listener.span.unwrap_or(stream.span), message);
                    self.found.push(error.with_hint(hint));
                }
                plans.push(self.stream_listener(stream, listener, address));
            }
        }
        self.plan.listeners.extend(join_sockets(plans));
    }

    fn stream_listener(&mut self, stream: &Stream, listener: &Listener, address: PeerAddress) -> ListenerPlan {
        let servers = &stream.servers;
        let names =
            self.names_of(listener, |id| servers.get(id as usize).map(|server| (&server.names[..], server.span)));
        let default = &stream.servers[listener.default_server.0 as usize].settings.session;
        let is_behind = matches!(address, PeerAddress::Ip(ip) if is_behind_a_wildcard(&stream.listeners, listener, ip));
        ListenerPlan {
            address,
            span: listener.span,
            socket: (!is_behind).then(|| listen_options(listener)),
            behind: Vec::new(),
            serves: Serves::Stream,
            names,
            limits: head_limits(&HeadSettings::default()),
            limits_differ: false,
            header_timeout: default.proxy_protocol_timeout,
            tls: listener.options.ssl,
            http2: false,
            proxy_protocol: listener.options.proxy_protocol,
            datagrams: listener.options.udp,
        }
    }

    /// `None` after a reported error.
    fn stream_server(&mut self, stream: &Stream, id: ServerId, server: &StreamServer) -> Option<StreamServerPlan> {
        let settings = &server.settings;
        self.entries = entries(&stream.listeners, id, &server.names);
        let is_datagrams = server.listens.iter().all(|listen| listen.options.udp);
        if is_datagrams && settings.proxy.tls {
            let message = "\"proxy_ssl\" has no effect on UDP: datagrams go to the peer in clear";
            self.found.push(Diagnostic::warning(server.span, message));
        }
        let tls = self.stream_tls_plan(stream, id, server);
        let content = match server.content.as_ref()? {
            StreamContent::Proxy(pass) => self.stream_proxy(pass, settings)?,
            StreamContent::Return(text) => StreamContentPlan::Return(self.template(text)),
            StreamContent::Pass(address) => StreamContentPlan::Pass(self.pass_plan(address)?),
        };
        let name = server.names.first().map_or(&b""[..], |name| &name.text);
        Some(StreamServerPlan {
            name: name.strip_prefix(b".").unwrap_or(name).into(),
            sets: server.sets.iter().filter_map(|set| self.set_plan(set)).collect(),
            real_ip: self.real_ip_plan(&settings.realip),
            access: settings.session.access.clone(),
            limits: self.limit_plan(&settings.limit),
            tls,
            handshake_timeout: settings.session.handshake_timeout,
            preread: settings.session.ssl_preread.then_some(PrereadPlan {
                bytes_max: settings.session.preread_buffer_size as usize,
                timeout: settings.session.preread_timeout,
            }),
            content,
            access_logs: self.access_logs(&settings.log),
            error_log: self.error_log(&settings.log),
            proxy_protocol_timeout: settings.session.proxy_protocol_timeout,
            nodelay: settings.session.tcp_nodelay,
            warns_uninitialized: settings.log.uninitialized_variables,
        })
    }

    /// The TLS of a server; `None` if none of its addresses uses TLS.
    fn stream_tls_plan(&mut self, stream: &Stream, id: ServerId, server: &StreamServer) -> Option<Box<TlsPlan>> {
        if !listens_with_tls(&stream.listeners, id) {
            return None;
        }
        let (settings, session) = (&server.settings.tls, &server.settings.session);
        let facts = TlsServer {
            settings,
            names: &server.names,
            span: server.span,
            resolver: session.resolver.as_ref().map(|resolver| (resolver, session.resolver_timeout)),
            has_acme: false,
        };
        let Some(plan) = self.tls_of_server(&facts, None) else {
            if settings.certificates.is_empty() && settings.verify_client != VerifyClient::Off {
                // Its clients would be checked by what another server demands.
                let message = "\"ssl_verify_client\" has no effect in a server without \"ssl_certificate\"";
                let hint = "give the server a certificate of its own: it then checks its clients itself";
                self.found.push(Diagnostic::error(server.span, message).with_hint(hint));
            }
            return None;
        };
        // A session of `http` is not resumed here.
        let session_name = format!("stream {}", plan.session_name);
        Some(Box::new(TlsPlan { session_name, alpn: Some(session.alpn.clone()), ..plan }))
    }

    /// `pass`. As in nginx, an address without a listener is an error only for its sessions.
    fn pass_plan(&mut self, written: &conf::value::Template) -> Option<PassPlan> {
        let template = self.template(written);
        let Some(text) = template.as_constant() else { return Some(PassPlan::Variable(template)) };
        let invalid = |reason: &str| {
            let message = format!("{reason} in \"{}\" of the \"pass\" directive", text.escape_ascii());
            Diagnostic::error(written.span, message)
                .with_hint("the address of another `listen`, such as `127.0.0.1:8080`")
        };
        let address = match parse_url(text) {
            Ok(url) if !url.uri.is_empty() => Err(invalid("invalid host")),
            Ok(url) if url.port.is_none() && !matches!(url.host, Host::Unix(_)) => Err(invalid("no port")),
            Ok(url) => Ok(Address { host: url.host, port: url.port.unwrap_or(0) }),
            Err(reason) => Err(invalid(reason)),
        };
        let address = match address {
            Ok(address) => self.addresses(&address, Some(written.span)).into_iter().next()?,
            Err(error) => {
                self.found.push(error);
                return None;
            }
        };
        if !self
            .plan
            .listeners
            .iter()
            .any(|listener| listener.address == address || covers(&listener.address, &address))
        {
            let message = format!("no server listens on {address}: connections cannot be passed there");
            let hint = "`pass` takes an address that a `listen` of this configuration has";
            self.found.push(Diagnostic::warning(written.span, message).with_hint(hint));
        }
        Some(PassPlan::Fixed(address))
    }

    fn set_plan(&mut self, set: &SetVariable) -> Option<(Slot, rules::template::Template)> {
        // Declaring the variables has already reported those that cannot be set.
        let Ok(Assignable::Slot(slot)) = self.users.declare_assignable(&set.variable) else { return None };
        Some((slot, self.template(&set.value)))
    }

    fn stream_proxy(&mut self, pass: &StreamPass, settings: &Arc<StreamSettings>) -> Option<StreamContentPlan> {
        let (connect, source) = self.stream_binding(settings);
        let tls = if settings.proxy.tls { Some(self.stream_tls(pass, settings)?) } else { None };
        let shared = tls.as_ref().map(UpstreamTlsPlan::shared);
        let sharing = Sharing { source: connect.source, tls: shared, ..Sharing::default() };
        let binding = StreamBinding { connect, source, tls };
        if let Some(upstream) = &pass.upstream {
            return Some(StreamContentPlan::Proxy(self.stream_group(
                upstream,
                sharing,
                &binding,
                (settings, &pass.address),
            )?));
        }
        let mut known = Vec::new();
        for upstream in &self.declared.upstreams {
            let (name, port) = match (&upstream.servers.first()?.address.address, upstream.implicit) {
                (_, false) => (upstream.name.to_ascii_lowercase(), None),
                (address, true) => match &address.host {
                    Host::Name(host) => (host.clone(), Some(address.port)),
                    Host::Ip(_) | Host::Unix(_) => continue,
                },
            };
            let proxy = self.stream_group(upstream, sharing.clone(), &binding, (settings, &pass.address))?;
            known.push((name.into(), port, proxy));
        }
        let (group, guests) = self.stream_guests(pass.span, sharing);
        let other = self.add_stream_proxy(group, b"", &binding, (settings, &pass.address));
        let session = &settings.session;
        let resolver = session.resolver.as_ref().map(|resolver| self.resolver(resolver, session.resolver_timeout));
        let address = self.template(&pass.address);
        Some(StreamContentPlan::Variable(Box::new(StreamVariablePlan { address, known, other, guests, resolver })))
    }

    /// The group of all peers that only variables name, as one `proxy_pass` uses it.
    fn stream_guests(&mut self, span: Span, sharing: Sharing) -> (GroupUseId, GuestsId) {
        let group = self.groups.guests.unwrap_or_else(|| {
            // No other session may use the connection.
            let limits = GroupLimits::keepalive(0, false, self.options.workers);
            self.add_group(GroupPlan::without_servers(GUESTS, span, limits))
        });
        self.groups.guests = Some(group);
        let group = self.use_of(group, sharing);
        let guests = GuestsId(self.plan.guests.len() as u32);
        self.plan.guests.push(GuestsPlan { group, span });
        (group, guests)
    }

    fn stream_group(
        &mut self,
        upstream: &Arc<Upstream>,
        sharing: Sharing,
        binding: &StreamBinding,
        written: (&Arc<StreamSettings>, &conf::value::Template),
    ) -> Option<StreamProxyId> {
        let group = self.group_use(upstream, sharing)?;
        Some(self.add_stream_proxy(group, upstream.name.as_bytes(), binding, written))
    }

    fn add_stream_proxy(
        &mut self,
        group: GroupUseId,
        name: &[u8],
        binding: &StreamBinding,
        (settings, address): (&Arc<StreamSettings>, &conf::value::Template),
    ) -> StreamProxyId {
        let proxy = &settings.proxy;
        let tunnel = TunnelPlan {
            marks: Arc::default(),
            idle_max: proxy.timeout,
            ping: None,
            buffer_bytes: proxy.buffer_size as usize,
            kind: TunnelKind::Session { half_close: proxy.half_close },
            error_log: self.error_log(&settings.log),
        };
        let conditions = if proxy.next_upstream { Conditions::ERROR | Conditions::TIMEOUT } else { Conditions::OFF };
        let rates = [&proxy.upload_rate, &proxy.download_rate].map(|rate| self.stream_rate(rate));
        let mut plan = StreamProxyPlan {
            group,
            name: name.into(),
            connect: binding.connect.clone(),
            source: binding.source.clone(),
            tls: binding.tls.clone(),
            connect_timeout: proxy.connect_timeout,
            conditions,
            tries_max: proxy.next_upstream_tries,
            tries_timeout_ms: Some(proxy.next_upstream_timeout.as_millis() as u64).filter(|&time| time > 0),
            greeting: proxy.greeting,
            requests: proxy.requests,
            responses: Some(proxy.responses).filter(|number| *number < RESPONSES_UNLIMITED),
            rates,
            tunnel,
        };
        plan.tunnel.marks = self.stream_marks(&plan, address, settings);
        self.plan.stream.proxies.push(Arc::new(plan));
        StreamProxyId(self.plan.stream.proxies.len() as u32 - 1)
    }

    /// `proxy_ssl on`. The TLS server name is that of `proxy_pass`, unless `proxy_ssl_name` sets another.
    fn stream_tls(&mut self, pass: &StreamPass, settings: &StreamSettings) -> Option<UpstreamTlsPlan> {
        let words = &settings.proxy_tls;
        let host = pass.upstream.as_ref().map(|_| pass.address.as_text().unwrap_or_default());
        if host.is_none() && words.name.is_none() && (words.verify || words.server_name) {
            let message = "\"proxy_ssl_name\" is needed where the address of \"proxy_pass\" has variables";
            let hint = "say which name TLS asks for and verifies: `proxy_ssl_name NAME;`";
            self.found.push(Diagnostic::error(pass.span, message).with_hint(hint));
            return None;
        }
        let kind = TlsKind { family: "proxy", speaks_http2: false };
        self.tls_of(words, kind, host, pass.span)
    }

    fn stream_rate(&mut self, rate: &Amount) -> Option<SizePlan> {
        (*rate != Amount::Fixed(0)).then(|| self.size_plan(rate))
    }

    fn stream_binding(&mut self, settings: &StreamSettings) -> (ConnectOptions, SourcePlan) {
        let mut options = ConnectOptions { so_keepalive: settings.proxy.socket_keepalive, ..ConnectOptions::default() };
        let source = match &settings.proxy.bind {
            Some(bind) => self.bind_source(bind, &mut options),
            None => SourcePlan::Options,
        };
        (options, source)
    }
}
