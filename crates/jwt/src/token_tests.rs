//! Tokens and keys of an independent implementation: `tests/vectors/pyjwt.json` was made by `PyJWT` 2.10.1 and Python's
//! `cryptography`.

use super::*;
use crate::keys::{KEYS_MAX, KeySetFault};
use serde_json::json;

/// 2025-01-01: all good tokens are valid then.
const NOW_S: u64 = 1_735_689_600;

fn vectors() -> Value {
    serde_json::from_slice(include_bytes!("../tests/vectors/pyjwt.json")).unwrap()
}

fn keys(vectors: &Value) -> KeySet {
    KeySet::parse(json!({ "keys": vectors["keys"] }).to_string().as_bytes()).unwrap()
}

fn verdict(token: &str, keys: &KeySet, now_s: u64, leeway_s: u64) -> Result<(), TokenFault> {
    Token::parse(token.as_bytes())?.verify([keys], now_s, leeway_s)
}

#[test]
fn tokens_of_every_algorithm_are_verified() {
    let vectors = vectors();
    let keys = keys(&vectors);
    assert_eq!(keys.keys.len(), 8, "unknown kinds and keys for encryption are skipped");
    let good = vectors["good"].as_object().unwrap();
    assert_eq!(good.len(), 18);
    for (name, token) in good {
        assert_eq!(verdict(token.as_str().unwrap(), &keys, NOW_S, 0), Ok(()), "{name}");
    }
}

#[test]
fn bad_tokens_are_refused_each_for_its_reason() {
    let vectors = vectors();
    let keys = keys(&vectors);
    for (name, row) in vectors["bad"].as_object().unwrap() {
        let (token, expected) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let fault = verdict(token, &keys, NOW_S, 0).expect_err(name);
        let shown = format!("{fault:?}");
        assert_eq!(shown.split('(').next(), Some(expected), "{name}: {shown}");
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let vectors = vectors();
    let keys = keys(&vectors);
    for name in ["ES256", "HS256", "EdDSA"] {
        let token = vectors["good"][name].as_str().unwrap();
        for at in 0..token.len() {
            let mut changed = token.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let read = Token::parse(&changed).map(|token| token.verify([&keys], NOW_S, 0));
            // The last character of a part has bits that must be zero: another text of the same bytes does not exist.
            assert!(!matches!(read, Ok(Ok(()))), "{name}, byte {at}");
        }
    }
}

#[test]
fn leeway_moves_both_ends() {
    let vectors = vectors();
    let keys = keys(&vectors);
    let by_time = |name: &str| vectors["by_time"][name].as_str().unwrap().to_owned();
    let (ends, begins) = (by_time("expires at 2000000000"), by_time("begins at 2000000000"));
    let at = |token: &str, now_s, leeway_s| verdict(token, &keys, now_s, leeway_s);
    assert_eq!(at(&ends, 1_999_999_999, 0), Ok(()));
    assert_eq!(at(&ends, 2_000_000_000, 0), Err(TokenFault::Expired));
    assert_eq!(at(&ends, 2_000_000_009, 10), Ok(()));
    assert_eq!(at(&ends, 2_000_000_010, 10), Err(TokenFault::Expired));
    assert_eq!(at(&begins, 1_999_999_999, 0), Err(TokenFault::NotYetValid));
    assert_eq!(at(&begins, 1_999_999_990, 10), Ok(()));
    assert_eq!(at(&begins, 2_000_000_000, 0), Ok(()));
}

#[test]
fn key_sets_that_cannot_be_used_are_refused() {
    let vectors = vectors();
    let parse = |text: &str| KeySet::parse(text.as_bytes()).map(|keys| keys.len());
    let one = |key: Value| KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes()).map(|keys| keys.len());
    assert!(matches!(parse("{"), Err(KeySetFault::NotJson(_))));
    assert!(matches!(parse(""), Err(KeySetFault::NotJson(_))));
    for text in ["[]", "{}", "{\"keys\":{}}", "\"keys\""] {
        assert_eq!(parse(text), Err(KeySetFault::NotASet), "{text}");
    }
    assert_eq!(parse("{\"keys\":[]}"), Err(KeySetFault::NoKeys));
    assert_eq!(parse("{\"keys\":[5]}"), Err(KeySetFault::BadKey(0, "it is no object")));
    assert_eq!(one(json!({ "kty": "new" })), Err(KeySetFault::NoKeys));
    assert_eq!(one(json!({ "kid": "a" })), Err(KeySetFault::BadKey(0, "it has no \"kty\"")));
    assert!(matches!(one(vectors["weak"].clone()), Err(KeySetFault::BadKey(0, reason)) if reason.contains("2048")));
    for key in [
        json!({ "kty": "oct", "k": "" }),
        json!({ "kty": "oct" }),
        json!({ "kty": "oct", "k": "not base64!" }),
        json!({ "kty": "RSA", "n": "AQAB" }),
        json!({ "kty": "RSA", "n": "", "e": "AQAB" }),
        json!({ "kty": "RSA", "n": "AAAA", "e": "AQAB" }),
        json!({ "kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB" }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": "AQAB" }),
        json!({ "kty": "oct", "k": "AQAB", "alg": "RS256" }),
    ] {
        assert!(matches!(one(key.clone()), Err(KeySetFault::BadKey(0, _))), "{key}");
    }
    let many: Vec<Value> = (0..=KEYS_MAX).map(|_| json!({ "kty": "oct", "k": "AQAB" })).collect();
    assert_eq!(KeySet::parse(json!({ "keys": many }).to_string().as_bytes()).err(), Some(KeySetFault::TooManyKeys));
    assert_eq!(KeySet::parse(&vec![b' '; 600_000]).err(), Some(KeySetFault::TooLarge));
}

#[test]
fn a_token_without_kid_tries_few_keys() {
    let vectors = vectors();
    let secret = vectors["keys"].as_array().unwrap().iter().find(|key| key["kid"] == "secret").unwrap().clone();
    let set = |others: usize| {
        let mut keys: Vec<Value> = (0..others).map(|_| json!({ "kty": "oct", "k": "AQAB" })).collect();
        keys.push(json!({ "kty": "oct", "k": secret["k"] }));
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    };
    let token = vectors["good"]["HS256"].as_str().unwrap();
    assert_eq!(verdict(token, &set(TRIES_MAX - 1), NOW_S, 0), Ok(()));
    assert_eq!(verdict(token, &set(TRIES_MAX), NOW_S, 0), Err(TokenFault::TooManyKeys));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = KeySet::parse(&bytes);
        if let Ok(token) = Token::parse(&bytes) {
            let _ = token.verify([&KeySet::default()], 0, 0);
        }
    }
}
