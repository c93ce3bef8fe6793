//! A client's settings, made once and shared by its connections: whom it trusts, what it shows, whether it resumes.

use crate::error::SetupError;
use crate::names::{self, Ciphers, Curves, Protocols};
use crate::pair::{Pair, read_chain};
use crate::peer::{Chains, Revocations};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;
use webpki::{EndEntityCert, KeyUsage};

/// Servers whose sessions are remembered; rustls keeps up to eight tickets for each.
const SERVERS_REMEMBERED: usize = 1024;

/// Which servers are believed.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Those with a certificate of an authority that the system knows.
    System,
    /// Those with a certificate of these authorities, in PEM.
    Authorities(Vec<u8>),
    /// Any, with any certificate. The connection is encrypted, and may be with somebody else.
    Anyone,
}

/// A client's settings. Connections hold them while they live.
#[derive(Debug, Clone)]
pub struct ClientSide {
    config: Arc<ClientConfig>,
}

impl ClientSide {
    /// Settings with TLS 1.2 and 1.3, and sessions that are resumed.
    #[expect(clippy::new_ret_no_self, reason = "a builder is how it begins")]
    pub fn new(trust: Trust) -> ClientSideBuilder {
        ClientSideBuilder {
            trust,
            pair: None,
            protocols: Protocols::default(),
            ciphers: Ciphers::default(),
            curves: Curves::default(),
            alpn: Vec::new(),
            resume: true,
            send_name: true,
            depth: usize::MAX,
            revocations: Revocations::default(),
        }
    }

    pub(crate) fn connect(&self, name: &str) -> Result<UnbufferedClientConnection, SetupError> {
        let name = name.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let name = ServerName::try_from(name.to_owned()).map_err(|_| SetupError::Name(name.to_owned()))?;
        UnbufferedClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| SetupError::Refused(error.to_string()))
    }
}

/// Makes a [`ClientSide`].
#[derive(Debug)]
pub struct ClientSideBuilder {
    trust: Trust,
    pair: Option<Pair>,
    protocols: Protocols,
    ciphers: Ciphers,
    curves: Curves,
    alpn: Vec<Vec<u8>>,
    resume: bool,
    send_name: bool,
    depth: usize,
    revocations: Revocations,
}

impl ClientSideBuilder {
    /// The certificate that the client shows when it is asked.
    pub fn pair(mut self, pair: Option<Pair>) -> Self {
        self.pair = pair;
        self
    }

    /// `proxy_ssl_protocols`.
    pub fn protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }

    /// `proxy_ssl_ciphers`.
    pub fn ciphers(mut self, ciphers: Ciphers) -> Self {
        self.ciphers = ciphers;
        self
    }

    /// The groups for key exchange, the first one with its key in the first message.
    pub fn curves(mut self, curves: Curves) -> Self {
        self.curves = curves;
        self
    }

    /// Protocols of ALPN.
    pub fn alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a str>) -> Self {
        self.alpn = protocols.into_iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// `proxy_ssl_session_reuse`.
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// `proxy_ssl_server_name`: whether the name is sent in SNI. The certificate is checked for it either way.
    pub fn send_name(mut self, send: bool) -> Self {
        self.send_name = send;
        self
    }

    /// `proxy_ssl_verify_depth`: certificates between the server's and the authority's.
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// `proxy_ssl_crl`.
    pub fn revocations(mut self, revocations: Revocations) -> Self {
        self.revocations = revocations;
        self
    }

    /// The settings.
    pub fn build(self) -> Result<ClientSide, SetupError> {
        let provider = Arc::new(names::provider(&self.ciphers, &self.curves));
        let verifier = verifier(&self.trust, self.depth, self.revocations)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.protocols.versions())
            .map_err(|error| SetupError::Refused(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.pair {
            Some(pair) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from((**pair.key()).clone()))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn;
        config.enable_sni = self.send_name;
        // As nginx, which neither sends nor takes compressed certificates upstream.
        config.cert_compressors.clear();
        config.cert_decompressors.clear();
        config.resumption =
            if self.resume { Resumption::in_memory_sessions(SERVERS_REMEMBERED) } else { Resumption::disabled() };
        Ok(ClientSide { config: Arc::new(config) })
    }
}

fn verifier(trust: &Trust, depth: usize, revocations: Revocations) -> Result<Arc<dyn ServerCertVerifier>, SetupError> {
    let authorities = match trust {
        Trust::Anyone => Vec::new(),
        Trust::Authorities(pem) => read_chain(pem)?,
        Trust::System => {
            let loaded = rustls_native_certs::load_native_certs();
            if loaded.certs.is_empty() {
                let errors: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
                return Err(SetupError::NoSystemRoots(errors.join("; ")));
            }
            loaded.certs
        }
    };
    // The system's list has certificates here and there that cannot be read; a file that was named has not.
    let readable = match trust {
        Trust::System => authorities.into_iter().filter(|der| webpki::anchor_from_trusted_cert(der).is_ok()).collect(),
        _ => authorities,
    };
    let chains = Chains { revocations, depth, ..Chains::new(&readable)? };
    Ok(Arc::new(Believing { chains, anyone: matches!(trust, Trust::Anyone) }))
}

/// Checks chain and name of a server's certificate.
#[derive(Debug)]
struct Believing {
    chains: Chains,
    anyone: bool,
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
        if self.anyone {
            return Ok(ServerCertVerified::assertion());
        }
        let bad = |error: webpki::Error| certificate_error(error);
        let certificate = EndEntityCert::try_from(end_entity).map_err(bad)?;
        self.chains.verify(&certificate, intermediates, now, KeyUsage::server_auth()).map_err(bad)?;
        certificate.verify_is_valid_for_subject_name(server_name).map_err(bad)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.chains.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.chains.algorithms)
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
        webpki::Error::CertRevoked => CertificateError::Revoked,
        webpki::Error::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::BadDer | webpki::Error::BadDerTime => CertificateError::BadEncoding,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    })
}
