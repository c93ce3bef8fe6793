//! Several tunnels, or idle connections, in one message, with the version of the format.

use crate::VERSION;
use crate::wire::{Reader, put, put_count};

/// A message with these encoded values.
pub fn encode_batch(values: &[&[u8]]) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    put_count(&mut out, values.len());
    for value in values {
        put(&mut out, value);
    }
    out
}

/// The encoded values of a message; `None` if it has another version, or is no such message.
pub fn decode_batch(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut from = Reader::new(bytes);
    if u32::from_le_bytes(from.array()?) != VERSION {
        return None;
    }
    let values = from.list(|from| from.bytes().map(<[u8]>::to_vec))?;
    from.is_at_end().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_back_and_another_version_does_not() {
        let mut bytes = encode_batch(&[b"one", b""]);
        assert_eq!(decode_batch(&bytes), Some(vec![b"one".to_vec(), Vec::new()]));
        for cut in 0..bytes.len() {
            assert_eq!(decode_batch(&bytes[..cut]), None, "cut at {cut}");
        }
        bytes[0] ^= 1;
        assert_eq!(decode_batch(&bytes), None);
    }
}
