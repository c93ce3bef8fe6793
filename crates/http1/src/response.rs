//! Response heads of upstreams, which are not trusted. Neither the body, nor the fields that are hidden or rewritten
//! for the client. The gateway's relay, health checks and the load generator call it.

use crate::connection::{self, BadConnection, ConnectionOptions};
use crate::error::{LineFault, ResponseError};
use crate::field::{self, Field, FieldId, FieldSet};
use crate::framing::{FramingFields, Version};
use crate::hop;
use crate::limits::{BareLf, Limits};
use crate::request::Parse;
use crate::scan::{self, Fault, Line, Window};
use crate::span::Span;

/// The request, as far as the framing of its response depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum RequestKind {
    /// HEAD: the response has no body, even if its fields describe one.
    Head,
    /// CONNECT: a 2xx has no body and starts a tunnel.
    Connect,
    /// Any other method.
    #[default]
    Other,
}

/// How the body of a response is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ResponseFraming {
    /// No body: HEAD, 1xx, 204, 304.
    #[default]
    None,
    /// This many bytes, possibly 0.
    Length(u64),
    /// Chunked; see [`crate::chunked::Decoder`].
    Chunked,
    /// Until the upstream closes.
    UntilClose,
}

/// Whether a head is the answer or precedes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ResponseKind {
    /// 100 to 199 but for 101: another head follows.
    Interim,
    /// 101: the connection changes its protocol. The caller checks whether that was requested.
    SwitchingProtocols,
    /// The answer.
    #[default]
    Final,
}

/// A response head. Made once and filled again and again: `fields` keeps its allocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseHead {
    /// The status line without line end; empty if the protocol has none.
    pub line: Span,
    /// The version.
    pub version: Version,
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase, possibly empty.
    pub reason: Span,
    /// Interim, 101 or final.
    pub kind: ResponseKind,
    /// Fields in the order received.
    pub fields: Vec<Field>,
    /// Which well-known fields there are.
    pub seen: FieldSet,
    /// How the body is delimited.
    pub framing: ResponseFraming,
    /// Content-Length as sent, also where there is no body (HEAD, 304).
    pub content_length: Option<u64>,
    /// Whether the upstream allows another request on this connection, once the body has been read to its end.
    pub keepalive: bool,
    /// The Connection fields.
    pub connection: ConnectionOptions,
    /// Value of the first Upgrade field.
    pub upgrade: Option<Span>,
    /// The first field that was repeated although a response has it only once. It is ignored and not in `fields`.
    pub repeated: Option<Field>,
}

impl ResponseHead {
    /// The first field with this id.
    pub fn find(&self, id: FieldId) -> Option<&Field> {
        field::find(&self.fields, self.seen, id)
    }

    /// Value of the first field with this id; `head` holds the bytes that were parsed, or a copy of them.
    pub fn value<'a>(&self, id: FieldId, head: &'a [u8]) -> Option<&'a [u8]> {
        self.find(id).map(|field| field.value.of(head))
    }

    /// Clears the head but keeps the allocation.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }
}

impl From<Fault> for ResponseError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Line(fault) => Self::InvalidField(fault),
            Fault::LineTooLong | Fault::HeadTooLarge => Self::HeadTooLarge,
        }
    }
}

impl From<BadConnection> for ResponseError {
    fn from(_: BadConnection) -> Self {
        Self::InvalidConnection
    }
}

/// Reads a response head from the start of `bytes`, which may hold more or less than one. Replaces the content of
/// `head`.
pub fn parse(
    bytes: &[u8],
    limits: &Limits,
    request: RequestKind,
    head: &mut ResponseHead,
) -> Result<Parse, ResponseError> {
    head.clear();
    let Some(at) = parse_status_line(bytes, limits, head)? else { return Ok(Parse::Partial) };
    parse_lines(bytes, at, limits, request, head, |_| true)
}

/// A status that is not in a status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// 100 to 999.
    pub code: u16,
    /// The reason phrase, possibly empty.
    pub reason: Span,
}

/// Reads a head of field lines alone, as CGI has it, with the same decisions as [`parse`] for HTTP/1.1. Fields that `keeps`
/// refuses are left out.
pub fn parse_fields(
    bytes: &[u8],
    status: Status,
    limits: &Limits,
    request: RequestKind,
    keeps: impl Fn(FieldId) -> bool,
    head: &mut ResponseHead,
) -> Result<Parse, ResponseError> {
    begin(bytes, status, head)?;
    parse_lines(bytes, 0, limits, request, head, keeps)
}

