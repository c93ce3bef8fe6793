//! Request heads: from bytes to everything that the gateway's decisions depend on. `chunked` reads the body, `rules`
//! normalizes URIs. The gateway's connection task and the built-in origin call it.

use crate::connection::{self, BadConnection, ConnectionOptions};
use crate::error::RequestError;
use crate::field::{self, Field, FieldId, FieldSet};
use crate::framing::{FramingFields, Version};
use crate::hop;
use crate::limits::{BareLf, Limits};
use crate::method::Method;
use crate::scan::{self, Fault, Line, Window};
use crate::span::Span;
use crate::target::{self, Host, Target, TargetForm};

/// Bytes of empty lines before a request line: some old clients send one after a body (RFC 9112 §2.2). Bounded, so that
/// a client cannot send empty lines for ever.
const EMPTY_LINES_BYTES_MAX: usize = 16;

/// The result of parsing a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parse {
    /// Correct so far, but incomplete; see [`crate::find_head_end`]. The head's content must not be used.
    Partial,
    /// Complete: the head has `len` bytes including its last line end; the rest is body or the next request.
    Complete {
        /// Bytes of the head.
        len: usize,
    },
}

/// How the body of a request is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum BodyFraming {
    /// No body.
    #[default]
    None,
    /// This many bytes, possibly 0.
    Length(u64),
    /// Chunked; see [`crate::chunked::Decoder`].
    Chunked,
}

/// The protocol that a client wants to upgrade to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpgradeKind {
    /// `websocket`
    WebSocket,
    /// A list with `h2c`, which is never forwarded (RFC 9113 §3.1): treat the request as an ordinary one.
    H2c,
    /// Another protocol.
    Other,
}

/// A valid upgrade request: HTTP/1.1, an Upgrade field and the upgrade option in Connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upgrade {
    /// The protocol, considering all Upgrade fields.
    pub kind: UpgradeKind,
    /// Value of the first Upgrade field.
    pub value: Span,
}

/// A request head. Made once per worker or exchange and filled again and again: `fields` keeps its allocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestHead {
    /// The request line without line end, also after an error (for the access log).
    pub line: Span,
    /// The method.
    pub method: Method,
    /// Its bytes.
    pub method_name: Span,
    /// The target.
    pub target: Target,
    /// The version.
    pub version: Version,
    /// Fields in the order received, without those that `ignore_invalid_headers` dropped.
    pub fields: Vec<Field>,
    /// Which well-known fields there are.
    pub seen: FieldSet,
    /// Number of dropped fields.
    pub fields_dropped: u32,
    /// The effective host: that of an absolute target, else the Host field's. `None` only in HTTP/1.0.
    pub host: Option<Host>,
    /// Whether the target named another host than the Host field: forward `host`, not the field (RFC 9112 §3.2.2).
    pub host_is_from_target: bool,
    /// How the body is delimited.
    pub framing: BodyFraming,
    /// Whether the client allows another request on this connection.
    pub keepalive: bool,
    /// The Connection fields.
    pub connection: ConnectionOptions,
    /// `Expect: 100-continue` and a body to wait for.
    pub expect_continue: bool,
    /// A valid upgrade request, if any.
    pub upgrade: Option<Upgrade>,
}

impl RequestHead {
    /// The first field with this id.
    pub fn find(&self, id: FieldId) -> Option<&Field> {
        field::find(&self.fields, self.seen, id)
    }

    /// Value of the first field with this id; `head` holds the bytes that were parsed, or a copy of them.
    pub fn value<'a>(&self, id: FieldId, head: &'a [u8]) -> Option<&'a [u8]> {
        self.find(id).map(|field| field.value.of(head))
    }

    /// Checks a head that was read under the widest limits of an address against those of its own server: fields with
    /// names that this server does not accept are dropped, and exceeding a limit is an error. `bytes` is the whole
    /// head.
    pub fn narrow(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), RequestError> {
        if bytes.len() > limits.head_bytes_max {
            return Err(RequestError::HeadTooLarge);
        }
        if self.fields.len() + self.fields_dropped as usize > limits.fields_max {
            return Err(RequestError::TooManyFields);
        }
        if self.line.len as usize + 2 > limits.line_bytes_max {
            return Err(RequestError::RequestLineTooLong);
        }
        // The name, the value, and the line end.
        let line_bytes = |field: &Field| field.value.end() - field.name.start as usize + 2;
        if self.fields.iter().any(|field| line_bytes(field) > limits.line_bytes_max) {
            return Err(RequestError::FieldLineTooLong);
        }
        if !limits.ignore_invalid_headers {
            return Ok(());
        }
        let known = self.fields.len();
        self.fields.retain(|field| !is_dropped(scan::name_class(field.name.of(bytes)), limits));
        self.fields_dropped += (known - self.fields.len()) as u32;
        Ok(())
    }

    /// Clears the head but keeps the allocation.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }
}

