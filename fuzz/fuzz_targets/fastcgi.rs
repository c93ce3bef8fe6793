//! Output of a FastCGI application: the same result for any pieces, a head or none, and no panic.
#![no_main]

use cgi::fastcgi::{Decoder, Piece, RecordError};
use cgi::http_head;
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
    let mut head = Vec::new();
    if let Ok(Some(length)) = http_head(bytes, &mut head) {
        assert!(length <= bytes.len() && head.ends_with(b"\r\n\r\n"));
    }
});
