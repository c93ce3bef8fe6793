//! A certificate chain with its private key: loaded from PEM, checked, described.

use crate::dn;
use crate::error::SetupError;
use crate::finding::Finding;
use crate::notes;
use crate::password;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use std::sync::Arc;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::OID_PKIX_AUTHORITY_INFO_ACCESS;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

/// Most certificates in a chain: real ones have four.
const CHAIN_MAX: usize = 32;
/// Most authorities in a file: a system's list has 150.
const AUTHORITIES_MAX: usize = 10_000;
/// RSA keys below are refused by browsers.
const RSA_BITS_MIN: usize = 2048;
/// Days before the end from which a warning is given.
const EXPIRY_WARNING_DAYS: i64 = 30;
const DAY_SECONDS: i64 = 86_400;

/// A certificate chain with its private key. Clones share both.
#[derive(Debug, Clone)]
pub struct Pair(Arc<CertifiedKey>);

/// The facts in a pair's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Subject, as RFC 2253 writes it.
    pub subject: String,
    /// Host names and addresses that it is for.
    pub names: Vec<String>,
    /// Seconds since 1970.
    pub not_before: i64,
    /// Seconds since 1970.
    pub not_after: i64,
}

impl Pair {
    /// From a chain, the server's own certificate first, and its key, which may be encrypted: each line of `passwords` is tried.
    pub fn from_pem(chain: &[u8], key: &[u8], passwords: &[u8]) -> Result<Self, Finding> {
        let chain = read_chain(chain)?;
        let key = password::read_key(key, passwords)?;
        let signing = default_provider().key_provider.load_private_key(key).map_err(|error| {
            let advice = "keys are RSA of 2048 bits or more, ECDSA on P-256, P-384 or P-521, or Ed25519";
            Finding::error("key_unsupported", format!("the private key cannot be used ({error})"), advice)
        })?;
        // Not by `CertifiedKey::keys_match`: `webpki` does not read certificates of X.509 v1.
        let Some(certificate) = chain.first().and_then(parse) else {
            return Err(Finding::error(
                "certificate_unreadable",
                "the certificate cannot be read",
                "get it again from the certificate authority",
            ));
        };
        if signing.public_key().is_some_and(|key| key.as_ref() != certificate.public_key().raw) {
            return Err(Finding::error(
                "key_mismatch",
                "the private key does not belong to the certificate",
                "name the key that the certificate was made with; the server's own certificate comes first in its file",
            ));
        }
        Ok(Self(Arc::new(CertifiedKey::new(chain, notes::noting(signing)))))
    }

    /// A self-signed certificate for these names, with a new P-256 key: for tests and the built-in origin.
    pub fn self_made(names: &[String]) -> Result<Self, SetupError> {
        let refused = |error: rcgen::Error| SetupError::Refused(error.to_string());
        let made = rcgen::generate_simple_self_signed(names).map_err(refused)?;
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Ok(Self::from_pem(chain.as_bytes(), key.as_bytes(), b"")?)
    }

    /// The same pair with a response of the authority's OCSP responder, in DER: clients that ask get it with the certificate
    /// (`ssl_stapling_file`). No bytes, no response.
    #[must_use]
    pub fn with_ocsp(&self, response: &[u8]) -> Self {
        let mut pair = CertifiedKey::clone(&self.0);
        pair.ocsp = (!response.is_empty()).then(|| response.to_vec());
        Self(Arc::new(pair))
    }

    /// That response.
    pub fn ocsp(&self) -> Option<&[u8]> {
        self.0.ocsp.as_deref()
    }

    /// The chain as PEM.
    pub fn chain_pem(&self) -> String {
        self.0.cert.iter().map(|certificate| dn::to_pem(certificate)).collect()
    }

    /// A certificate that is not checked: webpki refuses certificates with a critical extension that it does not know, and ACME's
    /// challenge certificate has one.
    pub(crate) fn unread(certificate: CertificateDer<'static>, key: Vec<u8>) -> Result<Self, SetupError> {
        let key = PrivatePkcs8KeyDer::from(key).into();
        let signing = default_provider().key_provider.load_private_key(key);
        let signing = signing.map_err(|error| SetupError::Refused(error.to_string()))?;
        Ok(Self(Arc::new(CertifiedKey::new(vec![certificate], signing))))
    }

    /// The server's own certificate in DER.
    pub fn certificate_der(&self) -> Option<&[u8]> {
        self.0.cert.first().map(AsRef::as_ref)
    }

    pub(crate) fn key(&self) -> &Arc<CertifiedKey> {
        &self.0
    }

    /// What the certificate says. Empty if it cannot be read, which rustls may tolerate.
    pub fn facts(&self) -> Option<CertificateFacts> {
        facts(&self.0.cert)
    }

    /// What is wrong at this time (seconds since 1970), the worst first.
    pub fn check(&self, now: i64) -> Vec<Finding> {
        check_chain(&self.0.cert, now)
    }
}

impl CertificateFacts {
    /// Whether one of its names is for a host: a `*` means one label (RFC 9525, 6.3).
    pub fn is_for(&self, host: &str) -> bool {
        self.names.iter().any(|name| is_for(name, host))
    }
}

/// What a chain's certificate says, and what is wrong with the chain at this time: for a process that may not read the key.
pub fn inspect_chain(pem: &[u8], now: i64) -> Result<(Option<CertificateFacts>, Vec<Finding>), Finding> {
    let chain = read_chain(pem)?;
    Ok((facts(&chain), check_chain(&chain, now)))
}

