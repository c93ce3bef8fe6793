//! Response heads, and the page that is prepared once and written as a whole. `connection` sends them.

use crate::body::{Body, Framing, push_pattern};
use crate::websocket::Opening;
use http1::encode::{encode_field, encode_head_end, encode_number_field, encode_status_line};
use http1::{FieldId, RequestHead, Version};
use std::ops::Range;
use std::time::{Duration, SystemTime};
use websocket::handshake::encode_response_fields;

/// Bytes of an IMF-fixdate, which has a fixed length.
const DATE_BYTES: usize = 29;
/// A page up to this size is prepared with its head and sent with one write. A larger one is written from the pattern's
/// block, so that a worker need not store it again.
const PREPARED_BODY_BYTES_MAX: u64 = 64 * 1024;
/// The page's modification time: fixed, so that runs can be compared.
const PAGE_MODIFIED: Duration = Duration::from_secs(1_700_000_000);

/// What the head announces for the connection after the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announced {
    /// `Connection: keep-alive`, which nginx also sends to HTTP/1.1 clients.
    KeepAlive,
    /// `Connection: close`.
    Close,
}

/// The body of a reply.
#[derive(Debug)]
pub(crate) enum Content {
    /// No body and no Content-Length: 204 and 304.
    None,
    /// These bytes.
    Bytes(Vec<u8>),
    /// A part of the pattern.
    Pattern(Body),
}

/// A response other than the prepared page.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Interim responses before it: their status and number.
    pub(crate) interim: Option<(u16, u64)>,
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// Additional field lines, each with its CRLF.
    pub(crate) fields: Vec<u8>,
    pub(crate) content: Content,
}

impl Reply {
    pub(crate) fn text(status: u16, mut text: String) -> Self {
        text.push('\n');
        let content = Content::Bytes(text.into_bytes());
        Self { interim: None, status, content_type: "text/plain", fields: Vec::new(), content }
    }

    pub(crate) fn json(mut bytes: Vec<u8>) -> Self {
        bytes.push(b'\n');
        Self { content_type: "application/json", content: Content::Bytes(bytes), ..Self::text(200, String::new()) }
    }

    pub(crate) fn pattern(body: Body) -> Self {
        Self { content: Content::Pattern(body), ..Self::text(200, String::new()) }
    }

    /// Appends the interim responses for HTTP/1.1.
    pub(crate) fn encode_interim(&self, out: &mut Vec<u8>) {
        let Some((status, count)) = self.interim else { return };
        for _ in 0..count {
            encode_status_line(Version::Http11, status, None, out);
            encode_head_end(out);
        }
    }

    /// Appends the head as a CGI program writes it.
    pub(crate) fn encode_cgi_head(&self, out: &mut Vec<u8>) {
        encode_number_field(b"Status", u64::from(self.status), out);
        let length = match &self.content {
            Content::None => None,
            Content::Bytes(bytes) => Some(bytes.len() as u64),
            Content::Pattern(body) => (body.framing == Framing::Length).then_some(body.total),
        };
        if !matches!(self.content, Content::None) {
            encode_field(b"Content-Type", self.content_type.as_bytes(), out);
        }
        if let Some(length) = length {
            encode_number_field(b"Content-Length", length, out);
        }
        out.extend_from_slice(&self.fields);
        encode_head_end(out);
    }

    /// The additional fields, by name and value.
    pub(crate) fn added(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        field_lines(&self.fields)
    }
}

/// Splits field lines written by `encode_field` into names and values.
pub(crate) fn field_lines(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii()))
    })
}

/// The common parts of all heads of a worker.
#[derive(Debug)]
pub(crate) struct SharedFields {
    server: Vec<u8>,
    /// The line `Keep-Alive: timeout=…`, or empty.
    keep_alive_line: Vec<u8>,
    date: [u8; DATE_BYTES],
}

impl SharedFields {
    pub(crate) fn new(server: &str, keep_alive_timeout_s: Option<u64>) -> Self {
        let mut keep_alive_line = Vec::new();
        if let Some(seconds) = keep_alive_timeout_s {
            encode_field(b"Keep-Alive", format!("timeout={seconds}").as_bytes(), &mut keep_alive_line);
        }
        Self { server: server.as_bytes().to_vec(), keep_alive_line, date: http_date(SystemTime::now()) }
    }

