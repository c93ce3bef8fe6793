//! Parses responses from the bytes of a connection, in pieces of any size. Without a socket; `connection` supplies the
//! bytes. Bodies are counted and dropped.

use crate::cause::{self, Cause};
use crate::streamed::Room;
use crate::tcp::Messages;
use http1::chunked::Decoder;
use http1::{FieldId, HeadEnd, Limits, Parse, RequestKind, ResponseError, ResponseFraming, ResponseHead, ResponseKind};
use std::sync::Arc;

/// Longest response head: eight times the limit of common proxies, since the load does not judge cookies.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The facts of a response head that the load needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) status: u16,
    pub(super) keepalive: bool,
    framing: ResponseFraming,
    interim: bool,
}

/// The header fields of a response as they were sent.
pub(super) type Fields = Vec<(String, Vec<u8>)>;

/// The parts of responses that a script or a scenario receives.
#[derive(Debug, Default)]
pub(super) struct Capture {
    /// Bytes of a body that are kept; the rest is counted and dropped.
    pub(super) body_bytes_max: usize,
    /// Fields of the head that was parsed last.
    fields: Fields,
    /// Finished responses: status, fields, body.
    pub(super) done: Vec<(u16, Fields, Vec<u8>)>,
}

impl Capture {
    pub(super) fn new(body_bytes_max: usize) -> Self {
        Self { body_bytes_max, ..Self::default() }
    }
}

/// The parts of a response that a connection keeps for a script or a scenario.
#[derive(Debug, Default)]
struct KeptParts {
    body_bytes_max: usize,
    fields: Fields,
    body: Vec<u8>,
}

/// Parser state that all connections of a worker share.
#[derive(Debug)]
pub(super) struct Codec {
    limits: Limits,
    head: ResponseHead,
    /// The last head and its parsed facts. A target repeats the same head except for its date, and a comparison costs a
    /// tenth of a parse. Heads are parsed from left to right, so bytes after the head do not change the result.
    memo: Vec<u8>,
    memo_kind: RequestKind,
    memo_facts: Facts,
    /// Fields and bodies, if a script uses them.
    pub(super) capture: Option<Capture>,
    /// The first Server field that was received.
    pub(super) server: Option<String>,
    /// The HTTP/2 head that is reused for each response.
    pub(super) streams_head: http2::Head,
    /// Buffer for outgoing frames.
    pub(super) out: Vec<u8>,
    /// Buffers for HTTP/2 requests.
    pub(super) room: Room,
    /// The messages of a load over TCP; then there are replies in place of responses.
    pub(super) messages: Option<Arc<Messages>>,
}

impl Codec {
    pub(super) fn new() -> Self {
        let memo_facts = Facts { status: 0, keepalive: false, framing: ResponseFraming::None, interim: false };
        Self {
            limits: Limits::response(HEAD_BYTES_MAX),
            head: ResponseHead::default(),
            memo: Vec::new(),
            memo_kind: RequestKind::Other,
            memo_facts,
            server: None,
            capture: None,
            streams_head: http2::Head::default(),
            out: Vec::new(),
            room: Room::default(),
            messages: None,
        }
    }

    /// Parses a head at the front of `bytes`. Returns its length and facts, or `None` if it is incomplete.
    fn parse(&mut self, bytes: &[u8], kind: RequestKind) -> Result<Option<(usize, Facts)>, Cause> {
        if self.capture.is_none() && kind == self.memo_kind && !self.memo.is_empty() && bytes.starts_with(&self.memo) {
            return Ok(Some((self.memo.len(), self.memo_facts)));
        }
        match http1::response::parse(bytes, &self.limits, kind, &mut self.head) {
            Ok(Parse::Partial) => Ok(None),
            Ok(Parse::Complete { len }) => {
                let facts = Facts {
                    status: self.head.status,
                    keepalive: self.head.keepalive,
                    framing: self.head.framing,
                    interim: self.head.kind == ResponseKind::Interim,
                };
                if self.server.is_none()
                    && let Some(server) = self.head.value(FieldId::Server, bytes)
                {
                    self.server = Some(String::from_utf8_lossy(server).into_owned());
                }
                if let Some(capture) = &mut self.capture {
                    let fields = self.head.fields.iter();
                    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
                    capture.fields.clear();
                    capture
                        .fields
                        .extend(fields.map(|field| (text(field.name.of(bytes)), field.value.of(bytes).to_vec())));
                }
                self.memo.clear();
                self.memo.extend_from_slice(bytes.get(..len).unwrap_or_default());
                (self.memo_kind, self.memo_facts) = (kind, facts);
                Ok(Some((len, facts)))
            }
            Err(ResponseError::InvalidStatusLine) => Err(match bytes {
                [b'H', b'T', b'T', b'P', ..] => Cause::BadHead,
                _ => cause::of_foreign_bytes(bytes),
            }),
            Err(_) => Err(Cause::BadHead),
        }
    }
}

