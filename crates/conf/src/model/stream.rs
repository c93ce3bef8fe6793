//! `stream`: servers of TCP and UDP and their settings. Groups, tables, zones and formats are read as in `http`.

use std::sync::Arc;
use std::time::Duration;

use super::accepted::{AcceptedSettings, check_number};
use super::client::{Amount, Resolver, parse_rate, parse_resolver};
use super::limit::LimitSettings;
use super::listen::{self, Listen, Listener, Listening};
use super::log::LogSettings;
use super::lower::Walk;
use super::realip::RealIpSettings;
use super::response::{AccessRule, parse_access};
use super::rewrite::parse_variable;
use super::server::{Declared, NameForm, ServerName};
use super::settings::{Touched, level, settings};
use super::tls::{TlsSettings, parse_protocol};
use super::transport::{Bind, parse_bind};
use super::upstream::Upstream;
use super::upstream_server::Place;
use super::upstream_tls::UpstreamTlsSettings;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Block, Directive, Word};
use crate::value::plain::{parse_flag, parse_u32};
use crate::value::size::parse_size;
use crate::value::template::has_variables;
use crate::value::time::parse_milliseconds;
use crate::value::{Parsed, Template, address};

/// The body of `stream`.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Servers in the order of the text.
    pub servers: Vec<StreamServer>,
    /// Sockets to listen on; a `ServerId` is an index into `servers`.
    pub listeners: Vec<Listener>,
    /// Groups, formats, tables and zones.
    pub declared: Declared,
    /// The settings that servers inherit.
    pub settings: Arc<StreamSettings>,
    /// Where it was written.
    pub span: Span,
}

/// One `server` of `stream`.
#[derive(Debug, Clone)]
pub struct StreamServer {
    /// Where it listens; never empty in a configuration without errors.
    pub listens: Vec<Listen>,
    /// Its names, compared with the SNI of TLS; the first is `$server_name`. `""` if none was written.
    pub names: Vec<ServerName>,
    /// Its settings, merged from `stream`.
    pub settings: Arc<StreamSettings>,
    /// The handler of a session; `None` after an error.
    pub content: Option<StreamContent>,
    /// `set`, in the order of the text.
    pub sets: Vec<SetVariable>,
    /// Where it was written.
    pub span: Span,
}

/// The handler of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamContent {
    /// `proxy_pass`
    Proxy(StreamPass),
    /// `return`: a text, then the end of the connection.
    Return(Template),
    /// `pass`: the address of another listener that serves the connection.
    Pass(Template),
}

/// One `proxy_pass` of `stream`.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamPass {
    /// The group; `None` if the address has variables.
    pub upstream: Option<Arc<Upstream>>,
    /// The address as written.
    pub address: Template,
    /// Where it was written.
    pub span: Span,
}

/// `proxy_responses` where it is not written: any number of datagrams may come.
pub const RESPONSES_UNLIMITED: u32 = i32::MAX as u32;

/// One `set`.
#[derive(Debug, Clone, PartialEq)]
pub struct SetVariable {
    /// The variable's name, without `$`.
    pub variable: String,
    /// Its value.
    pub value: Template,
    /// Where it was written.
    pub span: Span,
}

/// `proxy_protocol`: the header sent to a peer first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyGreeting {
    /// None.
    Off,
    /// A line of text.
    Version1,
    /// The binary header.
    Version2,
}

settings! {
    /// The settings before a peer is selected.
    pub struct SessionSettings {
        /// Addresses that have access.
        access: Vec<AccessRule> = Vec::new(), "allow" | "deny" => item(parse_access);
        /// Name servers.
        resolver: Option<Resolver> = None, "resolver" => whole(parse_resolver);
        /// Longest time of a name's resolution.
        resolver_timeout: Duration = Duration::from_secs(30), "resolver_timeout" => value(parse_milliseconds);
        /// Longest time of the header of the PROXY protocol.
        proxy_protocol_timeout: Duration = Duration::from_secs(30), "proxy_protocol_timeout" => value(parse_milliseconds);
        /// Whether small writes leave at once.
        tcp_nodelay: bool = true, "tcp_nodelay" => value(parse_flag);
        /// Most bytes read before a peer is selected.
        preread_buffer_size: u64 = 16 << 10, "preread_buffer_size" => value(parse_size);
        /// Longest time of that read.
        preread_timeout: Duration = Duration::from_secs(30), "preread_timeout" => value(parse_milliseconds);
        /// Whether the `ClientHello` of TLS is read.
        ssl_preread: bool = false, "ssl_preread" => value(parse_flag);
        /// Tables of names, which have no size here.
        hash_sizes: () = (),
            "server_names_hash_max_size" | "server_names_hash_bucket_size" => value(check_number);
        /// Longest time of a TLS handshake.
        handshake_timeout: Duration = Duration::from_mins(1), "ssl_handshake_timeout" => value(parse_milliseconds);
        /// Protocols that TLS accepts by ALPN; an empty list ignores what clients offer.
        alpn: Vec<String> = Vec::new(), "ssl_alpn" => each(parse_protocol);
    }
}

