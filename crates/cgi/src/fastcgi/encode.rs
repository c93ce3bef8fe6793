//! A request: the record that begins it, its parameters, and its body.

use super::{HEADER_BYTES, REQUEST_ID, VERSION, header, kind};
use crate::{Params, TooLarge};

/// Most bytes of a record's content here: a multiple of 8, so that only the last record of a body needs padding.
pub const RECORD_BYTES_MAX: usize = 65_528;

/// Most bytes of all parameters: far above what heads of requests allow, and below what a mistaken variable could make.
pub const PARAMS_BYTES_MAX: usize = 4 << 20;

/// An empty record of standard input: the end of a request's body.
pub const LAST_RECORD: &[u8] = &[VERSION, kind::STDIN, 0, REQUEST_ID, 0, 0, 0, 0];

const TOO_LARGE: TooLarge = TooLarge(PARAMS_BYTES_MAX);
/// The role of an application that answers requests.
const RESPONDER: u8 = 1;
/// The application keeps the connection after the response.
const KEEP_CONNECTION: u8 = 1;
/// Lengths from here on take four bytes.
const LONG_LENGTH: usize = 128;

/// The records before a request's body, as they are written.
#[derive(Debug)]
pub struct RequestHead {
    out: Vec<u8>,
    /// Where the header of the record that is being filled begins.
    record: usize,
    params_bytes: usize,
}

impl RequestHead {
    /// Begins a request. `out` is emptied and filled; `keep`: the application is to keep the connection.
    pub fn begin(mut out: Vec<u8>, keep: bool) -> Self {
        out.clear();
        out.extend_from_slice(&header(kind::BEGIN_REQUEST, 8, 0));
        out.extend_from_slice(&[0, RESPONDER, if keep { KEEP_CONNECTION } else { 0 }, 0, 0, 0, 0, 0]);
        let record = out.len();
        out.extend_from_slice(&header(kind::PARAMS, 0, 0));
        Self { out, record, params_bytes: 0 }
    }

    /// The records, with the empty one that ends the parameters.
    pub fn finish(mut self) -> Vec<u8> {
        if self.content_bytes() > 0 {
            self.close_record();
            self.out.extend_from_slice(&header(kind::PARAMS, 0, 0));
        }
        self.out
    }

    fn content_bytes(&self) -> usize {
        self.out.len() - self.record - HEADER_BYTES
    }

    /// Writes the length of the record's content into its header, and pads it.
    fn close_record(&mut self) {
        let content = self.content_bytes();
        let padding = padding(content);
        let header = header(kind::PARAMS, content as u16, padding);
        self.out[self.record..self.record + HEADER_BYTES].copy_from_slice(&header);
        self.out.resize(self.out.len() + usize::from(padding), 0);
    }
}

impl Params for RequestHead {
    fn param(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLarge> {
        let (name_length, value_length) = (length(name.len())?, length(value.len())?);
        let parts = [name_length.as_slice(), value_length.as_slice(), name, value];
        self.params_bytes += parts.iter().map(|part| part.len()).sum::<usize>();
        if self.params_bytes > PARAMS_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        for mut part in parts {
            while !part.is_empty() {
                let room = RECORD_BYTES_MAX - self.content_bytes();
                let (now, later) = part.split_at(part.len().min(room));
                self.out.extend_from_slice(now);
                part = later;
                if self.content_bytes() == RECORD_BYTES_MAX {
                    self.close_record();
                    self.record = self.out.len();
                    self.out.extend_from_slice(&header(kind::PARAMS, 0, 0));
                }
            }
        }
        Ok(())
    }
}

/// The length of a name or a value: one byte, or four.
fn length(bytes: usize) -> Result<Length, TooLarge> {
    if bytes < LONG_LENGTH {
        return Ok(Length { bytes: [bytes as u8, 0, 0, 0], used: 1 });
    }
    if bytes > PARAMS_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    Ok(Length { bytes: (bytes as u32 | 1 << 31).to_be_bytes(), used: 4 })
}

struct Length {
    bytes: [u8; 4],
    used: usize,
}

impl Length {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// Bytes after a content, so that the next record begins at a multiple of 8.
fn padding(content: usize) -> u8 {
    (content.wrapping_neg() & 7) as u8
}

/// What goes around a part of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StdinRecord {
    header: [u8; HEADER_BYTES],
}

impl StdinRecord {
    /// For a content of this many bytes, at most [`RECORD_BYTES_MAX`].
    pub fn new(content: usize) -> Self {
        debug_assert!(content <= RECORD_BYTES_MAX, "{content} bytes do not fit a record");
        Self { header: header(kind::STDIN, content as u16, padding(content)) }
    }

