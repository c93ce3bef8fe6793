//! The Online Certificate Status Protocol (RFC 6960): requests for the status of a certificate, and the check of a responder's
//! answer. Bytes only: the control plane sends the request. The crate `der` reads ASN.1; `webpki` checks signatures.

use crate::finding::Finding;
use crate::pair::{Pair, parse, read_authorities};
use crate::peer::Chains;
use der::asn1::{AnyRef, BitStringRef, GeneralizedTime, ObjectIdentifier, OctetStringRef};
use der::{Decode, Encode, Enumerated, Sequence, Tag, TagNumber};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use sha1::{Digest as _, Sha1};
use std::fmt;
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, RawPublicKeyEntity, anchor_from_trusted_cert};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_PKIX_ACCESS_DESCRIPTOR_OCSP;

/// The largest response that is read: those of public authorities take 500 bytes, with a responder's certificate 2 KB.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Certificates in a response: one is usual.
const CERTIFICATES_MAX: usize = 8;
/// Seconds by which clocks may differ, as in nginx.
const SKEW_SECONDS: i64 = 300;
/// SHA-1, which RFC 5019 demands of requests. It tells issuers apart and protects nothing.
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
/// `id-pkix-ocsp-basic`
const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");
/// `id-kp-OCSPSigning`, encoded.
const SIGNS_OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 9];

/// What a responder says about a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertStatus {
    /// It is not revoked.
    Good,
    /// It is revoked.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

impl fmt::Display for CertStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Good => "good",
            Self::Revoked => "revoked",
            Self::Unknown => "unknown",
        })
    }
}

/// An answer that was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusAnswer {
    /// What it says.
    pub status: CertStatus,
    /// When the answer expires, in seconds since 1970; without it a newer answer may exist at any time.
    pub next_update: Option<i64>,
}

/// Why an answer cannot be used: nginx's phrases, and ours behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// It is no response.
    #[error("d2i_OCSP_RESPONSE() failed")]
    Unreadable,
    /// The responder refuses to answer.
    #[error("OCSP response not successful ({0}: {text})", text = status_text(*.0))]
    Refused(u8),
    /// It is of another kind than the basic one, or broken inside.
    #[error("OCSP_response_get1_basic() failed")]
    NotBasic,
    /// The signature is not that of the issuer, nor of a responder that the issuer lets sign.
    #[error("OCSP_basic_verify() failed: {0}")]
    NotVerified(&'static str),
    /// It is about other certificates.
    #[error("certificate status not found in the OCSP response")]
    NotFound,
    /// It is not valid at this time.
    #[error("OCSP_check_validity() failed: {0}")]
    NotNow(&'static str),
}

fn status_text(status: u8) -> &'static str {
    match status {
        1 => "malformedrequest",
        2 => "internalerror",
        3 => "trylater",
        5 => "sigrequired",
        6 => "unauthorized",
        _ => "(UNKNOWN)",
    }
}

/// Authorities that a responder's certificate must lead to as well (`ssl_stapling_verify`).
#[derive(Debug)]
pub struct StatusTrust(Chains);

impl StatusTrust {
    /// From PEM.
    pub fn from_pem(authorities: &[u8]) -> Result<Self, Finding> {
        let authorities = if authorities.is_empty() { Vec::new() } else { read_authorities(authorities)? };
        Chains::new(&authorities).map(Self)
    }
}

/// Whether these bytes are a response with any content.
pub fn is_status_response(bytes: &[u8]) -> bool {
    Response::from_der(bytes).is_ok()
}

/// A certificate with its issuer: the subject of a request to a responder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusQuestion {
    issuer: CertificateDer<'static>,
    name_hash: [u8; 20],
    key_hash: [u8; 20],
    serial: Box<[u8]>,
    responder: Option<Box<str>>,
}

impl StatusQuestion {
    /// About a pair's certificate. The issuer is in its chain, or among these authorities (PEM).
    pub fn of_pair(pair: &Pair, authorities: &[u8]) -> Result<Option<Self>, Finding> {
        let Some((first, chain)) = pair.key().cert.split_first() else { return Ok(None) };
        let authorities = if authorities.is_empty() { Vec::new() } else { read_authorities(authorities)? };
        let issuer = chain.iter().chain(&authorities).find(|issuer| is_issued_by(first, issuer));
        Ok(issuer.and_then(|issuer| Self::new(first, issuer)))
    }

    /// `None`: one of the two cannot be read.
    pub(crate) fn new(certificate: &CertificateDer<'_>, issuer: &CertificateDer<'_>) -> Option<Self> {
        let parsed = parse(certificate)?;
        let by = parse(issuer)?;
        Some(Self {
            issuer: issuer.clone().into_owned(),
            name_hash: Sha1::digest(by.subject().as_raw()).into(),
            key_hash: Sha1::digest(&by.public_key().subject_public_key.data).into(),
            serial: parsed.raw_serial().into(),
            responder: responder_url(&parsed),
        })
    }

    /// The URL of the responder that the certificate names.
    pub fn responder(&self) -> Option<&str> {
        self.responder.as_deref()
    }

