//! Client certificates: requested, checked against authorities and revocation lists, described for nginx's variables. As in nginx
//! an invalid certificate does not fail the handshake: HTTP answers (`ssl_verify_client`), so that the client learns the reason.

use crate::dn;
use crate::error::SetupError;
use crate::finding::Finding;
use crate::notes;
use crate::ocsp::{StatusQuestion, is_issued_by};
use crate::pair::{parse, read_authorities, seconds, validity};
use crate::version1;
use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs::default_provider};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, TrustAnchor, UnixTime};
use sha1::{Digest, Sha1};
use std::sync::Arc;
use std::time::Duration;
use webpki::{CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList, VerifiedPath};
use webpki::{RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert};

/// The result of checking a client's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyResult {
    /// The client has sent none.
    None,
    /// An authority of ours has issued it, and it counts now.
    Success,
    /// It fails, for this reason in OpenSSL's words.
    Failed(&'static str),
    /// No configured authority has issued it; `optional_no_ca` accepts it.
    NoAuthority(&'static str),
    /// Its chain is valid, but an OCSP responder does not confirm it, or could not be reached.
    NoGoodStanding(&'static str),
}

/// Which certificates of a client's chain a responder of OCSP is asked about (`ssl_ocsp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusCheck {
    /// The client's own.
    Leaf,
    /// All but the last authority's.
    Chain,
}

/// Most certificates of a chain that are asked about, or that a reason is sought in.
const QUESTIONS_MAX: usize = 8;
/// nginx's words where a responder has not answered, or its answer is not to be believed.
pub const STATUS_REQUEST_FAILED: &str = "certificate status request failed";

impl VerifyResult {
    /// `$ssl_client_verify`.
    pub fn text(self) -> String {
        match self {
            Self::None => "NONE".to_owned(),
            Self::Success => "SUCCESS".to_owned(),
            Self::Failed(reason) | Self::NoAuthority(reason) | Self::NoGoodStanding(reason) => {
                format!("FAILED:{reason}")
            }
        }
    }
}

/// The result for a client certificate that was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientVerification {
    /// The result.
    pub result: VerifyResult,
}

/// Revocation lists (`ssl_crl`).
#[derive(Debug, Default)]
pub struct Revocations {
    lists: Vec<CertRevocationList<'static>>,
    identity: Vec<u8>,
}

impl Revocations {
    /// A digest of the lists; empty where there are none.
    pub(crate) fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// From PEM.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Finding> {
        let unreadable = |error: String| {
            let advice = "the file must have PEM blocks X509 CRL, one for each authority of the chain";
            Finding::error("crl_unreadable", format!("the revocation lists cannot be read ({error})"), advice)
        };
        let mut lists = Vec::new();
        for der in CertificateRevocationListDer::pem_slice_iter(pem) {
            let der = der.map_err(|error| unreadable(error.to_string()))?;
            let list = OwnedCertRevocationList::from_der(&der).map_err(|error| unreadable(error.to_string()))?;
            lists.push(list.into());
        }
        if lists.is_empty() {
            return Err(unreadable("there is none".to_owned()));
        }
        Ok(Self { lists, identity: digest(&SHA256, pem).as_ref().to_vec() })
    }
}

