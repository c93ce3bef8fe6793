//! Reading: the preface, frames one by one, and DATA in pieces as it arrives. Other frames are processed when they are
//! complete; incomplete ones are kept until then.

use super::Connection;
use crate::abuse::Cost;
use crate::event::{Closed, Event, StreamId};
use crate::frame::{HEADER_BYTES, Header, PREFACE, flag, kind};
use crate::head::Head;
use crate::reason::Reason;
use crate::settings::FRAME_BYTES_DEFAULT;
use crate::streams::{Over, Phase, UNKNOWN_LENGTH};

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The preface; this many bytes of it have come.
    Preface(u8),
    /// The first frame, which must be SETTINGS.
    FirstFrame,
    /// A frame's header.
    Frame,
    /// The payload of a DATA frame.
    Data(Data),
    /// An ignored payload.
    Skip(u32),
    /// Nothing: the connection is closed.
    Closed,
}

/// A DATA frame being received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Data {
    stream: u32,
    /// Bytes of the payload still to come, including padding.
    left: u32,
    /// Bytes of padding at its end.
    padding: u32,
    /// The length of the padding comes first.
    is_padded: bool,
    end: bool,
}

/// The result of a reading step.
enum Step<'b> {
    Event(Event<'b>),
    Nothing,
    NeedsMore,
}

impl<'b> Step<'b> {
    fn of(event: Option<Event<'b>>) -> Self {
        event.map_or(Self::Nothing, Self::Event)
    }
}

