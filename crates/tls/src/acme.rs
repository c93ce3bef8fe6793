//! TLS parts of an ACME client: a request for a certificate with its new key, the certificate that answers the challenge
//! `tls-alpn-01`, and a check of an account's key. The control plane speaks the protocol itself.

use crate::error::SetupError;
use crate::finding::Finding;
use crate::pair::Pair;
use crate::password;
use crate::server::ServerSide;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256, RsaKeySize,
};
use rustls_pki_types::PrivateKeyDer;

/// The protocol that an authority offers by ALPN when it asks for the challenge's certificate (RFC 8737 § 6.2).
pub const ACME_PROTOCOL: &str = "acme-tls/1";

/// The kind of a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // algorithm and bits
pub enum KeyKind {
    Ecdsa256,
    Ecdsa384,
    Ecdsa521,
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

/// A request for a certificate (RFC 2986).
#[derive(Debug)]
pub struct CertificateRequest {
    /// The request in DER, signed with the key.
    pub der: Vec<u8>,
    /// The new private key in PEM (PKCS #8).
    pub key_pem: String,
}

impl CertificateRequest {
    /// For these host names and IP addresses, with a new key. An RSA key of 4096 bits takes a second of a processor.
    pub fn new(names: &[String], key: KeyKind) -> Result<Self, SetupError> {
        let refused = |error: rcgen::Error| SetupError::Refused(error.to_string());
        let key = match key {
            KeyKind::Ecdsa256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            KeyKind::Ecdsa384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            KeyKind::Ecdsa521 => KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512),
            KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            KeyKind::Rsa3072 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
            KeyKind::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
        };
        let key = key.map_err(refused)?;
        let mut params = CertificateParams::new(names).map_err(refused)?;
        // The names are in the extension alone; a common name is obsolete.
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(refused)?;
        Ok(Self { der: request.der().to_vec(), key_pem: key.serialize_pem() })
    }
}

/// The settings that answer a challenge `tls-alpn-01` for a host name or an IP address: a certificate of its own with the SHA-256
/// of the key authorization, and `acme-tls/1` alone.
pub fn challenge_side(name: &str, digest: &[u8; 32]) -> Result<ServerSide, SetupError> {
    let refused = |error: rcgen::Error| SetupError::Refused(error.to_string());
    let key = KeyPair::generate().map_err(refused)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(refused)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key).map_err(refused)?;
    let pair = Pair::unread(certificate.der().clone(), key.serialize_der())?;
    ServerSide::new().pair(pair).alpn([ACME_PROTOCOL]).ticket_keys(None).build()
}

/// A new private key of an account, in PEM (PKCS #8): ECDSA on P-256.
pub fn new_account_key() -> Result<String, SetupError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
    key.map(|key| key.serialize_pem()).map_err(|error| SetupError::Refused(error.to_string()))
}

/// An account's private key out of PEM, as PKCS #8 in DER. Accounts have ECDSA keys on P-256.
pub fn account_key(pem: &[u8]) -> Result<Vec<u8>, Finding> {
    let advice = "write it by openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out FILE";
    let PrivateKeyDer::Pkcs8(key) = password::read_key(pem, b"")? else {
        let advice = "convert it: openssl pkcs8 -topk8 -nocrypt -in OLD.key -out NEW.key";
        return Err(Finding::error("account_key_form", "the account key is not in PKCS #8", advice));
    };
    let der = key.secret_pkcs8_der();
    if EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).is_err() {
        return Err(Finding::error("account_key_kind", "the account key is not an ECDSA key on P-256", advice));
    }
    Ok(der.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientSide, OneServer, Session, Trust};
    use std::sync::Arc;
    use x509_parser::prelude::{FromDer as _, X509CertificationRequest};

    #[test]
    fn a_request_names_hosts_and_addresses() {
        let names = ["a.example".to_owned(), "192.0.2.1".to_owned()];
        for kind in [KeyKind::Ecdsa256, KeyKind::Ecdsa384, KeyKind::Ecdsa521, KeyKind::Rsa2048] {
            let request = CertificateRequest::new(&names, kind).unwrap();
            let (_, parsed) = X509CertificationRequest::from_der(&request.der).unwrap();
            let extensions = format!("{:?}", parsed.requested_extensions().unwrap().collect::<Vec<_>>());
            assert!(extensions.contains("DNSName(\"a.example\")") && extensions.contains("IPAddress([192, 0, 2, 1])"));
            assert_eq!(parsed.certification_request_info.subject.to_string(), "");
            assert!(request.key_pem.starts_with("-----BEGIN PRIVATE KEY-----"));
        }
    }

    #[test]
    fn a_new_account_key_is_one_that_accounts_may_have() {
        assert!(account_key(new_account_key().unwrap().as_bytes()).is_ok());
    }

    #[test]
    fn answers_a_challenge_by_tls_and_nothing_else() {
        let side = Arc::new(challenge_side("a.example", &[7; 32]).unwrap());
        let handshake = |protocol| {
            let client = ClientSide::new(Trust::Anyone).alpn([protocol]).build().unwrap();
            let mut asks = Session::client(&client, "a.example").unwrap();
            let mut answers = Session::server(Arc::new(OneServer(Arc::clone(&side))));
            let mut wire = Vec::new();
            while asks.is_handshaking() || answers.is_handshaking() {
                wire.clear();
                asks.take_output(&mut wire);
                answers.receive(&mut wire, &mut |_| ())?;
                wire.clear();
                answers.take_output(&mut wire);
                asks.receive(&mut wire, &mut |_| ())?;
            }
            Ok::<_, crate::TlsError>(asks)
        };
        let session = handshake(ACME_PROTOCOL).unwrap();
        assert_eq!(session.alpn(), Some(ACME_PROTOCOL.as_bytes()));
        let shown = session.peer_certificate().unwrap();
        let certificate = crate::pair::parse(shown.0).map(|certificate| {
            let acme = certificate.extensions().iter().find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
            acme.map(|one| (one.critical, one.value.to_vec()))
        });
        // An octet string within the extension's own.
        let digest = [&[4, 32][..], &[7; 32]].concat();
        assert_eq!(certificate.unwrap(), Some((true, digest)));
        assert!(handshake("http/1.1").is_err());
    }

    #[test]
    fn an_account_s_key_is_ecdsa_on_p256() {
        let pem = |key: KeyKind| CertificateRequest::new(&["a.b".to_owned()], key).unwrap().key_pem;
        assert!(account_key(pem(KeyKind::Ecdsa256).as_bytes()).is_ok());
        assert_eq!(account_key(pem(KeyKind::Ecdsa384).as_bytes()).unwrap_err().key, "account_key_kind");
        assert_eq!(account_key(b"nothing").unwrap_err().key, "key_unreadable");
    }
}
