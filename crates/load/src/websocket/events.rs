//! Server-sent events (WHATWG HTML section 9.2) as a client reads them: the body of a response, without its framing, split
//! into events. It keeps what a connection needs when it is opened again. Pure.

use http1::ResponseFraming;
use http1::chunked::Decoder;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Longest line, and most data of an event, that is accepted. Servers that send more are not measured here.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Longest id that is kept and sent back: it becomes a header field.
const ID_BYTES_MAX: usize = 4096;
/// Longest reconnection time that a target can ask for, in milliseconds: an hour.
const RETRY_MS_MAX: u64 = 3_600_000;

/// What is measured of events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventOptions {
    /// Where an event has the time at which it was sent.
    pub time: Option<EventTime>,
    /// Whether ids are numbers in sequence, so that a gap is a loss.
    pub in_sequence: bool,
    /// Whether each response is a stream of HTTP/2, on a connection of its own.
    #[serde(default)]
    pub http2: bool,
}

/// Where an event has the time at which it was sent, as a number of s, ms, us or ns since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventTime {
    /// Its data is the number.
    Data,
    /// Its id begins with the number, as in Redis' streams.
    Id,
    /// A JSON pointer into its data.
    Pointer(String),
}

impl FromStr for EventTime {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "data" => Ok(Self::Data),
            "id" => Ok(Self::Id),
            pointer if pointer.starts_with('/') => Ok(Self::Pointer(pointer.to_owned())),
            _ => Err("data, id, or a JSON pointer into the data such as /sent_ms"),
        }
    }
}

impl EventTime {
    /// The time of an event in nanoseconds since 1970.
    pub(super) fn of(&self, event: &ServerEvent<'_>) -> Option<u64> {
        let digits = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(bytes.len());
            std::str::from_utf8(bytes.get(..end)?).ok()?.parse::<f64>().ok()
        };
        let number = match self {
            Self::Data => digits(event.data.trim_ascii()),
            Self::Id => digits(event.id),
            Self::Pointer(pointer) => {
                let json: serde_json::Value = serde_json::from_slice(event.data).ok()?;
                match json.pointer(pointer)? {
                    serde_json::Value::String(text) => digits(text.as_bytes()),
                    other => other.as_f64(),
                }
            }
        }?;
        // These bounds are thousands of years apart, so the size of a number says its unit.
        let unit_ns = match number {
            number if number < 1e11 => 1e9,
            number if number < 1e14 => 1e6,
            number if number < 1e17 => 1e3,
            _ => 1.0,
        };
        (number > 0.0).then_some((number * unit_ns) as u64)
    }
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerEvent<'a> {
    /// Its data, with a line feed between lines.
    pub(super) data: &'a [u8],
    /// The last id, of this event or an earlier one.
    pub(super) id: &'a [u8],
}

/// The bytes are no chunks, or an event is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// What the stream still sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    More,
    /// The response is complete.
    Nothing,
}

#[derive(Debug)]
enum Framing {
    Chunked(Decoder),
    Length(u64),
    UntilClose,
}

/// The events of one connection, over all its responses.
#[derive(Debug)]
pub(super) struct EventStream {
    framing: Framing,
    /// The begun line.
    line: Vec<u8>,
    /// Whether a line feed that comes next belongs to the last line end.
    after_return: bool,
    /// Whether no line has ended yet: a byte order mark may come.
    is_first: bool,
    data: Vec<u8>,
    has_data: bool,
    /// The id that the event under way sets.
    id: Vec<u8>,
    /// The id that a new request sends.
    pub(super) last_id: Vec<u8>,
    /// The reconnection time that the target has asked for.
    pub(super) retry_ms: Option<u64>,
    /// When the last event came on this connection; 0 before the first.
    pub(super) last_ns: u64,
}

impl EventStream {
    pub(super) fn new() -> Self {
        Self {
            framing: Framing::UntilClose,
            line: Vec::new(),
            after_return: false,
            is_first: true,
            data: Vec::new(),
            has_data: false,
            id: Vec::new(),
            last_id: Vec::new(),
            retry_ms: None,
            last_ns: 0,
        }
    }

    /// Begins the next response; an incomplete event of the one before is forgotten.
    pub(super) fn begin(&mut self, framing: ResponseFraming) {
        let framing = match framing {
            ResponseFraming::None => Framing::Length(0),
            ResponseFraming::Length(length) => Framing::Length(length),
            ResponseFraming::Chunked => Framing::Chunked(Decoder::new()),
            ResponseFraming::UntilClose => Framing::UntilClose,
        };
        let (last_id, retry_ms) = (std::mem::take(&mut self.last_id), self.retry_ms);
        *self = Self { framing, id: last_id.clone(), last_id, retry_ms, ..Self::new() };
    }