/// Authorities with what is asked of a chain that leads to one of them.
#[derive(Debug)]
pub(crate) struct Chains {
    pub(crate) anchors: Vec<TrustAnchor<'static>>,
    pub(crate) revocations: Revocations,
    pub(crate) depth: usize,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl Chains {
    pub(crate) fn new(authorities: &[CertificateDer<'_>]) -> Result<Self, Finding> {
        let mut anchors = Vec::new();
        for authority in authorities {
            let anchor = anchor_from_trusted_cert(authority).map_err(|error| {
                let advice = "leave it out of the file, or get it again";
                Finding::error(
                    "authority_unreadable",
                    format!("a certificate of an authority cannot be read ({error})"),
                    advice,
                )
            })?;
            anchors.push(anchor.to_owned());
        }
        let algorithms = default_provider().signature_verification_algorithms;
        Ok(Self { anchors, revocations: Revocations::default(), depth: usize::MAX, algorithms })
    }

    /// Whether the chain leads from the certificate to an authority, with at most `depth` certificates between.
    pub(crate) fn verify(
        &self,
        certificate: &EndEntityCert<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<(), webpki::Error> {
        self.verify_path(certificate, others, now, usage, |_| ())
    }

    /// The same for a certificate of X.509 v1, which one of `authorities` must have issued. Revocation lists are not
    /// searched for it, so with them it is refused.
    pub(crate) fn verify_version1(
        &self,
        certificate: &CertificateDer<'_>,
        authorities: &[CertificateDer<'static>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        version1::verify_issued(certificate, authorities, now)?;
        if self.revocations.lists.is_empty() { Ok(()) } else { Err(webpki::Error::UnknownRevocationStatus) }
    }

    /// The same; the closure sees the chain that was found.
    fn verify_path<R>(
        &self,
        certificate: &EndEntityCert<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
        look: impl FnOnce(&VerifiedPath<'_>) -> R,
    ) -> Result<R, webpki::Error> {
        let lists: Vec<&CertRevocationList<'_>> = self.revocations.lists.iter().collect();
        // As OpenSSL with X509_V_FLAG_CRL_CHECK_ALL: all of the chain, and what no list speaks of fails.
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let algorithms = self.algorithms.all;
        let path = certificate.verify_for_usage(algorithms, &self.anchors, others, now, usage, revocation, None)?;
        if path.intermediate_certificates().count() > self.depth {
            return Err(webpki::Error::MaximumPathDepthExceeded);
        }
        Ok(look(&path))
    }
}

/// The checks on clients' certificates. HTTP decides whether a certificate is required.
#[derive(Debug)]
pub struct ClientCheck {
    chains: Chains,
    hints: Vec<DistinguishedName>,
    identity: Vec<u8>,
    /// In the order of the anchors.
    authorities: Vec<CertificateDer<'static>>,
    status: Option<StatusCheck>,
}

impl ClientCheck {
    /// Authorities in PEM: those whose names are sent to clients (`ssl_client_certificate`), and more that are trusted
    /// (`ssl_trusted_certificate`). Both may be empty, for `optional_no_ca`.
    pub fn new(told: &[u8], trusted: &[u8]) -> Result<Self, SetupError> {
        let read = |pem: &[u8]| if pem.is_empty() { Ok(Vec::new()) } else { read_authorities(pem) };
        let mut authorities = read(told)?;
        let told_count = authorities.len();
        authorities.extend(read(trusted)?);
        let chains = Chains { depth: 1, ..Chains::new(&authorities)? };
        let hint = |anchor: &TrustAnchor<'_>| DistinguishedName::in_sequence(anchor.subject.as_ref());
        let hints = chains.anchors.iter().take(told_count).map(hint).collect();
        let identity = [digest(&SHA256, told).as_ref(), digest(&SHA256, trusted).as_ref()].concat();
        Ok(Self { chains, hints, identity, authorities, status: None })
    }

    /// `ssl_ocsp`: the questions about valid certificates are kept for the caller (see [`crate::Session::take_status_questions`]).
    pub fn status(mut self, check: StatusCheck) -> Self {
        self.status = Some(check);
        self
    }

    /// `ssl_verify_depth`: certificates between the client's and the authority's. nginx's default is 1.
    pub fn depth(mut self, depth: usize) -> Self {
        self.chains.depth = depth;
        self
    }

    /// `ssl_crl`.
    pub fn revocations(mut self, revocations: Revocations) -> Self {
        self.chains.revocations = revocations;
        self
    }

    /// A digest of these demands; sessions are bound to it.
    pub(crate) fn identity(&self) -> Vec<u8> {
        let mut identity = vec![1];
        identity.extend_from_slice(&self.identity);
        identity.extend_from_slice(&self.chains.revocations.identity);
        identity.extend_from_slice(&(self.chains.depth as u64).to_be_bytes());
        identity.extend(self.status.map(|check| check as u8));
        identity
    }

    pub(crate) fn verifier(self: Arc<Self>) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Asking(self))
    }

    /// Checks the client's chain, also for a resumed session: revocation lists and dates may have changed since.
    pub(crate) fn verify(&self, certificates: &[CertificateDer<'_>]) -> (VerifyResult, Vec<StatusQuestion>) {
        let Some((first, others)) = certificates.split_first() else { return (VerifyResult::None, Vec::new()) };
        let (now, usage) = (UnixTime::now(), KeyUsage::client_auth());
        let verified = match EndEntityCert::try_from(first) {
            Err(webpki::Error::UnsupportedCertVersion) => {
                let verified = self.chains.verify_version1(first, &self.authorities, now);
                verified.and_then(|()| self.questions_version1(first, now))
            }
            certificate => certificate.and_then(|certificate| {
                self.chains.verify_path(&certificate, others, now, usage, |path| self.questions(first, path))
            }),
        };
        match verified {
            Ok(Some(questions)) => (VerifyResult::Success, questions),
            Ok(None) => (VerifyResult::NoGoodStanding(STATUS_REQUEST_FAILED), Vec::new()),
            Err(error) => (reason(&error, first, others), Vec::new()),
        }
    }

    /// What responders have to be asked about a chain; `None` where that is not known.
    fn questions(&self, first: &CertificateDer<'_>, path: &VerifiedPath<'_>) -> Option<Vec<StatusQuestion>> {
        let Some(check) = self.status else { return Some(Vec::new()) };
        let same = |anchor: &TrustAnchor<'_>| {
            anchor.subject == path.anchor().subject
                && anchor.subject_public_key_info == path.anchor().subject_public_key_info
        };
        let place = self.chains.anchors.iter().position(same)?;
        let mut chain = vec![first.clone().into_owned()];
        chain.extend(path.intermediate_certificates().map(|certificate| certificate.der().into_owned()));
        chain.push(self.authorities.get(place)?.clone());
        self.questions_about(chain, check)
    }

    /// The same for a certificate of X.509 v1.
    fn questions_version1(
        &self,
        first: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<Option<Vec<StatusQuestion>>, webpki::Error> {
        let Some(check) = self.status else { return Ok(Some(Vec::new())) };
        let issuer = version1::verify_issued(first, &self.authorities, now)?.clone();
        Ok(self.questions_about(vec![first.clone().into_owned(), issuer], check))
    }

    fn questions_about(
        &self,
        mut chain: Vec<CertificateDer<'static>>,
        check: StatusCheck,
    ) -> Option<Vec<StatusQuestion>> {
        // OpenSSL goes on to a certificate that is self-signed.
        while let Some(last) = chain.last().filter(|_| chain.len() <= QUESTIONS_MAX) {
            let above = self.authorities.iter().find(|above| *above != last && is_issued_by(last, above));
            let Some(above) = above.filter(|_| !is_self_issued(last)) else { break };
            chain.push(above.clone());
        }
        let count = if check == StatusCheck::Leaf { 1 } else { QUESTIONS_MAX };
        chain.windows(2).take(count).map(|pair| StatusQuestion::new(&pair[0], &pair[1])).collect()
    }
}

fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    parse(certificate).is_some_and(|parsed| parsed.issuer() == parsed.subject())
}

/// OpenSSL's words for why a chain fails (`X509_verify_cert_error_string`).
fn reason(error: &webpki::Error, certificate: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> VerifyResult {
    VerifyResult::Failed(match error {
        webpki::Error::CertExpired { .. } | webpki::Error::InvalidCertValidity => "certificate has expired",
        webpki::Error::CertNotValidYet { .. } => "certificate is not yet valid",
        webpki::Error::CertRevoked => "certificate revoked",
        webpki::Error::UnknownRevocationStatus => "unable to get certificate CRL",
        webpki::Error::CrlExpired { .. } => "CRL has expired",
        webpki::Error::MaximumPathDepthExceeded => "certificate chain too long",
        webpki::Error::RequiredEkuNotFoundContext(_) => "unsuitable certificate purpose",
        webpki::Error::InvalidSignatureForPublicKey => "certificate signature failure",
        webpki::Error::UnknownIssuer | webpki::Error::CaUsedAsEndEntity => {
            return VerifyResult::NoAuthority(without_authority(certificate, others));
        }
        _ => "invalid certificate",
    })
}

/// OpenSSL's words for a chain without an authority. They depend on where the chain ends that the client has sent.
pub(crate) fn without_authority(certificate: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> &'static str {
    if is_self_issued(certificate) {
        return "self-signed certificate";
    }
    let others = &others[..others.len().min(QUESTIONS_MAX)];
    let issuer_of = |last: &CertificateDer<'_>| others.iter().find(|other| *other != last && is_issued_by(last, other));
    let Some(mut last) = issuer_of(certificate) else { return "unable to verify the first certificate" };
    for _ in others {
        let Some(above) = issuer_of(last) else { break };
        last = above;
    }
    if is_self_issued(last) {
        "self-signed certificate in certificate chain"
    } else {
        "unable to get local issuer certificate"
    }
}

/// OpenSSL's number (`X509_V_ERR_…`) for a reason in its words; 1 for what has none.
pub fn verify_error_number(reason: &str) -> u32 {
    match reason {
        "unable to get certificate CRL" => 3,
        "certificate signature failure" => 7,
        "certificate is not yet valid" => 9,
        "certificate has expired" => 10,
        "CRL has expired" => 12,
        "self-signed certificate" => 18,
        "self-signed certificate in certificate chain" => 19,
        "unable to get local issuer certificate" => 20,
        "unable to verify the first certificate" => 21,
        "certificate chain too long" => 22,
        "certificate revoked" => 23,
        "unsuitable certificate purpose" => 26,
        _ => 1,
    }
}

/// The order in which OpenSSL asks clients for schemes of signatures.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

/// Accepts every certificate in the handshake if the client proves that it has the key.
#[derive(Debug)]
struct Asking(Arc<ClientCheck>);

impl ClientCertVerifier for Asking {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.0.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        notes::note_peer(signed.scheme);
        version1::verify_signature_12(message, certificate, signed, &self.0.chains.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        notes::note_peer(signed.scheme);
        version1::verify_signature_13(message, certificate, signed, &self.0.chains.algorithms)
    }

    /// In OpenSSL's order: clients sign with the first scheme that fits their key.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.0.chains.algorithms.supported_schemes();
        schemes.sort_by_key(|scheme| SCHEMES.iter().position(|known| known == scheme).unwrap_or(SCHEMES.len()));
        schemes
    }
}

/// A client's certificate, described as nginx's variables do.
#[derive(Debug, Clone, Copy)]
pub struct ClientCertificate<'a>(pub(crate) &'a CertificateDer<'static>);

impl ClientCertificate<'_> {
    /// `$ssl_client_s_dn`.
    pub fn subject(&self) -> Option<String> {
        parse(self.0).map(|certificate| dn::rfc2253(certificate.subject()))
    }

    /// `$ssl_client_s_dn_legacy`.
    pub fn subject_legacy(&self) -> Option<String> {
        parse(self.0).map(|certificate| dn::legacy(certificate.subject()))
    }

    /// `$ssl_client_i_dn`.
    pub fn issuer(&self) -> Option<String> {
        parse(self.0).map(|certificate| dn::rfc2253(certificate.issuer()))
    }

    /// `$ssl_client_i_dn_legacy`.
    pub fn issuer_legacy(&self) -> Option<String> {
        parse(self.0).map(|certificate| dn::legacy(certificate.issuer()))
    }

    /// `$ssl_client_serial`: hexadecimal digits in upper case.
    pub fn serial(&self) -> Option<String> {
        let certificate = parse(self.0)?;
        let mut out = String::new();
        for &byte in certificate.raw_serial().iter().skip_while(|&&byte| byte == 0) {
            dn::push_hex(byte, &mut out);
        }
        Some(if out.is_empty() { "00".to_owned() } else { out })
    }

    /// `$ssl_client_fingerprint`: SHA-1 of the certificate, in lower case.
    pub fn fingerprint(&self) -> String {
        let mut out = String::new();
        for byte in Sha1::digest(self.0) {
            dn::push_hex(byte, &mut out);
        }
        out.make_ascii_lowercase();
        out
    }

    /// `$ssl_client_raw_cert`, with the end of its last line.
    pub fn pem(&self) -> String {
        dn::to_pem(self.0)
    }

    /// `$ssl_client_escaped_cert`: the PEM text for a URI.
    pub fn escaped(&self) -> String {
        let mut out = String::new();
        for byte in dn::to_pem(self.0).bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
                _ => {
                    out.push('%');
                    dn::push_hex(byte, &mut out);
                }
            }
        }
        out
    }

    /// `$ssl_client_v_start`.
    pub fn valid_from(&self) -> Option<String> {
        parse(self.0).map(|certificate| dn::openssl_date(validity(&certificate).0))
    }

    /// `$ssl_client_v_end`.
    pub fn valid_to(&self) -> Option<String> {
        parse(self.0).map(|certificate| dn::openssl_date(validity(&certificate).1))
    }

    /// `$ssl_client_v_remain`: whole days until it expires.
    /// `now` counts from 1970.
    pub fn days_left(&self, now: Duration) -> Option<i64> {
        let now = seconds(UnixTime::since_unix_epoch(now));
        parse(self.0).map(|certificate| ((validity(&certificate).1 - now) / 86_400).max(0))
    }
}
