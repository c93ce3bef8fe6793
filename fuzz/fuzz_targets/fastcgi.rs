//! Output of a FastCGI application: the same result for any pieces, a head or none, and no panic.
#![no_main]

use cgi::fastcgi::{Decoder, Piece, RecordError};
use cgi::read_head;
use http1::{Limits, RequestKind, ResponseHead};
use libfuzzer_sys::fuzz_target;

fn output(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, bool), RecordError> {
    let (mut decoder, mut output) = (Decoder::default(), Vec::new());
    for mut part in bytes.chunks(piece) {
        loop {
            match decoder.next(&mut part)? {
                Piece::Stdout(content) => output.extend_from_slice(content),
                Piece::NeedMore | Piece::End => break,
            }
        }
    }
    Ok((output, decoder.has_ended()))
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = (usize::from(input.0) + 1, input.1);
    let whole = output(bytes, bytes.len().max(1));
    assert_eq!(output(bytes, piece), whole);
    let mut head = ResponseHead::default();
    if let Ok(Some(length)) = read_head(bytes, &Limits::response(4096), RequestKind::Other, &mut head) {
        assert!(length <= bytes.len() && head.status >= 200);
    }
});
