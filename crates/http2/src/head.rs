//! Decoded heads: the fields of one message as text in one buffer, with spans, checked against RFC 9113 §8.2 and §8.3.
//! The buffer has the form of an HTTP/1 head, so a gateway's request is made from it without another copy. The caller
//! owns and recycles it.

use crate::hpack::{Decoded, ENTRY_BYTES, Name, Pseudo, Sink};
use crate::priority::Priority;
use crate::reason::HeadFault;
use http1::{Field, FieldId, FieldSet, Span, hop};

/// The message part that a head belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadKind {
    /// A request.
    #[default]
    Request,
    /// A response, interim or final.
    Response,
    /// The fields after a body.
    Trailers,
}

/// A decoded head. The content of a malformed one must not be used.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// The text that all spans point into.
    pub bytes: Vec<u8>,
    /// The kind of head.
    pub kind: HeadKind,
    /// Regular fields in the order of arrival. In a request, Host comes first if `:authority` supplied it, and Cookie
    /// is one field.
    pub fields: Vec<Field>,
    /// Which well-known fields there are.
    pub seen: FieldSet,
    /// `:method`
    pub method: Span,
    /// `:scheme`; empty for an ordinary CONNECT.
    pub scheme: Span,
    /// `:path`; empty for an ordinary CONNECT.
    pub path: Span,
    /// Host and port: `:authority`, else the Host field.
    pub authority: Option<Span>,
    /// `:protocol` of an extended CONNECT.
    pub protocol: Option<Span>,
    /// `:status` of a response.
    pub status: u16,
    /// `Content-Length`.
    pub content_length: Option<u64>,
    /// The `priority` field, if there is one.
    pub priority: Option<Priority>,
    /// Bytes of its header block as received.
    pub block_bytes: u32,
    /// The head exceeds the limits of `Config`, and is incomplete here. A server answers it with 431.
    pub is_too_large: bool,
    limits: Limits,
    /// Its size as HPACK counts it, including fields that were not kept.
    list_bytes: u64,
    fault: Option<HeadFault>,
    cookies: u32,
    method_is_connect: bool,
    /// There was a regular field: pseudo-header fields must not follow.
    has_regular: bool,
    /// There was a Host field, with or without `:authority`.
    has_host: bool,
}

/// The limits of a head.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) bytes_max: u32,
    pub(crate) fields_max: u32,
    pub(crate) extended_connect: bool,
}