    /// Before the content.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Behind the content.
    pub fn padding(&self) -> &'static [u8] {
        &[0; 7][..usize::from(self.header[6])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Kind and content of each record.
    fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut found = Vec::new();
        while let [1, kind, 0, 1, high, low, padding, 0, rest @ ..] = bytes {
            let content = usize::from(u16::from_be_bytes([*high, *low]));
            found.push((*kind, rest[..content].to_vec()));
            assert_eq!((content + usize::from(*padding)) % 8, 0);
            bytes = &rest[content + usize::from(*padding)..];
        }
        assert_eq!(bytes, b"");
        found
    }

    /// The parameters as an application reads them.
    fn params(head: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let records = records(head);
        let (first, rest) = records.split_first().unwrap();
        assert_eq!(first.0, kind::BEGIN_REQUEST);
        let (last, rest) = rest.split_last().unwrap();
        assert_eq!(last, &(kind::PARAMS, Vec::new()));
        assert!(rest.iter().all(|(kind, content)| *kind == kind::PARAMS && !content.is_empty()));
        let stream: Vec<u8> = rest.iter().flat_map(|(_, content)| content.clone()).collect();
        let mut at = 0;
        let take = |count: usize, at: &mut usize| {
            *at += count;
            &stream[*at - count..*at]
        };
        let mut found = Vec::new();
        while at < stream.len() {
            let mut lengths = [0; 2];
            for length in &mut lengths {
                *length = if stream[at] < 128 {
                    usize::from(take(1, &mut at)[0])
                } else {
                    let four: [u8; 4] = take(4, &mut at).try_into().unwrap();
                    (u32::from_be_bytes(four) & 0x7fff_ffff) as usize
                };
            }
            let [name, value] = lengths.map(|length| take(length, &mut at).to_vec());
            found.push((name, value));
        }
        found
    }

    #[test]
    fn request_begins_with_role_and_keepalive_flag() {
        let head = |keep| RequestHead::begin(vec![9; 100], keep).finish();
        assert_eq!(head(true)[..16], [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(head(false)[10], 0);
        assert_eq!(head(true).len(), 24, "an empty record ends the parameters");
    }

    #[test]
    fn parameters_larger_than_the_bound_are_refused() {
        let mut head = RequestHead::begin(Vec::new(), false);
        assert_eq!(head.param(b"A", &vec![0; PARAMS_BYTES_MAX + 1]), Err(TOO_LARGE));
        let mut head = RequestHead::begin(Vec::new(), false);
        let half = vec![0; PARAMS_BYTES_MAX / 2];
        assert_eq!(head.param(b"A", &half), Ok(()));
        assert_eq!(head.param(b"B", &half), Err(TOO_LARGE));
    }

    #[test]
    fn a_part_of_a_body_is_padded_to_eight_bytes() {
        for content in [1, 7, 8, 9, RECORD_BYTES_MAX] {
            let record = StdinRecord::new(content);
            let bytes = [record.header(), &vec![b'x'; content], record.padding()].concat();
            assert_eq!(records(&bytes), [(kind::STDIN, vec![b'x'; content])]);
        }
        assert_eq!(records(LAST_RECORD), [(kind::STDIN, Vec::new())]);
    }

    proptest! {
        #[test]
        fn parameters_of_any_size_are_read_as_they_were_written(
            lengths in prop::collection::vec((0usize..300, prop_oneof![0usize..300, 60_000usize..70_000]), 0..12)
        ) {
            let mut head = RequestHead::begin(Vec::new(), true);
            let written: Vec<(Vec<u8>, Vec<u8>)> =
                lengths.iter().map(|&(name, value)| (vec![b'N'; name], vec![b'v'; value])).collect();
            for (name, value) in &written {
                head.param(name, value).unwrap();
            }
            prop_assert_eq!(params(&head.finish()), written);
        }
    }
}
