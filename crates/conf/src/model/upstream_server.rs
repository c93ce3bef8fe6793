//! The servers of a group, and the checks of a group as a whole.

use std::time::Duration;

use super::env::Env;
use super::settings::Touched;
use super::upstream::{
    Balance, RandomPick, TimeMeasure, Upstream, UpstreamLevel, UpstreamPeer, UpstreamServer, UpstreamSettings,
};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::size::number;
use crate::value::time::milliseconds;
use crate::value::{Address, Host, Parsed, address, invalid_parameter, parameter};

/// Port of a server where none was written.
const PORT_DEFAULT: u16 = 80;

/// The block that a group is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Http,
    Stream,
}

/// Reads an `upstream` block.
pub(crate) fn lower_upstream(
    directive: &Directive,
    place: Place,
    env: &Env,
    out: &mut Vec<Diagnostic>,
) -> Option<Upstream> {
    let name = directive.args.first()?;
    let mut level = std::sync::Arc::new(UpstreamLevel::default());
    let mut touched = Touched::default();
    let mut servers = Vec::new();
    let block = directive.block.as_ref()?;
    let mut keepalive: Option<Span> = None;
    for inner in &block.directives {
        if inner.name.value == b"server" {
            let parsed = parse_server(inner, place, &level.settings.balance);
            match parsed {
                Ok(server) => servers.push(server),
                Err(error) => out.push(error),
            }
            continue;
        }
        let first_balance = !touched.has("settings", "balance");
        UpstreamLevel::apply(&mut level, &mut touched, inner, env, out);
        if inner.name.value == b"keepalive" {
            keepalive = Some(inner.span);
        } else if let (true, true, Some(span)) = (first_balance, touched.has("settings", "balance"), keepalive) {
            let warning = Diagnostic::warning(inner.name.span, "load balancing method redefined")
                .with_hint("nginx wants the balancing method before `keepalive`; holdfast uses both in either order")
                .with_related(span, "`keepalive` is here");
            out.push(warning);
        }
    }
    let settings = UpstreamSettings::clone(&level.settings);
    let failed = servers.is_empty() && block.directives.iter().any(|inner| inner.name.value == b"server");
    let group = Upstream {
        name: name.text().into_owned(),
        implicit: false,
        servers,
        settings,
        span: directive.name.span.to_end(name.span),
    };
    if let Balance::Random(RandomPick::TwoLeastTime(measure)) | Balance::LeastTime { measure, .. } =
        group.settings.balance
    {
        let (unknown, hint) = match (place, measure) {
            (Place::Http, TimeMeasure::Connect) => ("connect", "`header` or `last_byte`"),
            (Place::Http, TimeMeasure::FirstByte) => ("first_byte", "`header` or `last_byte`"),
            (Place::Stream, TimeMeasure::Header) => ("header", "`connect`, `first_byte` or `last_byte`"),
            _ => ("", ""),
        };
        if !unknown.is_empty() {
            out.push(Diagnostic::error(group.span, format!("invalid parameter \"{unknown}\"")).with_hint(hint));
        }
    }
    if !failed {
        check_group(&group, env, out);
    }
    Some(group)
}

impl Span {
    /// The span up to the end of `other`, or `self` if `other` is in a different file.
    pub(crate) fn to_end(self, other: Self) -> Self {
        if self.file == other.file { self.to(other) } else { self }
    }
}

fn check_group(group: &Upstream, env: &Env, out: &mut Vec<Diagnostic>) {
    if group.servers.is_empty() && group.settings.state.is_some() {
        // The file may be created later.
        return;
    }
    if group.servers.is_empty() {
        out.push(
            Diagnostic::error(group.span, "no servers are inside upstream")
                .with_hint("add a line such as `server 127.0.0.1:8080;`"),
        );
        return;
    }
    if group.servers.iter().all(|server| server.backup) {
        out.push(
            Diagnostic::error(group.span, format!("no servers in upstream \"{}\"", group.name))
                .with_hint("at least one server must not be `backup`"),
        );
    }
    check_queue(group, out);
    for server in group.servers.iter().filter(|server| server.resolve) {
        if group.settings.zone.is_none() {
            let message =
                format!("resolving names at run time requires upstream \"{}\" to be in shared memory", group.name);
            out.push(Diagnostic::error(server.span, message).with_hint("add `zone NAME 64k;` to the group"));
        }
        if group.settings.resolver.is_none() && !env.http_resolver {
            let message = format!("no resolver defined to resolve names at run time in upstream \"{}\"", group.name);
            out.push(
                Diagnostic::error(server.span, message).with_hint("add `resolver ADDRESS;` to the group or to `http`"),
            );
        }
    }
}

/// A group has one queue with one length.
fn check_queue(group: &Upstream, out: &mut Vec<Diagnostic>) {
    let Some(queue) = &group.settings.queue else { return };
    match &group.settings.max_connections {
        Some(cap) if cap.queue > 0 => {
            let message = format!(
                "upstream \"{}\": queue {} contradicts \"queue={}\" of \"max_connections\"",
                group.name, queue.length, cap.queue
            );
            out.push(
                Diagnostic::error(queue.span, message)
                    .with_hint("take one of them out: `queue` holds for connections above `max_connections`, too"),
            );
        }
        None if group.servers.iter().all(|server| server.max_conns == 0) => {
            let message = format!(
                "upstream \"{}\": no server has \"max_conns\", so requests queue only while all servers have failed",
                group.name
            );
            out.push(
                Diagnostic::warning(queue.span, message)
                    .with_hint("`max_conns=N` behind the servers, or `max_connections N`"),
            );
        }
        Some(_) | None => {}
    }
}

