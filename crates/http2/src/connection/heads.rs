//! Header blocks in both directions: HEADERS with CONTINUATION, the effect of a head on its stream, and the encoding of
//! heads.

use super::Connection;
use crate::abuse::Cost;
use crate::check;
use crate::event::{Event, StreamId};
use crate::frame::{self, HEADER_BYTES, Header, flag, kind, number_31};
use crate::head::{Head, HeadKind, Limits};
use crate::hpack::{Encoder, Indexing};
use crate::reason::{HeadFault, Reason};
use crate::settings::Role;
use crate::streams::{Over, Phase, Stream, UNKNOWN_LENGTH};
use http1::FieldId;

/// Most CONTINUATION frames of one block: the largest permitted head fits into three frames of 16 KB.
const CONTINUATIONS_MAX: u8 = 16;

/// How many times its limit a head may unpack to before it counts as an attack instead of a mistake.
const BOMB_FACTOR: u64 = 16;

/// Bytes of a block beyond the limit of its fields: each field takes some bytes of indices and lengths.
const BLOCK_SLACK_BYTES: usize = 16 * 1024;

/// An incomplete block.
#[derive(Debug)]
pub(super) struct Block {
    stream: u32,
    end_stream: bool,
    fault: Option<Reason>,
    continuations: u8,
    bytes: Vec<u8>,
}

impl Block {
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }

    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }
}

/// The HEADERS frame that started a block.
#[derive(Clone, Copy)]
struct Opening {
    stream: u32,
    end: bool,
    /// The fault of the frame, apart from the block.
    fault: Option<Reason>,
}

impl Connection {
    pub(super) fn take_headers(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        if self.role == Role::Client && self.is_idle(header.stream) {
            return Err(Reason::StreamIdle);
        }
        if header.stream & 1 == 0 {
            return Err(Reason::StreamNumber);
        }
        let mut fragment = payload;
        if header.has(flag::PADDED) {
            let (&padding, rest) = fragment.split_first().ok_or(Reason::Padding)?;
            let len = rest.len().checked_sub(usize::from(padding)).ok_or(Reason::Padding)?;
            fragment = &rest[..len];
        }
        let mut fault = None;
        if header.has(flag::PRIORITY) {
            let (priority, rest) = fragment.split_at_checked(5).ok_or(Reason::FrameLength)?;
            fault = (number_31(priority, 0) == header.stream).then_some(Reason::SelfDependency);
            fragment = rest;
        }
        let opening = Opening { stream: header.stream, end: header.has(flag::END_STREAM), fault };
        if header.has(flag::END_HEADERS) {
            return self.take_block(opening, fragment, now_ms, head, out);
        }
        self.check_block_size(fragment.len())?;
        self.block = Some(Box::new(Block {
            stream: opening.stream,
            end_stream: opening.end,
            fault: opening.fault,
            continuations: 0,
            bytes: fragment.to_vec(),
        }));
        Ok(None)
    }