impl Connection {
    /// Reads from `input` up to the next event, and advances it. `None`: everything was read. The events
    /// [`Event::Head`] and [`Event::Trailers`] store their fields in `head`. Bytes to send are appended to `out`.
    pub fn receive<'b>(
        &mut self,
        now_ms: u64,
        input: &mut &'b [u8],
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'b>>, Closed> {
        self.advance(now_ms, input, head, out).map_err(|reason| {
            *input = &[];
            self.fail(reason, out)
        })
    }

    fn advance<'b>(
        &mut self,
        now_ms: u64,
        input: &mut &'b [u8],
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'b>>, Reason> {
        if let Some(event) = self.next_unprocessed(out) {
            return Ok(Some(event));
        }
        loop {
            let step = match self.reading {
                Reading::Preface(at) => self.read_preface(at, input)?,
                Reading::FirstFrame | Reading::Frame => self.read_frame(now_ms, input, head, out)?,
                Reading::Data(data) => self.read_data(data, now_ms, input, out)?,
                Reading::Skip(left) => self.skip(left, input),
                Reading::Closed => {
                    *input = &[];
                    return Ok(None);
                }
            };
            match step {
                Step::Event(event) => return Ok(Some(event)),
                Step::NeedsMore => return Ok(None),
                Step::Nothing => {}
            }
        }
    }

    fn read_preface(&mut self, at: u8, input: &mut &[u8]) -> Result<Step<'static>, Reason> {
        let expected = &PREFACE[usize::from(at)..];
        let len = expected.len().min(input.len());
        if input[..len] != expected[..len] {
            return Err(Reason::Preface);
        }
        *input = &input[len..];
        if len < expected.len() {
            self.reading = Reading::Preface(at + len as u8);
            return Ok(Step::NeedsMore);
        }
        self.reading = Reading::FirstFrame;
        Ok(Step::Nothing)
    }

    fn skip(&mut self, left: u32, input: &mut &[u8]) -> Step<'static> {
        let len = input.len().min(left as usize);
        *input = &input[len..];
        let left = left - len as u32;
        if left > 0 {
            self.reading = Reading::Skip(left);
            return Step::NeedsMore;
        }
        self.reading = Reading::Frame;
        Step::Nothing
    }

    fn read_frame<'b>(
        &mut self,
        now_ms: u64,
        input: &mut &'b [u8],
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Step<'b>, Reason> {
        if !self.partial.is_empty() {
            return self.read_frame_in_pieces(now_ms, input, head, out);
        }
        let Some((bytes, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
            self.partial.extend_from_slice(input);
            *input = &[];
            return Ok(Step::NeedsMore);
        };
        let header = Header::parse(bytes);
        self.check(header)?;
        if is_streamed(header) {
            *input = rest;
            return self.begin_streamed(header, now_ms, out);
        }
        let Some((payload, rest)) = rest.split_at_checked(header.len as usize) else {
            self.partial.reserve_exact(HEADER_BYTES + header.len as usize);
            self.partial.extend_from_slice(input);
            *input = &[];
            return Ok(Step::NeedsMore);
        };
        *input = rest;
        self.take_frame(header, payload, now_ms, head, out).map(Step::of)
    }

    /// Continues a frame that is partly buffered.
    fn read_frame_in_pieces<'b>(
        &mut self,
        now_ms: u64,
        input: &mut &'b [u8],
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Step<'b>, Reason> {
        if !self.gather(HEADER_BYTES, input) {
            return Ok(Step::NeedsMore);
        }
        let header = self.partial.first_chunk().map_or_else(Header::default, Header::parse);
        self.check(header)?;
        if is_streamed(header) {
            self.partial = Vec::new();
            return self.begin_streamed(header, now_ms, out);
        }
        if !self.gather(HEADER_BYTES + header.len as usize, input) {
            return Ok(Step::NeedsMore);
        }
        let frame = std::mem::take(&mut self.partial);
        self.take_frame(header, frame.get(HEADER_BYTES..).unwrap_or_default(), now_ms, head, out).map(Step::of)
    }

    /// Fills the buffer up to this length; `false` if more bytes are needed.
    fn gather(&mut self, len: usize, input: &mut &[u8]) -> bool {
        let missing = len.saturating_sub(self.partial.len()).min(input.len());
        self.partial.reserve_exact(len.saturating_sub(self.partial.len()));
        self.partial.extend_from_slice(&input[..missing]);
        *input = &input[missing..];
        self.partial.len() >= len
    }

    /// Checks a frame's header alone. It may be called again while the payload arrives.
    fn check(&self, header: Header) -> Result<(), Reason> {
        if header.len > FRAME_BYTES_DEFAULT {
            return Err(Reason::FrameTooLarge);
        }
        if self.reading == Reading::FirstFrame && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(Reason::Preface);
        }
        match &self.block {
            Some(block) if header.kind != kind::CONTINUATION || header.stream != block.stream() => {
                return Err(Reason::BlockInterrupted);
            }
            None if header.kind == kind::CONTINUATION => return Err(Reason::BlockAbsent),
            _ => {}
        }
        let needs_stream = match header.kind {
            kind::DATA | kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::CONTINUATION => true,
            kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE => false,
            kind::PUSH_PROMISE => return Err(Reason::Push),
            _ => return Ok(()),
        };
        if needs_stream != (header.stream != 0) {
            return Err(Reason::FrameStream);
        }
        let fits = match header.kind {
            kind::RST_STREAM => header.len == 4,
            kind::PING => header.len == 8,
            kind::SETTINGS => header.len.is_multiple_of(6) && !(header.has(flag::ACK) && header.len > 0),
            kind::GOAWAY => header.len >= 8,
            kind::PRIORITY_UPDATE => header.len >= 4,
            _ => true,
        };
        if fits { Ok(()) } else { Err(Reason::FrameLength) }
    }

    fn begin_streamed(&mut self, header: Header, now_ms: u64, out: &mut Vec<u8>) -> Result<Step<'static>, Reason> {
        if header.kind != kind::DATA {
            // Unknown types are ignored (RFC 9113 §4.1).
            self.budgets.charge(Cost::Stray, now_ms)?;
            self.reading = Reading::Skip(header.len);
            return Ok(Step::Nothing);
        }
        self.begin_data(header, now_ms, out).map(Step::of)
    }

    /// Processes a DATA frame's header: windows are charged for all of it at once, as on the peer's side.
    fn begin_data(&mut self, header: Header, now_ms: u64, out: &mut Vec<u8>) -> Result<Option<Event<'static>>, Reason> {
        if self.is_idle(header.stream) {
            return Err(Reason::StreamIdle);
        }
        let len = header.len as i32;
        if len > self.receive_window {
            return Err(Reason::WindowExceeded);
        }
        self.receive_window -= len;
        let (end, is_padded) = (header.has(flag::END_STREAM), header.has(flag::PADDED));
        if is_padded && len == 0 {
            return Err(Reason::Padding);
        }
        if !end && header.len <= u32::from(is_padded) {
            self.budgets.charge(Cost::Empty, now_ms)?;
        }
        let data = Data { stream: header.stream, left: header.len, padding: 0, is_padded, end };
        let Some(stream) = self.streams.get(header.stream) else {
            self.check_stray(header.stream, now_ms)?;
            self.reading = Reading::Skip(header.len);
            self.credit_connection(header.len, out);
            return Ok(None);
        };
        let fault = match stream.receives {
            Phase::Head => Some(Reason::DataBeforeHead),
            Phase::Ended => Some(Reason::StreamEnded),
            Phase::Body if len > stream.receive_window => Some(Reason::WindowExceeded),
            Phase::Body => None,
        };
        if let Some(fault) = fault {
            self.reading = Reading::Skip(header.len);
            self.credit_connection(header.len, out);
            return self.reset_for(header.stream, fault, now_ms, out).map(Some);
        }
        stream.receive_window -= len;
        self.reading = Reading::Data(data);
        Ok(None)
    }

    /// Handles a message frame on a stream that is over. The peer may not have known that.
    pub(super) fn check_stray(&mut self, stream: u32, now_ms: u64) -> Result<(), Reason> {
        if self.is_too_late(stream) {
            return self.budgets.charge(Cost::Stray, now_ms);
        }
        match self.streams.over(stream) {
            Some(Over::ByPeer) => Err(Reason::StreamOver),
            // Never opened. But if we have reset streams, it may be one that is not remembered any more.
            None if !self.has_reset => Err(Reason::StreamNumber),
            Some(Over::ByUs) | None => self.budgets.charge(Cost::Stray, now_ms),
        }
    }

    fn read_data<'b>(
        &mut self,
        mut data: Data,
        now_ms: u64,
        input: &mut &'b [u8],
        out: &mut Vec<u8>,
    ) -> Result<Step<'b>, Reason> {
        if data.is_padded {
            let Some((&padding, rest)) = input.split_first() else { return Ok(Step::NeedsMore) };
            *input = rest;
            data.left -= 1;
            data.is_padded = false;
            data.padding = u32::from(padding);
            if data.padding > data.left {
                return Err(Reason::Padding);
            }
            self.credit_padding(data.stream, data.padding + 1, out);
        }
        let content = data.left - data.padding;
        let (bytes, rest) = input.split_at(input.len().min(content as usize));
        *input = rest;
        data.left -= bytes.len() as u32;
        let is_whole = bytes.len() as u32 == content;
        if !is_whole && bytes.is_empty() {
            self.reading = Reading::Data(data);
            return Ok(Step::NeedsMore);
        }
        // The rest is padding.
        self.reading = if is_whole { Reading::Skip(data.left) } else { Reading::Data(data) };
        self.deliver(data.stream, bytes, is_whole && data.end, now_ms, out).map(Step::of)
    }

    /// Passes a piece of a body on, if its stream still wants it.
    fn deliver<'b>(
        &mut self,
        id: u32,
        bytes: &'b [u8],
        end: bool,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'b>>, Reason> {
        let len = bytes.len() as u32;
        let Some(stream) = self.streams.get(id) else {
            self.credit_connection(len, out);
            return Ok(None);
        };
        if stream.discards {
            self.discard(id, len, end, out);
            return Ok(None);
        }
        stream.unconsumed += len;
        if stream.body_left != UNKNOWN_LENGTH {
            let left = stream.body_left.checked_sub(u64::from(len));
            match left {
                Some(left) if left == 0 || !end => stream.body_left = left,
                _ => return self.reset_for(id, Reason::BodyLength, now_ms, out).map(Some),
            }
        }
        if end {
            self.end_receiving(id, out);
        } else if bytes.is_empty() {
            return Ok(None);
        }
        Ok(Some(Event::Data { stream: StreamId(id), bytes, end }))
    }

    /// Drops a piece of a body.
    fn discard(&mut self, id: u32, len: u32, end: bool, out: &mut Vec<u8>) {
        self.credit_connection(len, out);
        if end {
            self.end_receiving(id, out);
        } else {
            self.reset_if_stuck(id, out);
        }
    }

    /// The peer has sent everything of a stream.
    pub(super) fn end_receiving(&mut self, id: u32, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get(id) else { return };
        stream.receives = Phase::Ended;
        if stream.sends == Phase::Ended {
            self.remove(id, Over::ByPeer, out);
        }
    }
}

/// Whether the payload is processed in pieces: DATA, and ignored frames.
fn is_streamed(header: Header) -> bool {
    header.kind == kind::DATA || (header.kind > kind::CONTINUATION && header.kind != kind::PRIORITY_UPDATE)
}
