//! FastCGI 1.0 with one request at a time on a connection: as a web server speaks it, and as an application answers
//! ([`RequestDecoder`], for the test origin).

mod decode;
mod encode;
mod records;
mod responder;

pub use decode::{Decoder, Piece, STDERR_BYTES_MAX};
pub use encode::{LAST_RECORD, PARAMS_BYTES_MAX, RECORD_BYTES_MAX, RequestHead, StdinRecord};
pub use records::RecordError;
pub use responder::{
    RequestDecoder, RequestError, RequestParams, RequestPiece, encode_end, encode_stderr, encode_stdout, stdout_header,
};

/// The only version of the protocol.
const VERSION: u8 = 1;
/// Bytes of a record's header.
const HEADER_BYTES: usize = 8;
/// The id of the one request on a connection.
const REQUEST_ID: u8 = 1;

/// Types of records (FastCGI specification, section 8).
mod kind {
    pub(super) const BEGIN_REQUEST: u8 = 1;
    pub(super) const ABORT_REQUEST: u8 = 2;
    pub(super) const END_REQUEST: u8 = 3;
    pub(super) const PARAMS: u8 = 4;
    pub(super) const STDIN: u8 = 5;
    pub(super) const STDOUT: u8 = 6;
    pub(super) const STDERR: u8 = 7;
}

/// The header of a record.
fn header(kind: u8, length: u16, padding: u8) -> [u8; HEADER_BYTES] {
    let [high, low] = length.to_be_bytes();
    [VERSION, kind, 0, REQUEST_ID, high, low, padding, 0]
}
