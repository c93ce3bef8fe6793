//! The application's role, as the test origin has it: requests taken apart, and responses in records.

use super::encode::{PARAMS_BYTES_MAX, RECORD_BYTES_MAX};
use super::records::{RecordError, Records, Step};
use super::{header, kind};
use crate::TooLarge;

/// The role of an application that answers requests; it has no other here.
const RESPONDER: u8 = 1;
/// The flag of a web server that keeps the connection.
const KEEP_CONNECTION: u8 = 1;
/// The first bit of a length that takes four bytes.
const LONG_LENGTH: u8 = 0x80;

/// The parameters of a request, in order.
pub type RequestParams = Vec<(Vec<u8>, Vec<u8>)>;

/// A request that cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A record is not valid, or not one of a web server.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The first record is too short, or asks for another role.
    #[error("no request for a responder")]
    Role,
    /// More parameters than are read.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The lengths of the parameters do not fit their bytes.
    #[error("parameters that do not end")]
    Params,
    /// Records in an order that the protocol does not have.
    #[error("records in a wrong order")]
    Order,
}

/// A step of [`RequestDecoder::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestPiece<'a> {
    /// A request has begun, with these parameters.
    Begun {
        /// Whether the connection is kept after the response.
        keep: bool,
        /// The parameters.
        params: RequestParams,
    },
    /// A part of its body.
    Stdin(&'a [u8]),
    /// Its body has ended.
    End,
    /// The web server does not want the response any more.
    Aborted,
    /// All bytes are used: more are needed.
    NeedMore,
}

/// Where it is in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Between two requests.
    #[default]
    Idle,
    Params,
    Stdin,
}

/// Takes requests apart, one after the other.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    records: Records,
    stage: Stage,
    /// Whether the record had content: an empty one ends its stream.
    has_content: bool,
    /// The content of the first record, and then the parameters so far.
    held: Vec<u8>,
    keep: bool,
}

impl RequestDecoder {
    /// Takes the next piece off the front of `bytes`. After an error the connection is of no use.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<RequestPiece<'a>, RequestError> {
        let kinds = [kind::BEGIN_REQUEST, kind::ABORT_REQUEST, kind::PARAMS, kind::STDIN];
        loop {
            match self.records.next(bytes, &kinds)? {
                Step::NeedMore => return Ok(RequestPiece::NeedMore),
                Step::Content(kind::STDIN, content) => {
                    self.has_content = true;
                    if self.stage == Stage::Stdin {
                        return Ok(RequestPiece::Stdin(content));
                    }
                }
                Step::Content(_, content) => {
                    self.has_content = true;
                    if self.held.len() + content.len() > PARAMS_BYTES_MAX {
                        return Err(TooLarge(PARAMS_BYTES_MAX).into());
                    }
                    self.held.extend_from_slice(content);
                }
                Step::End(kind) => {
                    if let Some(piece) = self.end_record(kind)? {
                        return Ok(piece);
                    }
                }
            }
        }
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    fn end_record(&mut self, kind: u8) -> Result<Option<RequestPiece<'static>>, RequestError> {
        let has_content = std::mem::take(&mut self.has_content);
        match (self.stage, kind) {
            (Stage::Idle, kind::BEGIN_REQUEST) => {
                let [0, RESPONDER, flags, ..] = *self.held.as_slice() else { return Err(RequestError::Role) };
                self.keep = flags & KEEP_CONNECTION != 0;
                self.held.clear();
                self.stage = Stage::Params;
            }
            (Stage::Params, kind::PARAMS) if !has_content => {
                self.stage = Stage::Stdin;
                let params = parse_params(&std::mem::take(&mut self.held))?;
                return Ok(Some(RequestPiece::Begun { keep: self.keep, params }));
            }
            (Stage::Params, kind::PARAMS) | (Stage::Stdin, kind::STDIN) if has_content => {}
            (Stage::Stdin, kind::STDIN) => {
                self.stage = Stage::Idle;
                return Ok(Some(RequestPiece::End));
            }
            (_, kind::ABORT_REQUEST) => {
                self.held.clear();
                self.stage = Stage::Idle;
                return Ok(Some(RequestPiece::Aborted));
            }
            _ => return Err(RequestError::Order),
        }
        Ok(None)
    }
}

/// Splits names and values.
fn parse_params(mut bytes: &[u8]) -> Result<RequestParams, RequestError> {
    let mut params = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (take_length(&mut bytes)?, take_length(&mut bytes)?);
        let all = name.checked_add(value).filter(|all| *all <= bytes.len()).ok_or(RequestError::Params)?;
        let (pair, rest) = bytes.split_at(all);
        let (name, value) = pair.split_at(name);
        params.push((name.to_vec(), value.to_vec()));
        bytes = rest;
    }
    Ok(params)
}

fn take_length(bytes: &mut &[u8]) -> Result<usize, RequestError> {
    let (length, rest) = match **bytes {
        [short, ..] if short & LONG_LENGTH == 0 => (usize::from(short), &bytes[1..]),
        [first, second, third, fourth, ..] => {
            (u32::from_be_bytes([first & !LONG_LENGTH, second, third, fourth]) as usize, &bytes[4..])
        }
        _ => return Err(RequestError::Params),
    };
    *bytes = rest;
    Ok(length)
}