    /// Server and Date, for HTTP/2.
    pub(crate) fn each(&self) -> [(&'static [u8], &[u8]); 2] {
        [(b"server", &self.server), (b"date", &self.date)]
    }

    /// Appends the status line and the fields up to Date.
    fn encode_start(&self, status: u16, out: &mut Vec<u8>) {
        // As in nginx, the status line has HTTP/1.1 even for an HTTP/1.0 client (RFC 9110 §2.5 allows it).
        encode_status_line(Version::Http11, status, None, out);
        encode_field(b"Server", &self.server, out);
        encode_field(b"Date", &self.date, out);
    }

    fn encode_connection(&self, announced: Announced, out: &mut Vec<u8>) {
        match announced {
            Announced::KeepAlive => {
                encode_field(b"Connection", b"keep-alive", out);
                out.extend_from_slice(&self.keep_alive_line);
            }
            Announced::Close => encode_field(b"Connection", b"close", out),
        }
    }

    /// Appends the head of a reply.
    pub(crate) fn encode_head(&self, reply: &Reply, announced: Announced, out: &mut Vec<u8>) {
        self.encode_start(reply.status, out);
        match &reply.content {
            Content::None => {}
            Content::Bytes(bytes) => {
                encode_field(b"Content-Type", reply.content_type.as_bytes(), out);
                encode_number_field(b"Content-Length", bytes.len() as u64, out);
            }
            Content::Pattern(body) => {
                encode_field(b"Content-Type", reply.content_type.as_bytes(), out);
                match body.framing {
                    Framing::Length => encode_number_field(b"Content-Length", body.total, out),
                    Framing::Chunked(_) => encode_field(b"Transfer-Encoding", b"chunked", out),
                    Framing::UntilClose | Framing::Records => {}
                }
            }
        }
        self.encode_connection(announced, out);
        out.extend_from_slice(&reply.fields);
        encode_head_end(out);
    }

    /// Appends the head that opens a tunnel.
    pub(crate) fn encode_switching(&self, protocol: &[u8], out: &mut Vec<u8>) {
        self.encode_start(101, out);
        encode_field(b"Connection", b"upgrade", out);
        encode_field(b"Upgrade", protocol, out);
        encode_head_end(out);
    }

    /// Appends the 101 that opens a WebSocket.
    pub(crate) fn encode_websocket(&self, opening: &Opening, out: &mut Vec<u8>) {
        self.encode_start(101, out);
        encode_response_fields(&opening.key, opening.protocol.as_deref(), out);
        encode_head_end(out);
    }
}

fn http_date(time: SystemTime) -> [u8; DATE_BYTES] {
    let text = httpdate::fmt_http_date(time);
    text.as_bytes().first_chunk().copied().expect("an IMF-fixdate has 29 characters")
}

/// The part of the page that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagePart {
    Whole,
    /// 206; not empty, and within the page.
    Range {
        start: u64,
        end: u64,
    },
    /// 416.
    Unsatisfiable,
    /// 304.
    NotModified,
}

/// One prepared response: its bytes, and the position of the date in them.
#[derive(Debug)]
struct Prepared {
    bytes: Vec<u8>,
    head_len: usize,
    date: Range<usize>,
}

/// The page, ready to be sent.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) common: SharedFields,
    keepalive: Prepared,
    close: Prepared,
    pub(crate) len: u64,
    etag: String,
    modified: [u8; DATE_BYTES],
}

impl Page {
    pub(crate) fn new(common: SharedFields, len: u64) -> Self {
        let modified = http_date(SystemTime::UNIX_EPOCH + PAGE_MODIFIED);
        let etag = format!("\"{:x}-{len:x}\"", PAGE_MODIFIED.as_secs());
        let mut page = Self {
            keepalive: Prepared { bytes: Vec::new(), head_len: 0, date: 0..0 },
            close: Prepared { bytes: Vec::new(), head_len: 0, date: 0..0 },
            common,
            len,
            etag,
            modified,
        };
        page.keepalive = page.prepare(Announced::KeepAlive);
        page.close = page.prepare(Announced::Close);
        page
    }

    fn prepare(&self, announced: Announced) -> Prepared {
        let mut bytes = Vec::new();
        self.common.encode_start(200, &mut bytes);
        // The date is the value of the last line so far.
        let date_end = bytes.len() - 2;
        encode_field(b"Content-Type", b"text/html", &mut bytes);
        encode_number_field(b"Content-Length", self.len, &mut bytes);
        encode_field(b"Last-Modified", &self.modified, &mut bytes);
        self.common.encode_connection(announced, &mut bytes);
        encode_field(b"ETag", self.etag.as_bytes(), &mut bytes);
        encode_field(b"Accept-Ranges", b"bytes", &mut bytes);
        encode_head_end(&mut bytes);
        let head_len = bytes.len();
        if self.len <= PREPARED_BODY_BYTES_MAX {
            push_pattern(0, self.len, &mut bytes);
        }
        Prepared { bytes, head_len, date: date_end - DATE_BYTES..date_end }
    }

    /// Head and body of the page; only the head for HEAD, or if the body is too long to be prepared.
    pub(crate) fn bytes(&self, announced: Announced, head_only: bool) -> &[u8] {
        let prepared = match announced {
            Announced::KeepAlive => &self.keepalive,
            Announced::Close => &self.close,
        };
        let len = if head_only { prepared.head_len } else { prepared.bytes.len() };
        prepared.bytes.get(..len).unwrap_or_default()
    }

