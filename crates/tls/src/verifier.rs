//! Which servers a client trusts: it checks the chain and the name of the certificate, with OpenSSL's words for errors. `client`
//! makes one verifier for its settings.

use crate::client::{AlternativeName, Trust};
use crate::error::SetupError;
use crate::pair::{is_for, parse, read_authorities, seconds, validity};
use crate::peer::{Chains, Revocations, verify_error_number, without_authority};
use crate::version1;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::cell::Cell;
use std::sync::Arc;
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

/// The verifier of a client's settings.
pub(crate) fn verifier(
    trust: &Trust,
    depth: usize,
    alternatives: Vec<AlternativeName>,
    revocations: Revocations,
) -> Result<Arc<dyn ServerCertVerifier>, SetupError> {
    let authorities = match trust {
        Trust::Anyone => Vec::new(),
        Trust::Authorities(pem) => read_authorities(pem)?,
        Trust::System => {
            let loaded = rustls_native_certs::load_native_certs();
            if loaded.certs.is_empty() {
                let errors: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
                return Err(SetupError::NoSystemRoots(errors.join("; ")));
            }
            loaded.certs
        }
    };
    // The system's list has some certificates that cannot be read, and they are skipped. In a configured file that is an error.
    let readable = match trust {
        Trust::System => authorities.into_iter().filter(|der| webpki::anchor_from_trusted_cert(der).is_ok()).collect(),
        _ => authorities,
    };
    let chains = Chains { revocations, depth, ..Chains::new(&readable)? };
    let named = if matches!(trust, Trust::Authorities(_)) { readable } else { Vec::new() };
    Ok(Arc::new(Believing { chains, named, alternatives, anyone: matches!(trust, Trust::Anyone) }))
}

thread_local! {
    /// Why the last chain has no authority, until [`with_reason`] takes it: the error for which rustls sends the right alert has
    /// no room for it.
    static NO_AUTHORITY: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The error of a handshake, with the reason that this thread's verifier has found within the same call.
pub(crate) fn with_reason(error: Error) -> Error {
    match (NO_AUTHORITY.take(), error) {
        (Some(reason), Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(NoAuthority(reason)))))
        }
        (_, error) => error,
    }
}

/// Checks chain and name of a server's certificate.
#[derive(Debug)]
struct Believing {
    chains: Chains,
    /// Certificates of authorities that were named.
    named: Vec<CertificateDer<'static>>,
    /// The certificate must list one of them, in place of the name that was asked for.
    alternatives: Vec<AlternativeName>,
    anyone: bool,
}

/// A chain without an authority, for a reason in OpenSSL's words that rustls has no error for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoAuthority(&'static str);

impl Believing {
    /// Whether the chain leads to an authority. As with OpenSSL a self-signed certificate that is itself among those that were named
    /// needs no other: most are marked as an authority's, and `webpki` takes such a one from no server.
    fn verify_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let parsed = parse(end_entity).ok_or(CertificateError::BadEncoding)?;
        let is_self_signed = parsed.issuer() == parsed.subject();
        if is_self_signed && self.named.contains(end_entity) {
            return verify_dates(&parsed, now);
        }
        let verified = match EndEntityCert::try_from(end_entity) {
            Err(webpki::Error::UnsupportedCertVersion) => self.chains.verify_version1(end_entity, &self.named, now),
            certificate => certificate
                .and_then(|certificate| self.chains.verify(&certificate, intermediates, now, KeyUsage::server_auth())),
        };
        verified.map_err(|error| match error {
            webpki::Error::UnknownIssuer | webpki::Error::CaUsedAsEndEntity => {
                NO_AUTHORITY.set(Some(without_authority(end_entity, intermediates)));
                CertificateError::UnknownIssuer.into()
            }
            error => certificate_error(error),
        })
    }
}

fn verify_dates(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let ((not_before, not_after), now) = (validity(certificate), seconds(now));
    match now {
        _ if now > not_after => Err(CertificateError::Expired.into()),
        _ if now < not_before => Err(CertificateError::NotValidYet.into()),
        _ => Ok(()),
    }
}

