//! Locations: what they match, what holds in them, what they answer with.

use std::sync::Arc;

use super::accepted::AcceptedSettings;
use super::access::AccessSettings;
use super::application::{ApplicationSettings, UwsgiSettings};
use super::cache::CacheSettings;
use super::charset::CharsetSettings;
use super::client::ClientSettings;
use super::files::{FileSettings, TryFiles};
use super::filters::FilterSettings;
use super::gzip::GzipSettings;
use super::limit::LimitSettings;
use super::log::LogSettings;
use super::more_headers::MoreHeadersSettings;
use super::proxy::{ProxyPass, ProxySettings, Scheme};
use super::realip::RealIpSettings;
use super::response::ResponseSettings;
use super::rewrite::Program;
use super::settings::level;
use super::transport::TransportSettings;
use super::upstream_tls::UpstreamTlsSettings;
use super::user_id::UserIdSettings;
use crate::source::Span;
use crate::value::Regex;
use crate::value::words::MethodSet;

level! {
    /// What holds in a location, merged from `http`, `server` and the locations around it. Groups that a level does not
    /// touch are shared with the level around it.
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
        /// Compression.
        gzip: GzipSettings,
        /// Character sets.
        charset: CharsetSettings,
        /// Filters.
        filters: FilterSettings,
        /// Fields that are set and cleared.
        more_headers: MoreHeadersSettings,
        /// Cookies that tell clients apart.
        user_id: UserIdSettings,
        /// Limits.
        limit: LimitSettings,
        /// Real addresses.
        realip: RealIpSettings,
        /// What the proxy says.
        proxy: ProxySettings,
        /// How it moves bytes.
        transport: TransportSettings,
        /// What is kept of its responses.
        cache: CacheSettings,
        /// What `fastcgi_pass` says and passes back.
        fastcgi: ProxySettings in "fastcgi_",
        /// How it moves bytes.
        fastcgi_transport: TransportSettings in "fastcgi_",
        /// What is kept of its responses.
        fastcgi_cache: CacheSettings in "fastcgi_",
        /// What only applications have.
        fastcgi_words: ApplicationSettings,
        /// What `scgi_pass` says and passes back.
        scgi: ProxySettings in "scgi_",
        /// How it moves bytes.
        scgi_transport: TransportSettings in "scgi_",
        /// What is kept of its responses.
        scgi_cache: CacheSettings in "scgi_",
        /// What only applications have.
        scgi_words: ApplicationSettings in "scgi_",
        /// What `uwsgi_pass` says and passes back.
        uwsgi: ProxySettings in "uwsgi_",
        /// How it moves bytes.
        uwsgi_transport: TransportSettings in "uwsgi_",
        /// What is kept of its responses.
        uwsgi_cache: CacheSettings in "uwsgi_",
        /// What only applications have.
        uwsgi_words: ApplicationSettings in "uwsgi_",
        /// What only uwsgi has.
        uwsgi_modifiers: UwsgiSettings,
        /// What `grpc_pass` says and passes back.
        grpc: ProxySettings in "grpc_",
        /// How it moves bytes.
        grpc_transport: TransportSettings in "grpc_",
        /// TLS towards its upstream.
        grpc_tls: UpstreamTlsSettings in "grpc_",
        /// TLS towards the proxy's upstream.
        upstream_tls: UpstreamTlsSettings,
        /// What has no effect.
        accepted: AcceptedSettings,
    }
}

impl LocationSettings {
    /// The words that only applications have; none for a scheme of HTTP.
    pub fn application_words(&self, scheme: Scheme) -> Option<&ApplicationSettings> {
        match scheme {
            Scheme::Http | Scheme::Https | Scheme::Grpc | Scheme::Grpcs => None,
            Scheme::Fastcgi => Some(&self.fastcgi_words),
            Scheme::Scgi => Some(&self.scgi_words),
            Scheme::Uwsgi => Some(&self.uwsgi_words),
        }
    }

    /// The words that hold for a scheme: what is sent to upstreams, and how bytes are moved.
    pub fn words_of(&self, scheme: Scheme) -> (&ProxySettings, &TransportSettings) {
        match scheme {
            Scheme::Http | Scheme::Https => (&self.proxy, &self.transport),
            Scheme::Fastcgi => (&self.fastcgi, &self.fastcgi_transport),
            Scheme::Scgi => (&self.scgi, &self.scgi_transport),
            Scheme::Uwsgi => (&self.uwsgi, &self.uwsgi_transport),
            Scheme::Grpc | Scheme::Grpcs => (&self.grpc, &self.grpc_transport),
        }
    }

    /// The words of TLS towards upstreams of a scheme.
    pub fn upstream_tls_of(&self, scheme: Scheme) -> &Arc<UpstreamTlsSettings> {
        if scheme.is_grpc() { &self.grpc_tls } else { &self.upstream_tls }
    }
}

/// What a location matches.
#[derive(Debug, Clone, PartialEq)]
pub enum Matcher {
    /// `= /x`
    Exact(Vec<u8>),
    /// `/x`
    Prefix(Vec<u8>),
    /// `^~ /x`: as a prefix, and expressions are not tried.
    PrefixNoRegex(Vec<u8>),
    /// `~ x`, `~* x`
    Regex(Regex),
    /// `@x`, without the sign.
    Named(String),
}

impl Matcher {
    /// The URI that is compared, where it is no expression and no name.
    pub fn uri(&self) -> Option<&[u8]> {
        match self {
            Self::Exact(uri) | Self::Prefix(uri) | Self::PrefixNoRegex(uri) => Some(uri),
            Self::Regex(_) | Self::Named(_) => None,
        }
    }
}

/// What answers. Where a location has no content of its own, files do, under its `root`.
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
    /// What answers; `None` is files.
    pub content: Option<Content>,
    /// A prefix that ends in `/` and answers by proxy redirects requests without that slash to it (301).
    pub auto_redirect: bool,
    /// `try_files`
    pub try_files: Option<Box<TryFiles>>,
    /// Its rewrite program. It is not inherited: inner locations have their own.
    pub program: Program,
    /// `limit_except`
    pub limit_except: Option<Box<LimitExcept>>,
    /// Locations inside, in the order of the text.
    pub locations: Vec<Location>,
    /// Where it was written: the name and its arguments.
    pub span: Span,
}

/// `limit_except`: what holds for all other methods.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitExcept {
    /// Methods that it does not concern.
    pub methods: MethodSet,
    /// What holds for the others.
    pub settings: Arc<LocationSettings>,
    /// What answers the others: its own, or that of the location around it.
    pub content: Option<Content>,
    /// Where it was written.
    pub span: Span,
}
