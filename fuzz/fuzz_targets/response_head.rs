//! Response heads: no panic, spans inside, and a prefix is partial or fails as the whole does. The first byte is where
//! the prefix ends, its lowest bit whether the request was HEAD.
#![no_main]

use http1::{Limits, Parse, RequestKind, ResponseFraming, ResponseHead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let limits = Limits::response(4096);
    let kind = if cut & 1 == 1 { RequestKind::Head } else { RequestKind::Other };
    let (mut whole, mut part) = (ResponseHead::default(), ResponseHead::default());
    let result = http1::response::parse(bytes, &limits, kind, &mut whole);
    let of_prefix = http1::response::parse(&bytes[..bytes.len().min(cut as usize)], &limits, kind, &mut part);
    if of_prefix != Ok(Parse::Partial) {
        assert_eq!(of_prefix, result);
    }
    if let Ok(Parse::Complete { len }) = result {
        assert!(len <= bytes.len() && whole.line.end() < len && (100..1000).contains(&whole.status));
        assert!(!(whole.keepalive && whole.framing == ResponseFraming::UntilClose));
        for field in &whole.fields {
            assert!(
                !field.name.is_empty() && field.name.end() <= field.value.start as usize && field.value.end() < len
            );
        }
    }
});