impl From<Fault> for RequestError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Line(fault) => Self::InvalidField(fault),
            Fault::LineTooLong => Self::FieldLineTooLong,
            Fault::HeadTooLarge => Self::HeadTooLarge,
        }
    }
}

impl From<BadConnection> for RequestError {
    fn from(_: BadConnection) -> Self {
        Self::InvalidConnection
    }
}

/// Reads a request head from the start of `bytes`, which may hold more or less than one. Replaces the content of
/// `head`.
///
/// After an error only these are meaningful: `head.line`, and what was known so far of `head.target` (empty if the
/// request line itself is invalid) and of `head.host`.
pub fn parse(bytes: &[u8], limits: &Limits, head: &mut RequestHead) -> Result<Parse, RequestError> {
    head.clear();
    let result = parse_head(bytes, limits, head);
    if result.is_err() {
        keep_known(bytes, limits, head);
    }
    result
}

/// Keeps the known parts of a refused head.
#[cold]
fn keep_known(bytes: &[u8], limits: &Limits, head: &mut RequestHead) {
    if head.line.is_empty() {
        head.line = first_line(bytes, limits);
        head.target = Target::default();
        return;
    }
    // The authority of an absolute target is otherwise checked only at the end of a head.
    let mut scanned = Target { raw: head.target.raw, ..Target::default() };
    if head.target.form == TargetForm::Absolute
        && let Ok(Some(authority)) = target::finish(bytes, &mut scanned, head.method)
    {
        head.host = Some(authority);
    }
}

/// The parts of a request from another protocol, as positions in one buffer.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The request line for the access log.
    pub line: Span,
    /// The method.
    pub method: Span,
    /// The target; the byte after it cannot be part of one.
    pub target: Span,
    /// The fields, each with its id. Their bytes were checked.
    pub fields: &'a [Field],
    /// Whether a body follows.
    pub has_body: bool,
}

/// Fills a head from parts, with the same decisions as [`parse`] for HTTP/1.1. The body of such a request needs no
/// length: without one its framing is [`BodyFraming::Chunked`]. After an error the same fields are meaningful as there.
pub fn assemble(bytes: &[u8], parts: &Parts<'_>, limits: &Limits, head: &mut RequestHead) -> Result<(), RequestError> {
    head.clear();
    (head.line, head.method_name) = (parts.line, parts.method);
    let method = parts.method.of(bytes);
    head.method = Method::of_name(method);
    if method.is_empty() || !method.iter().all(|&byte| scan::is_method_byte(byte)) {
        return Err(RequestError::InvalidMethod);
    }
    if parts.target.len as usize + 2 > limits.line_bytes_max {
        return Err(RequestError::RequestLineTooLong);
    }
    let (target, target_end) = target::scan(bytes, parts.target.start as usize);
    if target_end != parts.target.end() {
        return Err(RequestError::TargetByte);
    }
    head.target = target;
    let authority = target::finish(bytes, &mut head.target, head.method)?;
    let mut facts = Facts { authority, ..Facts::default() };
    for field in parts.fields {
        if head.fields.len() + head.fields_dropped as usize >= limits.fields_max {
            return Err(RequestError::TooManyFields);
        }
        // As a line of HTTP/1 it has a colon, a space and a line end more. Cookies come in several fields, each within the
        // limit, and were joined.
        if field.id != FieldId::Cookie && field.name.len as usize + field.value.len as usize + 4 > limits.line_bytes_max
        {
            return Err(RequestError::FieldLineTooLong);
        }
        if is_dropped(scan::name_class(field.name.of(bytes)), limits) {
            head.fields_dropped += 1;
            continue;
        }
        take_field(bytes, field.id, field.name, field.value, head, &mut facts)?;
    }
    finish(bytes, head, &facts)?;
    if !parts.has_body {
        head.expect_continue = false;
    } else if head.framing == BodyFraming::None {
        head.framing = BodyFraming::Chunked;
    }
    Ok(())
}

fn parse_head(bytes: &[u8], limits: &Limits, head: &mut RequestHead) -> Result<Parse, RequestError> {
    let Some(start) = skip_empty_lines(bytes, limits)? else { return Ok(Parse::Partial) };
    let Some((authority, mut at)) = parse_request_line(bytes, start, limits, head)? else { return Ok(Parse::Partial) };
    let mut facts = Facts { authority, ..Facts::default() };
    loop {
        let window = Window::new(bytes, at, limits);
        match scan::parse_line(window, at, limits.bare_lf)? {
            None => return Ok(Parse::Partial),
            Some(Line::End { next }) => {
                finish(bytes, head, &facts)?;
                return Ok(Parse::Complete { len: next });
            }
            Some(Line::Field { name_end, id, value, name_class, next }) => {
                let name = Span::new(at, name_end);
                at = next;
                if head.fields.len() + head.fields_dropped as usize >= limits.fields_max {
                    return Err(RequestError::TooManyFields);
                }
                if is_dropped(name_class, limits) {
                    head.fields_dropped += 1;
                    continue;
                }
                take_field(bytes, id, name, Span::new(value.0, value.1), head, &mut facts)?;
            }
        }
    }
}