/// Whether the certificate is for the name. As with OpenSSL the common name counts where no host name is listed: authorities inside
/// of companies still issue such certificates.
fn verify_name(end_entity: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let verified = match EndEntityCert::try_from(end_entity) {
        // X.509 v1 lists no names.
        Err(webpki::Error::UnsupportedCertVersion) => Err(CertificateError::NotValidForName.into()),
        certificate => certificate
            .and_then(|certificate| certificate.verify_is_valid_for_subject_name(name))
            .map_err(certificate_error),
    };
    let (Err(_), Some(parsed), ServerName::DnsName(name)) = (&verified, parse(end_entity), name) else {
        return verified;
    };
    let listed = parsed.subject_alternative_name().ok().flatten();
    let has_names = listed
        .is_some_and(|listed| listed.value.general_names.iter().any(|name| matches!(name, GeneralName::DNSName(_))));
    let common = parsed.subject().iter_common_name().filter_map(|common| common.as_str().ok());
    if !has_names && common.into_iter().any(|common| is_for(common, name.as_ref())) {
        return Ok(());
    }
    verified
}

/// Whether the certificate lists one of these names.
fn verify_alternatives(end_entity: &CertificateDer<'_>, wanted: &[AlternativeName]) -> Result<(), Error> {
    let parsed = parse(end_entity).ok_or(CertificateError::BadEncoding)?;
    let listed = parsed.subject_alternative_name().ok().flatten();
    let listed = listed.iter().flat_map(|listed| &listed.value.general_names);
    let is_wanted = |name: &GeneralName<'_>| {
        wanted.iter().any(|wanted| match (wanted, name) {
            (AlternativeName::Dns(wanted), GeneralName::DNSName(name)) => {
                name.eq_ignore_ascii_case(wanted) || is_for(name, wanted)
            }
            (AlternativeName::Uri(wanted), GeneralName::URI(name)) => name == wanted,
            _ => false,
        })
    };
    if listed.into_iter().any(is_wanted) {
        return Ok(());
    }
    let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(NoneListed(wanted.join(", ")))))))
}

/// A certificate that lists none of the names that it must have.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoneListed(String);

/// The names that a certificate should have had one of, if that is what is wrong with it.
pub(crate) fn none_listed(error: &CertificateError) -> Option<&str> {
    match error {
        CertificateError::Other(OtherError(other)) => other.downcast_ref::<NoneListed>().map(|names| names.0.as_str()),
        _ => None,
    }
}

impl ServerCertVerifier for Believing {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.anyone {
            self.verify_chain(end_entity, intermediates, now)?;
            if self.alternatives.is_empty() {
                verify_name(end_entity, server_name)?;
            } else {
                verify_alternatives(end_entity, &self.alternatives)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::verify_signature_12(message, certificate, signed, &self.chains.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::verify_signature_13(message, certificate, signed, &self.chains.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.algorithms.supported_schemes()
    }
}

/// The error of rustls that says the same: it chooses the alert by it.
fn certificate_error(error: webpki::Error) -> Error {
    Error::InvalidCertificate(match error {
        webpki::Error::UnknownIssuer | webpki::Error::CaUsedAsEndEntity => CertificateError::UnknownIssuer,
        webpki::Error::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        webpki::Error::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        webpki::Error::CertNotValidForName(context) => {
            CertificateError::NotValidForNameContext { expected: context.expected, presented: context.presented }
        }
        webpki::Error::InvalidCertValidity => CertificateError::Expired,
        webpki::Error::CertRevoked => CertificateError::Revoked,
        webpki::Error::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::BadDer | webpki::Error::BadDerTime => CertificateError::BadEncoding,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    })
}

/// OpenSSL's number and words (`X509_verify_cert_error_string`) for what is wrong with a server's chain.
pub(crate) fn verify_words(error: &CertificateError) -> (u16, &'static str) {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (10, "certificate has expired"),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (9, "certificate is not yet valid")
        }
        CertificateError::Revoked => (23, "certificate revoked"),
        CertificateError::UnknownRevocationStatus => (3, "unable to get certificate CRL"),
        CertificateError::BadSignature => (7, "certificate signature failure"),
        CertificateError::UnknownIssuer => (20, "unable to get local issuer certificate"),
        CertificateError::Other(OtherError(other)) if let Some(NoAuthority(reason)) = other.downcast_ref() => {
            (u16::try_from(verify_error_number(reason)).unwrap_or(1), reason)
        }
        CertificateError::Other(OtherError(other)) => match other.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::MaximumPathDepthExceeded) => (22, "certificate chain too long"),
            Some(webpki::Error::RequiredEkuNotFoundContext(_)) => (26, "unsuitable certificate purpose"),
            Some(webpki::Error::CrlExpired { .. }) => (12, "CRL has expired"),
            _ => (1, "unspecified certificate verification error"),
        },
        _ => (1, "unspecified certificate verification error"),
    }
}

/// Whether that is what is wrong with a certificate.
pub(crate) fn is_without_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(OtherError(other)) if other.is::<NoAuthority>())
}
