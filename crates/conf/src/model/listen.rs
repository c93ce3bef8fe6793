//! `listen`: addresses, and the options of their sockets.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use super::server::{NameForm, Server, ServerId, ServerName};
use super::tls::TlsSettings;
use super::upstream_server::Place;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::size::{bytes, number};
use crate::value::time::milliseconds;
use crate::value::{Address, Host, Parsed, address, invalid_parameter, parameter};

/// One address of one `listen` (a range of ports gives several).
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    /// The address.
    pub address: Address,
    /// Whether this server answers if no name matches.
    pub default_server: bool,
    /// Options of the socket.
    pub options: ListenOptions,
    /// Where it was written; `None` for the implied `*:80`.
    pub span: Option<Span>,
}

/// Parameters of `listen`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListenOptions {
    /// Whether a word that concerns the socket was written: one `listen` of an address may have them.
    pub set: bool,
    /// Accept queue; `None` is nginx's 511.
    pub backlog: Option<u32>,
    /// `SO_RCVBUF` in bytes.
    pub rcvbuf: Option<u64>,
    /// `SO_SNDBUF` in bytes.
    pub sndbuf: Option<u64>,
    /// `TCP_FASTOPEN` queue.
    pub fastopen: FastOpen,
    /// `TCP_DEFER_ACCEPT`
    pub deferred: bool,
    /// `IPV6_V6ONLY`; `None` is on.
    pub ipv6only: Option<bool>,
    /// A socket for each worker.
    pub reuseport: bool,
    /// TCP keepalive.
    pub so_keepalive: SoKeepalive,
    /// Whether to bind a socket of its own even if one for all addresses of the port exists.
    pub bind: bool,
    /// `IPPROTO_MPTCP`
    pub multipath: bool,
    /// Routing table (`SO_SETFIB` exists on FreeBSD only).
    pub setfib: Option<u32>,
    /// A filter (FreeBSD and NetBSD only).
    pub accept_filter: Option<String>,
    /// TLS.
    pub ssl: bool,
    /// HTTP/2 by `listen … http2`.
    pub http2: bool,
    /// HTTP/3.
    pub quic: bool,
    /// Every connection begins with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Datagrams, in `stream` only.
    pub udp: bool,
}

/// `fastopen=`; `None` is off.
pub type FastOpen = Option<u32>;

/// `so_keepalive=`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SoKeepalive {
    /// The system's setting.
    #[default]
    System,
    /// Off.
    Off,
    /// On; `None` means the system's time.
    On {
        /// Silence before the first probe.
        idle: Option<Duration>,
        /// Time between probes.
        interval: Option<Duration>,
        /// Probes before the connection is given up.
        count: Option<u32>,
    },
}

/// A socket to listen on, with the servers behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The address.
    pub address: Address,
    /// The options of its socket.
    pub options: ListenOptions,
    /// The server that answers if no name matches: the one marked so, or the first.
    pub default_server: ServerId,
    /// All servers that listen here, in the order of the text.
    pub servers: Vec<ServerId>,
    /// Where the options, or the first `listen`, were written.
    pub span: Option<Span>,
}

/// Most addresses of one range of ports. A larger range is probably a typo, and each port costs a descriptor.
const RANGE_MAX: usize = 4096;

/// Reads a `listen`.
pub(crate) fn parse_listen(directive: &Directive, place: Place, out: &mut Vec<Diagnostic>) -> Parsed<Vec<Listen>> {
    let default_port = (place == Place::Http).then_some(80);
    let Some((first, parameters)) = directive.args.split_first() else {
        return Err(Diagnostic::error(directive.name.span, "invalid number of arguments in \"listen\" directive"));
    };
    let listen = address::parse_listen(&first.value, default_port).map_err(|reason| {
        Diagnostic::error(first.span, format!("{reason} in \"{}\" of the \"listen\" directive", first.text()))
            .with_hint("`80`, `127.0.0.1:80`, `[::]:80`, `8000-8010` or `unix:/path`")
    })?;
    if usize::from(listen.last_port - listen.first_port) >= RANGE_MAX {
        let message = format!("invalid port range in \"{}\" of the \"listen\" directive", first.text());
        return Err(Diagnostic::error(first.span, message).with_hint(format!("at most {RANGE_MAX} ports")));
    }
    let mut one = Listen {
        address: Address { host: listen.host.clone(), port: listen.first_port },
        default_server: false,
        options: ListenOptions::default(),
        span: Some(directive.span),
    };
    for word in parameters {
        parse_parameter(&mut one, word, place, out)?;
    }
    if one.options.udp {
        check_udp(&one, directive)?;
    }
    Ok(listen.addresses().map(|address| Listen { address, ..one.clone() }).collect())
}

