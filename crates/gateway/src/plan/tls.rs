//! TLS of a server towards clients: its settings, with the contents of the files that they name.

use crate::plan::acme::AcmeOrderId;
use crate::plan::ocsp::{ClientStatusPlan, StapleAsk, StaplingPlan};
use conf::model::{CertificateCache, PemSource};
use conf::source::Span;
use rules::template::Template;
use rules::variable::{TlsVariable, Variable};
use std::collections::HashMap;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::{Ciphers, ClientCheck, Curves, Pair, Protocols};

/// The source of a certificate or a key. Certificate and key sources together identify what the registry keeps through
/// reloads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MaterialSource {
    /// A file, by its absolute path.
    File(PathBuf),
    /// Written in the configuration itself (`data:…`).
    Text(Box<[u8]>),
}

impl fmt::Display for MaterialSource {
    /// Shows the name, never the contents.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Text(_) => out.write_str("data:…"),
        }
    }
}

/// A certificate with its key, by their sources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PairSource {
    pub(crate) certificate: MaterialSource,
    pub(crate) key: MaterialSource,
    /// `ssl_password_file`
    pub(crate) passwords: Option<PathBuf>,
    /// `ssl_stapling_file`: an OCSP response to staple.
    pub(crate) stapled: Option<PathBuf>,
    /// `ssl_stapling` without a file: the response is fetched.
    pub(crate) stapling: Option<Arc<StaplingPlan>>,
}

impl PairSource {
    /// All files that it is read from.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let materials = [&self.certificate, &self.key].into_iter().filter_map(|material| match material {
            MaterialSource::File(path) => Some(path),
            MaterialSource::Text(_) => None,
        });
        materials.chain(&self.passwords).chain(&self.stapled).map(PathBuf::as_path)
    }
}

/// Certificates with variables in their names: each handshake evaluates the names.
#[derive(Debug, Clone)]
pub(crate) struct MadePairs {
    /// Certificate and key.
    pub(crate) pairs: Vec<(Template, Template)>,
    /// The base of relative paths.
    pub(crate) directory: PathBuf,
    /// The file of passphrases, with its contents when the configuration was read.
    pub(crate) passwords: Option<(PathBuf, Box<[u8]>)>,
    /// `ssl_certificate_cache`
    pub(crate) cache: Option<CertificateCache>,
}

impl MadePairs {
    /// The certificates for a handshake, or for a request. `value` evaluates a template.
    pub(crate) fn sources(&self, value: impl Fn(&Template) -> Vec<u8>) -> Vec<PairSource> {
        let material = |template: &Template| match PemSource::of(&value(template), &self.directory) {
            PemSource::Inline(text) => MaterialSource::Text(text.into()),
            PemSource::File(path) => MaterialSource::File(path),
        };
        let source = |(certificate, key): &(Template, Template)| PairSource {
            certificate: material(certificate),
            key: material(key),
            passwords: self.passwords.as_ref().map(|(path, _)| path.clone()),
            stapled: None,
            stapling: None,
        };
        self.pairs.iter().map(source).collect()
    }
}

impl PairSource {
    /// Whether the certificate's name is empty. As in nginx, an upstream then gets no certificate.
    pub(crate) fn is_nameless(&self, made: &MadePairs) -> bool {
        matches!(&self.certificate, MaterialSource::File(path) if *path == made.directory)
    }

    /// Identifies it by a digest, since a key may be in the configuration itself.
    pub(crate) fn identity(&self) -> [u8; 32] {
        let mut text = Vec::new();
        for material in [&self.certificate, &self.key] {
            let (kind, bytes) = match material {
                MaterialSource::File(path) => (0, path.as_os_str().as_bytes()),
                MaterialSource::Text(bytes) => (1, &bytes[..]),
            };
            text.push(kind);
            text.extend_from_slice(&bytes.len().to_be_bytes());
            text.extend_from_slice(bytes);
        }
        tls::digest(&text)
    }
}

/// Whether a variable can have a value while a certificate is chosen, before there is a request.
pub(crate) fn is_of_handshake(variable: &Variable) -> bool {
    use Variable as V;
    match variable {
        V::Tls(variable) => *variable == TlsVariable::ServerName,
        // The definition of a user variable may still use others.
        V::RemoteAddr
        | V::RemotePort
        | V::RealipRemoteAddr
        | V::RealipRemotePort
        | V::BinaryRemoteAddr
        | V::ServerAddr
        | V::ServerPort
        | V::ServerName
        | V::Hostname
        | V::Scheme
        | V::Https
        | V::Connection
        | V::Pid
        | V::Msec
        | V::TimeIso8601
        | V::NginxVersion
        | V::User(_) => true,
        _ => false,
    }
}