/// Whether a name of a certificate, of which the first label may be `*`, is this host's.
pub(crate) fn is_for(pattern: &str, host: &str) -> bool {
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(rest), Some((_, domain))) => rest.contains('.') && rest.eq_ignore_ascii_case(domain),
        (Some(_), None) => false,
        (None, _) => pattern.eq_ignore_ascii_case(host),
    }
}

fn facts(chain: &[CertificateDer<'_>]) -> Option<CertificateFacts> {
    let certificate = parse(chain.first()?)?;
    let (not_before, not_after) = validity(&certificate);
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|names| &names.value.general_names).filter_map(host_name).collect();
    Some(CertificateFacts { subject: dn::rfc2253(certificate.subject()), names, not_before, not_after })
}

fn check_chain(chain: &[CertificateDer<'_>], now: i64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let chain: Vec<_> = chain.iter().filter_map(|der| parse(der)).collect();
    for (at, certificate) in chain.iter().enumerate() {
        check_dates(at, certificate, now, &mut findings);
        check_strength(certificate, &mut findings);
    }
    for pair in chain.windows(2) {
        if pair[0].issuer() != pair[1].subject() {
            findings.push(Finding::warning(
                "chain_order",
                format!("{} is followed by a certificate that did not issue it", dn::rfc2253(pair[0].subject())),
                "put the server's own certificate first, then its issuer, then the issuer of that",
            ));
        }
    }
    if let [alone] = chain.as_slice()
        && alone.issuer() != alone.subject()
        && names_issuer(alone)
    {
        findings.push(Finding::warning(
            "chain_alone",
            "the file has no intermediate certificate: some clients cannot find the issuer",
            "use the file that has the chain (fullchain.pem with Let's Encrypt)",
        ));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Public authorities include the URL of the issuer's certificate, and then clients need the issuer. A private authority may have issued
/// the certificate directly.
fn names_issuer(certificate: &X509Certificate<'_>) -> bool {
    certificate.iter_extensions().any(|extension| extension.oid == OID_PKIX_AUTHORITY_INFO_ACCESS)
}

/// The certificates of a chain in PEM.
pub(crate) fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Finding> {
    read_certificates(pem, CHAIN_MAX)
}

/// The certificates of authorities in PEM.
pub(crate) fn read_authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Finding> {
    read_certificates(pem, AUTHORITIES_MAX)
}

fn read_certificates(pem: &[u8], most: usize) -> Result<Vec<CertificateDer<'static>>, Finding> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).take(most).collect();
    let chain = read.map_err(|error| {
        let advice = "the file must have PEM blocks CERTIFICATE";
        let error = match error {
            pem::Error::MissingSectionEnd { .. } => "a block has no line -----END CERTIFICATE-----".to_owned(),
            error => error.to_string(),
        };
        Finding::error("certificate_unreadable", format!("the certificates cannot be read ({error})"), advice)
    })?;
    if chain.is_empty() {
        let advice =
            "the file must have PEM blocks CERTIFICATE; a file in DER is converted with openssl x509 -inform der";
        return Err(Finding::error("certificate_missing", "there is no certificate", advice));
    }
    Ok(chain)
}

/// The time of this machine, in seconds since 1970: for callers that have no other.
pub(crate) fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

pub(crate) fn validity(certificate: &X509Certificate<'_>) -> (i64, i64) {
    let validity = certificate.validity();
    (validity.not_before.timestamp(), validity.not_after.timestamp())
}

fn host_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}

fn check_dates(at: usize, certificate: &X509Certificate<'_>, now: i64, findings: &mut Vec<Finding>) {
    let subject = dn::rfc2253(certificate.subject());
    let (not_before, not_after) = validity(certificate);
    let renew = if at == 0 { "renew it" } else { "put the newer certificate of the authority into the file" };
    if now > not_after {
        let days = (now - not_after) / DAY_SECONDS;
        findings.push(Finding::error(
            "expired",
            format!("the certificate of {subject} has expired {days} days ago"),
            renew,
        ));
    } else if now < not_before {
        let text = format!("the certificate of {subject} is not valid before {}", dn::openssl_date(not_before));
        findings.push(Finding::error("not_yet_valid", text, "check the clock of this machine"));
    } else if not_after - now < EXPIRY_WARNING_DAYS * DAY_SECONDS
        && not_after - not_before > EXPIRY_WARNING_DAYS * DAY_SECONDS
    {
        let days = (not_after - now) / DAY_SECONDS;
        findings.push(Finding::warning(
            "expires_soon",
            format!("the certificate of {subject} expires in {days} days"),
            renew,
        ));
    }
}

fn check_strength(certificate: &X509Certificate<'_>, findings: &mut Vec<Finding>) {
    let subject = dn::rfc2253(certificate.subject());
    if let Ok(PublicKey::RSA(key)) = certificate.public_key().parsed()
        && key.key_size() < RSA_BITS_MIN
    {
        let text = format!("the key of {subject} has {} bits only", key.key_size());
        findings.push(Finding::error("weak_key", text, "make a new key: ECDSA on P-256, or RSA of 2048 bits"));
    }
    let is_self_signed = certificate.issuer() == certificate.subject();
    let algorithm = certificate.signature_algorithm.algorithm.to_id_string();
    // SHA-1 and MD5 with RSA, SHA-1 with ECDSA.
    if !is_self_signed
        && ["1.2.840.113549.1.1.5", "1.2.840.113549.1.1.4", "1.2.840.10045.4.1"].contains(&algorithm.as_str())
    {
        let text = format!("the certificate of {subject} is signed with SHA-1 or MD5, which clients refuse");
        findings.push(Finding::error("weak_signature", text, "get a new certificate from the authority"));
    }
}
