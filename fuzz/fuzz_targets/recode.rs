//! `charset_map` on bodies in pieces, and the parameter `charset` of media types: the same output for any split into pieces, and no
//! more than the code promises. The first byte is the size of the pieces, the second chooses the direction.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::charset::{Charsets, MapLines, MediaType, Recoder};
use std::sync::LazyLock;

static CHARSETS: LazyLock<Charsets> = LazyLock::new(|| {
    let mut charsets = Charsets::default();
    let utf8 = [(0x80, vec![0xe2, 0x94, 0x80]), (0xc1, vec![0xd0, 0xb0]), (0xe1, vec![0xd0, 0x90])];
    charsets.add_map(&MapLines { from: b"koi8-r", to: b"utf-8", lines: &utf8 });
    let bytes = [(0xc1, vec![0xe0]), (0xe1, vec![0xc0])];
    charsets.add_map(&MapLines { from: b"koi8-r", to: b"windows-1251", lines: &bytes });
    charsets
});

const DIRECTIONS: [(&[u8], &[u8]); 4] =
    [(b"utf-8", b"koi8-r"), (b"koi8-r", b"utf-8"), (b"koi8-r", b"windows-1251"), (b"windows-1251", b"koi8-r")];

fn recoded(direction: usize, body: &[u8], piece: usize) -> Vec<u8> {
    let (from, to) = DIRECTIONS[direction];
    let recoding = CHARSETS.recoding(from, to).expect("each direction has a map");
    let mut recoder = Recoder::new(recoding.clone());
    let mut out = Vec::new();
    body.chunks(piece).for_each(|piece| recoder.take(piece, &mut out));
    out
}

fuzz_target!(|input: &[u8]| {
    let Some((&[piece, direction], body)) = input.split_first_chunk::<2>() else { return };
    let direction = usize::from(direction) % DIRECTIONS.len();
    let whole = recoded(direction, body, body.len().max(1));
    assert_eq!(recoded(direction, body, usize::from(piece).max(1)), whole);
    assert!(whole.len() <= body.len() * 4, "{} bytes became {}", body.len(), whole.len());
    let media = MediaType::parse(body);
    assert!(body.starts_with(media.media));
    assert!(media.charset.is_none_or(|charset| charset.len() < body.len()));
});
