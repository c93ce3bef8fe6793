//! The values of variables during an exchange: a borrowed view, built to render a template.

use crate::base::logs::error::{Level, errno, quoted};
use crate::base::values::{
    bytes, close_side, number, optional, remote_addr, remote_port, seconds, seconds_of_us, time, time_of_us,
    write_binary_ip,
};
use crate::downstream::reply_head::{Fields, HeadView};
use crate::exchange::Exchange;
use crate::exchange::attempts::AttemptRecord;
use crate::exchange::tls_view;
use crate::plan::filters::Coding;
use crate::plan::location::Content;
use crate::registry::limit_zones::{LimitStatus, Limited};
use conf::value::Host;
use http1::{Field, FieldId, Trailers, Version};
use rules::basic_auth::Credentials;
use rules::template::View;
use rules::time_format::Zone;
use rules::variable::{FieldName, Variable, arg, cookie, set_cookie};
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// An exchange as templates see it.
pub(crate) struct ExchangeView<'a> {
    pub(crate) exchange: &'a Exchange,
    /// The head of the response while it is made; later the sent head counts.
    head: Option<HeadView<'a>>,
    /// The trailers while they are made.
    trailers: Option<&'a Fields>,
}

impl<'a> ExchangeView<'a> {
    pub(crate) fn of(exchange: &'a Exchange) -> Self {
        Self { exchange, head: None, trailers: None }
    }

    /// A view while a head is made: `$sent_http_…` sees its fields so far.
    pub(crate) fn before(exchange: &'a Exchange, head: HeadView<'a>) -> Self {
        Self { exchange, head: Some(head), trailers: None }
    }

    /// A view while trailers are made: `$sent_trailer_…` sees those so far.
    pub(crate) fn before_trailers(exchange: &'a Exchange, trailers: &'a Fields) -> Self {
        Self { exchange, head: None, trailers: Some(trailers) }
    }
}

/// `$status`: while an error page is made, the status with which it will be sent.
fn status(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    match exchange.response.present_status() {
        0 => bytes(b"000", out),
        known => number(u64::from(known), out),
    }
}

/// `$gzip_ratio`, `$brotli_ratio`, `$zstd_ratio`
fn packed_ratio(exchange: &Exchange, coding: Coding, out: &mut Vec<u8>) -> bool {
    exchange.response.filters.ratio(coding).is_some_and(|ratio| bytes(ratio.as_bytes(), out))
}

impl View for ExchangeView<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let exchange = self.exchange;
        match variable {
            Variable::RemoteAddr => remote_addr(exchange.client(), out),
            Variable::RemotePort => remote_port(exchange.client(), out),
            Variable::RealipRemoteAddr => remote_addr(exchange.down.peer(), out),
            Variable::RealipRemotePort => remote_port(exchange.down.peer(), out),
            Variable::BinaryRemoteAddr => write_binary_ip(exchange.client(), out),
            Variable::ProxyAddXForwardedFor => self.add_forwarded_for(out),
            Variable::Host => self.host(out),
            Variable::Hostname => bytes(&exchange.generation.hostname, out),
            Variable::ProxyHost => optional(self.proxy_host(), out),
            Variable::ProxyPort => self.proxy_port().is_some_and(|port| number(u64::from(port), out)),
            Variable::Scheme => bytes(exchange.down.scheme().name(), out),
            Variable::Https => bytes(exchange.down.scheme().on(), out),
            Variable::RequestUri => optional(Some(exchange.request_uri()).filter(|uri| !uri.is_empty()), out),
            Variable::Uri => optional(Some(exchange.uri()).filter(|uri| !uri.is_empty()), out),
            Variable::Args => optional(exchange.args(), out),
            Variable::IsArgs => exchange.args().is_none_or(<[u8]>::is_empty) || bytes(b"?", out),
            Variable::Arg(name) => optional(exchange.args().and_then(|args| arg(args, name)), out),
            Variable::Request => bytes(self.head_span(exchange.request.head.line), out),
            Variable::RequestMethod => {
                optional(Some(exchange.name_of(exchange.asked_method())).filter(|name| !name.is_empty()), out)
            }
            // A request line that could not be parsed has no protocol.
            Variable::ServerProtocol if exchange.method_name().is_empty() => false,
            Variable::ServerProtocol if !exchange.down.http2().is_empty() => bytes(b"HTTP/2.0", out),
            Variable::Http2 => bytes(exchange.down.http2(), out),
            Variable::ServerProtocol => bytes(
                match exchange.request.head.version {
                    Version::Http10 => b"HTTP/1.0",
                    Version::Http11 => b"HTTP/1.1",
                },
                out,
            ),
            Variable::RequestLength => {
                let body = &exchange.intake.body;
                let head = exchange.down.head_bytes(exchange.request.bytes.len());
                number(head + body.received + body.framing_bytes, out)
            }
            // As in nginx, a chunked body has a length once it has been read.
            Variable::ContentLength if exchange.intake.body.is_whole_from_chunks() => {
                number(exchange.intake.body.received, out)
            }
            Variable::ContentLength => self.known_request_field(FieldId::ContentLength, out),
            Variable::ContentType => self.joined(FieldId::ContentType, b", ", out),
            Variable::Http(name) => self.request_field(name, out),
            Variable::Cookie(name) => self.cookie(name, out),
            Variable::DateLocal => exchange.write_date(Zone::Local, out),
            Variable::DateGmt => exchange.write_date(Zone::Gmt, out),
            Variable::Tls(variable) => tls_view::of(exchange, *variable, out),
            Variable::Jwt(variable) => exchange.write_token(variable, out),
            Variable::Otel(variable) => exchange.write_otel(*variable, out),
            Variable::RequestTrace => exchange.write_request_trace(out),
            _ => self.present(variable, out) || self.upstream(variable, out),
        }
    }
}