impl Head {
    /// Clears it, and keeps its allocations.
    pub fn clear(&mut self) {
        let (mut bytes, mut fields) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.fields));
        bytes.clear();
        fields.clear();
        *self = Self { bytes, fields, ..Self::default() };
    }

    /// Value of the first field with this id.
    pub fn value(&self, id: FieldId) -> Option<&[u8]> {
        if !self.seen.contains(id) {
            return None;
        }
        self.fields.iter().find(|field| field.id == id).map(|field| field.value.of(&self.bytes))
    }

    /// Bytes of memory behind it.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    /// Turns a request into the head that a gateway works with, with the checks of `http1`. Its positions refer to
    /// `self.bytes`, to which the request line for the access log is appended. `end`: no body follows. Not for a
    /// request that is too large, nor for an extended CONNECT, which [`Self::to_upgrade`] handles.
    pub fn to_request(
        &mut self,
        end: bool,
        limits: &http1::Limits,
        request: &mut http1::RequestHead,
    ) -> Result<(), http1::RequestError> {
        self.assemble(self.method, end, limits, request)
    }

    /// The same for an extended CONNECT for a WebSocket: makes the HTTP/1.1 request that opens one (RFC 8441 §5), with
    /// this `Sec-WebSocket-Key`. The request line for the access log is the client's own.
    pub fn to_upgrade(
        &mut self,
        key: &[u8],
        limits: &http1::Limits,
        request: &mut http1::RequestHead,
    ) -> Result<(), http1::RequestError> {
        let protocol = self.protocol.map_or(&b""[..], |protocol| protocol.of(&self.bytes));
        let is_known = protocol.eq_ignore_ascii_case(b"websocket");
        // The handshake's own fields have no meaning over HTTP/2, and a tunnel has no length.
        self.fields.retain(|field| {
            !matches!(field.id, FieldId::SecWebSocketKey | FieldId::SecWebSocketAccept | FieldId::ContentLength)
        });
        let added =
            [(FieldId::Connection, &b"upgrade"[..]), (FieldId::Upgrade, b"websocket"), (FieldId::SecWebSocketKey, key)];
        for (id, value) in added.into_iter().take(if is_known { 3 } else { 0 }) {
            let start = self.bytes.len();
            for part in [id.name().as_bytes(), b": ", value, b"\r\n"] {
                self.bytes.extend_from_slice(part);
            }
            let name = Span::new(start, start + id.name().len());
            let value_start = name.end() + b": ".len();
            let value = Span::new(value_start, value_start + value.len());
            self.fields.push(Field { name, value, id, hop: hop::is_hop_by_hop(id) });
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"GET ");
        let get = Span::new(start, start + b"GET".len());
        self.assemble(get, true, limits, request)?;
        if is_known { Ok(()) } else { Err(http1::RequestError::UnknownProtocol) }
    }

    fn assemble(
        &mut self,
        method: Span,
        end: bool,
        limits: &http1::Limits,
        request: &mut http1::RequestHead,
    ) -> Result<(), http1::RequestError> {
        let start = self.bytes.len();
        for part in [self.method, self.path] {
            self.bytes.extend_from_within(part.start as usize..part.end());
            self.bytes.push(b' ');
        }
        self.bytes.extend_from_slice(b"HTTP/2.0");
        let line = Span::new(start, self.bytes.len());
        let parts = http1::request::Parts { line, method, target: self.path, fields: &self.fields, has_body: !end };
        http1::request::assemble(&self.bytes, &parts, limits, request)
    }

    pub(crate) fn begin(&mut self, kind: HeadKind, limits: Limits) {
        self.clear();
        (self.kind, self.limits) = (kind, limits);
    }

    /// Size of the head as HPACK counts it, including fields that were not kept.
    pub(crate) fn list_bytes(&self) -> u64 {
        self.list_bytes
    }

    /// Checks that need the whole head. For a head that is too large, only the part so far is checked.
    pub(crate) fn finish(&mut self) -> Result<(), HeadFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        match self.kind {
            HeadKind::Request => self.finish_request(),
            HeadKind::Response if self.status == 0 && !self.is_too_large => Err(HeadFault::PseudoAbsent),
            HeadKind::Response | HeadKind::Trailers => Ok(()),
        }
    }

    fn finish_request(&mut self) -> Result<(), HeadFault> {
        let is_connect = self.method_is_connect;
        let is_extended = self.protocol.is_some();
        if is_extended && !(is_connect && self.limits.extended_connect) {
            return Err(HeadFault::Protocol);
        }
        if is_connect && !is_extended {
            // RFC 9113 §8.5: neither scheme nor path.
            if !self.scheme.is_empty() || !self.path.is_empty() {
                return Err(HeadFault::PseudoNotAllowed);
            }
            if self.authority.is_none() && !self.is_too_large {
                return Err(HeadFault::PseudoAbsent);
            }
        } else if (self.method.is_empty() || self.scheme.is_empty() || self.path.is_empty()) && !self.is_too_large {
            return Err(HeadFault::PseudoAbsent);
        }
        if self.path.of(&self.bytes) == b"*" && self.method.of(&self.bytes) != b"OPTIONS" {
            return Err(HeadFault::Path);
        }
        if self.cookies > 1 {
            self.join_cookies();
        }
        Ok(())
    }

    /// Joins several Cookie fields into one (RFC 9113 §8.2.3): HTTP/1 allows only one.
    fn join_cookies(&mut self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"cookie: ");
        let value_start = self.bytes.len();
        let mut is_first = true;
        for at in 0..self.fields.len() {
            let field = self.fields[at];
            if field.id != FieldId::Cookie {
                continue;
            }
            if !is_first {
                self.bytes.extend_from_slice(b"; ");
            }
            is_first = false;
            self.bytes.extend_from_within(field.value.start as usize..field.value.end());
        }
        let joined = Field {
            name: Span::new(start, start + b"cookie".len()),
            value: Span::new(value_start, self.bytes.len()),
            id: FieldId::Cookie,
            hop: false,
        };
        self.bytes.extend_from_slice(b"\r\n");
        let mut place = Some(joined);
        self.fields.retain_mut(|field| {
            if field.id != FieldId::Cookie {
                return true;
            }
            place.take().is_some_and(|joined| {
                *field = joined;
                true
            })
        });
    }

    fn take_pseudo(&mut self, pseudo: Pseudo, name: Span, value: Span) -> Result<(), HeadFault> {
        if self.has_regular {
            return Err(HeadFault::PseudoBehindField);
        }
        if (self.kind == HeadKind::Response) != (pseudo == Pseudo::Status) || self.kind == HeadKind::Trailers {
            return Err(HeadFault::PseudoNotAllowed);
        }
        let text = value.of(&self.bytes);
        match pseudo {
            Pseudo::Method => {
                if !self.method.is_empty() {
                    return Err(HeadFault::PseudoRepeated);
                }
                if !is_method(text) {
                    return Err(HeadFault::Method);
                }
                self.method_is_connect = text == b"CONNECT";
                self.method = value;
            }
            Pseudo::Scheme => {
                if !self.scheme.is_empty() {
                    return Err(HeadFault::PseudoRepeated);
                }
                if !is_scheme(text) {
                    return Err(HeadFault::Scheme);
                }
                self.scheme = value;
            }
            Pseudo::Path => {
                if !self.path.is_empty() {
                    return Err(HeadFault::PseudoRepeated);
                }
                if !is_path(text) {
                    return Err(HeadFault::Path);
                }
                self.path = value;
            }
            Pseudo::Authority => return self.take_authority(name, value),
            Pseudo::Protocol => {
                if self.protocol.is_some() {
                    return Err(HeadFault::PseudoRepeated);
                }
                if !is_method(text) {
                    return Err(HeadFault::Protocol);
                }
                self.protocol = Some(value);
            }
            Pseudo::Status => {
                if self.status != 0 {
                    return Err(HeadFault::PseudoRepeated);
                }
                self.status = status(text).ok_or(HeadFault::Status)?;
            }
        }
        Ok(())
    }

    /// Turns `:authority` into the Host field, as nginx shows it; a Host field of the request must be equal.
    fn take_authority(&mut self, name: Span, value: Span) -> Result<(), HeadFault> {
        if self.authority.is_some() {
            return Err(HeadFault::PseudoRepeated);
        }
        if !is_authority(value.of(&self.bytes)) {
            return Err(HeadFault::Authority);
        }
        let start = name.start as usize;
        let len = value.len as usize;
        self.bytes.copy_within(value.start as usize..value.end(), start + b"host: ".len());
        self.bytes[start..start + b"host: ".len()].copy_from_slice(b"host: ");
        self.bytes.truncate(start + b"host: ".len() + len);
        let value = Span::new(start + b"host: ".len(), self.bytes.len());
        self.authority = Some(value);
        self.seen.insert(FieldId::Host);
        let host = Field { name: Span::new(start, start + b"host".len()), value, id: FieldId::Host, hop: false };
        self.fields.insert(0, host);
        Ok(())
    }

    /// Takes a regular field; `false`: it is not kept.
    fn take_regular(&mut self, id: FieldId, name: Span, value: Span) -> Result<bool, HeadFault> {
        self.has_regular = true;
        match id {
            FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::TransferEncoding
            | FieldId::Upgrade => return Err(HeadFault::ConnectionSpecific),
            FieldId::Te if !value.of(&self.bytes).eq_ignore_ascii_case(b"trailers") => return Err(HeadFault::Te),
            FieldId::Host if self.kind == HeadKind::Request => {
                if std::mem::replace(&mut self.has_host, true) {
                    return Err(HeadFault::HostDiffers);
                }
                let text = value.of(&self.bytes);
                match self.authority {
                    // The field made from `:authority` is enough.
                    Some(known) if known.of(&self.bytes).eq_ignore_ascii_case(text) => return Ok(false),
                    Some(_) => return Err(HeadFault::HostDiffers),
                    None if !is_authority(text) => return Err(HeadFault::Authority),
                    None => self.authority = Some(value),
                }
            }
            FieldId::ContentLength if self.kind != HeadKind::Trailers => {
                if self.content_length.is_some() {
                    return Err(HeadFault::ContentLength);
                }
                self.content_length = Some(content_length(value.of(&self.bytes)).ok_or(HeadFault::ContentLength)?);
            }
            FieldId::Cookie => self.cookies += 1,
            FieldId::Priority if self.kind == HeadKind::Request => {
                self.priority = Some(Priority::parse(value.of(&self.bytes)));
            }
            _ => {}
        }
        self.seen.insert(id);
        self.fields.push(Field { name, value, id, hop: hop::is_hop_by_hop(id) });
        Ok(true)
    }
}

