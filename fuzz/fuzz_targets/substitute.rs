//! `sub_filter` on bodies in pieces: the same output for any split into pieces. The first byte is their size, the second how the texts
//! are cut out of the next eight.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::substitute::{Searcher, Substitution};
use std::sync::Arc;

fn replaced(texts: &[&[u8]], once: bool, body: &[u8], piece: usize) -> Vec<u8> {
    let replacements = (0..texts.len()).map(|number| vec![b'0' + number as u8; number]).collect();
    let mut substitution = Substitution::new(Arc::new(Searcher::new(texts)), replacements, once);
    let mut out = Vec::new();
    for piece in body.chunks(piece) {
        while substitution.take(piece, false, &mut out) {
            unreachable!("a short body fits one step");
        }
    }
    let _ = substitution.take(b"", true, &mut out);
    out
}

fuzz_target!(|input: &[u8]| {
    let Some((&[piece, cut, ref letters @ ..], body)) = input.split_first_chunk::<10>() else { return };
    let body = &body[..body.len().min(4096)];
    let (one, other) = letters.split_at(1 + usize::from(cut % 7));
    let once = cut & 0x80 != 0;
    let whole = replaced(&[one, other], once, body, body.len().max(1));
    assert_eq!(replaced(&[one, other], once, body, usize::from(piece).max(1)), whole);
});