fn parse_parameter(listen: &mut Listen, word: &Word, place: Place, out: &mut Vec<Diagnostic>) -> Parsed<()> {
    let options = &mut listen.options;
    match word.value.as_slice() {
        b"default_server" | b"default" => listen.default_server = true,
        b"proxy_protocol" => options.proxy_protocol = true,
        b"ssl" => options.ssl = true,
        b"http2" if place == Place::Http => {
            options.http2 = true;
            let message = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
            out.push(Diagnostic::warning(word.span, message));
        }
        b"quic" if place == Place::Http => {
            let message =
                format!("the \"{}\" parameter of \"listen\" is known but not supported by holdfast", word.text());
            return Err(Diagnostic::error(word.span, message));
        }
        b"bind" => (options.set, options.bind) = (true, true),
        b"deferred" => (options.set, options.deferred) = (true, true),
        b"multipath" => (options.set, options.multipath) = (true, true),
        b"reuseport" => (options.set, options.reuseport) = (true, true),
        b"udp" if place == Place::Stream => options.udp = true,
        _ => {
            parse_valued_parameter(listen, word)?;
            listen.options.set = true;
        }
    }
    if listen.options.reuseport && matches!(listen.address.host, Host::Unix(_)) && word.value == b"reuseport" {
        out.push(Diagnostic::warning(word.span, "reuseport has no effect on a Unix socket"));
    }
    Ok(())
}

/// Refuses words about connections beside `udp`, as nginx does.
fn check_udp(listen: &Listen, directive: &Directive) -> Parsed<()> {
    let options = &listen.options;
    let words = [
        ("fastopen", options.fastopen.is_some()),
        ("backlog", options.backlog.is_some()),
        ("deferred", options.deferred),
        ("multipath", options.multipath),
        ("ssl", options.ssl),
        ("so_keepalive", options.so_keepalive != SoKeepalive::System),
        ("proxy_protocol", options.proxy_protocol),
    ];
    if let Some((word, _)) = words.iter().find(|(_, is_written)| *is_written) {
        let message = format!("\"listen\" directive \"{word}\" parameter is incompatible with \"udp\"");
        return Err(Diagnostic::error(directive.span, message).with_hint("it is about connections, and UDP has none"));
    }
    if matches!(listen.address.host, Host::Unix(_)) {
        let message = "\"udp\" on a Unix socket is known but not supported by holdfast";
        return Err(
            Diagnostic::error(directive.span, message).with_hint("listen on an address such as 127.0.0.1:12345")
        );
    }
    Ok(())
}