fn parse_server(directive: &Directive, place: Place, balance: &Balance) -> Parsed<UpstreamServer> {
    let Some((first, parameters)) = directive.args.split_first() else {
        return Err(Diagnostic::error(directive.name.span, "invalid number of arguments in \"server\" directive"));
    };
    let is_unix = first.value.len() >= 5 && first.value[..5].eq_ignore_ascii_case(b"unix:");
    let has_path = !is_unix && first.value.iter().any(|byte| matches!(byte, b'/' | b'?'));
    let url = if has_path { Err("invalid host") } else { address::parse_url(&first.value) };
    let url = url.and_then(|url| if url.uri.is_empty() { Ok(url) } else { Err("invalid host") }).map_err(|reason| {
        Diagnostic::error(first.span, format!("{reason} in upstream \"{}\"", first.text()))
            .with_hint("an address without scheme and path: `127.0.0.1:8080`, `example.com:80`, `unix:/path`")
    })?;
    let port = match (&url.host, url.port, place) {
        (Host::Unix(_), ..) => 0,
        (_, Some(port), _) => port,
        // SRV records include ports.
        (_, None, Place::Stream) if !parameters.iter().any(|word| word.value.starts_with(b"service=")) => {
            let message = format!("no port in upstream \"{}\"", first.text());
            return Err(Diagnostic::error(first.span, message));
        }
        (_, None, _) => PORT_DEFAULT,
    };
    let mut server = UpstreamServer {
        address: UpstreamPeer { address: Address { host: url.host, port }, text: first.text().into_owned() },
        weight: 1,
        max_conns: 0,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        backup: false,
        down: false,
        resolve: false,
        service: None,
        route: None,
        drain: false,
        slow_start: Duration::ZERO,
        span: directive.span,
    };
    for word in parameters {
        parse_parameter(&mut server, word, place, balance)?;
    }
    if server.service.is_some() {
        if !server.resolve {
            let message = format!("service upstream \"{}\" requires \"resolve\" parameter", first.text());
            return Err(Diagnostic::error(first.span, message));
        }
        if url.port.is_some() {
            return Err(Diagnostic::error(
                first.span,
                format!("service upstream \"{}\" may not have port", first.text()),
            ));
        }
    }
    if server.resolve && !matches!(server.address.address.host, Host::Name(_)) {
        // An address has nothing to resolve; nginx accepts the word and ignores it.
        server.resolve = false;
    }
    Ok(server)
}

fn parse_parameter(server: &mut UpstreamServer, word: &Word, place: Place, balance: &Balance) -> Parsed<()> {
    let count = |value: &Word| number(&value.value).and_then(|count| u32::try_from(count).ok());
    let time = |value: &Word| milliseconds(&value.value, true).map(Duration::from_millis);
    let invalid = || invalid_parameter(word);
    if let Some(value) = parameter(word, "weight") {
        server.weight = count(&value).filter(|&weight| weight > 0).ok_or_else(invalid)?;
    } else if let Some(value) = parameter(word, "max_conns") {
        server.max_conns = count(&value).ok_or_else(invalid)?;
    } else if let Some(value) = parameter(word, "max_fails") {
        server.max_fails = count(&value).ok_or_else(invalid)?;
    } else if let Some(value) = parameter(word, "fail_timeout") {
        server.fail_timeout = time(&value).ok_or_else(invalid)?;
    } else if let Some(value) = parameter(word, "slow_start") {
        if matches!(balance, Balance::IpHash | Balance::Hash { .. } | Balance::Random(_)) {
            return Err(not_with_method(word));
        }
        server.slow_start = time(&value).ok_or_else(invalid)?;
    } else if let Some(value) = parameter(word, "service") {
        if value.value.is_empty() {
            return Err(Diagnostic::error(word.span, "service is empty"));
        }
        server.service = Some(value.text().into_owned());
    } else if let Some(value) = parameter(word, "route").filter(|_| place == Place::Http) {
        server.route = Some(value.text().into_owned());
    } else {
        match word.value.as_slice() {
            b"backup" if matches!(balance, Balance::IpHash | Balance::Hash { .. } | Balance::Random(_)) => {
                return Err(not_with_method(word));
            }
            b"backup" => server.backup = true,
            b"down" => server.down = true,
            b"resolve" => server.resolve = true,
            b"drain" if place == Place::Http => server.drain = true,
            _ if place == Place::Stream => {
                return Err(invalid().with_hint(
                    "`weight=`, `max_conns=`, `max_fails=`, `fail_timeout=`, `backup`, `down`, `resolve`, `service=`, `slow_start=`",
                ));
            }
            _ => {
                return Err(invalid().with_hint(
                    "`weight=`, `max_conns=`, `max_fails=`, `fail_timeout=`, `backup`, `down`, `resolve`, `service=`, `route=`, `drain`, `slow_start=`",
                ));
            }
        }
    }
    Ok(())
}

fn not_with_method(word: &Word) -> Diagnostic {
    Diagnostic::error(word.span, format!("balancing method does not support parameter \"{}\"", word.text()))
}
