//! Certificates of X.509 v1, which `webpki` does not read. `openssl x509 -req` makes them if no extensions are named, so
//! many private authorities have issued them. As with OpenSSL they are shown to clients, and accepted where an authority of
//! the configuration has issued them itself. `verifier` and `peer` call this where `webpki` gives up.

use crate::ocsp::is_issued_by;
use crate::pair::{parse, seconds, validity};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::{CertificateError, DigitallySignedStruct, Error};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use std::time::Duration;
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::x509::X509Version;

/// Checks the dates of a certificate, and which of the authorities has issued it.
pub(crate) fn verify_issued<'a>(
    certificate: &CertificateDer<'_>,
    authorities: &'a [CertificateDer<'static>],
    now: UnixTime,
) -> Result<&'a CertificateDer<'static>, webpki::Error> {
    let parsed = parse(certificate).ok_or(webpki::Error::BadDer)?;
    let may_issue = |authority: &&CertificateDer<'_>| parse(authority).is_some_and(|parsed| is_authority(&parsed));
    let issuer = authorities.iter().filter(may_issue).find(|authority| is_issued_by(certificate, authority));
    let issuer = issuer.ok_or(webpki::Error::UnknownIssuer)?;
    let time = |seconds: i64| UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    let (not_before, not_after) = validity(&parsed);
    match seconds(now) {
        current if current > not_after => Err(webpki::Error::CertExpired { time: now, not_after: time(not_after) }),
        current if current < not_before => {
            Err(webpki::Error::CertNotValidYet { time: now, not_before: time(not_before) })
        }
        _ => Ok(issuer),
    }
}

/// Whether a certificate may issue others: roots of v1 say nothing about it.
fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    if certificate.version() == X509Version::V1 {
        return certificate.issuer() == certificate.subject();
    }
    let signs = certificate.key_usage().ok().flatten().is_none_or(|usage| usage.value.key_cert_sign());
    signs && certificate.is_ca()
}

/// The key of a certificate that `webpki` does not read.
fn key_of(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    let parsed = parse(certificate).ok_or(CertificateError::BadEncoding)?;
    Ok(SubjectPublicKeyInfoDer::from(parsed.public_key().raw.to_vec()))
}

/// rustls' check of a handshake's signature over TLS 1.2. Where `webpki` does not read the certificate, its key alone counts.
pub(crate) fn verify_signature_12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let verified = verify_tls12_signature(message, certificate, signed, algorithms);
    let Err(Error::InvalidCertificate(_)) = &verified else { return verified };
    let key = key_of(certificate)?;
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
    let fitting = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
    let is_right = fitting
        .flat_map(|(_, candidates)| *candidates)
        .any(|one| key.verify_signature(*one, message, signed.signature()).is_ok());
    if is_right { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
}

/// The same over TLS 1.3.
pub(crate) fn verify_signature_13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    match verify_tls13_signature(message, certificate, signed, algorithms) {
        Err(Error::InvalidCertificate(_)) => {
            verify_tls13_signature_with_raw_key(message, &key_of(certificate)?, signed, algorithms)
        }
        verified => verified,
    }
}