    pub(super) fn take_continuation(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        let mut block = self.block.take().ok_or(Reason::BlockAbsent)?;
        block.continuations += 1;
        if block.continuations > CONTINUATIONS_MAX {
            return Err(Reason::ContinuationFlood);
        }
        self.check_block_size(block.bytes.len() + payload.len())?;
        block.bytes.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(None);
        }
        let opening = Opening { stream: block.stream, end: block.end_stream, fault: block.fault };
        self.take_block(opening, &block.bytes, now_ms, head, out)
    }

    fn check_block_size(&self, bytes: usize) -> Result<(), Reason> {
        let bytes_max = self.config.head_bytes_max as usize + BLOCK_SLACK_BYTES;
        if bytes > bytes_max { Err(Reason::BlockTooLarge) } else { Ok(()) }
    }

    /// Processes a complete block. It is decoded even if its stream is not wanted, because it changes the table.
    fn take_block(
        &mut self,
        opening: Opening,
        block: &[u8],
        now_ms: u64,
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        let phase = self.streams.look(opening.stream).map(|stream| stream.receives);
        let kind = match (self.role, phase) {
            (Role::Server, None) => HeadKind::Request,
            (Role::Client, None | Some(Phase::Head)) => HeadKind::Response,
            _ => HeadKind::Trailers,
        };
        let limits = Limits {
            bytes_max: self.config.head_bytes_max,
            fields_max: self.config.fields_max,
            extended_connect: self.config.extended_connect,
        };
        head.begin(kind, limits);
        head.block_bytes = block.len() as u32;
        self.decoder.decode(block, head).map_err(Reason::Compression)?;
        if head.list_bytes() > u64::from(limits.bytes_max).saturating_mul(BOMB_FACTOR) {
            return Err(Reason::HeaderBomb);
        }
        match phase {
            Some(Phase::Ended) => self.reset_for(opening.stream, Reason::StreamEnded, now_ms, out).map(Some),
            Some(_) if opening.fault.is_some() => self.refuse(opening, Reason::SelfDependency, now_ms, out),
            Some(Phase::Head) => self.take_response(opening, now_ms, head, out),
            Some(Phase::Body) => self.take_trailers(opening, now_ms, head, out),
            None if self.role == Role::Server && opening.stream > self.last_opened => {
                self.take_request(opening, now_ms, head, out)
            }
            None => self.check_stray(opening.stream, now_ms).map(|()| None),
        }
    }

    fn refuse(
        &mut self,
        opening: Opening,
        reason: Reason,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        self.reset_for(opening.stream, reason, now_ms, out).map(Some)
    }

    fn take_request(
        &mut self,
        opening: Opening,
        now_ms: u64,
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        let id = opening.stream;
        self.last_opened = id;
        if self.is_too_late(id) {
            return self.check_stray(id, now_ms).map(|()| None);
        }
        self.watch_numbers(out);
        if self.streams.len() >= self.config.streams_max as usize {
            return self.refuse_stream(id, now_ms, out).map(Some);
        }
        let mut stream = Stream::new(id, self.peer.stream_window, self.initial_window());
        let fault = opening.fault.or_else(|| message_fault(head, opening.end, &mut stream).err());
        if let Some(fault) = fault {
            return self.reset_for(id, fault, now_ms, out).map(Some);
        }
        if head.is_too_large {
            // The work for this head was wasted.
            self.budgets.charge(Cost::Provoked, now_ms)?;
        }
        stream.priority = head.priority.unwrap_or_default();
        stream.receives = if opening.end { Phase::Ended } else { Phase::Body };
        self.streams.insert(stream);
        self.refund_priorities();
        Ok(Some(Event::Head { stream: StreamId(id), end: opening.end }))
    }

    /// Refuses a stream above the limit. Before the peer knows our settings it cannot know the limit.
    fn refuse_stream(&mut self, id: u32, now_ms: u64, out: &mut Vec<u8>) -> Result<Event<'static>, Reason> {
        if self.settings_deadline_ms.is_none() {
            return self.reset_for(id, Reason::TooManyStreams, now_ms, out);
        }
        frame::encode_reset(id, Reason::TooManyStreams.code(), out);
        self.has_reset = true;
        self.remove(id, Over::ByUs, out);
        Ok(Event::Reset { stream: StreamId(id), by: crate::event::ResetBy::Us(Reason::TooManyStreams) })
    }

    fn take_response(
        &mut self,
        opening: Opening,
        now_ms: u64,
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        let Some(stream) = self.streams.get(opening.stream) else { return Ok(None) };
        if let Err(fault) = message_fault(head, opening.end, stream) {
            return self.refuse(opening, fault, now_ms, out);
        }
        if head.status >= 200 {
            stream.receives = Phase::Body;
        }
        if opening.end {
            self.end_receiving(opening.stream, out);
        }
        Ok(Some(Event::Head { stream: StreamId(opening.stream), end: opening.end }))
    }

    fn take_trailers(
        &mut self,
        opening: Opening,
        now_ms: u64,
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        let body_left = self.streams.look(opening.stream).map_or(UNKNOWN_LENGTH, |stream| stream.body_left);
        let fault = match head.finish() {
            Err(fault) => Some(Reason::Head(fault)),
            Ok(()) if !opening.end => Some(Reason::Head(HeadFault::End)),
            Ok(()) if body_left != UNKNOWN_LENGTH && body_left > 0 => Some(Reason::BodyLength),
            Ok(()) => None,
        };
        if let Some(fault) = fault {
            return self.refuse(opening, fault, now_ms, out);
        }
        let is_dropped = self.streams.look(opening.stream).is_some_and(|stream| stream.discards);
        self.end_receiving(opening.stream, out);
        if is_dropped {
            return Ok(None);
        }
        Ok(Some(Event::Trailers { stream: StreamId(opening.stream) }))
    }

    /// Appends a header block in as many frames as needed. `fill` writes its fields.
    pub(super) fn write_block(
        &mut self,
        stream: u32,
        end: bool,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Fields<'_>),
    ) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.begin(out);
        fill(&mut Fields { encoder: &mut self.encoder, out });
        let end_flag = if end { flag::END_STREAM } else { 0 };
        let len = out.len() - start - HEADER_BYTES;
        let frame_max = self.peer.frame_bytes_max as usize;
        if len <= frame_max {
            let header = Header { len: len as u32, kind: kind::HEADERS, flags: end_flag | flag::END_HEADERS, stream };
            out[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
            return;
        }
        let block = out.split_off(start + HEADER_BYTES);
        out.truncate(start);
        let mut pieces = block.chunks(frame_max).peekable();
        let mut kind = kind::HEADERS;
        let mut flags = end_flag;
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                flags |= flag::END_HEADERS;
            }
            frame::encode(kind, flags, stream, piece, out);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }
}