#[derive(Debug)]
enum ReadPhase {
    Head,
    /// This many bytes of the body are still missing.
    Length(u64),
    Chunked(Decoder),
    UntilClose,
}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Complete {
    /// 0 for the reply to a message over TCP, which has none.
    pub(super) status: u16,
    /// Whether the connection may carry another request.
    pub(super) keepalive: bool,
    /// Bytes of the body after decoding chunks.
    pub(super) body_bytes: u64,
}

/// The position of a connection in a response.
#[derive(Debug)]
pub(super) struct Reader {
    phase: ReadPhase,
    /// The received part of an incomplete head.
    held: Vec<u8>,
    /// Where the search for the end of the head continues.
    searched: usize,
    status: u16,
    keepalive: bool,
    body_bytes: u64,
    /// Whether any byte of the awaited response has arrived.
    started: bool,
    /// The parts kept for a script; `None` without one.
    kept: Option<Box<KeptParts>>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            phase: ReadPhase::Head,
            held: Vec::new(),
            searched: 0,
            status: 0,
            keepalive: false,
            body_bytes: 0,
            started: false,
            kept: None,
        }
    }

    /// Forgets a partial response, for a new connection.
    pub(super) fn clear(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        *self = Self { held, ..Self::new() };
    }

    /// Whether any byte of the awaited response has arrived.
    pub(super) fn is_started(&self) -> bool {
        self.started
    }

    /// Consumes bytes up to the end of one response and advances the slice. `None` means that more bytes are needed.
    pub(super) fn take(
        &mut self,
        bytes: &mut &[u8],
        kind: RequestKind,
        codec: &mut Codec,
    ) -> Result<Option<Complete>, Cause> {
        self.started = true;
        while matches!(self.phase, ReadPhase::Head) {
            let Some(facts) = self.take_head(bytes, kind, codec)? else { return Ok(None) };
            if facts.interim {
                continue;
            }
            (self.status, self.keepalive) = (facts.status, facts.keepalive);
            if let Some(capture) = &mut codec.capture {
                let Capture { body_bytes_max, fields, .. } = capture;
                let kept =
                    KeptParts { body_bytes_max: *body_bytes_max, fields: std::mem::take(fields), body: Vec::new() };
                self.kept = Some(Box::new(kept));
            }
            self.phase = match facts.framing {
                ResponseFraming::None => ReadPhase::Length(0),
                ResponseFraming::Length(length) => ReadPhase::Length(length),
                ResponseFraming::Chunked => ReadPhase::Chunked(Decoder::new()),
                ResponseFraming::UntilClose => ReadPhase::UntilClose,
            };
        }
        let ended = self.take_body(bytes)?;
        if ended && let (Some(capture), Some(kept)) = (&mut codec.capture, self.kept.take()) {
            capture.done.push((self.status, kept.fields, kept.body));
        }
        Ok(ended.then(|| self.complete()))
    }

    /// The same for the reply to the message of this number.
    pub(super) fn take_reply(
        &mut self,
        bytes: &mut &[u8],
        number: u32,
        messages: &Messages,
    ) -> Result<Option<Complete>, Cause> {
        self.started = true;
        let ended = messages.take_reply(number, &mut self.body_bytes, bytes)?;
        self.keepalive = messages.keep_connections();
        Ok(ended.then(|| self.complete()))
    }

    fn take_head(&mut self, bytes: &mut &[u8], kind: RequestKind, codec: &mut Codec) -> Result<Option<Facts>, Cause> {
        if self.held.is_empty() {
            if bytes.is_empty() {
                return Ok(None);
            }
            let Some((length, facts)) = codec.parse(bytes, kind)? else {
                self.held.extend_from_slice(bytes);
                self.searched = 0;
                *bytes = &[];
                return Ok(None);
            };
            *bytes = bytes.get(length..).unwrap_or_default();
            return Ok(Some(facts));
        }
        let before = self.held.len();
        self.held.extend_from_slice(bytes);
        // An incomplete head is parsed again only when its end has arrived, or when it is too long or its first line is
        // wrong.
        if let HeadEnd::NotYet(from) = http1::find_head_end(&self.held, self.searched)
            && self.held.len() <= HEAD_BYTES_MAX
        {
            self.searched = from;
            *bytes = &[];
            return Ok(None);
        }
        let Some((length, facts)) = codec.parse(&self.held, kind)? else { return Err(Cause::BadHead) };
        self.held.clear();
        *bytes = bytes.get(length.saturating_sub(before)..).unwrap_or_default();
        Ok(Some(facts))
    }

    /// Returns whether the body is complete.
    fn take_body(&mut self, bytes: &mut &[u8]) -> Result<bool, Cause> {
        match &mut self.phase {
            ReadPhase::Head => Ok(false),
            ReadPhase::Length(left) => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                self.body_bytes += taken as u64;
                let ended = *left == 0;
                keep(&mut self.kept, bytes.get(..taken));
                *bytes = bytes.get(taken..).unwrap_or_default();
                Ok(ended)
            }
            ReadPhase::Chunked(decoder) => {
                while !decoder.is_done() && !bytes.is_empty() {
                    let decoded = decoder.decode(bytes).map_err(|_| Cause::BadBody)?;
                    self.body_bytes += decoded.data.len() as u64;
                    keep(&mut self.kept, bytes.get(decoded.data));
                    *bytes = bytes.get(decoded.consumed..).unwrap_or_default();
                }
                Ok(decoder.is_done())
            }
            ReadPhase::UntilClose => {
                self.body_bytes += bytes.len() as u64;
                keep(&mut self.kept, Some(bytes));
                *bytes = &[];
                Ok(false)
            }
        }
    }

    /// The target has closed: either this ends the body, or the response failed.
    pub(super) fn end_of_stream(&mut self, was_used_before: bool, codec: &mut Codec) -> Result<Complete, Cause> {
        match self.phase {
            ReadPhase::UntilClose => {
                if let (Some(capture), Some(kept)) = (&mut codec.capture, self.kept.take()) {
                    capture.done.push((self.status, kept.fields, kept.body));
                }
                Ok(self.complete())
            }
            ReadPhase::Head if !self.started && was_used_before => Err(Cause::KeepaliveRace),
            ReadPhase::Head if !self.started => Err(Cause::ClosedUnanswered),
            _ if codec.messages.is_some() => Err(Cause::Short),
            _ => Err(Cause::ClosedEarly),
        }
    }

    fn complete(&mut self) -> Complete {
        let complete = Complete { status: self.status, keepalive: self.keepalive, body_bytes: self.body_bytes };
        self.phase = ReadPhase::Head;
        self.body_bytes = 0;
        self.started = false;
        complete
    }
}