/// Offset of the first byte of the request line; `None` if more bytes are needed.
fn skip_empty_lines(bytes: &[u8], limits: &Limits) -> Result<Option<usize>, RequestError> {
    let mut at = 0;
    loop {
        let line_len = match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(b'\n'), _) if limits.bare_lf == BareLf::Accept => 1,
            (Some(b'\r'), None) | (None, _) => return Ok(None),
            (Some(b'\r' | b'\n'), _) => return Err(RequestError::InvalidRequestLine),
            (Some(_), _) => return Ok(Some(at)),
        };
        at += line_len;
        if at > EMPTY_LINES_BYTES_MAX {
            return Err(RequestError::InvalidRequestLine);
        }
    }
}

/// The request line at `start`: fills method, target, version; returns the target's authority and the next line's start.
fn parse_request_line(
    bytes: &[u8],
    start: usize,
    limits: &Limits,
    head: &mut RequestHead,
) -> Result<Option<(Option<Host>, usize)>, RequestError> {
    let window = Window::new(bytes, start, limits);
    let short = || window.exhausted().map_err(|_| RequestError::RequestLineTooLong);
    let bytes = window.bytes;

    let mut at = start;
    while bytes.get(at).is_some_and(|&byte| scan::is_method_byte(byte)) {
        at += 1;
    }
    let Some(&stop) = bytes.get(at) else { return short() };
    if stop != b' ' || at == start {
        return Err(RequestError::InvalidMethod);
    }
    head.method_name = Span::new(start, at);
    head.method = Method::of_name(head.method_name.of(bytes));

    let (target, target_end) = target::scan(bytes, at + 1);
    match bytes.get(target_end) {
        None => return short(),
        Some(b' ') if !target.raw.is_empty() => {}
        Some(b' ' | b'\t') => return Err(RequestError::InvalidRequestLine),
        Some(b'\r' | b'\n') => return Err(RequestError::NoVersion),
        Some(_) => return Err(RequestError::TargetByte),
    }
    head.target = target;
    let authority = target::finish(bytes, &mut head.target, head.method)?;

    let Some((version, line_end)) = parse_version(bytes, target_end + 1)? else { return short() };
    let next = match window.line_end(line_end, limits.bare_lf) {
        Ok(Some(next)) => next,
        Ok(None) => return Ok(None),
        Err(Fault::Line(_)) if is_line_end(bytes, line_end) => return Err(RequestError::InvalidRequestLine),
        Err(Fault::Line(_)) => return Err(RequestError::MalformedVersion),
        Err(_) => return Err(RequestError::RequestLineTooLong),
    };
    head.line = Span::new(start, line_end);
    head.version = version.ok_or(RequestError::UnsupportedVersion)?;
    Ok(Some((authority, next)))
}

fn is_line_end(bytes: &[u8], at: usize) -> bool {
    matches!(bytes.get(at), Some(b'\r' | b'\n'))
}

/// Parses `HTTP/d.d` at `start`; also returns the position after it. The version is `None` if its form is valid but it
/// is not 1.x; the whole is `None` if more bytes are needed.
#[inline]
fn parse_version(bytes: &[u8], start: usize) -> Result<Option<(Option<Version>, usize)>, RequestError> {
    const LEN: usize = 8;
    let end = start + LEN;
    match bytes.get(start..end) {
        Some(b"HTTP/1.1") => return Ok(Some((Some(Version::Http11), end))),
        Some(b"HTTP/1.0") => return Ok(Some((Some(Version::Http10), end))),
        _ => {}
    }
    let given = bytes.get(start..).unwrap_or_default();
    for (&byte, &form) in given.iter().zip(b"HTTP/d.d") {
        let fits = if form == b'd' { byte.is_ascii_digit() } else { byte == form };
        if !fits {
            return Err(RequestError::MalformedVersion);
        }
    }
    match given.get(5) {
        Some(b'0') => Err(RequestError::MalformedVersion),
        _ if given.len() < LEN => Ok(None),
        Some(b'1') => Ok(Some((Some(Version::Http11), end))),
        _ => Ok(Some((None, end))),
    }
}

