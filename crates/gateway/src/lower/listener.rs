//! Listening addresses: their options and tables of server names.

use crate::lower::Lowering;
use crate::plan::listener::{ListenerPlan, Serves, covers, is_same_port};
use conf::diagnostic::Diagnostic;
use conf::model::{HeadSettings, Listener, NameForm, SoKeepalive};
use conf::source::{FileId, Span};
use conf::value::{Address, Host};
use http1::{BareLf, Limits};
use reactor::{ListenOptions, PeerAddress};
use rules::server_name::{NamedServer, ServerName, ServerNames};
use std::net::SocketAddr;
use std::sync::Arc;

/// nginx's accept queue on Linux.
const BACKLOG_DEFAULT: u32 = 511;

impl Lowering<'_> {
    pub(super) fn listeners(&mut self) -> Vec<Arc<ListenerPlan>> {
        let mut plans = Vec::new();
        for listener in &self.http.listeners {
            for address in self.addresses(&listener.address, listener.span) {
                plans.extend(self.listener_plan(listener, address));
            }
        }
        join_sockets(plans)
    }

    fn listener_plan(&mut self, listener: &Listener, address: PeerAddress) -> Option<ListenerPlan> {
        let servers = &self.http.servers;
        let names =
            self.names_of(listener, |id| servers.get(id as usize).map(|server| (&server.names[..], server.span)));
        let head = &self.server_of(listener.default_server)?.settings.head;
        let own = head_limits(head);
        let all = || {
            listener
                .servers
                .iter()
                .filter_map(|id| self.server_of(*id))
                .map(|server| head_limits(&server.settings.head))
        };
        let limits = all().fold(own, |widest, limits| widest.widened(&limits));
        let is_behind =
            matches!(address, PeerAddress::Ip(ip) if is_behind_a_wildcard(&self.http.listeners, listener, ip));
        Some(ListenerPlan {
            address,
            span: listener.span,
            socket: (!is_behind).then(|| listen_options(listener)),
            names,
            limits,
            limits_differ: all().any(|limits| limits != own),
            header_timeout: head.client_header_timeout,
            tls: listener.options.ssl,
            http2: listener.options.http2,
            proxy_protocol: listener.options.proxy_protocol,
            datagrams: false,
            behind: Vec::new(),
            serves: Serves::Http,
        })
    }

    /// The names of the servers on an address; `named` returns a server's names and its place in the files.
    pub(super) fn names_of<'a>(
        &mut self,
        listener: &Listener,
        named: impl Fn(u32) -> Option<(&'a [conf::model::ServerName], Span)>,
    ) -> ServerNames {
        let mut names = Vec::new();
        for id in &listener.servers {
            let Some((of_server, place)) = named(id.0) else { continue };
            for name in of_server {
                let span = name.span.unwrap_or(place);
                match self.server_name(&name.form) {
                    Ok(form) => names.push(NamedServer { server: id.0, name: form, span }),
                    Err(message) => self.found.push(Diagnostic::error(span, message)),
                }
            }
        }
        // A conflicting name was reported when the model was lowered, with both places.
        ServerNames::build(&listener.address.to_string(), listener.default_server.0, names).0
    }

    pub(super) fn server_name(&mut self, form: &NameForm) -> Result<ServerName, String> {
        Ok(match form {
            NameForm::Exact(name) => ServerName::Exact(name.clone()),
            NameForm::Suffix(name) => ServerName::Below(name.clone()),
            NameForm::NameAndSuffix(name) => ServerName::Domain(name.clone()),
            NameForm::Prefix(name) => ServerName::Before(name.clone()),
            NameForm::Hostname => ServerName::Exact(self.options.hostname.to_ascii_lowercase().into_bytes()),
            NameForm::Regex(regex) => {
                let source = &regex.pattern;
                ServerName::Regex(rules::pattern::Pattern::compile(source, regex.caseless, &mut self.users)?)
            }
        })
    }

    /// The addresses of a host: itself, or those that its name resolves to.
    pub(super) fn addresses(&mut self, address: &Address, span: Option<Span>) -> Vec<PeerAddress> {
        match &address.host {
            Host::Ip(ip) => vec![PeerAddress::Ip(SocketAddr::new(*ip, address.port))],
            Host::Unix(path) => vec![PeerAddress::Unix(path.into())],
            Host::Name(name) => match (self.options.resolve)(name, address.port) {
                Ok(addresses) if !addresses.is_empty() => addresses.into_iter().map(PeerAddress::Ip).collect(),
                outcome => {
                    let reason =
                        outcome.err().map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
                    let nowhere = Span { file: FileId(0), start: 0, end: 0 };
                    self.found.push(
                        Diagnostic::error(span.unwrap_or(nowhere), format!("host not found \"{address}\""))
                            .with_hint(format!("looking up \"{name}\" failed: {reason}")),
                    );
                    Vec::new()
                }
            },
        }
    }
}

