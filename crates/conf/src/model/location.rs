//! Locations: their matchers, settings and content.

use std::sync::Arc;

use super::accepted::AcceptedSettings;
use super::access::AccessSettings;
use super::application::{ApplicationSettings, MemcachedSettings, UwsgiSettings};
use super::auth_jwt::JwtSettings;
use super::cache::CacheSettings;
use super::charset::CharsetSettings;
use super::client::ClientSettings;
use super::codings::{BrotliSettings, ZstdSettings};
use super::files::{FileSettings, TryFiles};
use super::filters::FilterSettings;
use super::gzip::GzipSettings;
use super::limit::LimitSettings;
use super::log::LogSettings;
use super::more_headers::MoreHeadersSettings;
use super::otel::OtelSettings;
use super::proxy::{ProxyPass, ProxySettings, Scheme};
use super::realip::RealIpSettings;
use super::response::ResponseSettings;
use super::rewrite::Program;
use super::route_to::RouteTo;
use super::settings::level;
use super::transport::TransportSettings;
use super::upstream_tls::UpstreamTlsSettings;
use super::user_id::UserIdSettings;
use crate::source::Span;
use crate::value::Regex;
use crate::value::words::MethodSet;

level! {
    /// Settings of a location, merged from `http`, `server` and the locations around it. A level shares the groups that
    /// it does not change with the level around it.
    pub struct LocationSettings {
        /// Files.
        files: FileSettings,
        /// The client's side.
        client: ClientSettings,
        /// Responses.
        response: ResponseSettings,
        /// Logs.
        log: LogSettings,
        /// Credentials and links.
        access: AccessSettings,
        /// Tokens.
        jwt: JwtSettings,
        /// Compression.
        gzip: GzipSettings,
        /// Compression with brotli.
        brotli: BrotliSettings,
        /// Compression with zstd.
        zstd: ZstdSettings,
        /// Character sets.
        charset: CharsetSettings,
        /// Filters.
        filters: FilterSettings,
        /// Header fields to set and clear.
        more_headers: MoreHeadersSettings,
        /// Cookies that identify clients.
        user_id: UserIdSettings,
        /// Traces.
        otel: OtelSettings,
        /// Limits.
        limit: LimitSettings,
        /// Real addresses.
        realip: RealIpSettings,
        /// What the proxy sends to upstreams and passes back.
        proxy: ProxySettings,
        /// Its transport.
        transport: TransportSettings,
        /// Its cache.
        cache: CacheSettings,
        /// What `fastcgi_pass` sends and passes back.
        fastcgi: ProxySettings in "fastcgi_",
        /// Its transport.
        fastcgi_transport: TransportSettings in "fastcgi_",
        /// Its cache.
        fastcgi_cache: CacheSettings in "fastcgi_",
        /// Words that only applications have.
        fastcgi_words: ApplicationSettings,
        /// What `scgi_pass` sends and passes back.
        scgi: ProxySettings in "scgi_",
        /// Its transport.
        scgi_transport: TransportSettings in "scgi_",
        /// Its cache.
        scgi_cache: CacheSettings in "scgi_",
        /// Words that only applications have.
        scgi_words: ApplicationSettings in "scgi_",
        /// What `uwsgi_pass` sends and passes back.
        uwsgi: ProxySettings in "uwsgi_",
        /// Its transport.
        uwsgi_transport: TransportSettings in "uwsgi_",
        /// Its cache.
        uwsgi_cache: CacheSettings in "uwsgi_",
        /// Words that only applications have.
        uwsgi_words: ApplicationSettings in "uwsgi_",
        /// Words that only uwsgi has.
        uwsgi_modifiers: UwsgiSettings,
        /// TLS towards its upstream.
        uwsgi_tls: UpstreamTlsSettings in "uwsgi_",
        /// What `memcached_pass` passes back.
        memcached: ProxySettings in "memcached_",
        /// Its transport.
        memcached_transport: TransportSettings in "memcached_",
        /// Words that only memcached has.
        memcached_words: MemcachedSettings,
        /// What `grpc_pass` sends and passes back.
        grpc: ProxySettings in "grpc_",
        /// Its transport.
        grpc_transport: TransportSettings in "grpc_",
        /// TLS towards its upstream.
        grpc_tls: UpstreamTlsSettings in "grpc_",
        /// TLS towards the proxy's upstream.
        upstream_tls: UpstreamTlsSettings,
        /// Directives without effect.
        accepted: AcceptedSettings,
    }
}

