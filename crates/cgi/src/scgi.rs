//! SCGI: a netstring of names and values, then the body.

use crate::{Params, TooLarge};
use std::io::Write as _;

/// Most bytes of all parameters: as for FastCGI.
pub const PARAMS_BYTES_MAX: usize = 4 << 20;
/// Room for the netstring's length and its colon.
const LENGTH_BYTES: usize = 8;

/// The request before its body, as it is written.
#[derive(Debug)]
pub struct RequestHead {
    out: Vec<u8>,
}

impl RequestHead {
    /// Begins a request with a body of this length. `out` is emptied and filled.
    pub fn begin(mut out: Vec<u8>, body_bytes: u64) -> Self {
        out.clear();
        // The length comes first, and is known last.
        out.extend_from_slice(&[b' '; LENGTH_BYTES]);
        // Writing to a vector cannot fail.
        let _ = write!(out, "CONTENT_LENGTH\0{body_bytes}\0");
        Self { out }
    }

    /// The request.
    pub fn finish(mut self) -> Vec<u8> {
        let length = format!("{}:", self.out.len() - LENGTH_BYTES);
        self.out.drain(..LENGTH_BYTES - length.len());
        self.out[..length.len()].copy_from_slice(length.as_bytes());
        self.out.push(b',');
        self.out
    }
}

impl Params for RequestHead {
    /// A zero byte would end a name or a value: what is behind it is left out.
    fn param(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLarge> {
        if self.out.len() + name.len() + value.len() > PARAMS_BYTES_MAX {
            return Err(TooLarge(PARAMS_BYTES_MAX));
        }
        for text in [name, value] {
            let end = memchr::memchr(0, text).unwrap_or(text.len());
            self.out.extend_from_slice(&text[..end]);
            self.out.push(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_netstring_that_begins_with_its_length() {
        let mut head = RequestHead::begin(b"old".to_vec(), 27);
        head.param(b"SCGI", b"1").unwrap();
        head.param(b"REQUEST_METHOD", b"POST").unwrap();
        head.param(b"REQUEST_URI", b"/deepthought").unwrap();
        // The example of the specification.
        let bytes = head.finish();
        let expected = b"70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,";
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn values_have_no_zero_byte_and_a_bound() {
        let mut head = RequestHead::begin(Vec::new(), 0);
        head.param(b"A", b"b\0INJECTED\0c").unwrap();
        assert!(head.finish().ends_with(b"A\0b\0,"));
        let mut head = RequestHead::begin(Vec::new(), 0);
        assert_eq!(head.param(b"A", &vec![0; PARAMS_BYTES_MAX]), Err(TooLarge(PARAMS_BYTES_MAX)));
        let mut head = RequestHead::begin(Vec::new(), 0);
        head.param(b"A", &vec![b'x'; PARAMS_BYTES_MAX - 100]).unwrap();
        assert!(head.finish().starts_with(b"4194"), "seven digits fit");
    }
}