/// Fills a head from fields that another protocol has delimited and checked, with the same decisions as [`parse`] for
/// HTTP/1.1. The limits count the head as HTTP/1.1 would write it.
pub fn assemble(
    bytes: &[u8],
    status: Status,
    fields: &[Field],
    limits: &Limits,
    request: RequestKind,
    head: &mut ResponseHead,
) -> Result<(), ResponseError> {
    begin(bytes, status, head)?;
    if text_bytes(status, fields) > limits.head_bytes_max {
        return Err(ResponseError::HeadTooLarge);
    }
    let mut framing = FramingFields::default();
    for field in fields {
        if field.name.len as usize + field.value.len as usize + 4 > limits.line_bytes_max {
            return Err(ResponseError::HeadTooLarge);
        }
        if head.fields.len() >= limits.fields_max {
            return Err(ResponseError::TooManyFields);
        }
        let value = scan::trim(bytes, field.value.start as usize, field.value.end());
        take_field(bytes, field.id, field.name, Span::new(value.0, value.1), head, &mut framing)?;
    }
    finish(bytes, request, head, framing)
}

/// Bytes that a head with these fields has as HTTP/1.1.
pub fn text_bytes(status: Status, fields: &[Field]) -> usize {
    let lines = fields.iter().map(|field| field.name.len as usize + field.value.len as usize + b": \r\n".len());
    b"HTTP/1.1 200 \r\n\r\n".len() + status.reason.len as usize + lines.sum::<usize>()
}

/// Begins a head without a status line.
fn begin(bytes: &[u8], status: Status, head: &mut ResponseHead) -> Result<(), ResponseError> {
    head.clear();
    let reason = status.reason.of(bytes);
    if status.code < 100 || scan::find_control(reason, 0) < reason.len() {
        return Err(ResponseError::InvalidStatusLine);
    }
    (head.status, head.reason) = (status.code, status.reason);
    Ok(())
}

/// Reads the field lines from `at` to the end of the head.
#[inline]
fn parse_lines(
    bytes: &[u8],
    mut at: usize,
    limits: &Limits,
    request: RequestKind,
    head: &mut ResponseHead,
    keeps: impl Fn(FieldId) -> bool,
) -> Result<Parse, ResponseError> {
    let mut framing = FramingFields::default();
    loop {
        let window = Window::new(bytes, at, limits);
        let line = match scan::parse_line(window, at, limits.bare_lf) {
            Ok(line) => line,
            Err(Fault::Line(fault)) => match odd_line(window, at, fault, limits.bare_lf)? {
                None => None,
                Some(Odd::Field(line)) => Some(line),
                Some(Odd::Skipped { next }) => {
                    at = next;
                    continue;
                }
            },
            Err(fault) => return Err(fault.into()),
        };
        match line {
            None => return Ok(Parse::Partial),
            Some(Line::End { next }) => {
                finish(bytes, request, head, framing)?;
                return Ok(Parse::Complete { len: next });
            }
            Some(Line::Field { name_end, id, value, next, .. }) => {
                let name = Span::new(at, name_end);
                at = next;
                if !keeps(id) {
                    continue;
                }
                if head.fields.len() >= limits.fields_max {
                    return Err(ResponseError::TooManyFields);
                }
                take_field(bytes, id, name, Span::new(value.0, value.1), head, &mut framing)?;
            }
        }
    }
}

/// A line that no server should send, but some do.
enum Odd {
    /// Accepted as a field.
    Field(Line),
    /// A second status line, which is skipped.
    Skipped {
        /// First byte of the next line.
        next: usize,
    },
}

/// Accepts lines that nginx accepts in spite of the RFCs, if they have only one meaning: visible non-token characters
/// in a name (`X[1]`), control characters in a value other than those that end lines, and a status line repeated among
/// the fields. An application that answers in this way must not become unreachable. White space around a name, and CR,
/// LF and NUL, stay errors. `None`: the line is not complete yet.
#[cold]
fn odd_line(window: Window<'_>, start: usize, fault: LineFault, bare_lf: BareLf) -> Result<Option<Odd>, ResponseError> {
    let line = window.bytes.get(start..).unwrap_or_default();
    let Some(lf) = memchr::memchr(b'\n', line) else { return Ok(window.exhausted()?) };
    let next = start + lf + 1;
    let (line, has_cr) = match line.get(..lf).unwrap_or_default() {
        [text @ .., b'\r'] => (text, true),
        text => (text, false),
    };
    let error = || Err(ResponseError::InvalidField(fault));
    if line.iter().any(|byte| matches!(byte, b'\r' | 0)) || (!has_cr && bare_lf == BareLf::Reject) {
        return error();
    }
    if line.starts_with(b"HTTP/") {
        return Ok(Some(Odd::Skipped { next }));
    }
    let Some(colon) = memchr::memchr(b':', line).filter(|&colon| colon > 0) else { return error() };
    let name = line.get(..colon).unwrap_or_default();
    if !name.iter().all(u8::is_ascii_graphic) {
        return error();
    }
    let value = scan::trim(window.bytes, start + colon + 1, start + line.len());
    let id = FieldId::of_name(name);
    Ok(Some(Odd::Field(Line::Field { name_end: start + colon, id, value, name_class: 0, next })))
}

