//! The body of a request: read to its end, measured and summed, never stored. `connection` gives it the bytes.

use crate::action::{Chosen, to_json};
use http1::BodyFraming;
use http1::chunked::Decoder;
use serde::Serialize;

#[derive(Debug)]
enum Incoming {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Decoder),
}

/// A body on its way in, and what to do when it is there.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) chosen: Option<Chosen>,
    incoming: Incoming,
    bytes: u64,
    checksum: crc32fast::Hasher,
}

/// What became of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// All of them are body, and more is to come.
    Part,
    /// The body ended after so many of them.
    All(usize),
    /// The request is to be answered with this status and text.
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

    /// What a request without body has received.
    pub(crate) fn nothing() -> Self {
        Self { chosen: None, incoming: Incoming::Length(0), bytes: 0, checksum: crc32fast::Hasher::new() }
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
        let text = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect();
        let trailers = match &self.incoming {
            Incoming::Chunked(decoder) => decoder.trailers().map(|(name, value)| (text(name), text(value))).collect(),
            Incoming::Length(_) => Vec::new(),
        };
        let crc32 = format!("{:08x}", self.checksum.clone().finalize());
        json.extend_from_slice(b",\"body\":");
        json.extend_from_slice(&to_json(&EchoedBody { bytes: self.bytes, crc32, trailers }));
        json.push(b'}');
        json
    }
}