/// Checks a request or response, and determines the length of its body.
fn message_fault(head: &mut Head, end: bool, stream: &mut Stream) -> Result<(), Reason> {
    head.finish().map_err(Reason::Head)?;
    let is_interim = head.kind == HeadKind::Response && head.status < 200;
    if is_interim && end {
        return Err(Reason::Head(HeadFault::End));
    }
    if is_interim || head.is_too_large {
        return Ok(());
    }
    let has_no_body = head.kind == HeadKind::Response && (stream.no_body || matches!(head.status, 204 | 304));
    match head.content_length {
        _ if has_no_body => stream.body_left = 0,
        Some(length) if end && length > 0 => return Err(Reason::BodyLength),
        Some(length) => stream.body_left = length,
        None => {}
    }
    Ok(())
}

/// Longest name that is converted to lower case here: longer names with an upper-case letter are refused.
const LOWERED_BYTES_MAX: usize = 128;

/// Takes the fields of a head to send, and checks every byte.
#[derive(Debug)]
pub struct Fields<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) out: &'a mut Vec<u8>,
}

impl Fields<'_> {
    /// Adds a field. The name may have any case. A field that no HTTP/2 message may have is left out, and reported.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        self.add_known(FieldId::of_name(name), name, value)
    }

    /// The same if the name's id is known.
    pub fn add_known(&mut self, id: FieldId, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        match id {
            FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::TransferEncoding
            | FieldId::Upgrade => return Err(HeadFault::ConnectionSpecific),
            FieldId::Te if !value.eq_ignore_ascii_case(b"trailers") => return Err(HeadFault::Te),
            _ => {}
        }
        check::value(value)?;
        let mut lowered = [0; LOWERED_BYTES_MAX];
        let name = match lowered.get_mut(..name.len()) {
            Some(lowered) => {
                lowered.copy_from_slice(name);
                lowered.make_ascii_lowercase();
                &*lowered
            }
            None => name,
        };
        check::name(name)?;
        self.encoder.field(name, value, indexing(id), self.out);
        Ok(())
    }
}

/// Whether a field should be put into the table. A connection to an upstream carries requests of many clients: secrets
/// must not be in the table, since an attacker could guess them there (RFC 7541 §7.1).
fn indexing(id: FieldId) -> Indexing {
    match id {
        FieldId::Authorization | FieldId::ProxyAuthorization | FieldId::Cookie => Indexing::Never,
        FieldId::SetCookie
        | FieldId::ContentLength
        | FieldId::ContentRange
        | FieldId::ETag
        | FieldId::LastModified
        | FieldId::Location
        | FieldId::Age
        | FieldId::Expires
        | FieldId::Range
        | FieldId::IfRange
        | FieldId::IfNoneMatch
        | FieldId::IfModifiedSince
        | FieldId::IfMatch
        | FieldId::IfUnmodifiedSince
        | FieldId::Referer
        | FieldId::XRequestId
        | FieldId::XForwardedFor
        | FieldId::XRealIp
        | FieldId::Forwarded => Indexing::Without,
        _ => Indexing::Keep,
    }
}