/// Parses `HTTP/1.d SP ddd [SP reason]`; returns the start of the next line.
fn parse_status_line(bytes: &[u8], limits: &Limits, head: &mut ResponseHead) -> Result<Option<usize>, ResponseError> {
    /// Length of `HTTP/1.1 200`.
    const LEN: usize = 12;
    let window = Window::new(bytes, 0, limits);
    let given = window.bytes.get(..LEN).unwrap_or(window.bytes);
    for (&byte, &form) in given.iter().zip(b"HTTP/1.d ddd") {
        let fits = if form == b'd' { byte.is_ascii_digit() } else { byte == form };
        if !fits {
            return Err(ResponseError::InvalidStatusLine);
        }
    }
    let &[.., minor, _, hundreds, tens, ones] = given else { return Ok(window.exhausted()?) };
    if given.len() < LEN {
        return Ok(window.exhausted()?);
    }
    head.version = if minor == b'0' { Version::Http10 } else { Version::Http11 };
    head.status = [hundreds, tens, ones].iter().fold(0, |status, &digit| status * 10 + (digit - b'0') as u16);
    if head.status < 100 {
        return Err(ResponseError::InvalidStatusLine);
    }
    let reason_start = match window.bytes.get(LEN) {
        None => return Ok(window.exhausted()?),
        Some(b' ') => LEN + 1,
        Some(b'\r' | b'\n') => LEN,
        Some(_) => return Err(ResponseError::InvalidStatusLine),
    };
    let line_end = scan::find_control(window.bytes, reason_start);
    let next = match window.line_end(line_end, limits.bare_lf) {
        Ok(Some(next)) => next,
        Ok(None) => return Ok(None),
        Err(Fault::Line(_)) => return Err(ResponseError::InvalidStatusLine),
        Err(fault) => return Err(fault.into()),
    };
    head.line = Span::new(0, line_end);
    head.reason = Span::new(reason_start, line_end);
    Ok(Some(next))
}

#[inline]
fn take_field(
    bytes: &[u8],
    id: FieldId,
    name: Span,
    value: Span,
    head: &mut ResponseHead,
    framing: &mut FramingFields,
) -> Result<(), ResponseError> {
    head.fields.push(Field { name, value, id, hop: hop::is_hop_by_hop(id) });
    let repeated = head.seen.insert(id);
    if repeated && is_single(id) {
        let again = head.fields.pop();
        head.repeated = head.repeated.or(again);
        return Ok(());
    }
    match id {
        FieldId::Connection => head.connection.take(value.of(bytes))?,
        FieldId::ContentLength => framing.take_content_length(value.of(bytes))?,
        FieldId::TransferEncoding => framing.take_transfer_encoding(value.of(bytes))?,
        FieldId::Upgrade if !repeated => head.upgrade = Some(value),
        _ => {}
    }
    Ok(())
}

/// Fields of which, as in nginx, the first one counts: clients differ in which of several contradictory ones they use.
fn is_single(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::ContentType
            | FieldId::Date
            | FieldId::ETag
            | FieldId::Expires
            | FieldId::LastModified
            | FieldId::Location
            | FieldId::Refresh
            | FieldId::Server
            | FieldId::XAccelBuffering
            | FieldId::XAccelExpires
            | FieldId::XAccelLimitRate
            | FieldId::XAccelRedirect
    )
}

/// Decisions that need the whole head.
fn finish(
    bytes: &[u8],
    request: RequestKind,
    head: &mut ResponseHead,
    framing: FramingFields,
) -> Result<(), ResponseError> {
    // Chunks in an HTTP/1.0 response are decoded, as by nginx; further bytes on that connection must not be trusted
    // (RFC 9112 §6.1).
    framing.check(Version::Http11)?;
    let doubtful = framing.chunked && head.version == Version::Http10;
    head.kind = match head.status {
        101 => ResponseKind::SwitchingProtocols,
        100..=199 => ResponseKind::Interim,
        _ => ResponseKind::Final,
    };
    let is_tunnel = request == RequestKind::Connect && (200..300).contains(&head.status);
    let has_no_body = request == RequestKind::Head || is_tunnel || matches!(head.status, 100..=199 | 204 | 304);
    head.content_length = framing.length;
    head.framing = match framing {
        _ if has_no_body => ResponseFraming::None,
        FramingFields { chunked: true, .. } => ResponseFraming::Chunked,
        FramingFields { length: Some(length), .. } => ResponseFraming::Length(length),
        FramingFields { .. } => ResponseFraming::UntilClose,
    };
    let allowed = head.version == Version::Http11 || head.connection.keep_alive;
    let ends_here = head.framing == ResponseFraming::UntilClose || is_tunnel || head.status == 101;
    head.keepalive = allowed && !head.connection.close && !ends_here && !doubtful;
    if head.connection.named {
        connection::mark_named(bytes, &mut head.fields);
    }
    Ok(())
}