settings! {
    /// The proxy of a server of `stream`.
    pub struct StreamProxySettings {
        /// Local address of connections.
        bind: Option<Bind> = None, "proxy_bind" => whole(parse_bind);
        /// `SO_KEEPALIVE`.
        socket_keepalive: bool = false, "proxy_socket_keepalive" => value(parse_flag);
        /// Longest time of a connect.
        connect_timeout: Duration = Duration::from_mins(1), "proxy_connect_timeout" => value(parse_milliseconds);
        /// Longest silence of both sides.
        timeout: Duration = Duration::from_mins(10), "proxy_timeout" => value(parse_milliseconds);
        /// Most bytes held for a receiver that reads slowly.
        buffer_size: u64 = 16 << 10,
            "proxy_buffer_size" | "proxy_downstream_buffer" | "proxy_upstream_buffer" => value(parse_size);
        /// Bytes per second from the client; 0 for no limit.
        upload_rate: Amount = Amount::Fixed(0), "proxy_upload_rate" => value(parse_rate);
        /// Bytes per second from the peer; 0 for no limit.
        download_rate: Amount = Amount::Fixed(0), "proxy_download_rate" => value(parse_rate);
        /// Datagrams of a client after which its next one begins another session; 0 for no limit.
        requests: u32 = 0, "proxy_requests" => value(parse_u32);
        /// Datagrams expected in answer to each of the client.
        responses: u32 = RESPONSES_UNLIMITED, "proxy_responses" => value(parse_u32);
        /// Whether another peer is tried after a failed connect.
        next_upstream: bool = true, "proxy_next_upstream" => value(parse_flag);
        /// Most peers to try; 0 for no limit.
        next_upstream_tries: u32 = 0, "proxy_next_upstream_tries" => value(parse_u32);
        /// Time for all tries; zero for no limit.
        next_upstream_timeout: Duration = Duration::ZERO, "proxy_next_upstream_timeout" => value(parse_milliseconds);
        /// Header that tells a peer about the client.
        greeting: ProxyGreeting = ProxyGreeting::Off, "proxy_protocol" => value(parse_greeting);
        /// Whether connections to peers use TLS.
        tls: bool = false, "proxy_ssl" => value(parse_flag);
        /// Whether one direction continues after the other has ended.
        half_close: bool = false, "proxy_half_close" => value(parse_flag);
    }
}

level! {
    /// Settings of a server of `stream`.
    pub struct StreamSettings {
        /// Sessions.
        session: SessionSettings,
        /// TLS towards clients.
        tls: TlsSettings,
        /// The proxy.
        proxy: StreamProxySettings,
        /// TLS towards peers.
        proxy_tls: UpstreamTlsSettings,
        /// Logs.
        log: LogSettings,
        /// Limits.
        limit: LimitSettings,
        /// Real addresses.
        realip: RealIpSettings,
        /// Directives without effect.
        accepted: AcceptedSettings,
    }
}

/// A flag of nginx, and `v2`.
fn parse_greeting(name: &str, word: &Word) -> Parsed<ProxyGreeting> {
    if *word.value == *b"v2" {
        return Ok(ProxyGreeting::Version2);
    }
    let is_on =
        parse_flag(name, word).map_err(|error| error.with_hint("`v2` writes the binary header of version 2"))?;
    Ok(if is_on { ProxyGreeting::Version1 } else { ProxyGreeting::Off })
}

impl Listening for StreamServer {
    fn listens(&self) -> &[Listen] {
        &self.listens
    }

    fn names(&self) -> &[ServerName] {
        &self.names
    }

    fn tls(&self) -> &TlsSettings {
        &self.settings.tls
    }

    fn span(&self) -> Span {
        self.span
    }
}

impl Walk {
    pub(crate) fn stream(&mut self, directive: &Directive, block: &Block) -> Stream {
        let mut stream = Stream {
            servers: Vec::new(),
            listeners: Vec::new(),
            declared: Declared::default(),
            settings: Arc::default(),
            span: directive.name.span,
        };
        self.begin_block("stream");
        self.formats_and_zones(&mut stream.declared, block);
        stream.settings = self.stream_settings(block, &Arc::default(), true);
        self.env.http_resolver = stream.settings.session.resolver.is_some();
        self.groups_and_tables(&mut stream.declared, block, Place::Stream, None);
        for (index, directive) in block.directives.iter().enumerate() {
            self.env.position = index;
            if let (b"server", Some(block)) = (directive.name.value.as_slice(), &directive.block) {
                let server = self.stream_server(directive, block, &stream.settings);
                stream.servers.push(server);
            }
        }
        stream.listeners = listen::lower_listeners(&stream.servers, &mut self.out);
        self.check_tls(block, &stream.servers, &stream.listeners);
        stream.declared.upstreams = std::mem::take(&mut self.groups).upstreams;
        stream
    }

