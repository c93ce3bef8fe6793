//! uwsgi: a packet of names and values with their lengths, then the body.

use crate::{Params, TooLarge};

/// Bytes of all parameters: their number has two bytes.
pub const PARAMS_BYTES_MAX: usize = 0xffff;
/// Both modifiers, and the length between them.
const HEADER_BYTES: usize = 4;

/// The request before its body, as it is written.
#[derive(Debug)]
pub struct RequestHead {
    out: Vec<u8>,
}

impl RequestHead {
    /// Begins a request. `out` is emptied and filled.
    pub fn begin(mut out: Vec<u8>, modifier1: u8, modifier2: u8) -> Self {
        out.clear();
        out.extend_from_slice(&[modifier1, 0, 0, modifier2]);
        Self { out }
    }

    /// The request.
    pub fn finish(mut self) -> Vec<u8> {
        // `param` keeps it within two bytes.
        let length = (self.out.len() - HEADER_BYTES) as u16;
        self.out[1..3].copy_from_slice(&length.to_le_bytes());
        self.out
    }
}

impl Params for RequestHead {
    fn param(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLarge> {
        let after = self.out.len() - HEADER_BYTES + name.len() + value.len() + 4;
        if after > PARAMS_BYTES_MAX {
            return Err(TooLarge(PARAMS_BYTES_MAX));
        }
        for text in [name, value] {
            self.out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            self.out.extend_from_slice(text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_packet_with_lengths() {
        let mut head = RequestHead::begin(b"old".to_vec(), 5, 7);
        head.param(b"REQUEST_METHOD", b"GET").unwrap();
        head.param(b"A", b"").unwrap();
        let expected = b"\x05\x1a\x00\x07\x0e\x00REQUEST_METHOD\x03\x00GET\x01\x00A\x00\x00";
        assert_eq!(head.finish(), expected);
    }

    #[test]
    fn packet_is_bounded_by_its_length_field() {
        let mut head = RequestHead::begin(Vec::new(), 0, 0);
        assert_eq!(head.param(b"A", &vec![b'x'; 65_535]), Err(TooLarge(PARAMS_BYTES_MAX)));
        head.param(b"A", &vec![b'x'; 65_530]).unwrap();
        assert_eq!(head.finish()[..4], [0, 0xff, 0xff, 0]);
    }
}