fn keep(kept: &mut Option<Box<KeptParts>>, data: Option<&[u8]>) {
    if let (Some(kept), Some(data)) = (kept, data) {
        let room = kept.body_bytes_max.saturating_sub(kept.body.len());
        kept.body.extend_from_slice(data.get(..data.len().min(room)).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses bytes in pieces of this size; returns the responses and the failure.
    fn read(bytes: &[u8], piece: usize, kind: RequestKind) -> (Vec<Complete>, Option<Cause>) {
        let (mut reader, mut codec, mut all) = (Reader::new(), Codec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() {
                match reader.take(&mut rest, kind, &mut codec) {
                    Ok(Some(complete)) => all.push(complete),
                    Ok(None) => {}
                    Err(cause) => return (all, Some(cause)),
                }
            }
        }
        let unfinished = reader.is_started().then(|| reader.end_of_stream(false, &mut codec));
        match unfinished {
            Some(Ok(complete)) => all.push(complete),
            Some(Err(cause)) => return (all, Some(cause)),
            None => {}
        }
        (all, None)
    }

    fn complete(status: u16, keepalive: bool, body_bytes: u64) -> Complete {
        Complete { status, keepalive, body_bytes }
    }

    #[test]
    fn responses_are_the_same_in_whatever_pieces_they_come() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            HTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nworld\
            HTTP/1.0 200 OK\r\n\r\nuntil the end";
        let expected = vec![
            complete(200, true, 5),
            complete(404, true, 3),
            complete(204, true, 0),
            complete(200, true, 5),
            complete(200, false, 13),
        ];
        for piece in 1..bytes.len() {
            assert_eq!(read(bytes, piece, RequestKind::Other), (expected.clone(), None), "pieces of {piece}");
        }
    }

    #[test]
    fn the_answer_to_head_has_no_body() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(bytes, 9, RequestKind::Head).0, [complete(200, true, 0), complete(200, true, 0)]);
    }

    #[test]
    fn recognizes_invalid_responses() {
        let cause = |bytes: &[u8]| read(bytes, 1000, RequestKind::Other).1;
        assert_eq!(cause(b"SSH-2.0-x\r\n"), Some(Cause::NotHttp));
        assert_eq!(cause(&[21, 3, 1, 0, 2, 2, 70]), Some(Cause::SpeaksTls));
        assert_eq!(cause(b"HTTP/1.1 2xx OK\r\n\r\n"), Some(Cause::BadHead));
        assert_eq!(cause(b"HTTP/1.1 200 OK\r\nA b\r\n\r\n"), Some(Cause::BadHead));
        assert_eq!(cause(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz"), Some(Cause::BadBody));
        assert_eq!(cause(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), Some(Cause::ClosedEarly));
        assert_eq!(cause(b"HTTP/1.1 200 O"), Some(Cause::ClosedEarly));
        let endless = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &vec![b'x'; 2 * HEAD_BYTES_MAX]].concat();
        assert_eq!(read(&endless, 5000, RequestKind::Other).1, Some(Cause::BadHead));
    }
}
