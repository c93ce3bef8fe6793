//! Removes the framing (of HTTP/1, FastCGI or memcached) of an upstream's response body: received bytes in, body out. It knows no
//! socket.

use crate::upstream::fastcgi::Records;
use cgi::fastcgi::{RecordError, STDERR_BYTES_MAX};
use cgi::memcached::ValueEnd;
use http1::chunked::Decoder;
use http1::{ChunkError, Trailers};

/// The position in a response's body.
#[derive(Debug)]
pub(crate) enum Source {
    /// It is complete.
    Done,
    Length(u64),
    Chunked(Box<Decoder>),
    UntilClose,
    /// Until its HTTP/2 stream ends.
    Stream,
    /// FastCGI records.
    Records(Box<Records>),
    /// A value of memcached, and its end.
    Value(ValueEnd),
}

/// An error in the framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodingError {
    Chunks(ChunkError),
    Records(RecordError),
    /// The application ended before the stated length.
    EndedEarly,
}

impl CodingError {
    /// nginx's phrase.
    pub(crate) fn phrase(self) -> String {
        match self {
            Self::Chunks(error) => format!("{}: {error}", error.response_phrase()),
            Self::Records(error) => error.to_string(),
            Self::EndedEarly => "upstream prematurely closed FastCGI request".to_owned(),
        }
    }
}

/// An incoming response body.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    pub(crate) source: Source,
    /// Bytes followed the end of the response: the connection cannot be reused.
    pub(crate) excess: bool,
    /// Bytes of body received, including framing as nginx counts it: `$upstream_response_length`.
    pub(crate) received: u64,
    /// Its trailers, once it is complete.
    pub(crate) trailers: Trailers,
    /// What a FastCGI application has written to standard error.
    stderr: Vec<u8>,
    /// Decoded pieces of one read, if the coding must be removed.
    decoded: Vec<u8>,
}

impl ResponseBody {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            excess: false,
            received: 0,
            trailers: Trailers::default(),
            stderr: Vec::new(),
            decoded: Vec::new(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.source, Source::Done)
    }

    /// Whether the framing inside the body must be removed, which needs a copy.
    pub(crate) fn is_coded(&self) -> bool {
        matches!(self.source, Source::Chunked(_) | Source::Records(_))
    }

    /// Takes the standard error output.
    pub(crate) fn take_stderr(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.stderr)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.decoded.capacity() + self.stderr.capacity()
    }

    /// Takes received bytes. Returns the body among them, and whether that is its end.
    pub(crate) fn take<'a>(&'a mut self, bytes: &'a [u8]) -> Result<(&'a [u8], bool), CodingError> {
        self.received += bytes.len() as u64;
        let mut used = bytes.len();
        let mut is_coded = false;
        let mut body = None;
        match &mut self.source {
            Source::Done => used = 0,
            Source::UntilClose | Source::Stream => {}
            Source::Length(left) => {
                used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                if *left == 0 {
                    self.source = Source::Done;
                }
            }
            Source::Chunked(decoder) => {
                is_coded = true;
                self.decoded.clear();
                used = 0;
                let mut done = false;
                while used < bytes.len() && !done {
                    let step = decoder.decode(&bytes[used..]).map_err(CodingError::Chunks)?;
                    self.decoded.extend_from_slice(&bytes[used..][step.data]);
                    used += step.consumed;
                    done = step.done;
                }
                if done {
                    self.trailers = decoder.take_trailers();
                    self.source = Source::Done;
                }
            }
            Source::Records(records) => {
                is_coded = true;
                self.decoded.clear();
                used = records.take_body(bytes, &mut self.decoded)?;
                let stderr = records.take_stderr();
                self.stderr.extend_from_slice(&stderr[..stderr.len().min(STDERR_BYTES_MAX - self.stderr.len())]);
                if records.has_ended() {
                    self.source = Source::Done;
                }
            }
            Source::Value(end) => {
                let (value, taken) = end.take(bytes);
                (body, used) = (Some(value), taken);
                if end.is_over() {
                    // As in nginx, a value with another end is whole, and its connection is not kept.
                    self.excess |= end.is_broken();
                    self.source = Source::Done;
                }
            }
        }
        self.excess |= used < bytes.len();
        let last = self.is_done();
        Ok((if is_coded { &self.decoded } else { &bytes[..body.unwrap_or(used)] }, last))
    }

    /// The upstream closed: whether that is the end of the body.
    pub(crate) fn close(&mut self) -> bool {
        let has_value = matches!(&self.source, Source::Value(end) if end.has_value());
        let ends = has_value || matches!(self.source, Source::UntilClose | Source::Stream);
        self.excess |= has_value;
        if ends {
            self.source = Source::Done;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_ends_the_body_and_what_follows_is_too_much() {
        let mut body = ResponseBody::new(Source::Length(5));
        assert_eq!(body.take(b"abc"), Ok((&b"abc"[..], false)));
        assert_eq!(body.take(b"defg"), Ok((&b"de"[..], true)));
        assert_eq!((body.is_done(), body.excess, body.received), (true, true, 7));
    }

    #[test]
    fn chunks_are_taken_off_in_pieces_of_any_size() {
        let bytes = b"3\r\nabc\r\n2\r\nde\r\n0\r\nx-end: 1\r\n\r\n";
        for size in 1..=bytes.len() {
            let mut body = ResponseBody::new(Source::Chunked(Box::default()));
            let mut whole = Vec::new();
            for piece in bytes.chunks(size) {
                whole.extend_from_slice(body.take(piece).expect("chunks").0);
            }
            assert_eq!((&whole[..], body.is_done(), body.excess), (&b"abcde"[..], true, false), "pieces of {size}");
            let trailers: Vec<_> = body.trailers.iter().map(|(_, name, value)| (name, value)).collect();
            assert_eq!(trailers, [(&b"x-end"[..], &b"1"[..])]);
        }
    }

    #[test]
    fn a_value_ends_with_its_own_end_or_with_the_connection() {
        let bytes = b"abcde\r\nEND\r\n";
        for size in 1..=bytes.len() {
            let mut body = ResponseBody::new(Source::Value(ValueEnd::new(5)));
            let mut whole = Vec::new();
            for piece in bytes.chunks(size) {
                whole.extend_from_slice(body.take(piece).expect("a value").0);
            }
            assert_eq!((&whole[..], body.is_done(), body.excess), (&b"abcde"[..], true, false), "pieces of {size}");
        }
        let mut body = ResponseBody::new(Source::Value(ValueEnd::new(2)));
        assert_eq!(body.take(b"abcd"), Ok((&b"ab"[..], true)));
        assert!(body.excess, "another end");
        let mut body = ResponseBody::new(Source::Value(ValueEnd::new(2)));
        assert_eq!(body.take(b"ab\r\nE"), Ok((&b"ab"[..], false)));
        assert!(body.close() && body.excess);
        assert!(!ResponseBody::new(Source::Value(ValueEnd::new(1))).close());
    }

    #[test]
    fn only_a_body_without_a_length_ends_with_the_connection() {
        let mut body = ResponseBody::new(Source::UntilClose);
        assert_eq!(body.take(b"abc"), Ok((&b"abc"[..], false)));
        assert!(body.close() && body.is_done());
        assert!(!ResponseBody::new(Source::Length(1)).close());
    }
}
