//! The chunked coding, in both directions (RFC 9112 §7.1). Strict: every line ends in CRLF, sizes are hexadecimal
//! digits only, extensions and trailers are bounded. Responses are decoded slightly more leniently
//! ([`Decoder::of_response`]). Extensions are dropped; trailers are kept separately and never merged into the head. The
//! relay calls it; it copies no data.

use std::ops::Range;

use crate::error::{ChunkError, LineFault};
use crate::field::FieldId;
use crate::framing::BODY_BYTES_MAX;
use crate::hop;
use crate::limits::{BareLf, Limits};
use crate::scan::{self, Fault, Line, Window};
use crate::trailers::Trailers;

/// Digits of a chunk size: as many as 2^64 has, which bounds leading zeros.
const SIZE_DIGITS_MAX: u8 = 16;
/// Extension bytes of one chunk line. No extension is in common use; 1 KB is generous.
const EXTENSION_BYTES_MAX: u32 = 1024;
/// Extension bytes in a body beyond the bytes of its data. Otherwise one-byte chunks could carry a kilobyte of
/// extension each, and a body that looks small to every limit would cost a thousand times its size.
const EXTENSION_EXCESS_MAX: u64 = 16 * 1024;
/// Trailer section in bytes. The fields in use (checksums, timings, gRPC status) take some hundred.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// Ends a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// Ends a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The result of one call to [`Decoder::decode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that were processed.
    pub consumed: usize,
    /// The piece of body among them, `data.end <= consumed`; possibly empty.
    pub data: Range<usize>,
    /// Whether the body is complete; the input after `consumed` is then the next message.
    pub done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before or between the digits of a size.
    Size {
        digits: u8,
    },
    /// White space after the size; only an extension may follow.
    SizeBlank,
    /// In an extension.
    Extension {
        quoted: bool,
        escaped: bool,
    },
    /// The CR of a chunk line was read.
    SizeLf,
    /// In the data; `remaining` is above 0.
    Data,
    /// The data's CR, then its LF.
    DataCr,
    DataLf,
    /// In the trailer section.
    Trailer,
    Done,
}

/// Decodes one chunked body. Give it the input piece by piece, in any pieces.
#[derive(Debug, Clone)]
pub struct Decoder {
    state: State,
    /// Blanks may fill a size line, and a malformed trailer line is dropped.
    lenient: bool,
    remaining: u64,
    extension_bytes: u32,
    extension_excess: u64,
    trailer_bytes: usize,
    /// The kept trailer fields. The incomplete line follows their text.
    trailers: Trailers,
    trailer_line_start: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the start of a body. Allocates only if there are trailers.
    pub fn new() -> Self {
        Self {
            state: State::Size { digits: 0 },
            lenient: false,
            remaining: 0,
            extension_bytes: 0,
            extension_excess: 0,
            trailer_bytes: 0,
            trailers: Trailers::default(),
            trailer_line_start: 0,
        }
    }

    /// A decoder for a response. Old servers pad the size with blanks, and some end with invalid trailers: the body is
    /// complete nevertheless, and no other request is read from this connection.
    pub fn of_response() -> Self {
        Self { lenient: true, ..Self::new() }
    }

    /// Whether the whole body, with its trailers, has been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The trailer section as canonical lines, forbidden fields left out; empty until the body is done. Can be given to
    /// [`encode_last_chunk`] as it is.
    pub fn trailer_lines(&self) -> &[u8] {
        if self.is_done() { &self.trailers.bytes } else { &[] }
    }