    /// Parses bytes of the response. `told` gets each event, and `comment` is called for each comment.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        mut told: impl FnMut(&ServerEvent<'_>),
        mut comment: impl FnMut(),
    ) -> Result<Rest, Malformed> {
        while !bytes.is_empty() {
            let (piece, taken, ends) = match &mut self.framing {
                Framing::UntilClose => (bytes, bytes.len(), false),
                Framing::Length(left) => {
                    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    *left -= taken as u64;
                    (bytes.get(..taken).unwrap_or_default(), taken, *left == 0)
                }
                Framing::Chunked(decoder) => {
                    let decoded = decoder.decode(bytes).map_err(|_| Malformed)?;
                    (bytes.get(decoded.data).unwrap_or_default(), decoded.consumed, decoder.is_done())
                }
            };
            self.take_text(piece, &mut told, &mut comment)?;
            if ends {
                return Ok(Rest::Nothing);
            }
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        Ok(Rest::More)
    }

    fn take_text(
        &mut self,
        mut text: &[u8],
        told: &mut impl FnMut(&ServerEvent<'_>),
        comment: &mut impl FnMut(),
    ) -> Result<(), Malformed> {
        loop {
            if std::mem::take(&mut self.after_return) {
                text = text.strip_prefix(b"\n").unwrap_or(text);
            }
            let Some(end) = memchr::memchr2(b'\r', b'\n', text) else { break };
            self.line.extend_from_slice(text.get(..end).unwrap_or_default());
            self.after_return = text.get(end) == Some(&b'\r');
            text = text.get(end + 1..).unwrap_or_default();
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, told, comment)?;
            self.line = line;
            self.line.clear();
            if text.is_empty() {
                return Ok(());
            }
        }
        self.line.extend_from_slice(text);
        if self.line.len() > EVENT_BYTES_MAX { Err(Malformed) } else { Ok(()) }
    }

    fn take_line(
        &mut self,
        line: &[u8],
        told: &mut impl FnMut(&ServerEvent<'_>),
        comment: &mut impl FnMut(),
    ) -> Result<(), Malformed> {
        let is_first = std::mem::take(&mut self.is_first);
        let line = if is_first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        if line.is_empty() {
            self.dispatch(told);
            return Ok(());
        }
        let colon = memchr::memchr(b':', line);
        let (name, value) = match colon {
            Some(0) => {
                comment();
                return Ok(());
            }
            Some(at) => line.split_at(at),
            None => (line, &[][..]),
        };
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                if self.data.len() > EVENT_BYTES_MAX {
                    return Err(Malformed);
                }
            }
            // An id that no header field can have is not kept.
            b"id" if value.len() <= ID_BYTES_MAX && !value.iter().any(|byte| *byte < b' ') => {
                self.id.clear();
                self.id.extend_from_slice(value);
            }
            b"retry" => {
                let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                let number = std::str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
                self.retry_ms = number.map_or(self.retry_ms, |ms: u64| Some(ms.min(RETRY_MS_MAX)));
            }
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, told: &mut impl FnMut(&ServerEvent<'_>)) {
        self.last_id.clone_from(&self.id);
        if std::mem::take(&mut self.has_data) {
            told(&ServerEvent { data: &self.data, id: &self.last_id });
        }
        self.data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events and the number of comments of a response in pieces of this size.
    fn read(stream: &mut EventStream, bytes: &[u8], piece: usize) -> (Vec<(String, String)>, usize, Rest) {
        let (mut events, mut comments, mut rest) = (Vec::new(), 0, Rest::More);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for piece in bytes.chunks(piece) {
            let told = |event: &ServerEvent<'_>| events.push((text(event.data), text(event.id)));
            rest = stream.take(piece, told, || comments += 1).unwrap();
        }
        (events, comments, rest)
    }

    #[test]
    fn events_are_the_same_in_whatever_pieces_they_come() {
        let text =
            b"\xEF\xBB\xBF: hello\n\ndata: one\rid:7\r\r\nevent: add\r\ndata:two\r\ndata:  three\r\n\r\nid\ndata\n\n\
                     retry: 250\nretry: x\ndata: cut off";
        let expected = [("one", "7"), ("two\n three", "7"), ("", "")];
        for piece in 1..text.len() {
            let mut stream = EventStream::new();
            let (events, comments, rest) = read(&mut stream, text, piece);
            let events: Vec<_> = events.iter().map(|(data, id)| (data.as_str(), id.as_str())).collect();
            assert_eq!((events.as_slice(), comments, rest), (&expected[..], 1, Rest::More), "pieces of {piece}");
            assert_eq!(stream.retry_ms, Some(250));
        }
    }

    #[test]
    fn a_response_ends_by_its_framing_and_the_id_stays() {
        let mut stream = EventStream::new();
        stream.begin(ResponseFraming::Chunked);
        let chunks = b"10\r\nid: 9\ndata: abc\n\r\n1\r\n\n\r\n0\r\n\r\n";
        let (events, _, rest) = read(&mut stream, chunks, 3);
        assert_eq!((events, rest), (vec![("abc".to_owned(), "9".to_owned())], Rest::Nothing));
        stream.begin(ResponseFraming::Length(9));
        assert_eq!(stream.last_id, b"9");
        let (events, _, rest) = read(&mut stream, b"data: x\n\n", 9);
        assert_eq!((events, rest), (vec![("x".to_owned(), "9".to_owned())], Rest::Nothing));
        stream.begin(ResponseFraming::Chunked);
        assert_eq!(stream.take(b"no chunk\r\n", |_| (), || ()), Err(Malformed));
    }

    #[test]
    fn times_are_found_in_any_unit() {
        let time = |place: &str, data: &str, id: &str| {
            let event = ServerEvent { data: data.as_bytes(), id: id.as_bytes() };
            place.parse::<EventTime>().unwrap().of(&event).map(|ns| ns / 1_000_000)
        };
        for data in ["1700000000", "1700000000.000", "1700000000000", "1700000000000000", "1700000000000000000"] {
            assert_eq!(time("data", data, ""), Some(1_700_000_000_000), "{data}");
        }
        assert_eq!(time("id", "x", "1700000000000-5"), Some(1_700_000_000_000));
        assert_eq!(time("/a/0", r#"{"a":[1700000000123]}"#, ""), Some(1_700_000_000_123));
        assert_eq!(time("/a", r#"{"a":"1700000000123"}"#, ""), Some(1_700_000_000_123));
        assert_eq!((time("/b", "{}", ""), time("/b", "no JSON", ""), time("data", "soon", "")), (None, None, None));
        assert!("b".parse::<EventTime>().is_err());
    }
}