impl ExchangeView<'_> {
    /// Values of the exchange so far, the connection, and the environment.
    fn present(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let exchange = self.exchange;
        match variable {
            Variable::Status => status(exchange, out),
            Variable::BytesSent => number(exchange.down.bytes_sent(), out),
            Variable::BodyBytesSent => number(exchange.down.body_bytes_sent(), out),
            Variable::Connection => number(exchange.down.serial(), out),
            Variable::ConnectionRequests => number(u64::from(exchange.down.requests()), out),
            Variable::ConnectionTime => seconds(exchange.thread.reactor.now().since(exchange.down.accepted_at()), out),
            Variable::RequestTime => seconds_of_us(exchange.thread.reactor.now_us().since(exchange.began_at), out),
            Variable::RequestCompletion => !exchange.is_completed() || bytes(b"OK", out),
            Variable::Msec => seconds(exchange.thread.clock.now().as_millis() as u64, out),
            Variable::TimeLocal => bytes(&exchange.thread.clock.moment().local(), out),
            Variable::TimeIso8601 => bytes(&exchange.thread.clock.moment().iso8601(), out),
            Variable::Pid => number(u64::from(std::process::id()), out),
            Variable::Pipe => bytes(if exchange.down.is_pipelined() { b"p" } else { b"." }, out),
            Variable::NginxVersion => bytes(crate::NGINX_VERSION.as_bytes(), out),
            Variable::ServerName => bytes(&exchange.generation.server(exchange.routing.target.server).name, out),
            Variable::ServerPort => exchange.server_port().is_some_and(|port| number(u64::from(port), out)),
            Variable::ServerAddr => self.server_addr(out),
            Variable::DocumentRoot => {
                exchange.location().root.write_root(self, out);
                true
            }
            Variable::RequestFilename => {
                exchange.location().root.write_path(self, exchange.uri(), exchange.routing.target.uri_below_alias, out);
                true
            }
            Variable::Capture(group) => optional(exchange.routing.captures.borrow().group(usize::from(*group)), out),
            Variable::ConnectionsActive => number(exchange.thread.registry.totals_of_all().active, out),
            Variable::ConnectionsReading => number(exchange.thread.registry.totals_of_all().reading, out),
            Variable::ConnectionsWriting => number(exchange.thread.registry.totals_of_all().writing, out),
            Variable::ConnectionsWaiting => number(exchange.thread.registry.totals_of_all().waiting, out),
            Variable::FastcgiScriptName | Variable::FastcgiPathInfo => exchange.write_script(variable, out),
            Variable::ProxyProtocolAddr
            | Variable::ProxyProtocolPort
            | Variable::ProxyProtocolServerAddr
            | Variable::ProxyProtocolServerPort
            | Variable::ProxyProtocolTlv(_) => exchange.proxy_protocol(variable, out),
            Variable::GzipRatio => packed_ratio(exchange, Coding::Gzip, out),
            Variable::BrotliRatio => packed_ratio(exchange, Coding::Brotli, out),
            Variable::ZstdRatio => packed_ratio(exchange, Coding::Zstd, out),
            Variable::LimitRate => number(exchange.response.limit_rate().unwrap_or(0), out),
            Variable::LimitReqStatus => limit_status(exchange, |limited| limited.requests, out),
            Variable::LimitConnStatus => limit_status(exchange, |limited| limited.connections, out),
            Variable::CloseSide => ended_by(exchange, out),
            Variable::SentHttp(name) => self.sent_field(name, out),
            Variable::SentTrailer(name) => self.sent_trailer(name, out),
            Variable::UpstreamHttp(name) => self.response_field(name, out),
            Variable::UpstreamCookie(name) => self.response_cookie(name, out),
            Variable::UpstreamTrailer(name) => {
                exchange.answer().is_some_and(|answer| join(pairs(&answer.trailers), name, out))
            }
            Variable::SecureLink | Variable::SecureLinkExpires | Variable::InvalidReferer => {
                exchange.write_link(variable, self, out)
            }
            Variable::UidGot | Variable::UidSet => exchange.write_user_id(variable, out),
            Variable::RemoteUser => self.remote_user(out),
            Variable::RealpathRoot => self.realpath_root(out),
            Variable::RequestBody => optional(exchange.intake.replay.bytes(), out),
            Variable::RequestBodyFile => exchange.intake.replay.path().is_some_and(|path| bytes(&path, out)),
            Variable::RequestPort => self.request_port().is_none_or(|port| number(u64::from(port), out)),
            Variable::IsRequestPort => self.request_port().is_none() || bytes(b":", out),
            Variable::Trailer(name) => join(pairs(&exchange.intake.body.trailers), name, out),
            Variable::RequestId => write!(out, "{:032x}", exchange.request_id()).is_ok(),
            Variable::Idle(idle) => optional(idle.value(), out),
            Variable::User(slot) => exchange.generation.definitions.write(*slot, self, out),
            _ => self.tcp_variable(variable, out).unwrap_or_else(|| exchange.write_cached(variable, out)),
        }
    }

    /// `$tcpinfo_…`; `None` for another variable.
    fn tcp_variable(&self, variable: &Variable, out: &mut Vec<u8>) -> Option<bool> {
        let at = match variable {
            Variable::TcpinfoRtt => 0,
            Variable::TcpinfoRttvar => 1,
            Variable::TcpinfoSndCwnd => 2,
            Variable::TcpinfoRcvSpace => 3,
            _ => return None,
        };
        Some(self.tcp_info(at, out))
    }

    fn head_span(&self, span: http1::Span) -> &[u8] {
        span.of(&self.exchange.request.bytes)
    }

    /// The client's X-Forwarded-For fields, joined, followed by its address.
    fn add_forwarded_for(&self, out: &mut Vec<u8>) -> bool {
        let request = &self.exchange.request;
        if request.head.seen.contains(FieldId::XForwardedFor) {
            for field in request.head.fields.iter().filter(|field| field.id == FieldId::XForwardedFor) {
                out.extend_from_slice(field.value.of(&request.bytes));
                out.extend_from_slice(b", ");
            }
        }
        remote_addr(self.exchange.client(), out)
    }

    /// The user of `Authorization: Basic`.
    fn remote_user(&self, out: &mut Vec<u8>) -> bool {
        let request = &self.exchange.request;
        let value = request.head.value(FieldId::Authorization, &request.bytes);
        let credentials = value.and_then(Credentials::parse);
        optional(credentials.as_ref().map(Credentials::user), out)
    }

    /// The root without symbolic links. As in nginx it is resolved for every request, so that moving a link to another
    /// release takes effect at once. The path was nearly always resolved a moment ago, so the kernel has it in memory.
    fn realpath_root(&self, out: &mut Vec<u8>) -> bool {
        let mut root = Vec::new();
        self.exchange.location().root.write_root(self, &mut root);
        match std::fs::canonicalize(OsStr::from_bytes(if root.is_empty() { b"/" } else { &root })) {
            Ok(path) => bytes(path.as_os_str().as_bytes(), out),
            Err(error) => {
                let root = quoted(&root);
                self.exchange.log_at(Level::Crit, &format!("realpath() \"{root}\" failed ({})", errno(&error)));
                false
            }
        }
    }

    /// The port that the request names.
    fn request_port(&self) -> Option<u16> {
        self.exchange.request.head.host?.port
    }

    /// The host of the request in lower case, or the server's name.
    fn host(&self, out: &mut Vec<u8>) -> bool {
        let Some(host) = self.exchange.request.head.host else {
            return bytes(&self.exchange.generation.server(self.exchange.routing.target.server).name, out);
        };
        let name = self.head_span(host.name);
        let start = out.len();
        out.extend_from_slice(name.strip_suffix(b".").unwrap_or(name));
        out[start..].make_ascii_lowercase();
        true
    }

    fn proxy_host(&self) -> Option<&[u8]> {
        match &self.exchange.location().content {
            Content::Proxy(proxy) => Some(&self.exchange.generation.proxy(*proxy).host),
            Content::VariablePass(_) => self.exchange.upstream.url().map(|target| &target.host_text[..]),
            _ => None,
        }
    }

    fn proxy_port(&self) -> Option<u16> {
        match &self.exchange.location().content {
            Content::Proxy(proxy) => self.exchange.generation.proxy(*proxy).port,
            Content::VariablePass(_) => {
                let target = self.exchange.upstream.url().filter(|target| !matches!(target.host, Host::Unix(_)))?;
                target.port()
            }
            _ => None,
        }
    }

    fn known_request_field(&self, id: FieldId, out: &mut Vec<u8>) -> bool {
        let request = &self.exchange.request;
        optional(request.head.value(id, &request.bytes), out)
    }

    /// All fields with one name, joined as one value.
    fn joined(&self, id: FieldId, separator: &[u8], out: &mut Vec<u8>) -> bool {
        let request = &self.exchange.request;
        if !request.head.seen.contains(id) {
            return false;
        }
        let start = out.len();
        for field in request.head.fields.iter().filter(|field| field.id == id) {
            out.extend_from_slice(if out.len() > start { separator } else { b"" });
            out.extend_from_slice(field.value.of(&request.bytes));
        }
        true
    }

    fn request_field(&self, name: &FieldName, out: &mut Vec<u8>) -> bool {
        let request = &self.exchange.request;
        if request.head.host_is_from_target
            && name.matches(b"host")
            && let Some(host) = request.head.host
        {
            // R23: the host of an absolute target replaces the field (RFC 9112 §3.2.2). Otherwise
            // `proxy_set_header Host $http_host` would send a request on under another name than it was routed by.
            return bytes(host.raw.of(&request.bytes), out);
        }
        if name.dashed() == b"cookie" {
            // A browser may send its cookies in several fields, and readers of this value expect one list (RFC 6265
            // §5.4).
            return self.joined(FieldId::Cookie, b"; ", out);
        }
        join_fields(&request.head.fields, &request.bytes, name, out)
    }

    fn response_field(&self, name: &FieldName, out: &mut Vec<u8>) -> bool {
        self.exchange.answer().is_some_and(|answer| join_fields(&answer.head.fields, &answer.bytes, name, out))
    }

    fn cookie(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let request = &self.exchange.request;
        let mut fields = request.head.fields.iter().filter(|field| field.id == FieldId::Cookie);
        optional(fields.find_map(|field| cookie(field.value.of(&request.bytes), name)), out)
    }

    /// All fields with a name in the response's head, including those that the client's protocol adds.
    fn sent_field(&self, name: &FieldName, out: &mut Vec<u8>) -> bool {
        let down = &self.exchange.down;
        let Some(HeadView { head, answer }) = self.head else {
            return down.sent_head().is_some_and(|fields| join(fields.iter(b""), name, out));
        };
        let mut found = join(head.fields.iter(answer), name, out);
        for mark in head.fields.marks() {
            down.fields_at(mark, head, |id, value| found |= join([(id.name().as_bytes(), value)], name, out));
        }
        found
    }

    /// The same for its trailers.
    fn sent_trailer(&self, name: &FieldName, out: &mut Vec<u8>) -> bool {
        let trailers = self.trailers.or_else(|| self.exchange.down.sent_trailers());
        trailers.is_some_and(|trailers| join(trailers.iter(b""), name, out))
    }

    fn response_cookie(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(answer) = self.exchange.answer() else { return false };
        let mut fields = answer.head.fields.iter().filter(|field| field.id == FieldId::SetCookie);
        optional(fields.find_map(|field| set_cookie(field.value.of(&answer.bytes), name)), out)
    }

    /// Values of all attempts, separated by commas, or by a colon if an internal redirect led to another proxy.
    fn upstream(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let attempts = self.exchange.upstream.attempts().all();
        if attempts.is_empty() {
            return false;
        }
        let start = out.len();
        let mut before: Option<&AttemptRecord> = None;
        for attempt in attempts {
            if let Some(before) = before.replace(attempt) {
                out.extend_from_slice(separator(before, attempt));
            }
            if !self.attempt_value(attempt, variable, out) {
                out.truncate(start);
                return false;
            }
        }
        true
    }

    fn attempt_value(&self, attempt: &AttemptRecord, variable: &Variable, out: &mut Vec<u8>) -> bool {
        match variable {
            Variable::UpstreamAddr => optional(attempt.peer_name(&self.exchange.generation), out),
            Variable::UpstreamStatus if attempt.status == 0 => bytes(b"-", out),
            Variable::UpstreamStatus => number(u64::from(attempt.status), out),
            Variable::UpstreamConnectTime if attempt.reused => seconds(0, out),
            Variable::UpstreamConnectTime => time_of_us(attempt.connect_us, out),
            Variable::UpstreamHeaderTime => time_of_us(attempt.header_us, out),
            Variable::UpstreamResponseTime => time_of_us(attempt.response_us, out),
            Variable::UpstreamResponseLength => number(attempt.response_length, out),
            Variable::UpstreamBytesReceived => number(attempt.bytes_received, out),
            Variable::UpstreamBytesSent => number(attempt.bytes_sent, out),
            Variable::PoolWaitTime => seconds(attempt.pool_wait_ms, out),
            Variable::UpstreamQueueTime => time(attempt.queue_ms, out),
            Variable::UpstreamLocalAddr => match &attempt.local_address {
                // Writing to a vector cannot fail.
                Some(address) => write!(out, "{address}").is_ok(),
                None => bytes(b"-", out),
            },
            Variable::UpstreamReused => bytes(if attempt.reused { b"1" } else { b"0" }, out),
            Variable::UpstreamCloseReason => {
                bytes(attempt.close_reason.map_or(&b"-"[..], |reason| reason.phrase().as_bytes()), out)
            }
            _ => false,
        }
    }
}

