//! OCSP: requests equal OpenSSL's byte for byte; a changed response is refused.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SerialNumber};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use tls::{CertStatus, Pair, StatusError, StatusQuestion};

fn openssl(folder: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// `ca.pem` and `ca.key`, and `a.crt` with a number that begins with a zero byte in DER.
fn scene() -> (tempfile::TempDir, Pair, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "Authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(vec![0xfe, 0xdc]));
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("ca.key", authority.key().serialize_pem()),
        ("a.crt", certificate.pem()),
        ("index", "V\t400101000000Z\t\tFEDC\tunknown\t/CN=a.test\n".to_owned()),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let pair = Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), b"").unwrap();
    (folder, pair, authority.pem())
}

#[test]
fn requests_are_openssls_and_changed_answers_do_not_count() {
    let (folder, pair, authority) = scene();
    let question = StatusQuestion::of_pair(&pair, authority.as_bytes()).unwrap().unwrap();
    let ask = ["ocsp", "-issuer", "ca.pem", "-cert", "a.crt", "-no_nonce", "-reqout", "request"];
    openssl(folder.path(), &ask);
    assert_eq!(question.request(), fs::read(folder.path().join("request")).unwrap());

    let answer = ["ocsp", "-index", "index", "-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key", "-nmin", "10"];
    openssl(folder.path(), &[&answer[..], &["-reqin", "request", "-respout", "response"]].concat());
    let response = fs::read(folder.path().join("response")).unwrap();
    let now = now();
    let read = question.read(&response, now, None).unwrap();
    assert_eq!(read.status, CertStatus::Good);
    assert!(read.next_update.is_some_and(|until| (500..=600).contains(&(until - now))), "{read:?}");
    assert_eq!(question.read(&response, now + 3600, None), Err(StatusError::NotNow("status expired")));
    assert_eq!(question.read(&response, now - 3600, None), Err(StatusError::NotNow("status not yet valid")));
    for place in 0..response.len() {
        let mut changed = response.clone();
        changed[place] ^= 1;
        // The certificate of the signer is not signed itself, so anyone can add it; it is not
        // needed here.
        assert!(question.read(&changed, now, None).is_err_or_same(read), "{place}");
        assert!(question.read(&response[..place], now, None).is_err(), "cut at {place}");
    }
}

trait ErrOrSame {
    fn is_err_or_same(&self, answer: tls::StatusAnswer) -> bool;
}

impl ErrOrSame for Result<tls::StatusAnswer, StatusError> {
    fn is_err_or_same(&self, answer: tls::StatusAnswer) -> bool {
        self.as_ref().map_or(true, |read| *read == answer)
    }
}

#[test]
fn the_issuer_must_have_signed_the_certificate() {
    let (_folder, pair, authority) = scene();
    let (_other, _, stranger) = scene();
    assert_eq!(StatusQuestion::of_pair(&pair, stranger.as_bytes()).unwrap(), None, "the same name, another key");
    assert_eq!(StatusQuestion::of_pair(&pair, b"").unwrap(), None);
    let both = stranger + &authority;
    assert!(StatusQuestion::of_pair(&pair, both.as_bytes()).unwrap().is_some());
}

#[test]
fn kept_answers_name_their_signer_by_name_and_by_key() {
    let pem = include_bytes!("../data/ocsp.pem");
    let pair = Pair::from_pem(pem, pem, b"").unwrap();
    let question = StatusQuestion::of_pair(&pair, b"").unwrap().unwrap();
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/ocsp");
    for (name, expected) in [
        ("good-with-certificate", Ok(CertStatus::Good)),
        ("good-by-key", Ok(CertStatus::Good)),
        ("try-later", Err(StatusError::Refused(3))),
    ] {
        let read = question.read(&fs::read(seeds.join(name)).unwrap(), 1_800_000_000, None);
        assert_eq!(read.map(|answer| answer.status), expected, "{name}");
    }
}