fn parse_valued_parameter(listen: &mut Listen, word: &Word) -> Parsed<()> {
    let options = &mut listen.options;
    let error = |what: &str| Diagnostic::error(word.span, format!("invalid {what} \"{}\"", word.text()));
    let count = |value: &Word| number(&value.value).and_then(|count| u32::try_from(count).ok());
    let unsupported = |what: &str| {
        Diagnostic::error(word.span, format!("{what} \"{}\" is not supported on this platform, ignored", word.text()))
    };
    if let Some(value) = parameter(word, "backlog") {
        // On FreeBSD and macOS, -1 means the system's own limit; nginx accepts it everywhere.
        let backlog =
            if value.value == b"-1" { Some(u32::MAX >> 1) } else { count(&value).filter(|&backlog| backlog > 0) };
        options.backlog = Some(backlog.ok_or_else(|| error("backlog"))?);
    } else if let Some(value) = parameter(word, "rcvbuf") {
        options.rcvbuf = Some(bytes(&value.value, false).ok_or_else(|| error("rcvbuf"))?);
    } else if let Some(value) = parameter(word, "sndbuf") {
        options.sndbuf = Some(bytes(&value.value, false).ok_or_else(|| error("sndbuf"))?);
    } else if let Some(value) = parameter(word, "fastopen") {
        options.fastopen = Some(count(&value).ok_or_else(|| error("fastopen"))?);
    } else if let Some(value) = parameter(word, "ipv6only") {
        options.ipv6only = Some(match value.value.as_slice() {
            b"on" => true,
            b"off" => false,
            _ => return Err(invalid_parameter(word)),
        });
    } else if let Some(value) = parameter(word, "so_keepalive") {
        options.so_keepalive = parse_so_keepalive(&value).ok_or_else(|| {
            Diagnostic::error(word.span, format!("invalid so_keepalive value: \"{}\"", value.text()))
                .with_hint("`on`, `off` or `30m::10`")
        })?;
    } else if parameter(word, "accept_filter").is_some() {
        return Err(unsupported("accept filters"));
    } else {
        return Err(invalid_parameter(word).with_hint(
            "`default_server`, `backlog=`, `reuseport`, `rcvbuf=`, `sndbuf=`, `so_keepalive=`, `fastopen=`, `deferred`, `ipv6only=`, `proxy_protocol`, `ssl`, `http2`, `bind`",
        ));
    }
    Ok(())
}

fn parse_so_keepalive(value: &Word) -> Option<SoKeepalive> {
    match value.value.as_slice() {
        b"on" => return Some(SoKeepalive::On { idle: None, interval: None, count: None }),
        b"off" => return Some(SoKeepalive::Off),
        _ => {}
    }
    let mut parts = value.value.split(|&byte| byte == b':');
    let time = |part: Option<&[u8]>| match part {
        None | Some([]) => Some(None),
        Some(text) => milliseconds(text, true).map(|time| Some(Duration::from_millis(time))),
    };
    let (idle, interval) = (time(parts.next())?, time(parts.next())?);
    let count = match parts.next() {
        None | Some([]) => None,
        Some(text) => Some(u32::try_from(number(text)?).ok()?),
    };
    let any = idle.is_some() || interval.is_some() || count.is_some();
    (any && parts.next().is_none()).then_some(SoKeepalive::On { idle, interval, count })
}

/// A server that listens: of `http` or of `stream`.
pub(crate) trait Listening {
    fn listens(&self) -> &[Listen];
    fn names(&self) -> &[ServerName];
    fn tls(&self) -> &TlsSettings;
    fn span(&self) -> Span;
}

impl Listening for Arc<Server> {
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

/// Merges the addresses of all servers, and reports contradictions between them.
pub(crate) fn lower_listeners<S: Listening>(servers: &[S], out: &mut Vec<Diagnostic>) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    let mut marked: Vec<Option<Span>> = Vec::new();
    let mut protocols: Vec<Protocols> = Vec::new();
    // TCP and UDP have ports of their own.
    let mut known: FxHashMap<(&Address, bool), usize> = FxHashMap::default();
    for (server, id) in servers.iter().zip(0_u32..) {
        for listen in server.listens() {
            let span = listen.span.unwrap_or(server.span());
            let Some(&index) = known.get(&(&listen.address, listen.options.udp)) else {
                known.insert((&listen.address, listen.options.udp), listeners.len());
                marked.push(listen.default_server.then_some(span));
                protocols.push(Protocols::default());
                listeners.push(Listener {
                    address: listen.address.clone(),
                    options: listen.options.clone(),
                    default_server: ServerId(id),
                    servers: vec![ServerId(id)],
                    span: listen.span,
                });
                continue;
            };
            let listener = &mut listeners[index];
            if listener.servers.last() == Some(&ServerId(id)) {
                out.push(Diagnostic::error(span, format!("a duplicate listen {}", listen.address)));
                continue;
            }
            listener.servers.push(ServerId(id));
            join_options(listener, &mut protocols[index], listen, span, out);
            if listen.default_server {
                if let Some(first) = marked[index] {
                    let message = format!("a duplicate default server for {}", listen.address);
                    out.push(Diagnostic::error(span, message).with_related(first, "first default server here"));
                } else {
                    marked[index] = Some(span);
                    listener.default_server = ServerId(id);
                }
            }
        }
    }
    for listener in &listeners {
        if listener.servers.len() > 1 {
            check_names(listener, servers, out);
        }
    }
    listeners
}