    /// Name and value of each kept trailer field.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = if self.is_done() { Some(&self.trailers) } else { None };
        fields.into_iter().flat_map(Trailers::iter).map(|(_, name, value)| (name, value))
    }

    /// Takes the kept trailer fields of a body that is done; none before that.
    pub fn take_trailers(&mut self) -> Trailers {
        if self.is_done() { std::mem::take(&mut self.trailers) } else { Trailers::default() }
    }

    /// Continues up to the end of the next piece of data, of the body, or of the input, whichever comes first. Call it
    /// again with `input[consumed..]` until the input is used up or `done`.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, ChunkError> {
        let mut at = 0;
        while self.state != State::Done {
            if self.state == State::Data {
                let available = input.len() - at;
                if available == 0 {
                    break;
                }
                let taken = usize::try_from(self.remaining).map_or(available, |remaining| remaining.min(available));
                return Ok(self.take_data(at, taken, input));
            }
            if self.state == State::Trailer {
                at += self.take_trailer(input.get(at..).unwrap_or_default())?;
                break;
            }
            let Some(&byte) = input.get(at) else { break };
            at += 1;
            self.state = self.step(byte)?;
        }
        Ok(Decoded { consumed: at, data: at..at, done: self.is_done() })
    }

    /// Takes `taken` bytes of data at `at`, and the CRLF after them if it has arrived, which saves the next call.
    fn take_data(&mut self, at: usize, taken: usize, input: &[u8]) -> Decoded {
        let end = at + taken;
        self.remaining -= taken as u64;
        self.extension_excess = self.extension_excess.saturating_sub(taken as u64);
        let mut consumed = end;
        if self.remaining == 0 {
            self.state = State::DataCr;
            if input.get(end..end + CHUNK_END.len()) == Some(CHUNK_END) {
                self.state = State::Size { digits: 0 };
                consumed += CHUNK_END.len();
            }
        }
        Decoded { consumed, data: at..end, done: false }
    }

    /// Processes one byte of a chunk line or of the line end after data.
    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        match (self.state, byte) {
            (State::Size { digits }, _) => self.size_byte(digits, byte),
            (State::SizeBlank, b' ' | b'\t') => self.extension_byte(State::SizeBlank),
            (State::SizeBlank, b';') => self.extension_byte(State::Extension { quoted: false, escaped: false }),
            (State::SizeBlank, b'\r') if self.lenient => Ok(State::SizeLf),
            (State::SizeBlank, _) => Err(ChunkError::InvalidExtension),
            (State::Extension { quoted: false, .. }, b'\r') => Ok(State::SizeLf),
            (State::Extension { quoted, escaped }, byte) => self.in_extension(quoted, escaped, byte),
            (State::SizeLf, b'\n') => Ok(self.end_of_size()),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size { digits: 0 }),
            (State::SizeLf | State::DataCr | State::DataLf, _) => Err(ChunkError::MissingCrLf),
            (State::Data | State::Trailer | State::Done, _) => Ok(self.state),
        }
    }

    fn size_byte(&mut self, digits: u8, byte: u8) -> Result<State, ChunkError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ if digits == 0 => return Err(ChunkError::InvalidSize),
            b'\r' => return Ok(State::SizeLf),
            b';' => return self.extension_byte(State::Extension { quoted: false, escaped: false }),
            b' ' | b'\t' => return self.extension_byte(State::SizeBlank),
            b'\n' => return Err(ChunkError::MissingCrLf),
            _ => return Err(ChunkError::InvalidSize),
        };
        if digits == SIZE_DIGITS_MAX || self.remaining > BODY_BYTES_MAX >> 4 {
            return Err(ChunkError::SizeOverflow);
        }
        self.remaining = self.remaining << 4 | u64::from(digit);
        Ok(State::Size { digits: digits + 1 })
    }

    /// Processes a byte of an extension. A quoted string may hold any visible byte, but no line end: parsers disagree
    /// whether a CRLF inside quotes ends the line.
    fn in_extension(&mut self, quoted: bool, escaped: bool, byte: u8) -> Result<State, ChunkError> {
        if byte == 0x7F || (byte < 0x20 && byte != b'\t') {
            let error = if byte == b'\n' { ChunkError::MissingCrLf } else { ChunkError::InvalidExtension };
            return Err(error);
        }
        let next = match byte {
            _ if escaped => State::Extension { quoted, escaped: false },
            b'\\' if quoted => State::Extension { quoted, escaped: true },
            b'"' => State::Extension { quoted: !quoted, escaped: false },
            _ => State::Extension { quoted, escaped: false },
        };
        self.extension_byte(next)
    }

    fn extension_byte(&mut self, next: State) -> Result<State, ChunkError> {
        self.extension_bytes += 1;
        self.extension_excess += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX || self.extension_excess > EXTENSION_EXCESS_MAX {
            return Err(ChunkError::ExtensionTooLong);
        }
        Ok(next)
    }

    fn end_of_size(&mut self) -> State {
        self.extension_bytes = 0;
        if self.remaining == 0 { State::Trailer } else { State::Data }
    }

    /// Reads trailer lines; returns the bytes consumed.
    fn take_trailer(&mut self, input: &[u8]) -> Result<usize, ChunkError> {
        let mut at = 0;
        while self.state == State::Trailer {
            let rest = input.get(at..).unwrap_or_default();
            if self.trailers.bytes.len() == self.trailer_line_start && rest.starts_with(CHUNK_END) {
                // The usual end: no trailers, nothing copied.
                if self.trailer_bytes + CHUNK_END.len() > TRAILER_BYTES_MAX {
                    return Err(ChunkError::TrailerTooLarge);
                }
                self.state = State::Done;
                return Ok(at + CHUNK_END.len());
            }
            let piece_len = memchr::memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            let allowed = piece_len.min(TRAILER_BYTES_MAX - self.trailer_bytes);
            self.trailers.bytes.extend_from_slice(rest.get(..allowed).unwrap_or_default());
            self.trailer_bytes += allowed;
            at += allowed;
            // Only whole lines are parsed; otherwise a line in one-byte pieces would cost the square of its length.
            if self.trailers.bytes.last() == Some(&b'\n') {
                self.end_trailer_line()?;
            }
            if self.state == State::Trailer && self.trailer_bytes == TRAILER_BYTES_MAX {
                return Err(ChunkError::TrailerTooLarge);
            }
            if at == input.len() {
                break;
            }
        }
        Ok(at)
    }

    /// Takes the line at the end of `trailers`, if it is complete: keeps it in canonical form, drops it, or ends the body.
    fn end_trailer_line(&mut self) -> Result<(), ChunkError> {
        let start = self.trailer_line_start;
        let limits = Limits { head_bytes_max: usize::MAX, line_bytes_max: usize::MAX, ..Limits::default() };
        let window = Window::new(&self.trailers.bytes, start, &limits);
        let line = match scan::parse_line(window, start, BareLf::Reject) {
            Ok(line) => line,
            Err(Fault::Line(fault)) if self.lenient && fault != LineFault::BareLf && fault != LineFault::BareCr => {
                self.trailers.bytes.truncate(start);
                return Ok(());
            }
            Err(Fault::Line(fault)) => return Err(ChunkError::InvalidTrailer(fault)),
            Err(Fault::LineTooLong | Fault::HeadTooLarge) => return Err(ChunkError::TrailerTooLarge),
        };
        match line {
            None => {}
            Some(Line::End { .. }) => {
                self.trailers.bytes.truncate(start);
                self.state = State::Done;
            }
            Some(Line::Field { name_end, id, value, .. }) => {
                if hop::is_forbidden_in_trailers(id) {
                    self.trailers.bytes.truncate(start);
                    return Ok(());
                }
                self.keep_trailer(id, name_end, value)?;
            }
        }
        Ok(())
    }

    /// Rewrites the last line as `name: value CRLF`, in place.
    fn keep_trailer(&mut self, id: FieldId, name_end: usize, value: (usize, usize)) -> Result<(), ChunkError> {
        let value_len = value.1 - value.0;
        // `name:value` has no room for the space: inserts it. The bound on the input also bounds the longer line.
        if value.0 == name_end + 1 {
            self.trailers.bytes.insert(value.0, b' ');
        } else {
            self.trailers.bytes.copy_within(value.0..value.1, name_end + 2);
        }
        let Some(gap) = self.trailers.bytes.get_mut(name_end..name_end + 2) else {
            return Err(ChunkError::InvalidTrailer(LineFault::NoColon));
        };
        gap.copy_from_slice(b": ");
        self.trailers.bytes.truncate(name_end + 2 + value_len);
        self.trailers.bytes.extend_from_slice(CHUNK_END);
        let start = std::mem::replace(&mut self.trailer_line_start, self.trailers.bytes.len());
        self.trailers.keep_line(id, start, name_end - start, value_len);
        Ok(())
    }
}

