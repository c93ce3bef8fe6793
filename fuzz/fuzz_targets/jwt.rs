//! Tokens and sets of keys. No panic; a set has no more keys than its limit; nothing verifies without a key.
#![no_main]

use jwt::keys::KEYS_MAX;
use jwt::{Content, Envelope, KeySet, Token};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let keys = KeySet::parse(input.get(end + 1..).unwrap_or_default()).unwrap_or_default();
    assert!(keys.len() <= KEYS_MAX);
    if let Ok(envelope) = Envelope::parse(&input[..end]) {
        assert!(Token::closed(&envelope).verify([&keys], 0, 0).is_err());
        assert!(Token::open(&envelope, Content::Claims, [&KeySet::default()]).is_err());
        let _ = Token::open(&envelope, Content::SignedToken, [&keys]);
    }
    let Ok(token) = Token::parse(&input[..end]) else { return };
    assert!(token.claims().is_object() && token.header().is_object());
    assert!(token.verify([&KeySet::default()], 0, 0).is_err());
    let _ = token.verify([&keys], 2_000_000_000, 10);
    let _ = jwt::claims::text_of(token.claims(), "sub");
});