impl LocationSettings {
    /// The settings that only applications have; `None` for HTTP, memcached and gRPC.
    pub fn application_words(&self, scheme: Scheme) -> Option<&ApplicationSettings> {
        match scheme {
            Scheme::Http | Scheme::Https | Scheme::Memcached | Scheme::Grpc | Scheme::Grpcs => None,
            Scheme::Fastcgi => Some(&self.fastcgi_words),
            Scheme::Scgi => Some(&self.scgi_words),
            Scheme::Uwsgi | Scheme::Suwsgi => Some(&self.uwsgi_words),
        }
    }

    /// The settings for a scheme: what is sent to upstreams, and the transport.
    pub fn words_of(&self, scheme: Scheme) -> (&ProxySettings, &TransportSettings) {
        match scheme {
            Scheme::Http | Scheme::Https => (&self.proxy, &self.transport),
            Scheme::Fastcgi => (&self.fastcgi, &self.fastcgi_transport),
            Scheme::Scgi => (&self.scgi, &self.scgi_transport),
            Scheme::Uwsgi | Scheme::Suwsgi => (&self.uwsgi, &self.uwsgi_transport),
            Scheme::Memcached => (&self.memcached, &self.memcached_transport),
            Scheme::Grpc | Scheme::Grpcs => (&self.grpc, &self.grpc_transport),
        }
    }

    /// The settings of TLS towards upstreams of a scheme.
    pub fn upstream_tls_of(&self, scheme: Scheme) -> &Arc<UpstreamTlsSettings> {
        match scheme {
            Scheme::Grpc | Scheme::Grpcs => &self.grpc_tls,
            Scheme::Uwsgi | Scheme::Suwsgi => &self.uwsgi_tls,
            Scheme::Http | Scheme::Https | Scheme::Fastcgi | Scheme::Scgi | Scheme::Memcached => &self.upstream_tls,
        }
    }
}

/// What a location matches.
#[derive(Debug, Clone, PartialEq)]
pub enum Matcher {
    /// `= /x`
    Exact(Vec<u8>),
    /// `/x`
    Prefix(Vec<u8>),
    /// `^~ /x`: a prefix after which expressions are not tried.
    PrefixNoRegex(Vec<u8>),
    /// `~ x`, `~* x`
    Regex(Regex),
    /// `@x`, without the sign.
    Named(String),
}

impl Matcher {
    /// The URI to compare; `None` for an expression or a name.
    pub fn uri(&self) -> Option<&[u8]> {
        match self {
            Self::Exact(uri) | Self::Prefix(uri) | Self::PrefixNoRegex(uri) => Some(uri),
            Self::Regex(_) | Self::Named(_) => None,
        }
    }
}

/// The handler of a location. A location without its own content serves files from its `root`.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// `proxy_pass`
    Proxy(Box<ProxyPass>),
    /// `stub_status`
    StubStatus,
    /// `status_page`
    StatusPage,
    /// `empty_gif`
    EmptyGif,
}

/// One `location`.
#[derive(Debug, Clone, PartialEq)]
pub struct Location {
    /// What it matches.
    pub matcher: Matcher,
    /// What holds in it, merged.
    pub settings: Arc<LocationSettings>,
    /// The handler; `None` serves files.
    pub content: Option<Content>,
    /// Whether requests without the final slash are redirected to it (301): for a prefix or an exact URI that ends in
    /// `/` and is passed to an upstream.
    pub auto_redirect: bool,
    /// `try_files`
    pub try_files: Option<Box<TryFiles>>,
    /// `route_to`, in the order of the text.
    pub routes: Vec<RouteTo>,
    /// Its rewrite program. It is not inherited: inner locations have their own.
    pub program: Program,
    /// `limit_except`
    pub limit_except: Option<Box<LimitExcept>>,
    /// Locations inside, in the order of the text.
    pub locations: Vec<Location>,
    /// Where it was written: the name and its arguments.
    pub span: Span,
}

/// `limit_except`: the settings for all other methods.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitExcept {
    /// The methods that keep the location's own settings.
    pub methods: MethodSet,
    /// The settings for the other methods.
    pub settings: Arc<LocationSettings>,
    /// The handler of the other methods: its own, or that of the location around it.
    pub content: Option<Content>,
    /// Where it was written.
    pub span: Span,
}
