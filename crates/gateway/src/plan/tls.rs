//! TLS of a server towards clients: what its words say, with the files that they name as they were read.

use crate::plan::acme::AcmeOrderId;
use conf::source::Span;
use std::path::PathBuf;
use std::sync::Arc;
use tls::{Ciphers, ClientCheck, Curves, Pair, Protocols};

/// Where a certificate or a key comes from. Together they are the identity of what the registry keeps through reloads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MaterialSource {
    /// A file, by its absolute path.
    File(PathBuf),
    /// It is in the configuration itself (`data:…`).
    Text(Box<[u8]>),
}

/// A certificate with its key, by where they come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PairSource {
    pub(crate) certificate: MaterialSource,
    pub(crate) key: MaterialSource,
    /// `ssl_password_file`
    pub(crate) passwords: Option<PathBuf>,
    /// `ssl_stapling_file`: a response of OCSP that is sent along.
    pub(crate) stapled: Option<PathBuf>,
}

/// A certificate with its key, as the configuration was read.
#[derive(Debug, Clone)]
pub(crate) struct PairPlan {
    pub(crate) source: PairSource,
    pub(crate) pair: Pair,
    /// Tells whether the bytes have changed.
    pub(crate) fingerprint: u64,
}

/// `ssl_session_cache`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachePlan {
    /// `shared:name:…`; one without a name is the server's own.
    pub(crate) name: Option<String>,
    pub(crate) size: CacheSize,
}

/// What a cache may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CacheSize {
    Sessions(usize),
    /// As many as nginx has room for in these.
    Bytes(usize),
}

/// `ssl_verify_client`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerifyPlan {
    Required,
    Optional,
    /// An issuer that is not known is let through.
    OptionalNoAuthority,
}

/// What is asked of clients' certificates.
#[derive(Debug, Clone)]
pub(crate) struct ClientDemands {
    pub(crate) verify: VerifyPlan,
    pub(crate) check: Arc<ClientCheck>,
}

/// TLS of a server.
#[derive(Debug, Clone)]
pub(crate) struct TlsPlan {
    /// Where it was written.
    pub(crate) span: Span,
    /// What tells the sessions of this server from those of others.
    pub(crate) session_name: String,
    /// The first one that fits a client is shown. None with `reject` or `acme` only.
    pub(crate) pairs: Vec<PairPlan>,
    /// `$acme_certificate`: the certificate that this order brings, instead of `pairs`.
    pub(crate) acme: Option<AcmeOrderId>,
    /// `ssl_reject_handshake`
    pub(crate) reject: bool,
    pub(crate) protocols: Protocols,
    pub(crate) ciphers: Ciphers,
    pub(crate) curves: Curves,
    pub(crate) prefer_server_ciphers: bool,
    /// `ssl_buffer_size` as far as records can be filled.
    pub(crate) record_bytes_max: usize,
    pub(crate) cache: Option<CachePlan>,
    /// `ssl_session_timeout`
    pub(crate) session_seconds: u32,
    /// `ssl_session_tickets`
    pub(crate) tickets: bool,
    /// `ssl_session_ticket_key`: the first one seals. Without any, the process has keys of its own.
    pub(crate) ticket_keys: Vec<Box<[u8]>>,
    /// `ssl_certificate_compression`
    pub(crate) compress: bool,
    /// `ssl_early_data`
    pub(crate) early_data: bool,
    /// A variable asks for what clients offer.
    pub(crate) keep_offers: bool,
    pub(crate) demands: Option<ClientDemands>,
}
