//! Certificates and keys as files have them: what is loaded, and the errors for what cannot be. The files of `data` were made by
//! OpenSSL 3.0; the password of the key is `secret`.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
};
use rcgen::{KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd};
use std::sync::Arc;
use tls::{ClientCheck, ClientSide, OneServer, Pair, Revocations, ServerSide, Session, Severity, Trust, VerifyResult};

const CERTIFICATE: &[u8] = include_bytes!("../data/a.test.crt");
const ENCRYPTED_KEY: &[u8] = include_bytes!("../data/a.test.encrypted.key");
/// 2026-11-23, the day on which the certificate was made.
const THAT_DAY: i64 = 1_795_400_000;
const DAY: i64 = 86_400;

fn key_of(result: Result<Pair, tls::Finding>) -> &'static str {
    result.map_or_else(|finding| finding.key, |_| "none")
}

#[test]
fn encrypted_key_opens_with_a_password_line() {
    let pair = |passwords: &[u8]| Pair::from_pem(CERTIFICATE, ENCRYPTED_KEY, passwords);
    assert_eq!(key_of(pair(b"other\nsecret\r\n")), "none");
    assert_eq!(key_of(pair(b"")), "key_needs_password");
    assert_eq!(key_of(pair(b"other\n")), "key_wrong_password");
}

#[test]
fn misfit_settings_are_named_with_a_fix() {
    let other = KeyPair::generate().unwrap().serialize_pem();
    let of = |certificate: &[u8], key: &[u8]| key_of(Pair::from_pem(certificate, key, b""));
    assert_eq!(of(CERTIFICATE, other.as_bytes()), "key_mismatch");
    assert_eq!(of(b"", other.as_bytes()), "certificate_missing");
    assert_eq!(of(CERTIFICATE, b""), "key_unreadable");
    assert_eq!(of(CERTIFICATE, b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"), "key_unreadable");
    let finding = Pair::from_pem(CERTIFICATE, other.as_bytes(), b"").unwrap_err();
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.to_string().contains("; name the key"), "{finding}");
}

#[test]
fn certificate_reports_its_names_and_expiry() {
    let pair = Pair::from_pem(CERTIFICATE, ENCRYPTED_KEY, b"secret").unwrap();
    let facts = pair.facts().unwrap();
    assert_eq!((facts.subject.as_str(), facts.names.len()), ("CN=a.test,O=Holdfast\\, Tests,C=DE", 2));
    assert_eq!(facts.names, ["a.test", "127.0.0.1"]);
    let keys = |now| pair.check(now).into_iter().map(|finding| finding.key).collect::<Vec<_>>();
    assert_eq!(keys(THAT_DAY + DAY), [""; 0]);
    assert_eq!(keys(facts.not_after - 3 * DAY), ["expires_soon"]);
    assert_eq!(keys(facts.not_after + DAY), ["expired"]);
    assert_eq!(keys(facts.not_before - DAY), ["not_yet_valid"]);
}

/// An authority that signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["client.test".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params
    }

    fn authority_params(name: &str) -> CertificateParams {
        let mut params = Self::params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    }

    fn new(name: &str) -> Self {
        let (params, key) = (Self::authority_params(name), KeyPair::generate().expect("a key"));
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn below(&self, name: &str) -> Self {
        let (params, key) = (Self::authority_params(name), KeyPair::generate().expect("a key"));
        let pem = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A client's pair, with certificates to send along.
    fn client(&self, serial: u64, until: i32, along: &str) -> Pair {
        let (mut params, key) = (Self::params("Client"), KeyPair::generate().expect("a key"));
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let chain = certificate.pem() + along;
        Pair::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes(), b"").expect("a pair")
    }

    fn revokes(&self, serial: u64) -> Revocations {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("a list").pem().expect("a text");
        Revocations::from_pem(list.as_bytes()).expect("a list")
    }
}

