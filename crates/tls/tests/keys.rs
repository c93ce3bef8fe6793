//! Records under the engine's own form of keys against rustls with its own, in every suite: both ways, with new keys in between, and
//! with records that were changed on the way.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, default_provider};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, SupportedCipherSuite, version,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io::{Read, Write};
use std::sync::Arc;
use tls::{OneServer, Pair, RECORD_BYTES_MAX, ServerSide, Session, TlsError};

/// Rounds of a handshake: real ones take three.
const ROUNDS_MAX: usize = 10;
/// Plaintext of a record and around it: nothing but a tag, blocks of the cipher, two records.
const SIZES: [usize; 9] = [1, 15, 16, 17, 255, 1000, RECORD_BYTES_MAX - 1, RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1];

#[derive(Debug)]
struct Anyone(CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// rustls' buffered client with this suite alone, and nothing of ours in it.
fn client(suite: SupportedCipherSuite) -> ClientConnection {
    let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
    let versions = if suite.tls13().is_some() { [&version::TLS13] } else { [&version::TLS12] };
    let config = ClientConfig::builder_with_provider(Arc::new(provider.clone())).with_protocol_versions(&versions);
    let config = config.expect("the suite has its version").dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(Anyone(provider))).with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::try_from("a.test").expect("a name")).expect("a client")
}

fn pair(rsa: bool) -> Pair {
    let algorithm = if rsa { &rcgen::PKCS_RSA_SHA256 } else { &rcgen::PKCS_ECDSA_P256_SHA256 };
    let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), b"").expect("a pair")
}

fn of_client(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).expect("memory takes it");
    }
    wire
}

fn to_client(client: &mut ClientConnection, wire: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut rest, mut plain) = (wire, Vec::new());
    while !rest.is_empty() {
        client.read_tls(&mut rest).expect("memory gives it");
        let state = client.process_new_packets()?;
        let mut part = vec![0; state.plaintext_bytes_to_read()];
        client.reader().read_exact(&mut part).expect("as many as there are");
        plain.extend(part);
    }
    Ok(plain)
}

fn to_server(server: &mut Session, wire: &mut [u8]) -> Result<Vec<u8>, TlsError> {
    let mut plain = Vec::new();
    server.receive(wire, &mut |part| plain.extend_from_slice(part))?;
    Ok(plain)
}

fn seal(server: &mut Session, text: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    // Messages about new keys go first.
    server.take_output(&mut wire);
    let mut room = vec![0; text.len() + 1000];
    let sealed = server.seal(text, RECORD_BYTES_MAX, &mut room).expect("it is open");
    assert_eq!(sealed.taken, text.len());
    wire.extend_from_slice(&room[..sealed.written]);
    wire
}

fn connected(suite: SupportedCipherSuite) -> (ClientConnection, Session) {
    let is_rsa = format!("{:?}", suite.suite()).contains("_RSA_");
    let side = ServerSide::new().pair(pair(is_rsa)).build().expect("a server");
    let (mut client, mut server) = (client(suite), Session::server(Arc::new(OneServer(Arc::new(side)))));
    for _ in 0..ROUNDS_MAX {
        to_server(&mut server, &mut of_client(&mut client)).expect("the server goes on");
        let mut wire = Vec::new();
        server.take_output(&mut wire);
        to_client(&mut client, &wire).expect("the client goes on");
        if !client.is_handshaking() && !server.is_handshaking() && !client.wants_write() {
            assert_eq!(client.negotiated_cipher_suite(), Some(suite));
            return (client, server);
        }
    }
    panic!("the handshake has no end");
}

#[test]
fn rustls_with_its_own_keys_reads_and_writes_the_same_records() {
    assert_eq!(ALL_CIPHER_SUITES.len(), 9);
    for suite in ALL_CIPHER_SUITES {
        let (mut client, mut server) = connected(*suite);
        for round in 0..3 {
            for size in SIZES {
                let text: Vec<u8> = (0..size).map(|at| (at * 7 + round) as u8).collect();
                client.writer().write_all(&text).expect("memory takes it");
                let mut wire = of_client(&mut client);
                assert!(to_server(&mut server, &mut wire).expect("whole records") == text, "{suite:?} {size}");
                let wire = seal(&mut server, &text);
                assert!(to_client(&mut client, &wire).expect("whole records") == text, "{suite:?} {size}");
            }
            if suite.tls13().is_some() {
                // The client changes its keys, and asks the server to do the same.
                client.refresh_traffic_keys().expect("it is open");
                to_server(&mut server, &mut of_client(&mut client)).expect("a key update");
            }
        }
    }
}

#[test]
fn records_that_were_changed_or_cut_fail_with_the_alert_for_it() {
    for suite in ALL_CIPHER_SUITES {
        // The first and the last byte of the body, one in between, and lengths that are too small for the tag.
        for change in 0..6 {
            let (mut client, mut server) = connected(*suite);
            client.writer().write_all(&[7; 40]).expect("memory takes it");
            let mut wire = of_client(&mut client);
            let length = wire.len();
            match change {
                0 => wire[5] ^= 1,
                1 => wire[length - 1] ^= 0x80,
                2 => wire[20] ^= 0x10,
                3 => wire.truncate(5 + 30),
                4 => wire.truncate(5 + 15),
                _ => wire.truncate(5 + 1),
            }
            let body = (wire.len() - 5) as u16;
            wire[3..5].copy_from_slice(&body.to_be_bytes());
            let error = to_server(&mut server, &mut wire).expect_err("it is not what was sent");
            assert_eq!(error.key(), "decrypt", "{suite:?} {change}: {error}");
            let mut alert = Vec::new();
            server.take_output(&mut alert);
            let heard = to_client(&mut client, &alert).expect_err("an alert");
            assert!(matches!(heard, Error::AlertReceived(rustls::AlertDescription::BadRecordMac)), "{heard}");
        }
    }
}

#[test]
fn a_record_that_comes_twice_is_refused() {
    for suite in ALL_CIPHER_SUITES {
        let (mut client, mut server) = connected(*suite);
        client.writer().write_all(b"once").expect("memory takes it");
        let wire = of_client(&mut client);
        assert_eq!(to_server(&mut server, &mut wire.clone()).expect("a record"), b"once");
        assert_eq!(to_server(&mut server, &mut wire.clone()).expect_err("the same again").key(), "decrypt");
    }
}