/// State that nginx keeps for an address to detect contradicting `listen`s.
#[derive(Default)]
struct Protocols {
    /// The protocols that the next `listen` should have.
    expected: Option<[bool; 3]>,
    has_changed: bool,
}

impl Protocols {
    fn of(options: &ListenOptions) -> [bool; 3] {
        [options.ssl, options.http2, options.proxy_protocol]
    }

    /// Adds a further `listen` to an address with the protocols `before`. Returns whether nginx would say that it
    /// redefines them (`ngx_http_add_addresses`). `is_set`: a `listen` up to this one has socket options.
    fn join(&mut self, before: [bool; 3], listen: &ListenOptions, is_set: bool) -> bool {
        let own = Self::of(listen);
        let adds = own.iter().zip(before).any(|(own, before)| *own && !before);
        let lacks = own.iter().zip(before).any(|(own, before)| !*own && before);
        let is_expected = self.expected.is_none_or(|expected| expected == own);
        let (redefines, next) = if adds {
            ((is_set && !listen.set) || self.has_changed || lacks, before)
        } else if lacks {
            (listen.set || !is_expected, own)
        } else {
            ((listen.set && self.has_changed) || !is_expected, own)
        };
        self.expected = Some(next);
        self.has_changed |= adds || lacks;
        redefines
    }
}

fn join_options(
    listener: &mut Listener,
    protocols: &mut Protocols,
    listen: &Listen,
    span: Span,
    out: &mut Vec<Diagnostic>,
) {
    let before = Protocols::of(&listener.options);
    if listen.options.set {
        if listener.options.set {
            let error = Diagnostic::error(span, format!("duplicate listen options for {}", listen.address));
            out.push(match listener.span {
                Some(first) => error.with_related(first, "first options here"),
                None => error,
            });
            return;
        }
        listener.options = listen.options.clone();
        listener.span = listen.span;
    }
    if protocols.join(before, &listen.options, listener.options.set) {
        let message = format!("protocol options redefined for {}", listen.address);
        out.push(Diagnostic::warning(span, message).with_hint(
            "`ssl`, `http2` and `proxy_protocol` hold for the address: write the same words in each of its `listen`s",
        ));
    }
    let [ssl, http2, proxy_protocol] = before;
    listener.options.ssl = ssl || listen.options.ssl;
    listener.options.http2 = http2 || listen.options.http2;
    listener.options.proxy_protocol = proxy_protocol || listen.options.proxy_protocol;
}

/// Two servers have the same name at one address: requests for that name never reach the second.
fn check_names<S: Listening>(listener: &Listener, servers: &[S], out: &mut Vec<Diagnostic>) {
    let mut known: FxHashSet<(u8, &[u8])> = FxHashSet::default();
    for id in &listener.servers {
        let server = &servers[id.0 as usize];
        for name in server.names() {
            let keys: &[(u8, &[u8])] = match &name.form {
                NameForm::Exact(text) => &[(0, text)],
                NameForm::Suffix(text) => &[(1, text)],
                NameForm::NameAndSuffix(text) => &[(0, text), (1, text)],
                NameForm::Prefix(text) => &[(2, text)],
                NameForm::Hostname => &[(3, b"")],
                NameForm::Regex(_) => &[],
            };
            let mut taken = false;
            for key in keys {
                taken |= !known.insert(*key);
            }
            if taken {
                let text = String::from_utf8_lossy(&name.text);
                let message = format!("conflicting server name \"{text}\" on {}, ignored", listener.address);
                out.push(Diagnostic::warning(name.span.unwrap_or(server.span()), message));
            }
        }
    }
}
