//! A server's settings, made once and shared by its connections; the listener that chooses among servers by the client's first
//! message; the certificates, which can be replaced while connections use the rest.

use crate::error::SetupError;
use crate::hello::ClientHello;
use crate::names::{self, Ciphers, Curves, Protocols};
use crate::notes;
use crate::pair::Pair;
use crate::peer::ClientCheck;
use crate::resume::{NoSessions, Resumption, SessionCache, TicketKeys};
use crate::session::RECORD_BYTES_MAX;
use rustls::server::{NoClientAuth, ResolvesServerCert, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::{Error, ProtocolVersion, ServerConfig, SignatureScheme};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

/// Smallest records that can be asked for: the smallest that clients may ask for (RFC 6066 §4). Below, heads and tags outweigh data.
const RECORD_BYTES_LEAST: usize = 512;

/// What a listener does with a client.
#[derive(Debug, Clone)]
pub enum Choice {
    /// This server takes it.
    Serve(Arc<ServerSide>),
    /// This server takes it, with a certificate that has to be found first. The number is the listener's: it comes back from
    /// [`crate::Session::awaits_certificate`].
    ServeLater(Arc<ServerSide>, u32),
    /// Its name is refused, as by `ssl_reject_handshake`.
    Refuse,
}

/// Chooses the server of a connection by the client's first message: its name, as nginx has names with wildcards, for example.
pub trait Listener: Debug + Send + Sync {
    /// Called once for each connection.
    fn choose(&self, hello: &ClientHello<'_>) -> Choice;
}

/// A listener with one server for all names.
#[derive(Debug, Clone)]
pub struct OneServer(pub Arc<ServerSide>);

impl Listener for OneServer {
    fn choose(&self, _hello: &ClientHello<'_>) -> Choice {
        Choice::Serve(Arc::clone(&self.0))
    }
}

/// Certificates of a server with their keys. Replacing them counts for the handshakes that begin afterwards. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Pairs(Arc<RwLock<Vec<Arc<CertifiedKey>>>>);

impl Pairs {
    /// The first pair that fits a client is used: those with the keys that are preferred come first.
    pub fn new(pairs: impl IntoIterator<Item = Pair>) -> Self {
        let new = Self::default();
        new.replace(pairs);
        new
    }

    /// Replaces the current certificates with these.
    pub fn replace(&self, pairs: impl IntoIterator<Item = Pair>) {
        let keys = pairs.into_iter().map(|pair| Arc::clone(pair.key())).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}

impl ResolvesServerCert for Pairs {
    fn resolve(&self, hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pairs = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let can = |schemes: &[SignatureScheme]| pairs.iter().find(|pair| pair.key.choose_scheme(schemes).is_some());
        let offered = hello.signature_schemes();
        notes::note_offered(offered);
        // As with OpenSSL the client's order counts, not that of the configuration.
        let fits = if pairs.len() > 1 { offered.chunks(1).find_map(can) } else { can(offered) };
        // Where none fits, rustls says what is missing.
        fits.or(pairs.first()).cloned()
    }
}

/// A server's settings. Connections hold them while they live.
#[derive(Debug)]
pub struct ServerSide {
    config: Arc<ServerConfig>,
    /// The settings for TLS 1.3, where they differ.
    tls13: Option<Arc<ServerConfig>>,
    check: Option<Arc<ClientCheck>>,
    keep_offers: bool,
    record_bytes_max: usize,
}

impl ServerSide {
    /// Settings with nginx's defaults: TLS 1.2 and 1.3, no session cache, tickets under keys of its own.
    #[expect(clippy::new_ret_no_self, reason = "a builder is how it begins")]
    pub fn new() -> ServerSideBuilder {
        ServerSideBuilder::default()
    }

    /// Whether the client speaks TLS 1.3 selects the settings.
    fn settings(&self, offers_tls13: bool) -> &Arc<ServerConfig> {
        self.tls13.as_ref().filter(|_| offers_tls13).unwrap_or(&self.config)
    }

    pub(crate) fn accept(&self, offers_tls13: bool) -> Result<UnbufferedServerConnection, Error> {
        UnbufferedServerConnection::new(Arc::clone(self.settings(offers_tls13)))
    }

    /// The same settings for a connection with certificates of its own.
    pub(crate) fn accept_with(&self, pairs: Pairs, offers_tls13: bool) -> Result<UnbufferedServerConnection, Error> {
        let mut config = ServerConfig::clone(self.settings(offers_tls13));
        config.cert_resolver = Arc::new(pairs);
        UnbufferedServerConnection::new(Arc::new(config))
    }

    /// Whether client certificates are checked as these demands say.
    pub fn asks_for(&self, demands: &ClientCheck) -> bool {
        self.check.as_ref().is_some_and(|check| check.identity() == demands.identity())
    }

    pub(crate) fn client_check(&self) -> Option<&Arc<ClientCheck>> {
        self.check.as_ref()
    }

    pub(crate) fn keeps_offers(&self) -> bool {
        self.keep_offers
    }

    pub(crate) fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }
}

/// Makes a [`ServerSide`].
#[derive(Debug, Clone)]
pub struct ServerSideBuilder {
    pairs: Pairs,
    protocols: Protocols,
    ciphers: Ciphers,
    curves: Curves,
    prefer_server_ciphers: bool,
    alpn: Vec<Vec<u8>>,
    name: String,
    cache: Option<Arc<SessionCache>>,
    tickets: Option<Arc<TicketKeys>>,
    ticket_count: usize,
    early_data_bytes_max: u32,
    check: Option<Arc<ClientCheck>>,
    keep_offers: bool,
    record_bytes_max: usize,
    compress_certificates: bool,
}

impl Default for ServerSideBuilder {
    fn default() -> Self {
        Self {
            pairs: Pairs::default(),
            protocols: Protocols::default(),
            ciphers: Ciphers::default(),
            curves: Curves::default(),
            prefer_server_ciphers: false,
            alpn: Vec::new(),
            name: String::new(),
            cache: None,
            tickets: Some(Arc::new(TicketKeys::random())),
            ticket_count: 2,
            early_data_bytes_max: 0,
            check: None,
            keep_offers: false,
            record_bytes_max: RECORD_BYTES_MAX,
            compress_certificates: false,
        }
    }
}

impl ServerSideBuilder {
    /// One certificate with its key.
    pub fn pair(self, pair: Pair) -> Self {
        self.pairs(Pairs::new([pair]))
    }

    /// Certificates that can be replaced later.
    pub fn pairs(mut self, pairs: Pairs) -> Self {
        self.pairs = pairs;
        self
    }

    /// `ssl_protocols`.
    pub fn protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }

    /// `ssl_ciphers` with `ssl_conf_command Ciphersuites`.
    pub fn ciphers(mut self, ciphers: Ciphers) -> Self {
        self.ciphers = ciphers;
        self
    }

    /// `ssl_ecdh_curve`.
    pub fn curves(mut self, curves: Curves) -> Self {
        self.curves = curves;
        self
    }

    /// `ssl_prefer_server_ciphers`.
    pub fn prefer_server_ciphers(mut self, prefer: bool) -> Self {
        self.prefer_server_ciphers = prefer;
        self
    }

    /// Protocols of ALPN, the preferred one first. With none, the extension is ignored.
    pub fn alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a str>) -> Self {
        self.alpn = protocols.into_iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// A name that distinguishes this server from others that share a cache or ticket keys. A session is resumed only if this name and
    /// the demands on client certificates are the same (CVE-2025-23419).
    pub fn session_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// `ssl_session_cache shared:…`; none is `off`.
    pub fn session_cache(mut self, cache: Option<Arc<SessionCache>>) -> Self {
        self.cache = cache;
        self
    }

    /// `ssl_session_tickets` and `ssl_session_ticket_key`; none is `off`.
    pub fn ticket_keys(mut self, keys: Option<Arc<TicketKeys>>) -> Self {
        self.tickets = keys;
        self
    }

    /// Tickets that a client of TLS 1.3 gets with its handshake: OpenSSL's 2 by default.
    pub fn ticket_count(mut self, count: usize) -> Self {
        self.ticket_count = count;
        self
    }

    /// `ssl_early_data`: bytes that are taken before the handshake is complete. rustls takes them with a session cache and without
    /// tickets only: a ticket could be sent twice. They are not taken where client certificates are asked for.
    pub fn early_data(mut self, bytes_max: u32) -> Self {
        self.early_data_bytes_max = bytes_max;
        self
    }

    /// Asks for client certificates.
    pub fn client_check(mut self, check: Arc<ClientCheck>) -> Self {
        self.check = Some(check);
        self
    }

    /// Keeps the ciphers and groups that clients offer, for `$ssl_ciphers` and `$ssl_curves`: some 100 bytes a connection.
    pub fn keep_offers(mut self) -> Self {
        self.keep_offers = true;
        self
    }

    /// `ssl_buffer_size`: plaintext of a record that is sent, 512 bytes to 16 KB. 16 KB by default, as in nginx.
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes.clamp(RECORD_BYTES_LEAST, RECORD_BYTES_MAX);
        self
    }

    /// `ssl_certificate_compression` (RFC 8879): certificates are sent compressed to clients that take zlib or brotli. Off by default.
    pub fn compress_certificates(mut self, compress: bool) -> Self {
        self.compress_certificates = compress;
        self
    }

    /// The settings, if they leave anything to agree on.
    pub fn build(self) -> Result<ServerSide, SetupError> {
        let mut provider = names::provider(&self.ciphers, &self.curves);
        provider.kx_groups = provider.kx_groups.into_iter().map(notes::noting_group).collect();
        let provider = Arc::new(provider);
        let versions = self.protocols.versions();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| SetupError::Refused(error.to_string()))?;
        let builder = match &self.check {
            Some(check) => builder.with_client_cert_verifier(Arc::clone(check).verifier()),
            None => builder.with_client_cert_verifier(Arc::new(NoClientAuth)),
        };
        let mut config = builder.with_cert_resolver(Arc::new(self.pairs));
        config.ignore_client_order = self.prefer_server_ciphers;
        config.alpn_protocols = self.alpn;
        config.send_tls13_tickets = self.ticket_count;
        if !self.compress_certificates {
            config.cert_compressors.clear();
        }
        // As nginx: a client's certificate is not taken compressed.
        config.cert_decompressors.clear();
        let is_once = self.cache.is_some() && self.tickets.is_none();
        let early = self.early_data_bytes_max > 0 && is_once && self.check.is_none();
        config.max_early_data_size = if early { self.early_data_bytes_max } else { 0 };
        // An answer to early data goes out ahead of the client's Finished.
        config.send_half_rtt_data = early;
        let context = Resumption::context(&self.name, self.check.as_deref());
        let cache = self.cache.map(|cache| Arc::new(Resumption::of_cache(cache, context)));
        config.session_storage = match &cache {
            Some(cache) => Arc::<Resumption<SessionCache>>::clone(cache),
            None => Arc::new(NoSessions),
        };
        if let Some(keys) = self.tickets {
            config.ticketer = Arc::new(Resumption::of_tickets(keys, context));
        }
        // rustls tells clients of TLS 1.3 that a cached session lasts a day. With a ticket that only names the session, the cache says
        // how long. rustls takes no early data then.
        let speaks_tls13 = versions.iter().any(|version| version.version == ProtocolVersion::TLSv1_3);
        let tls13 = cache.filter(|_| is_once && !early && speaks_tls13).map(|cache| {
            let mut config = config.clone();
            config.ticketer = cache;
            Arc::new(config)
        });
        Ok(ServerSide {
            config: Arc::new(config),
            tls13,
            check: self.check,
            keep_offers: self.keep_offers,
            record_bytes_max: self.record_bytes_max,
        })
    }
}
