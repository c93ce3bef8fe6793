//! The body of a request: read to its end, measured and checksummed. It is not stored, except for gRPC echoes. `connection`
//! supplies the bytes.

use crate::action::{Chosen, latin1, to_json};
use http1::BodyFraming;
use http1::chunked::Decoder;
use serde::Serialize;

/// Longest body that is kept: gRPC's default limit for a message, with its prefix.
const KEPT_BYTES_MAX: u64 = (4 << 20) + 5;

#[derive(Debug)]
enum Incoming {
    /// This many bytes are still missing.
    Length(u64),
    Chunked(Decoder),
    /// A body on an HTTP/2 stream, whose frames mark its end.
    Stream(Stream),
}

/// The stored part of a body over HTTP/2.
#[derive(Debug, Default)]
struct Stream {
    trailers: Vec<(String, String)>,
    /// The body itself, if the response needs it.
    kept: Option<Vec<u8>>,
}

/// A body in progress, and the action after it.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) chosen: Option<Chosen>,
    incoming: Incoming,
    bytes: u64,
    checksum: crc32fast::Hasher,
}

/// The result of handling some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// All of them belong to the body, and more will follow.
    Part,
    /// The body ended after this many of them.
    All(usize),
    /// Answer the request with this status and text.
    Refused(u16, String),
}

#[derive(Serialize)]
struct EchoedBody {
    bytes: u64,
    crc32: String,
    trailers: Vec<(String, String)>,
}

impl Receiving {
    pub(crate) fn new(framing: BodyFraming, chosen: Chosen) -> Self {
        let incoming = match framing {
            BodyFraming::Chunked => Incoming::Chunked(Decoder::new()),
            BodyFraming::Length(length) => Incoming::Length(length),
            BodyFraming::None => Incoming::Length(0),
        };
        Self { chosen: Some(chosen), incoming, bytes: 0, checksum: crc32fast::Hasher::new() }
    }

    /// The received body of a request without one.
    pub(crate) fn nothing() -> Self {
        Self { chosen: None, incoming: Incoming::Length(0), bytes: 0, checksum: crc32fast::Hasher::new() }
    }

    /// A body over HTTP/2; it is kept if the response needs it.
    pub(crate) fn of_stream(chosen: Chosen, keep: bool) -> Self {
        let incoming = Incoming::Stream(Stream { trailers: Vec::new(), kept: keep.then(Vec::new) });
        Self { chosen: Some(chosen), incoming, bytes: 0, checksum: crc32fast::Hasher::new() }
    }

    /// Takes a piece of a body over HTTP/2; `false` if the body is too long.
    pub(crate) fn take_piece(&mut self, piece: &[u8], bytes_max: u64) -> bool {
        self.add(piece);
        let mut most = bytes_max;
        if let Incoming::Stream(Stream { kept: Some(kept), .. }) = &mut self.incoming {
            most = most.min(KEPT_BYTES_MAX);
            if self.bytes <= most {
                kept.extend_from_slice(piece);
            }
        }
        self.bytes <= most
    }

    /// Takes a trailer field over HTTP/2.
    pub(crate) fn take_trailer(&mut self, name: &[u8], value: &[u8]) {
        if let Incoming::Stream(stream) = &mut self.incoming {
            stream.trailers.push((latin1(name), latin1(value)));
        }
    }

    /// The kept body.
    pub(crate) fn kept(&self) -> &[u8] {
        match &self.incoming {
            Incoming::Stream(Stream { kept: Some(kept), .. }) => kept,
            _ => &[],
        }
    }

    /// Takes bytes, at most the rest of the body.
    pub(crate) fn take(&mut self, input: &[u8], bytes_max: u64) -> Taken {
        match &mut self.incoming {
            Incoming::Length(left) => {
                let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= count as u64;
                let ended = *left == 0;
                self.add(input.get(..count).unwrap_or_default());
                if ended { Taken::All(count) } else { Taken::Part }
            }
            Incoming::Chunked(_) => self.take_chunked(input, bytes_max),
            // Pieces of a stream are handled by `take_piece`.
            Incoming::Stream(_) => Taken::Part,
        }
    }

    fn take_chunked(&mut self, input: &[u8], bytes_max: u64) -> Taken {
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            let Incoming::Chunked(decoder) = &mut self.incoming else { break };
            match decoder.decode(rest) {
                Ok(decoded) => {
                    at += decoded.consumed;
                    self.add(rest.get(decoded.data).unwrap_or_default());
                    if decoded.done {
                        return Taken::All(at);
                    }
                }
                Err(error) => return Taken::Refused(error.status(), error.to_string()),
            }
            if self.bytes > bytes_max {
                return Taken::Refused(413, "the body is too long".to_owned());
            }
        }
        Taken::Part
    }

    fn add(&mut self, data: &[u8]) {
        self.bytes += data.len() as u64;
        self.checksum.update(data);
    }

    /// Completes the JSON object of an echo.
    pub(crate) fn finish_echo(&self, mut json: Vec<u8>) -> Vec<u8> {
        let trailers = match &self.incoming {
            Incoming::Chunked(decoder) => {
                decoder.trailers().map(|(name, value)| (latin1(name), latin1(value))).collect()
            }
            Incoming::Stream(stream) => stream.trailers.clone(),
            Incoming::Length(_) => Vec::new(),
        };
        let crc32 = format!("{:08x}", self.checksum.clone().finalize());
        json.extend_from_slice(b",\"body\":");
        json.extend_from_slice(&to_json(&EchoedBody { bytes: self.bytes, crc32, trailers }));
        json.push(b'}');
        json
    }
}
