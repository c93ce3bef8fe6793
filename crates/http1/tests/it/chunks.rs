//! The chunked coding: rows R38 to R44 and S14, and that pieces make no difference.

use http1::chunked::{CHUNK_END, ChunkHeader, Decoder, encode_last_chunk};
use http1::{ChunkError, LineFault};
use proptest::prelude::*;

/// What a body decodes to: data, bytes consumed, the decoder at its end.
type Body = (Vec<u8>, usize, Decoder);

/// Decodes `input` in pieces of these lengths, the last of them repeated; `None` if the body does not end.
fn decode_in(input: &[u8], pieces: &[usize]) -> Result<Option<Body>, ChunkError> {
    let mut decoder = Decoder::new();
    let (mut data, mut at) = (Vec::new(), 0);
    let mut lengths = pieces.iter().chain(pieces.last().into_iter().cycle());
    while at < input.len() {
        let len = lengths.next().map_or(usize::MAX, |&len| len.max(1));
        let mut piece = &input[at..at.saturating_add(len).min(input.len())];
        while !piece.is_empty() {
            let decoded = decoder.decode(piece)?;
            assert!(decoded.data.end <= decoded.consumed && decoded.consumed <= piece.len());
            assert!(decoded.consumed > 0 || decoded.done, "no progress");
            data.extend_from_slice(&piece[decoded.data.clone()]);
            at += decoded.consumed;
            piece = &piece[decoded.consumed..];
            if decoded.done {
                assert!(decoder.is_done());
                return Ok(Some((data, at, decoder)));
            }
        }
    }
    Ok(None)
}

/// The same, whole and byte by byte, which must agree.
#[track_caller]
fn decode(input: impl AsRef<[u8]>) -> Result<Option<Body>, ChunkError> {
    let input = input.as_ref();
    let whole = decode_in(input, &[]);
    let bytewise = decode_in(input, &[1]);
    let shape = |result: &Result<Option<Body>, ChunkError>| {
        result.clone().map(|body| body.map(|(data, at, decoder)| (data, at, decoder.trailer_lines().to_vec())))
    };
    assert_eq!(shape(&whole), shape(&bytewise), "{}", input.escape_ascii());
    whole
}

#[track_caller]
fn refused(input: impl AsRef<[u8]>, error: ChunkError) {
    assert_eq!(decode(&input).map(|_| ()), Err(error), "{}", input.as_ref().escape_ascii());
    assert_eq!(error.status(), 400);
}

#[test]
fn a_body_ends_where_the_next_message_begins() {
    let (data, consumed, decoder) = decode("3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\nGET /").unwrap().unwrap();
    assert_eq!((data.as_slice(), decoder.trailer_lines()), (&b"abc0123456789"[..], &b""[..]));
    assert_eq!(consumed, 29);
    assert!(decode("3\r\nabc\r\n0\r\n").unwrap().is_none());
}

#[test]
fn r38_extensions_are_dropped() {
    let (data, ..) = decode("3;a=b\r\nabc\r\n1 ;q=\"x;\\\"y\"\r\nd\r\n0;last\r\n\r\n").unwrap().unwrap();
    assert_eq!(data, b"abcd");
    refused("3 \r\nabc\r\n", ChunkError::InvalidExtension);
    refused("3;a\0\r\nabc\r\n", ChunkError::InvalidExtension);
    refused("3;a=\"\r\nabc\r\n", ChunkError::InvalidExtension);
}

#[test]
fn r39_long_extensions() {
    refused(format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(100_000)), ChunkError::ExtensionTooLong);
    // Each line within its bound, but all of them together far more than the data.
    let chunk = format!("1;{}\r\na\r\n", "x".repeat(1000));
    refused(chunk.repeat(100), ChunkError::ExtensionTooLong);
}

#[test]
fn r40_bare_lf_in_a_chunk_line() {
    refused("3\nabc\r\n0\r\n\r\n", ChunkError::MissingCrLf);
    refused("3;a\nabc\r\n0\r\n\r\n", ChunkError::MissingCrLf);
    refused("3\r\nabc\n0\r\n\r\n", ChunkError::MissingCrLf);
    refused("3\r\nabc\r\n0\n\n", ChunkError::MissingCrLf);
    refused("0\r\n\n", ChunkError::InvalidTrailer(LineFault::BareLf));
    refused("3\rabc", ChunkError::MissingCrLf);
}

#[test]
fn r41_bad_sizes() {
    for size in ["0x3", "-3", "", " 3", "+3", "g", "\t3", "3x", "\u{b2}"] {
        refused(format!("{size}\r\nabc\r\n0\r\n\r\n"), ChunkError::InvalidSize);
    }
    for size in ["10000000000000000", "ffffffffffffffff", "8000000000000000", "00000000000000003"] {
        refused(format!("{size}\r\nabc\r\n"), ChunkError::SizeOverflow);
    }
    assert!(decode("7fffffffffffffff\r\nabc").unwrap().is_none());
    assert!(decode("0000000000000003\r\nabc\r\n0\r\n\r\n").unwrap().is_some());
}

#[test]
fn r42_s14_data_without_crlf() {
    refused("3\r\nabcd\r\n0\r\n\r\n", ChunkError::MissingCrLf);
    refused("3\r\nabc0\r\n\r\n", ChunkError::MissingCrLf);
    refused("3\r\nabc\rx", ChunkError::MissingCrLf);
    assert_eq!(ChunkError::MissingCrLf.response_phrase(), "upstream sent invalid chunked response");
}