    /// Identifies the certificate.
    pub fn key(&self) -> [u8; 32] {
        crate::digest(&[&self.name_hash[..], &self.key_hash, &self.serial].concat())
    }

    /// The request in DER. It has no nonce: answers that were made ahead have none, and caches keep those.
    pub fn request(&self) -> Vec<u8> {
        let algorithm = Algorithm { oid: SHA1, parameters: Some(AnyRef::NULL) };
        let asked = || -> der::Result<Vec<u8>> {
            let id = CertId {
                algorithm,
                name_hash: OctetStringRef::new(&self.name_hash)?,
                key_hash: OctetStringRef::new(&self.key_hash)?,
                serial: AnyRef::new(Tag::Integer, &self.serial)?,
            };
            Request { asked: Asked { list: vec![One { id }] } }.to_der()
        };
        // Lengths beyond the encoding's 256 MB are the only errors.
        asked().unwrap_or_default()
    }

    /// Reads an answer at this time (seconds since 1970). The certificate's issuer must have signed it, or a responder with a
    /// certificate of that issuer for signing (RFC 6960, 4.2.2.2). `trusted`: the responder's chain must also lead to one of these
    /// authorities.
    pub fn read(&self, response: &[u8], now: i64, trusted: Option<&StatusTrust>) -> Result<StatusAnswer, StatusError> {
        if response.len() > RESPONSE_BYTES_MAX {
            return Err(StatusError::Unreadable);
        }
        let outer = Response::from_der(response).map_err(|_| StatusError::Unreadable)?;
        if outer.status != ResponseStatus::Successful {
            return Err(StatusError::Refused(outer.status as u8));
        }
        let bytes = outer.bytes.filter(|bytes| bytes.kind == BASIC).ok_or(StatusError::NotBasic)?;
        let basic = Basic::from_der(bytes.response.as_bytes()).map_err(|_| StatusError::NotBasic)?;
        let data: ResponseData<'_> = basic.data.decode_as().map_err(|_| StatusError::NotBasic)?;
        self.verify_signer(&basic, &data, now, trusted)?;
        let single = data.responses.iter().find(|single| self.is_about(&single.id)).ok_or(StatusError::NotFound)?;
        check_time(single, now)?;
        let status = match context_number(single.status) {
            Some(0) => CertStatus::Good,
            Some(1) => CertStatus::Revoked,
            _ => CertStatus::Unknown,
        };
        Ok(StatusAnswer { status, next_update: single.next_update.map(|time| seconds_of(&time)) })
    }

    fn is_about(&self, id: &CertId<'_>) -> bool {
        id.algorithm.oid == SHA1
            && id.name_hash.as_bytes() == self.name_hash
            && id.key_hash.as_bytes() == self.key_hash
            && id.serial.value() == &*self.serial
    }

    fn verify_signer(
        &self,
        basic: &Basic<'_>,
        data: &ResponseData<'_>,
        now: i64,
        trusted: Option<&StatusTrust>,
    ) -> Result<(), StatusError> {
        let refused = StatusError::NotVerified;
        let signature = basic.signature.as_bytes().ok_or(refused("signature failure"))?;
        let signed = Signed {
            data: basic.data.to_der().map_err(|_| StatusError::NotBasic)?,
            algorithm: basic.algorithm.value(),
            signature,
        };
        if is_responder(data.responder, &self.issuer) {
            let is_right = signed.is_by(&self.issuer);
            return if is_right { Ok(()) } else { Err(refused("signature failure")) };
        }
        let certificates = basic.certificates.as_deref().unwrap_or_default();
        let signer = certificates
            .iter()
            .take(CERTIFICATES_MAX)
            .filter_map(|certificate| certificate.to_der().ok().map(CertificateDer::from))
            .find(|certificate| is_responder(data.responder, certificate));
        let signer = signer.ok_or(refused("signer certificate not found"))?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or_default()));
        let usage = KeyUsage::required(SIGNS_OCSP);
        let certificate = EndEntityCert::try_from(&signer).map_err(|_| refused("signer certificate is unreadable"))?;
        let anchor = anchor_from_trusted_cert(&self.issuer).map_err(|_| refused("issuer certificate is unreadable"))?;
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let anchors = [anchor];
        let by_issuer = certificate.verify_for_usage(algorithms, &anchors, &[], now, usage, None, None);
        by_issuer.map_err(|_| refused("the issuer does not let this signer sign"))?;
        if let Some(trusted) = trusted {
            let issuer = std::slice::from_ref(&self.issuer);
            let path = trusted.0.verify(&certificate, issuer, now, KeyUsage::required(SIGNS_OCSP));
            path.map_err(|_| refused("certificate verify error"))?;
        }
        if signed.is_by(&signer) { Ok(()) } else { Err(refused("signature failure")) }
    }
}

/// What was signed.
struct Signed<'a> {
    data: Vec<u8>,
    /// The contents of the `AlgorithmIdentifier`.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl Signed<'_> {
    fn is_by(&self, certificate: &CertificateDer<'_>) -> bool {
        // Not by `EndEntityCert`: an issuer may be a root of X.509 v1.
        let Some(certificate) = parse(certificate) else { return false };
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let mut fitting = algorithms.iter().filter(|one| one.signature_alg_id().as_ref() == self.algorithm);
        fitting.any(|one| key.verify_signature(*one, &self.data, self.signature).is_ok())
    }
}