/// Whether a field is dropped for its name.
#[inline]
fn is_dropped(name_class: u8, limits: &Limits) -> bool {
    let tolerated = if limits.underscores_in_headers { scan::NAME_UNDERSCORE } else { 0 };
    limits.ignore_invalid_headers && name_class & (scan::NAME_UNDERSCORE | scan::NAME_UNUSUAL) & !tolerated != 0
}

/// Facts collected from the fields and checked at the end of the head.
#[derive(Debug, Default)]
struct Facts {
    authority: Option<Host>,
    framing: FramingFields,
    upgrade: Span,
    expect_continue: bool,
    expect_other: bool,
}

#[inline]
fn take_field(
    bytes: &[u8],
    id: FieldId,
    name: Span,
    value: Span,
    head: &mut RequestHead,
    facts: &mut Facts,
) -> Result<(), RequestError> {
    head.fields.push(Field { name, value, id, hop: hop::is_hop_by_hop(id) });
    let repeated = head.seen.insert(id);
    match id {
        FieldId::Host => {
            if repeated {
                return Err(RequestError::DuplicateHost);
            }
            head.host = Some(target::parse_host(bytes, value).ok_or(RequestError::InvalidHost)?);
        }
        FieldId::Connection => head.connection.take(value.of(bytes))?,
        FieldId::ContentLength => facts.framing.take_content_length(value.of(bytes))?,
        FieldId::TransferEncoding => facts.framing.take_transfer_encoding(value.of(bytes))?,
        FieldId::Upgrade if !repeated => facts.upgrade = value,
        FieldId::Expect => {
            facts.expect_continue = value.of(bytes).eq_ignore_ascii_case(b"100-continue");
            facts.expect_other = !facts.expect_continue;
            return if repeated { Err(RequestError::DuplicateField) } else { Ok(()) };
        }
        _ if repeated && is_single(id) => return Err(RequestError::DuplicateField),
        _ => {}
    }
    Ok(())
}

/// Fields that nginx refuses if they appear twice, since only one of them would take effect.
fn is_single(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::Authorization
            | FieldId::ContentRange
            | FieldId::IfMatch
            | FieldId::IfModifiedSince
            | FieldId::IfNoneMatch
            | FieldId::IfRange
            | FieldId::IfUnmodifiedSince
    )
}

/// Decisions that need the whole head.
fn finish(bytes: &[u8], head: &mut RequestHead, facts: &Facts) -> Result<(), RequestError> {
    let is_http11 = head.version == Version::Http11;
    if is_http11 && head.host.is_none() {
        return Err(RequestError::NoHost);
    }
    facts.framing.check(head.version)?;
    if matches!(head.method, Method::Connect | Method::Trace) {
        return Err(RequestError::MethodNotAllowed);
    }
    if is_http11 && facts.expect_other {
        return Err(RequestError::UnknownExpectation);
    }
    if let Some(authority) = facts.authority {
        head.host_is_from_target =
            head.host.is_none_or(|host| !host.raw.of(bytes).eq_ignore_ascii_case(authority.raw.of(bytes)));
        head.host = Some(authority);
    }
    head.framing = match facts.framing {
        FramingFields { chunked: true, .. } => BodyFraming::Chunked,
        FramingFields { length: Some(length), .. } => BodyFraming::Length(length),
        FramingFields { .. } => BodyFraming::None,
    };
    let has_body = !matches!(head.framing, BodyFraming::None | BodyFraming::Length(0));
    head.expect_continue = is_http11 && has_body && facts.expect_continue;
    head.keepalive = !head.connection.close && (is_http11 || head.connection.keep_alive);
    if is_http11 && head.connection.upgrade && !facts.upgrade.is_empty() {
        head.upgrade = Some(Upgrade { kind: upgrade_kind(bytes, &head.fields, facts.upgrade), value: facts.upgrade });
    }
    if head.connection.named {
        connection::mark_named(bytes, &mut head.fields);
    }
    Ok(())
}

fn upgrade_kind(bytes: &[u8], fields: &[Field], first: Span) -> UpgradeKind {
    let mut all = fields.iter().filter(|field| field.id == FieldId::Upgrade);
    if all.any(|field| connection::names_h2c(field.value.of(bytes))) {
        UpgradeKind::H2c
    } else if first.of(bytes).eq_ignore_ascii_case(b"websocket") {
        UpgradeKind::WebSocket
    } else {
        UpgradeKind::Other
    }
}

/// The first non-empty line, as far as it has arrived: the access log shows it as `$request` of a refused request.
#[cold]
fn first_line(bytes: &[u8], limits: &Limits) -> Span {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let window = Window::new(bytes, start, limits).bytes;
    let rest = window.get(start..).unwrap_or_default();
    Span::new(start, start + memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len()))
}