/// Bytes of the longest chunk header: 16 digits and CRLF.
const HEADER_BYTES_MAX: usize = SIZE_DIGITS_MAX as usize + 2;

/// A chunk's size line, on the stack, for a vectored write of header, data and [`CHUNK_END`].
#[derive(Debug, Clone, Copy)]
pub struct ChunkHeader {
    bytes: [u8; HEADER_BYTES_MAX],
    start: u8,
}

impl ChunkHeader {
    /// The header of a chunk of `len` bytes. `len` must not be 0, which would end the body.
    pub fn new(len: u64) -> Self {
        debug_assert!(len > 0, "an empty chunk ends the body");
        let mut bytes = [0; HEADER_BYTES_MAX];
        let mut start = HEADER_BYTES_MAX - CHUNK_END.len();
        bytes[start..].copy_from_slice(CHUNK_END);
        let mut rest = len;
        while start > 0 {
            start -= 1;
            bytes[start] = b"0123456789abcdef"[(rest & 0xF) as usize];
            rest >>= 4;
            if rest == 0 {
                break;
            }
        }
        Self { bytes, start: start as u8 }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start as usize..).unwrap_or_default()
    }
}

/// The end of a body: the last chunk, `trailer_lines` (each with its CRLF, as [`Decoder::trailer_lines`] gives them or
/// [`crate::encode::encode_field`] writes them), and the empty line.
pub fn encode_last_chunk(trailer_lines: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailer_lines);
    out.extend_from_slice(CHUNK_END);
}