/// What a server that checks so says of a client; and the client's certificate as it sees it.
fn verified(check: ClientCheck, pair: Pair) -> (VerifyResult, Session) {
    let server = ServerSide::new().pair(Pair::self_made(&["a.test".to_owned()]).expect("a pair"));
    let server = server.client_check(Arc::new(check)).build().expect("a server");
    let side = ClientSide::new(Trust::Anyone).pair(Some(pair)).build().expect("a client");
    let (mut client, mut server) =
        (Session::client(&side, "a.test").expect("a name"), Session::server(Arc::new(OneServer(Arc::new(server)))));
    for _ in 0..5 {
        let mut wire = Vec::new();
        client.take_output(&mut wire);
        server.receive(&mut wire, &mut |_| ()).expect("the server goes on");
        let mut wire = Vec::new();
        server.take_output(&mut wire);
        client.receive(&mut wire, &mut |_| ()).expect("the client goes on");
    }
    assert!(!server.is_handshaking());
    (server.client_verification().expect("it was asked for").result, server)
}

#[test]
fn client_certificates_are_checked_by_ca_date_depth_and_crl() {
    let root = Authority::new("Root");
    let (middle, other) = (root.below("Middle"), Authority::new("Other"));
    let check = || ClientCheck::new(root.pem.as_bytes(), b"").unwrap();
    let result = |check, pair| verified(check, pair).0;
    assert_eq!(result(check(), root.client(1, 2090, "")), VerifyResult::Success);
    assert_eq!(result(check(), middle.client(1, 2090, &middle.pem)), VerifyResult::Success);
    assert_eq!(
        result(check().depth(0), middle.client(1, 2090, &middle.pem)),
        VerifyResult::Failed("certificate chain too long")
    );
    assert_eq!(result(check(), root.client(1, 2001, "")), VerifyResult::Failed("certificate has expired"));
    assert_eq!(
        result(check(), other.client(1, 2090, "")),
        VerifyResult::NoAuthority("unable to verify the first certificate")
    );
    // Certificates that come along move the place where the chain ends.
    let sent = |along: &str| result(check(), other.below("Below").client(1, 2090, along));
    assert_eq!(sent(""), VerifyResult::NoAuthority("unable to verify the first certificate"));
    let below = other.below("Below");
    assert_eq!(
        result(check(), below.client(1, 2090, &below.pem)),
        VerifyResult::NoAuthority("unable to get local issuer certificate")
    );
    assert_eq!(
        result(check(), below.client(1, 2090, &format!("{}{}", below.pem, other.pem))),
        VerifyResult::NoAuthority("self-signed certificate in certificate chain")
    );
    let listed = |serial| result(check().revocations(root.revokes(7)), root.client(serial, 2090, ""));
    assert_eq!(listed(7), VerifyResult::Failed("certificate revoked"));
    assert_eq!(listed(8), VerifyResult::Success);
}

#[test]
fn a_client_certificate_is_described_as_openssl_does() {
    let pair = Pair::from_pem(CERTIFICATE, ENCRYPTED_KEY, b"secret").unwrap();
    let check = ClientCheck::new(b"", b"").unwrap();
    let (result, server) = verified(check, pair);
    assert_eq!(result.text(), "FAILED:self-signed certificate");
    let certificate = server.peer_certificate().unwrap();
    assert_eq!(certificate.serial().unwrap(), "4E13C3F18187EDA8F03B2085C43165B25C893620");
    assert_eq!(certificate.fingerprint(), "b504c46f8b30cd7d19e15f87e0414ba6b279bec7");
    assert_eq!(certificate.subject_legacy().unwrap(), "/C=DE/O=Holdfast, Tests/CN=a.test");
    assert_eq!(certificate.issuer().unwrap(), "CN=a.test,O=Holdfast\\, Tests,C=DE");
    assert_eq!(certificate.valid_from().unwrap(), "Nov 23 00:43:37 2026 GMT");
    assert_eq!(certificate.valid_to().unwrap(), "Oct 30 00:43:37 2126 GMT");
    assert_eq!(certificate.pem().into_bytes(), CERTIFICATE);
    assert!(certificate.escaped().starts_with("-----BEGIN%20CERTIFICATE-----%0AMII"));
}