/// Assigns the addresses without a socket to the sockets that accept their connections.
pub(super) fn join_sockets(mut plans: Vec<ListenerPlan>) -> Vec<Arc<ListenerPlan>> {
    let without_socket = plans.iter().filter(|plan| plan.socket.is_none());
    let without_socket: Vec<(PeerAddress, bool)> =
        without_socket.map(|plan| (plan.address.clone(), plan.datagrams)).collect();
    for plan in plans.iter_mut().filter(|plan| plan.socket.is_some()) {
        let of_protocol = without_socket.iter().filter(|(_, datagrams)| *datagrams == plan.datagrams);
        let covered = of_protocol.filter(|(other, _)| covers(&plan.address, other));
        plan.behind = covered.map(|(other, _)| other.clone()).collect();
    }
    plans.into_iter().map(Arc::new).collect()
}

/// Whether an address needs no socket of its own: it has no socket options, and a wildcard socket has the same port;
/// Linux lets no other socket bind beside that. As in nginx (`ngx_http_init_listening`), the local address of a
/// connection then selects the address.
pub(super) fn is_behind_a_wildcard(all: &[Listener], listener: &Listener, address: SocketAddr) -> bool {
    let is_wildcard = |other: &Listener| {
        matches!(other.address.host, Host::Ip(ip) if ip.is_unspecified()
            && is_same_port(SocketAddr::new(ip, other.address.port), address))
    };
    let mut of_protocol = all.iter().filter(|other| other.options.udp == listener.options.udp);
    !address.ip().is_unspecified() && !listener.options.set && of_protocol.any(is_wildcard)
}

/// The limits of a server for a request's head.
pub(super) fn head_limits(head: &HeadSettings) -> Limits {
    let buffers = head.large_client_header_buffers;
    Limits {
        underscores_in_headers: head.underscores_in_headers,
        ignore_invalid_headers: head.ignore_invalid_headers,
        bare_lf: if head.bare_line_feeds { BareLf::Accept } else { BareLf::Reject },
        ..Limits::from_buffers(
            head.client_header_buffer_size as usize,
            buffers.count as usize,
            buffers.size as usize,
            head.max_headers as usize,
        )
    }
}

pub(super) fn listen_options(listener: &Listener) -> ListenOptions {
    let options = &listener.options;
    ListenOptions {
        backlog: options.backlog.unwrap_or(BACKLOG_DEFAULT),
        reuseport: options.reuseport,
        ipv6_only: options.ipv6only.unwrap_or(true),
        receive_buffer_bytes: options.rcvbuf.map(|bytes| bytes as usize),
        send_buffer_bytes: options.sndbuf.map(|bytes| bytes as usize),
        fastopen: options.fastopen,
        deferred: options.deferred,
        datagrams: options.udp,
        so_keepalive: match options.so_keepalive {
            SoKeepalive::System => None,
            SoKeepalive::Off => Some(reactor::SoKeepalive::default()),
            SoKeepalive::On { idle, interval, count } => {
                Some(reactor::SoKeepalive { on: true, idle, interval, probes: count })
            }
        },
    }
}