/// A certificate with its key, as read with the configuration.
#[derive(Debug, Clone)]
pub(crate) struct PairPlan {
    pub(crate) source: PairSource,
    pub(crate) pair: Pair,
    /// Shows whether the bytes have changed.
    pub(crate) fingerprint: u64,
    /// The OCSP question for its staple, or why there is none.
    pub(crate) staple: Option<Result<Arc<StapleAsk>, String>>,
}

/// Pairs that an earlier configuration has read: those with the same bytes need not be parsed again.
#[derive(Debug, Default)]
pub struct KnownPairs(pub(crate) HashMap<PairSource, PairPlan>);

/// `ssl_session_cache`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionCachePlan {
    /// `shared:name:…`; one without a name is the server's own.
    pub(crate) name: Option<String>,
    pub(crate) size: CacheSize,
}

/// The capacity of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CacheSize {
    Sessions(usize),
    /// As many sessions as nginx can store in this many bytes.
    Bytes(usize),
}

/// `ssl_verify_client`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerifyPlan {
    Required,
    Optional,
    /// A certificate of an unknown issuer is accepted.
    OptionalNoAuthority,
}

/// The requirements for clients' certificates.
#[derive(Debug, Clone)]
pub(crate) struct ClientDemands {
    pub(crate) verify: VerifyPlan,
    pub(crate) check: Arc<ClientCheck>,
    /// `ssl_ocsp`
    pub(crate) status: Option<Arc<ClientStatusPlan>>,
}

/// Protocols that handshakes of a server's certificates offer: servers with and without HTTP/2 may share a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Offers {
    pub(crate) http1: bool,
    pub(crate) http2: bool,
}

/// TLS of a server.
#[derive(Debug, Clone)]
pub(crate) struct TlsPlan {
    /// Where it was written.
    pub(crate) span: Span,
    /// Distinguishes the sessions of this server from those of others.
    pub(crate) session_name: String,
    /// The first one that suits a client is shown. Empty with `reject` or `acme` only.
    pub(crate) pairs: Vec<PairPlan>,
    /// In place of `pairs`, if their names have variables.
    pub(crate) made: Option<Arc<MadePairs>>,
    /// `$acme_certificate`: the certificate of this order, in place of `pairs`.
    pub(crate) acme: Option<AcmeOrderId>,
    /// `ssl_stapling` for that certificate.
    pub(crate) acme_stapling: Option<Arc<StaplingPlan>>,
    /// `ssl_reject_handshake`
    pub(crate) reject: bool,
    pub(crate) protocols: Protocols,
    pub(crate) ciphers: Ciphers,
    pub(crate) curves: Curves,
    pub(crate) prefer_server_ciphers: bool,
    /// `ssl_buffer_size`, as far as records can be that long.
    pub(crate) record_bytes_max: usize,
    pub(crate) cache: Option<SessionCachePlan>,
    /// `ssl_session_timeout`
    pub(crate) session_seconds: u32,
    /// `ssl_session_tickets`
    pub(crate) tickets: bool,
    /// `ssl_session_ticket_key`: the first one encrypts. If empty, the process uses keys of its own.
    pub(crate) ticket_keys: Vec<Box<[u8]>>,
    /// `ssl_certificate_compression`
    pub(crate) compress: bool,
    /// `ssl_early_data`
    pub(crate) early_data: bool,
    /// Whether it offers HTTP/1, HTTP/2, or both.
    pub(crate) offers: Offers,
    /// `ssl_alpn` of `stream`: offered in place of HTTP's protocols.
    pub(crate) alpn: Option<Vec<String>>,
    /// A variable uses the client's offers.
    pub(crate) keep_offers: bool,
    pub(crate) demands: Option<ClientDemands>,
}

impl TlsPlan {
    /// Whether OCSP answers about its clients' certificates are kept in the cache with this name and size.
    pub(crate) fn keeps_client_statuses(&self, cache: &(Box<str>, u64)) -> bool {
        let status = self.demands.as_ref().and_then(|demands| demands.status.as_ref());
        status.and_then(|status| status.cache.as_ref()).is_some_and(|kept| kept == cache)
    }
}