    /// The fields of the page except its length, for HTTP/2.
    pub(crate) fn each(&self) -> [(&'static [u8], &[u8]); 4] {
        [
            (b"content-type", b"text/html"),
            (b"last-modified", &self.modified),
            (b"etag", self.etag.as_bytes()),
            (b"accept-ranges", b"bytes"),
        ]
    }

    /// Whether [`Self::bytes`] includes the body.
    pub(crate) fn is_prepared_whole(&self) -> bool {
        self.len <= PREPARED_BODY_BYTES_MAX
    }

    /// Sets the Date of all responses to now; called once a second.
    pub(crate) fn set_date(&mut self) {
        let date = http_date(SystemTime::now());
        self.common.date = date;
        for prepared in [&mut self.keepalive, &mut self.close] {
            if let Some(place) = prepared.bytes.get_mut(prepared.date.clone()) {
                place.copy_from_slice(&date);
            }
        }
    }

    /// Evaluates the conditional fields and Range of a request. A single range is served; for several ranges or an
    /// invalid one, the response is the whole page (RFC 9110 §14.2).
    pub(crate) fn part(&self, head: &RequestHead, bytes: &[u8]) -> PagePart {
        let unchanged = match head.value(FieldId::IfNoneMatch, bytes) {
            Some(tags) => {
                let mut tags = tags.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                tags.any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == self.etag.as_bytes())
            }
            None => head.value(FieldId::IfModifiedSince, bytes) == Some(&self.modified),
        };
        if unchanged {
            return PagePart::NotModified;
        }
        if let Some(condition) = head.value(FieldId::IfRange, bytes)
            && condition != self.etag.as_bytes()
            && condition != self.modified
        {
            return PagePart::Whole;
        }
        head.value(FieldId::Range, bytes).and_then(|range| parse_range(range, self.len)).unwrap_or(PagePart::Whole)
    }

    /// The page as a reply that is not prepared.
    pub(crate) fn whole_reply(&self) -> Reply {
        let mut fields = Vec::new();
        encode_field(b"Last-Modified", &self.modified, &mut fields);
        encode_field(b"ETag", self.etag.as_bytes(), &mut fields);
        encode_field(b"Accept-Ranges", b"bytes", &mut fields);
        Reply { content_type: "text/html", fields, ..Reply::pattern(Body::new(Framing::Length, self.len)) }
    }

    /// The reply for a part other than the whole page.
    pub(crate) fn partial_reply(&self, part: PagePart) -> Reply {
        let mut fields = Vec::new();
        encode_field(b"Last-Modified", &self.modified, &mut fields);
        encode_field(b"ETag", self.etag.as_bytes(), &mut fields);
        match part {
            PagePart::Range { start, end } => {
                let range = format!("bytes {start}-{}/{}", end - 1, self.len);
                encode_field(b"Content-Range", range.as_bytes(), &mut fields);
                let body = Body::new(Framing::Length, end - start).starting_at(start);
                Reply { status: 206, content_type: "text/html", fields, ..Reply::pattern(body) }
            }
            PagePart::Unsatisfiable => {
                fields.clear();
                encode_field(b"Content-Range", format!("bytes */{}", self.len).as_bytes(), &mut fields);
                Reply { fields, ..Reply::text(416, "no such range".to_owned()) }
            }
            PagePart::NotModified | PagePart::Whole => {
                Reply { fields, content: Content::None, ..Reply::text(304, String::new()) }
            }
        }
    }
}

/// Parses a single range of a page; `None` if the field is to be ignored.
fn parse_range(value: &[u8], len: u64) -> Option<PagePart> {
    let spec = std::str::from_utf8(value).ok()?.strip_prefix("bytes=")?;
    let (first, last) = spec.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    let (start, end) = match (first, last) {
        ("", suffix) => (len.saturating_sub(number(suffix)?), len),
        (first, "") => (number(first)?, len),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(len))
        }
    };
    Some(if start < end { PagePart::Range { start, end } } else { PagePart::Unsatisfiable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_rfc_9110() {
        let range = |start, end| Some(PagePart::Range { start, end });
        for (value, part) in [
            ("bytes=0-0", range(0, 1)),
            ("bytes=5-", range(5, 100)),
            ("bytes=-7", range(93, 100)),
            ("bytes=-700", range(0, 100)),
            ("bytes=90-900", range(90, 100)),
            ("bytes=100-", Some(PagePart::Unsatisfiable)),
            ("bytes=-0", Some(PagePart::Unsatisfiable)),
            ("bytes=5-4", None),
            ("bytes=0-1,3-4", None),
            ("bytes=+1-2", None),
            ("lines=0-1", None),
        ] {
            assert_eq!(parse_range(value.as_bytes(), 100), part, "{value}");
        }
    }
}