/// `$close_side`
fn ended_by(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    exchange.down.ending.reason().is_some_and(|reason| bytes(close_side(reason.side()), out))
}

/// The result of a limit; no value if the limit was not checked.
fn limit_status(exchange: &Exchange, of: impl Fn(&Limited) -> Option<LimitStatus>, out: &mut Vec<u8>) -> bool {
    exchange.admission.limited.as_deref().and_then(of).is_some_and(|status| bytes(status.word(), out))
}

/// The separator of the values of two attempts: a colon if an internal redirect led to another proxy.
pub(crate) fn separator(before: &AttemptRecord, after: &AttemptRecord) -> &'static [u8] {
    if before.proxy == after.proxy { b", " } else { b" : " }
}

/// The values of all fields with a name, joined by commas.
fn join<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, name: &FieldName, out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for (_, value) in fields.into_iter().filter(|(known, _)| name.matches(known)) {
        out.extend_from_slice(if found { b", " } else { b"" });
        out.extend_from_slice(value.trim_ascii());
        found = true;
    }
    found
}

/// Name and value of trailers.
fn pairs(trailers: &Trailers) -> impl Iterator<Item = (&[u8], &[u8])> {
    trailers.iter().map(|(_, name, value)| (name, value))
}

/// The same for a parsed head.
fn join_fields(fields: &[Field], head: &[u8], name: &FieldName, out: &mut Vec<u8>) -> bool {
    join(fields.iter().map(|field| (field.name.of(head), field.value.of(head))), name, out)
}
