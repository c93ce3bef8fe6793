//! rustls' own client against a session of the engine: the client uses nothing of the engine.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, SupportedCipherSuite, version,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io::Read;
use std::sync::{Arc, Mutex};
use tls::{OneServer, Pair, ServerSideBuilder, Session, TlsError};

/// Rounds of a handshake: real ones take three.
const ROUNDS_MAX: usize = 10;

#[derive(Debug)]
struct Anyone {
    provider: CryptoProvider,
    stapled: Arc<Mutex<Vec<u8>>>,
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        stapled: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.stapled.lock().expect("one thread") = stapled.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// rustls' own client, with nothing of ours in it: its settings, and where it puts the OCSP response that it was shown.
pub(crate) fn config(suites: Vec<SupportedCipherSuite>) -> (ClientConfig, Arc<Mutex<Vec<u8>>>) {
    let versions: &[_] = match suites.as_slice() {
        [suite] if suite.tls13().is_some() => &[&version::TLS13],
        [_] => &[&version::TLS12],
        _ => &[&version::TLS13, &version::TLS12],
    };
    let provider = CryptoProvider { cipher_suites: suites, ..default_provider() };
    let stapled = Arc::new(Mutex::default());
    let anyone = Arc::new(Anyone { provider: provider.clone(), stapled: Arc::clone(&stapled) });
    let config = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions);
    let config = config.expect("the suites have their versions").dangerous().with_custom_certificate_verifier(anyone);
    (config.with_no_client_auth(), stapled)
}

pub(crate) fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from("a.test").expect("a name")).expect("a client")
}

pub(crate) fn server(settings: ServerSideBuilder) -> Arc<OneServer> {
    Arc::new(OneServer(Arc::new(settings.build().expect("a server"))))
}

pub(crate) fn pair(rsa: bool) -> Pair {
    let algorithm = if rsa { &rcgen::PKCS_RSA_SHA256 } else { &rcgen::PKCS_ECDSA_P256_SHA256 };
    let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), b"").expect("a pair")
}

pub(crate) fn of_client(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).expect("memory takes it");
    }
    wire
}

pub(crate) fn to_client(client: &mut ClientConnection, wire: &[u8]) -> Result<Vec<u8>, Error> {
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

pub(crate) fn to_server(server: &mut Session, wire: &mut [u8]) -> Result<Vec<u8>, TlsError> {
    let mut plain = Vec::new();
    server.receive(wire, &mut |part| plain.extend_from_slice(part))?;
    Ok(plain)
}

/// Completes a handshake. Returns the data that the server receives meanwhile.
pub(crate) fn shake(client: &mut ClientConnection, server: &mut Session) -> Vec<u8> {
    let mut heard = Vec::new();
    for _ in 0..ROUNDS_MAX {
        heard.extend(to_server(server, &mut of_client(client)).expect("the server goes on"));
        let mut wire = Vec::new();
        server.take_output(&mut wire);
        to_client(client, &wire).expect("the client goes on");
        if !client.is_handshaking() && !server.is_handshaking() && !client.wants_write() {
            return heard;
        }
    }
    panic!("the handshake has no end");
}
