//! Lines and orders in a compact form: deflated, because histograms as JSON repeat themselves; and in pieces that NATS takes.

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use std::io::Read as _;

/// Bytes of a piece: an eighth of NATS's default limit of a message. With pieces this small, an agent's window has several.
pub(crate) const PIECE_BYTES: usize = 128 * 1024;
/// Longest order or line before it is deflated: bodies, certificates and data files of a load, or its histograms.
pub(crate) const BYTES_MAX: usize = 256 * 1024 * 1024;
/// Longest order or line after that.
pub(crate) const PACKED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Deflates.
pub(crate) fn pack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.len() > BYTES_MAX {
        return Err(too_long("before it is deflated", BYTES_MAX));
    }
    let mut packed = Vec::new();
    // The fastest level: an interval is packed beside the load.
    DeflateEncoder::new(bytes, Compression::fast()).read_to_end(&mut packed).map_err(|error| error.to_string())?;
    if packed.len() > PACKED_BYTES_MAX { Err(too_long("deflated", PACKED_BYTES_MAX)) } else { Ok(packed) }
}

/// Inflates, at most [`BYTES_MAX`].
pub(crate) fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let limit = BYTES_MAX as u64 + 1;
    DeflateDecoder::new(packed).take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > BYTES_MAX { Err(too_long("inflated", BYTES_MAX)) } else { Ok(bytes) }
}

fn too_long(how: &str, limit: usize) -> String {
    format!("more than {} MB {how}", limit / 1024 / 1024)
}

/// The pieces of something packed, at least one.
pub(crate) fn pieces(packed: &[u8]) -> Vec<&[u8]> {
    if packed.is_empty() { vec![packed] } else { packed.chunks(PIECE_BYTES).collect() }
}

/// The pieces of an order as they come, in any order and more than once.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pieces: Vec<Option<Vec<u8>>>,
}

impl Assembly {
    /// Takes a piece. Returns the whole when the last one has come.
    pub(crate) fn take(&mut self, piece: usize, of: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        if of == 0 || of > PACKED_BYTES_MAX / PIECE_BYTES || bytes.len() > PIECE_BYTES {
            return None;
        }
        if self.pieces.len() != of {
            self.pieces = vec![None; of];
        }
        *self.pieces.get_mut(piece)? = Some(bytes.to_vec());
        self.pieces
            .iter()
            .all(Option::is_some)
            .then(|| std::mem::take(&mut self.pieces).into_iter().flatten().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_any_order_and_twice() {
        let bytes: Vec<u8> = (0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let packed = pack(&bytes).unwrap();
        let pieces = pieces(&packed);
        assert!(pieces.len() > 3);
        let mut assembly = Assembly::default();
        let mut whole = None;
        for at in (0..pieces.len()).rev().chain([1]) {
            whole = whole.or(assembly.take(at, pieces.len(), pieces[at]));
        }
        assert_eq!(unpack(&whole.unwrap()).unwrap(), bytes);
    }

    #[test]
    fn refuses_oversized_pieces_and_invalid_deflate() {
        let mut assembly = Assembly::default();
        for (piece, of) in [(0, 0), (1, 1), (0, usize::MAX)] {
            assert_eq!(assembly.take(piece, of, b"x"), None);
        }
        assert_eq!(assembly.take(0, 1, &vec![0; PIECE_BYTES + 1]), None);
        assert!(unpack(b"\xff\xff\xff").is_err());
    }
}