impl Sink for Head {
    fn admit(&mut self, bytes: usize) -> bool {
        self.list_bytes += (bytes + ENTRY_BYTES) as u64;
        let has_room = self.list_bytes <= u64::from(self.limits.bytes_max);
        self.is_too_large |= !has_room || self.fields.len() >= self.limits.fields_max as usize;
        !self.is_too_large && self.fault.is_none()
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn take(&mut self, field: Decoded) {
        let Decoded { name, value_fault, name_at, value_at, .. } = field;
        let taken = match (name, value_fault) {
            (Name::Fault(fault), _) | (_, Some(fault)) => Err(HeadFault::Field(fault)),
            (Name::Pseudo(pseudo), None) => self.take_pseudo(pseudo, name_at, value_at).map(|()| true),
            (Name::Field(id), None) => self.take_regular(id, name_at, value_at),
        };
        match taken {
            Ok(true) => self.bytes.extend_from_slice(b"\r\n"),
            Ok(false) => self.bytes.truncate(name_at.start as usize),
            Err(fault) => self.fault = Some(fault),
        }
    }
}

/// A token in any case (RFC 9110 §5.6.2).
fn is_method(text: &[u8]) -> bool {
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.iter().all(is_token)
}

/// RFC 3986 §3.1.
fn is_scheme(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_alphabetic)
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// A path with its query, or `*`. No space and no control character: it becomes a part of a request line.
fn is_path(text: &[u8]) -> bool {
    (text.first() == Some(&b'/') || text == b"*") && text.iter().all(|&byte| byte > b' ' && byte != 0x7F)
}

/// Less strict than RFC 3986 §3.2, which the gateway checks itself: only excludes bytes that would make it ambiguous.
fn is_authority(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| byte > b' ' && byte < 0x7F && !b"@/?#\\\"<>".contains(&byte))
}

/// Three digits. 101 does not exist in HTTP/2 (RFC 9113 §8.6).
fn status(text: &[u8]) -> Option<u16> {
    let &[hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = text else { return None };
    let status = u16::from(hundreds - b'0') * 100 + u16::from(tens - b'0') * 10 + u16::from(ones - b'0');
    (status != 101 && status < 600).then_some(status)
}

/// One decimal number below 2^63.
fn content_length(text: &[u8]) -> Option<u64> {
    // Nineteen digits fit into 64 bits.
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    i64::try_from(length).is_ok().then_some(length)
}
