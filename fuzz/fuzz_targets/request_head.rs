//! Request heads: no panic, spans inside, and a prefix is partial or fails as the whole does. The first byte is where
//! the prefix ends.
#![no_main]

use http1::{Limits, Parse, RequestHead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let limits = Limits::default();
    let (mut whole, mut part) = (RequestHead::default(), RequestHead::default());
    let result = http1::request::parse(bytes, &limits, &mut whole);
    let of_prefix = http1::request::parse(&bytes[..bytes.len().min(cut as usize)], &limits, &mut part);
    if of_prefix != Ok(Parse::Partial) {
        assert_eq!(of_prefix, result);
    }
    if let Ok(Parse::Complete { len }) = result {
        assert!(len <= bytes.len() && whole.line.end() < len && whole.target.raw.end() < len);
        for field in &whole.fields {
            assert!(
                !field.name.is_empty() && field.name.end() <= field.value.start as usize && field.value.end() < len
            );
        }
    }
});