/// What goes before a part of the output, of at most [`RECORD_BYTES_MAX`] bytes. Nothing follows it: these records have no padding.
pub fn stdout_header(content: usize) -> [u8; 8] {
    debug_assert!(content <= RECORD_BYTES_MAX, "{content} bytes do not fit a record");
    header(kind::STDOUT, content as u16, 0)
}

/// Appends output in records.
pub fn encode_stdout(bytes: &[u8], out: &mut Vec<u8>) {
    encode(kind::STDOUT, bytes, out);
}

/// Appends standard error in records.
pub fn encode_stderr(bytes: &[u8], out: &mut Vec<u8>) {
    encode(kind::STDERR, bytes, out);
}

/// Appends the ends of the output and of the request.
pub fn encode_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&header(kind::STDOUT, 0, 0));
    out.extend_from_slice(&header(kind::END_REQUEST, 8, 0));
    // The application's status is 0, and the protocol's is "complete".
    out.extend_from_slice(&[0; 8]);
}

fn encode(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    for part in bytes.chunks(RECORD_BYTES_MAX) {
        out.extend_from_slice(&header(kind, part.len() as u16, 0));
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params as _;
    use crate::fastcgi::{Decoder, LAST_RECORD, Piece, RequestHead, StdinRecord};
    use proptest::prelude::*;

    /// What a request consists of: whether the connection is kept, parameters, body, whether it ended.
    type Read = (bool, RequestParams, Vec<u8>, bool);

    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Read>, RequestError> {
        let (mut decoder, mut all) = (RequestDecoder::default(), Vec::<Read>::new());
        for mut part in bytes.chunks(piece) {
            loop {
                match decoder.next(&mut part)? {
                    RequestPiece::Begun { keep, params } => all.push((keep, params, Vec::new(), false)),
                    RequestPiece::Stdin(content) => all.last_mut().unwrap().2.extend_from_slice(content),
                    RequestPiece::End => all.last_mut().unwrap().3 = true,
                    RequestPiece::Aborted => {}
                    RequestPiece::NeedMore => break,
                }
            }
        }
        Ok(all)
    }

    fn request(keep: bool, params: &[(Vec<u8>, Vec<u8>)], body: &[u8]) -> Vec<u8> {
        let mut head = RequestHead::begin(Vec::new(), keep);
        for (name, value) in params {
            head.param(name, value).unwrap();
        }
        let mut bytes = head.finish();
        for part in body.chunks(RECORD_BYTES_MAX) {
            let record = StdinRecord::new(part.len());
            bytes.extend_from_slice(&[record.header(), part, record.padding()].concat());
        }
        bytes.extend_from_slice(LAST_RECORD);
        bytes
    }

    #[test]
    fn records_out_of_order_are_refused() {
        let whole = request(true, &[(b"A".to_vec(), b"b".to_vec())], b"body");
        assert_eq!(read(&whole[16..], 7), Err(RequestError::Order), "parameters without a request");
        assert_eq!(read(LAST_RECORD, 7), Err(RequestError::Order));
        let mut other = whole.clone();
        other[9] = 2;
        assert_eq!(read(&other, 7), Err(RequestError::Role));
        let mut cut = header(kind::BEGIN_REQUEST, 8, 0).to_vec();
        cut.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        cut.extend_from_slice(&header(kind::PARAMS, 3, 0));
        cut.extend_from_slice(&[1, 9, b'A']);
        cut.extend_from_slice(&header(kind::PARAMS, 0, 0));
        assert_eq!(read(&cut, 7), Err(RequestError::Params));
        let long = vec![(b"A".to_vec(), vec![b'x'; PARAMS_BYTES_MAX - 100])];
        let mut twice = request(true, &long, b"");
        // Without the record that ends them, the parameters go on.
        twice.truncate(twice.len() - 16);
        twice.extend_from_slice(&header(kind::PARAMS, 200, 0));
        twice.extend_from_slice(&[0; 200]);
        assert_eq!(read(&twice, 60_000), Err(RequestError::TooLarge(TooLarge(PARAMS_BYTES_MAX))));
    }

    #[test]
    fn parses_the_output_of_a_responder() {
        let (mut bytes, mut decoder) = (Vec::new(), Decoder::default());
        encode_stderr(b"warning", &mut bytes);
        encode_stdout(&vec![b'x'; 100_000], &mut bytes);
        bytes.extend_from_slice(&stdout_header(3));
        bytes.extend_from_slice(b"end");
        encode_end(&mut bytes);
        let (mut rest, mut output) = (bytes.as_slice(), Vec::new());
        while let Piece::Stdout(content) = decoder.next(&mut rest).unwrap() {
            output.extend_from_slice(content);
        }
        assert!(output.len() == 100_003 && output.ends_with(b"xend") && decoder.has_ended() && rest.is_empty());
        assert_eq!(decoder.take_stderr(), b"warning");
    }

    proptest! {
        #[test]
        fn bytes_from_a_network_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..50) {
            let _ = read(&bytes, piece);
        }

        #[test]
        fn requests_are_read_as_they_were_written(
            params in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), prop::collection::vec(any::<u8>(), 0..300)), 0..9),
            body in prop_oneof![0usize..300, 65_000usize..140_000],
            keep in any::<bool>(),
            piece in 1usize..70_000,
        ) {
            let body = vec![b'b'; body];
            let bytes = [request(keep, &params, &body), request(!keep, &[], b"")].concat();
            let expected = vec![(keep, params, body, true), (!keep, Vec::new(), Vec::new(), true)];
            prop_assert_eq!(read(&bytes, piece), Ok(expected));
        }
    }
}
