//! `Range`, `If-Range`, and `Content-Range` of a slice: no panic, and only parts that the body has, no more of them and no more bytes than may be. The first
//! nine bytes are how long the body is and how many parts are permitted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::precondition::is_same_version;
use rules::range::{Wanted, parse_range};
use rules::slice::Slice;

fuzz_target!(|input: &[u8]| {
    let Some((size, rest)) = input.split_first_chunk::<8>() else { return };
    let Some((&most, field)) = rest.split_first() else { return };
    let (size, most) = (u64::from_le_bytes(*size), usize::from(most));
    if let Wanted::Parts(parts) = parse_range(field, size, most) {
        assert!(!parts.is_empty() && parts.len() <= most);
        assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
        let total: u128 = parts.iter().map(|part| u128::from(part.end - part.start)).sum();
        assert!(total <= u128::from(size));
    }
    let slice = Slice::first(size, Some(field), false);
    if let Ok((part, whole)) = slice.check(Some(field)) {
        assert!(
            part.start == slice.start
                && part.start < part.end
                && part.end <= whole
                && part.end - part.start <= slice.size
        );
    }
    assert!(!is_same_version(field, None, None), "nothing is the version of what has none");
    assert!(!field.ends_with(b"\"") || field.len() < 2 || is_same_version(field, Some(field), None));
});
