//! A client's settings, made once and shared by its connections: the authorities it trusts, the certificate it shows, whether it
//! resumes sessions.

use crate::error::SetupError;
use crate::names::{self, Ciphers, Curves, Protocols};
use crate::pair::Pair;
use crate::peer::Revocations;
use crate::remembered::Remembered;
use crate::verifier::verifier;
use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use rustls::ClientConfig;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::sign::SingleCertAndKey;
use rustls_pki_types::ServerName;
use std::sync::Arc;

/// Most servers for which sessions are kept; rustls keeps up to eight tickets for each.
const SERVERS_REMEMBERED: usize = 1024;

/// Which servers the client trusts.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Those with a certificate of an authority that the system knows.
    System,
    /// Those with a certificate of these authorities, in PEM.
    Authorities(Vec<u8>),
    /// Any, with any certificate. The connection is encrypted, but the other end may be an attacker.
    Anyone,
}

/// A name that a certificate lists (RFC 5280, 4.2.1.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlternativeName {
    /// A host name. One that begins with `*.` is compared as it is.
    Dns(String),
    /// A URI, compared as it is.
    Uri(String),
}

impl std::fmt::Display for AlternativeName {
    /// As OpenSSL's configuration files have it.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dns(name) => write!(out, "DNS:{name}"),
            Self::Uri(uri) => write!(out, "URI:{uri}"),
        }
    }
}

/// Used as the name of a server when no name is sent or verified.
const NAMELESS: &str = "nameless.invalid";

/// A client's settings. Connections hold them while they live; clones share everything, sessions to resume included.
#[derive(Debug, Clone)]
pub struct ClientSide {
    config: Arc<ClientConfig>,
    /// Sessions by peer; `None` if sessions are not resumed.
    remembered: Option<Arc<Remembered>>,
    identity: Arc<[u8]>,
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
            alternatives: Vec::new(),
            revocations: Revocations::default(),
        }
    }

    /// The settings in rustls' form, for a client that brings its own sockets.
    pub fn to_rustls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// A digest of all the builder's settings. Sides with equal digests trust the same servers, show the same certificate, and may
    /// use each other's connections to a server of one name.
    pub fn identity(&self) -> &Arc<[u8]> {
        &self.identity
    }

    /// The same with this certificate, which the client shows when it is asked. It has sessions of its own.
    #[must_use]
    pub fn with_pair(&self, pair: &Pair) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.client_auth_cert_resolver = shown(pair);
        let remembered = self.remembered.as_ref().map(|_| Arc::<Remembered>::default());
        if remembered.is_some() {
            config.resumption = Resumption::in_memory_sessions(SERVERS_REMEMBERED);
        }
        let identity = [&self.identity, pair.certificate_der().unwrap_or_default()].concat();
        Self { config: Arc::new(config), remembered, identity: digest(&identity)[..].into() }
    }

    pub(crate) fn connect(&self, name: &str) -> Result<UnbufferedClientConnection, SetupError> {
        connection(Arc::clone(&self.config), name)
    }

    /// As [`Self::connect`], to one of several peers that may have the same name: only its own sessions are resumed there. Without a
    /// name no SNI is sent, and no certificate can be verified.
    pub(crate) fn connect_to(&self, peer: &str, name: Option<&str>) -> Result<UnbufferedClientConnection, SetupError> {
        let mut config = ClientConfig::clone(&self.config);
        if let Some(remembered) = &self.remembered {
            config.resumption = Resumption::store(remembered.of(peer, name.unwrap_or_default()));
        }
        config.enable_sni &= name.is_some();
        connection(Arc::new(config), name.unwrap_or(NAMELESS))
    }
}

fn shown(pair: &Pair) -> Arc<SingleCertAndKey> {
    Arc::new(SingleCertAndKey::from((**pair.key()).clone()))
}

/// SHA-256.
pub fn digest(bytes: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut digest = [0; SHA256_OUTPUT_LEN];
    digest.copy_from_slice(aws_lc_rs::digest::digest(&SHA256, bytes).as_ref());
    digest
}

fn connection(config: Arc<ClientConfig>, name: &str) -> Result<UnbufferedClientConnection, SetupError> {
    let name = ServerName::try_from(bare(name).to_owned()).map_err(|_| SetupError::Name(name.to_owned()))?;
    UnbufferedClientConnection::new(config, name).map_err(|error| SetupError::Refused(error.to_string()))
}

/// Whether a name can be asked for, and verified: a host name or an address, in brackets or not.
pub fn is_server_name(name: &str) -> bool {
    ServerName::try_from(bare(name)).is_ok()
}

/// A name without brackets, and without the dot that ends a full one.
fn bare(name: &str) -> &str {
    name.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.')
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
    alternatives: Vec<AlternativeName>,
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

    /// `proxy_ssl_verify_san`: the certificate must list one of these, in place of the name that the client asks for. None: it must
    /// be for that name.
    pub fn alternatives(mut self, names: Vec<AlternativeName>) -> Self {
        self.alternatives = names;
        self
    }

    /// `proxy_ssl_crl`.
    pub fn revocations(mut self, revocations: Revocations) -> Self {
        self.revocations = revocations;
        self
    }

    /// The settings.
    pub fn build(self) -> Result<ClientSide, SetupError> {
        let identity = self.identity();
        let provider = Arc::new(names::provider(&self.ciphers, &self.curves));
        let verifier = verifier(&self.trust, self.depth, self.alternatives, self.revocations)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.protocols.versions())
            .map_err(|error| SetupError::Refused(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.pair {
            Some(pair) => builder.with_client_cert_resolver(shown(&pair)),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn;
        config.enable_sni = self.send_name;
        // As nginx, which neither sends nor takes compressed certificates upstream.
        config.cert_compressors.clear();
        config.cert_decompressors.clear();
        config.resumption =
            if self.resume { Resumption::in_memory_sessions(SERVERS_REMEMBERED) } else { Resumption::disabled() };
        let remembered = self.resume.then(Arc::<Remembered>::default);
        Ok(ClientSide { config: Arc::new(config), remembered, identity })
    }

    fn identity(&self) -> Arc<[u8]> {
        let mut digest = Context::new(&SHA256);
        let mut add = |part: &[u8]| {
            digest.update(&(part.len() as u64).to_be_bytes());
            digest.update(part);
        };
        match &self.trust {
            Trust::System => add(b"system"),
            Trust::Anyone => add(b"anyone"),
            Trust::Authorities(pem) => {
                add(b"authorities");
                add(pem);
            }
        }
        add(self.revocations.identity());
        add(&(self.depth as u64).to_be_bytes());
        add(format!("{:?}", self.alternatives).as_bytes());
        add(&[u8::from(self.resume), u8::from(self.send_name)]);
        let words = (&self.protocols, self.ciphers.names(), &self.curves, &self.alpn);
        add(format!("{words:?}").as_bytes());
        for certificate in self.pair.iter().flat_map(|pair| &pair.key().cert) {
            add(certificate);
        }
        digest.finish().as_ref().into()
    }
}