    fn stream_settings(
        &mut self,
        block: &Block,
        outer: &Arc<StreamSettings>,
        is_outermost: bool,
    ) -> Arc<StreamSettings> {
        let mut settings = Arc::clone(outer);
        let mut touched = Touched::default();
        for (index, directive) in block.directives.iter().enumerate() {
            if is_outermost {
                self.env.position = index;
            }
            let log = directive.name.value == b"access_log";
            if log && directive.args.len() == 1 && directive.args[0].value != b"off" {
                // As in nginx: `combined` is about requests.
                let error = Diagnostic::error(directive.span, "log format is not specified");
                self.out.push(error.with_hint("define one with `log_format` and name it behind the file"));
                continue;
            }
            StreamSettings::apply(&mut settings, &mut touched, directive, &self.env, &mut self.out);
        }
        let is_off = |directive: &Directive| {
            directive.name.value == b"access_log" && directive.args.first().is_some_and(|word| word.value == b"off")
        };
        if touched.has("log", "access") && block.directives.iter().any(is_off) {
            Arc::make_mut(&mut Arc::make_mut(&mut settings).log).access.clear();
        }
        settings
    }

    fn stream_server(&mut self, directive: &Directive, block: &Block, outer: &Arc<StreamSettings>) -> StreamServer {
        let span = directive.name.span;
        let settings = self.stream_settings(block, outer, false);
        let (mut listens, mut names, mut sets, mut content) = (Vec::new(), Vec::new(), Vec::new(), None);
        for directive in &block.directives {
            match directive.name.value.as_slice() {
                b"listen" => {
                    let parsed = listen::parse_listen(directive, Place::Stream, &mut self.out);
                    listens.extend(self.report(parsed).into_iter().flatten());
                }
                b"server_name" => self.names(&directive.args, &mut names),
                b"set" => {
                    let set = parse_set(directive);
                    sets.extend(self.report(set));
                }
                b"proxy_pass" => {
                    let pass = self.stream_pass(directive);
                    content = self.report(pass).map(StreamContent::Proxy);
                }
                b"pass" => {
                    let address = directive.args.first().map(|word| Template::parse("pass", word));
                    content = address.and_then(|address| self.report(address)).map(StreamContent::Pass);
                }
                b"return" => {
                    let text = directive.args.first().map(|word| Template::parse("return", word));
                    content = text.and_then(|text| self.report(text)).map(StreamContent::Return);
                }
                _ => {}
            }
        }
        let writes = |names: &[&[u8]]| block.directives.iter().any(|inner| names.contains(&&*inner.name.value));
        if !writes(&[b"listen"]) {
            let error = Diagnostic::error(span, "no \"listen\" is defined for server");
            self.out.push(error.with_hint("add a line such as `listen 12345;`"));
        }
        if !writes(&[b"proxy_pass", b"return", b"pass"]) {
            let error = Diagnostic::error(span, "no handler for server");
            self.out.push(error.with_hint("add `proxy_pass ADDRESS;`, `pass ADDRESS;` or `return TEXT;`"));
        }
        if names.is_empty() {
            names.push(ServerName { form: NameForm::Exact(Vec::new()), text: Vec::new(), span: None });
        }
        StreamServer { listens, names, settings, content, sets, span }
    }

    fn stream_pass(&mut self, directive: &Directive) -> Parsed<StreamPass> {
        let Some(word) = directive.args.first() else {
            let message = "invalid number of arguments in \"proxy_pass\" directive";
            return Err(Diagnostic::error(directive.name.span, message));
        };
        let (address, span) = (Template::parse("proxy_pass", word)?, directive.span);
        if has_variables(&word.value) {
            return Ok(StreamPass { upstream: None, address, span });
        }
        let text = word.text();
        let invalid = |reason: &str| Diagnostic::error(word.span, format!("{reason} in upstream \"{text}\""));
        let url = address::parse_url(&word.value).map_err(invalid)?;
        if !url.uri.is_empty() {
            let hint = "an address or the name of a group, without scheme and path: `127.0.0.1:5432`";
            return Err(invalid("invalid host").with_hint(hint));
        }
        let upstream = self.groups.resolve(url.host, url.port, None, &text, word.span)?;
        Ok(StreamPass { upstream: Some(upstream), address, span })
    }
}

fn parse_set(directive: &Directive) -> Parsed<SetVariable> {
    let [variable, value, ..] = directive.args.as_slice() else {
        let message = "invalid number of arguments in \"set\" directive";
        return Err(Diagnostic::error(directive.name.span, message));
    };
    let variable = parse_variable(variable)?;
    Ok(SetVariable { variable, value: Template::parse("set", value)?, span: directive.span })
}
