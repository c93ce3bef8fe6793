//! Answers of OCSP responders, which come over plain HTTP: no panic for any bytes, and no changed byte can give a signed answer another
//! meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tls::{CertStatus, Pair, StatusQuestion};

const PEM: &[u8] = include_bytes!("../../crates/tls/tests/data/ocsp.pem");
/// A day in the century that the answers among the seeds hold for.
const NOW: i64 = 1_800_000_000;

static QUESTION: LazyLock<StatusQuestion> = LazyLock::new(|| {
    let pair = Pair::from_pem(PEM, PEM, b"").unwrap();
    StatusQuestion::of_pair(&pair, b"").unwrap().unwrap()
});

fuzz_target!(|input: &[u8]| {
    if let Ok(answer) = QUESTION.read(input, NOW, None) {
        // The authority has signed nothing else.
        assert_eq!(answer.status, CertStatus::Good);
    }
});
