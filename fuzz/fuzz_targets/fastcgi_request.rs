//! Requests of a web server over FastCGI, as the test origin reads them: the same result for any pieces, and no panic.
#![no_main]

use cgi::fastcgi::{RequestDecoder, RequestError, RequestParams, RequestPiece};
use libfuzzer_sys::fuzz_target;

/// Parameters and body of each request.
fn requests(bytes: &[u8], piece: usize) -> Result<Vec<(RequestParams, Vec<u8>)>, RequestError> {
    let (mut decoder, mut all) = (RequestDecoder::default(), Vec::<(RequestParams, Vec<u8>)>::new());
    for mut part in bytes.chunks(piece) {
        loop {
            match decoder.next(&mut part)? {
                RequestPiece::Begun { params, .. } => all.push((params, Vec::new())),
                RequestPiece::Stdin(content) => all.last_mut().expect("begun").1.extend_from_slice(content),
                RequestPiece::End | RequestPiece::Aborted => {}
                RequestPiece::NeedMore => break,
            }
        }
    }
    Ok(all)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = (usize::from(input.0) + 1, input.1);
    assert_eq!(requests(bytes, piece), requests(bytes, bytes.len().max(1)));
});
