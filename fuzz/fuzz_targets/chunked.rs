//! Chunked bodies: no panic, progress, and the same data, end or error in any pieces. The first byte is the length of
//! the pieces.
#![no_main]

use http1::ChunkError;
use http1::chunked::Decoder;
use libfuzzer_sys::fuzz_target;

/// Data, bytes consumed and trailers; `None` without an end.
type Body = Option<(Vec<u8>, usize, Vec<u8>)>;

fn decode(bytes: &[u8], piece_len: usize) -> Result<Body, ChunkError> {
    let mut decoder = Decoder::new();
    let (mut data, mut consumed) = (Vec::new(), 0);
    for mut piece in bytes.chunks(piece_len) {
        while !piece.is_empty() {
            let decoded = decoder.decode(piece)?;
            assert!(decoded.consumed > 0 && decoded.data.end <= decoded.consumed);
            data.extend_from_slice(&piece[decoded.data]);
            consumed += decoded.consumed;
            if decoded.done {
                return Ok(Some((data, consumed, decoder.trailer_lines().to_vec())));
            }
            piece = &piece[decoded.consumed..];
        }
    }
    Ok(None)
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece_len, bytes)) = input.split_first() else { return };
    let whole = decode(bytes, usize::MAX);
    assert_eq!(whole, decode(bytes, piece_len.max(1) as usize));
    let Ok(Some((data, _, trailers))) = whole else { return };
    // What is sent on decodes to the same.
    let mut out = Vec::new();
    if !data.is_empty() {
        out.extend_from_slice(http1::chunked::ChunkHeader::new(data.len() as u64).as_bytes());
        out.extend_from_slice(&data);
        out.extend_from_slice(http1::chunked::CHUNK_END);
    }
    http1::chunked::encode_last_chunk(&trailers, &mut out);
    let len = out.len();
    // The canonical trailers may be some bytes longer than those received, and so beyond the bound.
    if let Ok(again) = decode(&out, usize::MAX) {
        assert_eq!(again, Some((data, len, trailers)));
    }
});
