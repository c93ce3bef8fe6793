//! Files of a cache, and what responses say about caching: no panic; the sizes that a file gives fit its length, and it is written
//! again as the same bytes; a cached response has a `Vary` that keeps variants apart.
#![no_main]

use cache::{Entry, Freshness, Ignored, Key, Said, decode_snapshot, encode_snapshot, is_kept_apart, variant_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for size in [input.len() as u64, input.len() as u64 + 10] {
        match Entry::parse(input, size) {
            Ok(parsed) => {
                assert_eq!(parsed.body_start as u64 + parsed.entry.body_bytes, size);
                let again = parsed.entry.encode(parsed.key, parsed.head).expect("it was as long before");
                let again = Entry::parse(&again, size).expect("it was just written");
                assert_eq!((again.entry, again.key, again.head), (parsed.entry, parsed.key, parsed.head));
            }
            Err(fault) => assert!(fault.needs().is_none_or(|needs| needs > input.len() && needs as u64 <= size)),
        }
    }
    if let Ok(records) = decode_snapshot(input) {
        assert_eq!(encode_snapshot(records), input);
    }
    let kinds = [Said::AccelExpires, Said::CacheControl, Said::Expires, Said::SetCookie, Said::Vary];
    let fields = input.split(|&byte| byte == b'\n').filter_map(|line| {
        let (kind, value) = line.split_first()?;
        Some((kinds[usize::from(*kind) % kinds.len()], value))
    });
    let said = Freshness::read(fields, Ignored::default(), 1000, |value| Some(value.len() as i64));
    assert!(said.valid_until >= 0 && said.updating_s >= 0 && said.error_s >= 0);
    assert!(!said.allows() || is_kept_apart(&said.vary));
    let main = Key::of(input);
    assert_eq!(Key::from_hex(&main.hex()), Some(main));
    let variant = || variant_of(main, &said.vary, |name, say| say(name));
    assert_eq!(variant(), variant());
});