/// Whether the issuer's key has signed the certificate.
pub(crate) fn is_issued_by(certificate: &CertificateDer<'_>, issuer: &CertificateDer<'_>) -> bool {
    let (Some(parsed), Some(by)) = (parse(certificate), parse(issuer)) else { return false };
    if parsed.issuer() != by.subject() {
        return false;
    }
    let Ok(outer) = SignedCertificate::from_der(certificate) else { return false };
    let (Ok(data), Some(signature)) = (outer.data.to_der(), outer.signature.as_bytes()) else { return false };
    Signed { data, algorithm: outer.algorithm.value(), signature }.is_by(issuer)
}

/// Whether a `ResponderID` is that of a certificate: its subject, or the SHA-1 of its key.
fn is_responder(id: AnyRef<'_>, certificate: &CertificateDer<'_>) -> bool {
    let Some(parsed) = parse(certificate) else { return false };
    match context_number(id) {
        Some(1) => id.value() == parsed.subject().as_raw(),
        Some(2) => <&OctetStringRef>::from_der(id.value())
            .is_ok_and(|hash| hash.as_bytes() == &Sha1::digest(&parsed.public_key().subject_public_key.data)[..]),
        _ => false,
    }
}

/// The number of a context-specific tag.
fn context_number(value: AnyRef<'_>) -> Option<u32> {
    match value.header().tag() {
        Tag::ContextSpecific { number: TagNumber(number), .. } => Some(number),
        _ => None,
    }
}

/// The first `http` or other URL of the authority information access that is a responder's.
fn responder_url(certificate: &X509Certificate<'_>) -> Option<Box<str>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => {
            access.accessdescs.iter().find_map(|description| match &description.access_location {
                GeneralName::URI(url) if description.access_method == OID_PKIX_ACCESS_DESCRIPTOR_OCSP => {
                    Some((*url).into())
                }
                _ => None,
            })
        }
        _ => None,
    })
}

fn check_time(single: &Single<'_>, now: i64) -> Result<(), StatusError> {
    let this_update = seconds_of(&single.this_update);
    if this_update > now.saturating_add(SKEW_SECONDS) {
        return Err(StatusError::NotNow("status not yet valid"));
    }
    let Some(next_update) = single.next_update.as_ref().map(seconds_of) else { return Ok(()) };
    if next_update < now.saturating_sub(SKEW_SECONDS) {
        return Err(StatusError::NotNow("status expired"));
    }
    if next_update < this_update {
        return Err(StatusError::NotNow("nextUpdate is before thisUpdate"));
    }
    Ok(())
}

fn seconds_of(time: &GeneralizedTime) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}

#[derive(Sequence)]
struct Request<'a> {
    asked: Asked<'a>,
}

#[derive(Sequence)]
struct Asked<'a> {
    list: Vec<One<'a>>,
}

#[derive(Sequence)]
struct One<'a> {
    id: CertId<'a>,
}

#[derive(Sequence)]
struct CertId<'a> {
    algorithm: Algorithm<'a>,
    name_hash: &'a OctetStringRef,
    key_hash: &'a OctetStringRef,
    serial: AnyRef<'a>,
}

#[derive(Sequence)]
struct Algorithm<'a> {
    oid: ObjectIdentifier,
    #[asn1(optional = "true")]
    parameters: Option<AnyRef<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumerated)]
#[repr(u8)]
enum ResponseStatus {
    Successful = 0,
    MalformedRequest = 1,
    InternalError = 2,
    TryLater = 3,
    SignatureRequired = 5,
    Unauthorized = 6,
}

#[derive(Sequence)]
struct Response<'a> {
    status: ResponseStatus,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    bytes: Option<ResponseBytes<'a>>,
}

#[derive(Sequence)]
struct ResponseBytes<'a> {
    kind: ObjectIdentifier,
    response: &'a OctetStringRef,
}

#[derive(Sequence)]
struct SignedCertificate<'a> {
    data: AnyRef<'a>,
    algorithm: AnyRef<'a>,
    signature: BitStringRef<'a>,
}

#[derive(Sequence)]
struct Basic<'a> {
    data: AnyRef<'a>,
    algorithm: AnyRef<'a>,
    signature: BitStringRef<'a>,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    certificates: Option<Vec<AnyRef<'a>>>,
}

#[derive(Sequence)]
struct ResponseData<'a> {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", default = "version_one")]
    version: u8,
    responder: AnyRef<'a>,
    produced_at: GeneralizedTime,
    responses: Vec<Single<'a>>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    extensions: Option<AnyRef<'a>>,
}

fn version_one() -> u8 {
    0
}

#[derive(Sequence)]
struct Single<'a> {
    id: CertId<'a>,
    /// `good` [0], `revoked` [1] or `unknown` [2].
    status: AnyRef<'a>,
    this_update: GeneralizedTime,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    next_update: Option<GeneralizedTime>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    extensions: Option<AnyRef<'a>>,
}