#[test]
fn r43_forbidden_trailers_are_dropped() {
    let body = "0\r\nX-Sum:1\r\nHost: evil\r\nContent-Length: 3\r\ntransfer-encoding: chunked\r\nAuthorization: x\r\n\
                X-Forwarded-For: y\r\nX-Time: \t 2 \r\nX-Empty:\r\n\r\nrest";
    let (_, consumed, decoder) = decode(body).unwrap().unwrap();
    assert_eq!(consumed, body.len() - 4);
    assert_eq!(decoder.trailer_lines(), b"X-Sum: 1\r\nX-Time: 2\r\nX-Empty: \r\n");
    let trailers: Vec<_> = decoder.trailers().collect();
    assert_eq!(trailers, [(&b"X-Sum"[..], &b"1"[..]), (b"X-Time", b"2"), (b"X-Empty", b"")]);
}

#[test]
fn r44_malformed_trailers() {
    for (line, fault) in [
        ("no colon", LineFault::SpaceBeforeColon),
        ("a", LineFault::NoColon),
        (": b", LineFault::EmptyName),
        (" a: b", LineFault::Folded),
        ("a: \0", LineFault::ValueByte),
        ("a: b\rc", LineFault::BareCr),
    ] {
        refused(format!("0\r\n{line}\r\n\r\n"), ChunkError::InvalidTrailer(fault));
    }
    refused("0\r\na: b\n\r\n", ChunkError::InvalidTrailer(LineFault::BareLf));
    refused(format!("0\r\nA: {}\r\n\r\n", "x".repeat(9000)), ChunkError::TrailerTooLarge);
    refused(format!("0\r\n{}\r\n", "A: b\r\n".repeat(2000)), ChunkError::TrailerTooLarge);
    refused(format!("0\r\n{}\r\n", "Host: b\r\n".repeat(2000)), ChunkError::TrailerTooLarge);
}

#[test]
fn accepts_blanks_after_chunk_size_and_bad_response_trailers() {
    let body = "3  \t\r\nabc\r\n0 \r\nno colon\r\nX-Sum: 1\r\na: \0\r\n\r\nrest";
    for piece in [1, 2, 5, body.len()] {
        let (mut decoder, mut data, mut at) = (Decoder::of_response(), Vec::new(), 0);
        while !decoder.is_done() {
            let input = &body.as_bytes()[at..(at + piece).min(body.len())];
            let step = decoder.decode(input).unwrap();
            data.extend_from_slice(&input[step.data]);
            at += step.consumed;
        }
        assert_eq!((data.as_slice(), decoder.trailer_lines()), (&b"abc"[..], &b"X-Sum: 1\r\n"[..]));
        assert_eq!(&body[at..], "rest");
    }
    for bad in ["3 x\r\n", "3\n", "0x3\r\n", " 3\r\n", "0\r\na: b\rc\r\n\r\n"] {
        assert!(!Decoder::of_response().decode(bad.as_bytes()).is_ok_and(|step| step.done), "{bad:?}");
    }
}

#[test]
fn trailers_at_the_bound_do_not_depend_on_pieces() {
    for len in 8170..8200 {
        let result = decode(format!("0\r\nA: {}\r\n\r\n", "x".repeat(len)));
        // `A: `, the value, and two line ends make 8 KiB.
        assert_eq!(result.is_ok(), len + 3 + 4 <= 8192, "{len}");
    }
}

/// A body of these chunks, with trailers.
fn encode(chunks: &[Vec<u8>], trailers: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        out.extend_from_slice(ChunkHeader::new(chunk.len() as u64).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(CHUNK_END);
    }
    encode_last_chunk(trailers, &mut out);
    out
}

#[test]
fn chunk_headers_are_shortest_hexadecimal() {
    for (len, header) in [(1, "1\r\n"), (16, "10\r\n"), (0xABC, "abc\r\n"), (u64::MAX, "ffffffffffffffff\r\n")] {
        let mut out = Vec::new();
        out.extend_from_slice(ChunkHeader::new(len).as_bytes());
        assert_eq!(out, header.as_bytes());
    }
}

proptest! {
    #[test]
    fn chunks_survive_a_round_trip_in_any_pieces(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
        pieces in prop::collection::vec(1usize..40, 1..20),
    ) {
        let body = encode(&chunks, b"X-A: b\r\n");
        let (data, consumed, decoder) = decode_in(&body, &pieces).unwrap().unwrap();
        prop_assert_eq!(data, chunks.concat());
        prop_assert_eq!(consumed, body.len());
        prop_assert_eq!(decoder.trailer_lines(), b"X-A: b\r\n");
    }

    #[test]
    fn any_bytes_in_any_pieces_give_the_same_result(
        bytes in prop::collection::vec(prop::sample::select(b"0123af;\" =x:\r\n\n\r\r\n\tHost\0\xff".to_vec()), 0..60),
        pieces in prop::collection::vec(1usize..8, 1..20),
    ) {
        let whole = decode_in(&bytes, &[]).map(|body| body.map(|(data, at, _)| (data, at)));
        let split = decode_in(&bytes, &pieces).map(|body| body.map(|(data, at, _)| (data, at)));
        prop_assert_eq!(whole, split);
    }
}
