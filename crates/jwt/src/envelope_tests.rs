//! Encrypted tokens of an independent implementation: `tests/vectors/jwcrypto.json` was made by jwcrypto 1.6.1.

use super::*;
use crate::token::{Content, Token};
use serde_json::json;

const NOW_S: u64 = 1_735_689_600;

fn vectors() -> Value {
    serde_json::from_slice(include_bytes!("../tests/vectors/jwcrypto.json")).unwrap()
}

fn keys(vectors: &Value) -> KeySet {
    KeySet::parse(json!({ "keys": vectors["keys"] }).to_string().as_bytes()).unwrap()
}

fn opened(token: &[u8], content: Content, keys: &KeySet) -> Result<Token, TokenFault> {
    let envelope = Envelope::parse(token)?;
    let token = Token::open(&envelope, content, [keys])?;
    token.verify([keys], NOW_S, 0)?;
    Ok(token)
}

/// Rows of token and reason.
fn all_are_refused(rows: &Value, content: Content, keys: &KeySet) {
    for (name, row) in rows.as_object().unwrap() {
        let (token, expected) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let fault = opened(token.as_bytes(), content, keys).expect_err(name);
        let shown = format!("{fault:?}");
        assert_eq!(shown.split('(').next(), Some(expected), "{name}: {shown}");
    }
}

#[test]
fn tokens_of_every_algorithm_are_opened() {
    let vectors = vectors();
    let keys = keys(&vectors);
    let good = vectors["good"].as_object().unwrap();
    assert_eq!(good.len(), 32);
    for (name, token) in good {
        let token = opened(token.as_str().unwrap().as_bytes(), Content::Claims, &keys);
        assert_eq!(token.unwrap_or_else(|fault| panic!("{name}: {fault}")).claims()["sub"], "reader", "{name}");
    }
}

#[test]
fn bad_tokens_are_refused_each_for_its_reason() {
    let vectors = vectors();
    let keys = keys(&vectors);
    all_are_refused(&vectors["bad"], Content::Claims, &keys);
}

#[test]
fn a_signed_token_inside_is_verified_too() {
    let vectors = vectors();
    let keys = keys(&vectors);
    for (name, token) in vectors["nested"]["good"].as_object().unwrap() {
        let token = opened(token.as_str().unwrap().as_bytes(), Content::SignedToken, &keys).expect(name);
        assert_eq!((&token.claims()["sub"], &token.header()["alg"]), (&json!("reader"), &json!("ES256")), "{name}");
        assert_eq!(token.payload().split(|byte| *byte == b'.').count(), 3, "the signed token itself");
    }
    all_are_refused(&vectors["nested"]["bad"], Content::SignedToken, &keys);
}

#[test]
fn every_changed_byte_is_noticed() {
    let vectors = vectors();
    let keys = keys(&vectors);
    for name in ["dir A256GCM", "dir A128CBC-HS256", "A256KW", "A256GCMKW"] {
        let token = vectors["good"][name].as_str().unwrap();
        for at in 0..token.len() {
            let mut changed = token.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(opened(&changed, Content::Claims, &keys).is_err(), "{name}, byte {at}");
        }
    }
}

#[test]
fn a_closed_token_is_never_valid() {
    let vectors = vectors();
    let keys = keys(&vectors);
    let envelope = Envelope::parse(vectors["good"]["RSA-OAEP"].as_str().unwrap().as_bytes()).unwrap();
    assert!(envelope.is_costly());
    let closed = Token::closed(&envelope);
    assert_eq!(closed.header()["alg"], "RSA-OAEP");
    assert!(closed.claims().is_null() && closed.payload().is_empty());
    assert_eq!(closed.verify([&keys], NOW_S, 0), Err(TokenFault::Undecipherable));
}

#[test]
fn private_keys_that_cannot_be_used_are_refused() {
    let one = |key: Value| KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes()).map(|keys| keys.len());
    let rsa = vectors()["keys"][0].clone();
    assert_eq!(rsa["use"], "enc");
    assert_eq!(one(rsa.clone()), Ok(1));
    for (name, value) in [("p", Value::Null), ("d", json!("AQAB")), ("n", json!("AQAB"))] {
        let mut broken = rsa.clone();
        broken[name] = value;
        assert!(one(broken).is_err(), "{name}");
    }
    let secret = |bytes: usize, algorithm: &str| {
        use base64::Engine as _;
        let k = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(vec![7; bytes]);
        one(json!({ "kty": "oct", "use": "enc", "k": k, "alg": algorithm })).is_ok()
    };
    assert!(secret(16, "A128KW") && secret(48, "dir"));
    assert!(!secret(16, "A256KW") && !secret(32, "RSA-OAEP"));
}

proptest::proptest! {
    #[test]
    fn any_parts_are_read_without_a_panic(
        header in 0..4usize, parts in proptest::collection::vec("[A-Za-z0-9_-]{0,60}", 4)
    ) {
        // {"alg":"dir","enc":"A256GCM"}, A128KW with A128CBC-HS256, A256GCMKW, RSA-OAEP.
        const HEADERS: [&str; 4] = [
            "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0",
            "eyJhbGciOiJBMTI4S1ciLCJlbmMiOiJBMTI4Q0JDLUhTMjU2In0",
            "eyJhbGciOiJBMjU2R0NNS1ciLCJlbmMiOiJBMTI4R0NNIiwiaXYiOiIiLCJ0YWciOiIifQ",
            "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkExMjhHQ00ifQ",
        ];
        let token = format!("{}.{}", HEADERS[header], parts.join("."));
        let keys = keys(&vectors());
        proptest::prop_assert!(opened(token.as_bytes(), Content::Claims, &keys).is_err());
    }
}
