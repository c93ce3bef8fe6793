//! Answers of memcached: the same end for any pieces, and no panic. Keys cannot end the line of a request.
#![no_main]

use cgi::memcached::{Answer, ValueEnd, answer, request};
use libfuzzer_sys::fuzz_target;

fn value(length: u64, bytes: &[u8], piece: usize) -> (Vec<u8>, usize, bool) {
    let (mut end, mut value, mut used) = (ValueEnd::new(length), Vec::new(), 0);
    for part in bytes.chunks(piece) {
        let (taken, count) = end.take(part);
        assert!(taken <= count && count <= part.len());
        value.extend_from_slice(&part[..taken]);
        used += count;
        if end.is_over() {
            break;
        }
    }
    (value, used, end.is_broken())
}

fuzz_target!(|input: (u8, &[u8], &[u8])| {
    let (piece, key, bytes) = (usize::from(input.0) + 1, input.1, input.2);
    let asked = request(Vec::new(), key);
    assert!(asked.ends_with(b"\r\n") && asked.iter().filter(|&&byte| byte <= b' ').count() == 3);
    if let Ok(Some((found, line))) = answer(bytes, &asked) {
        assert!(line <= bytes.len());
        if let Answer::Value { length, .. } = found {
            let rest = &bytes[line..];
            assert_eq!(value(length, rest, piece), value(length, rest, rest.len().max(1)));
        }
    }
});
