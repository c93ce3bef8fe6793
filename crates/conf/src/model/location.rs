//! Locations: what they match, what holds in them, what they answer with.

use std::sync::Arc;

use super::accepted::AcceptedSettings;
use super::client::ClientSettings;
use super::files::{FileSettings, TryFiles};
use super::gzip::GzipSettings;
use super::limit::LimitSettings;
use super::log::LogSettings;
use super::proxy::{ProxyPass, ProxySettings};
use super::realip::RealIpSettings;
use super::response::ResponseSettings;
use super::rewrite::Program;
use super::settings::level;
use super::transport::TransportSettings;
use super::upstream_tls::UpstreamTlsSettings;
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
        /// Compression.
        gzip: GzipSettings,
        /// Limits.
        limit: LimitSettings,
        /// Real addresses.
        realip: RealIpSettings,
        /// What the proxy says.
        proxy: ProxySettings,
        /// How it moves bytes.
        transport: TransportSettings,
        /// TLS towards its upstream.
        upstream_tls: UpstreamTlsSettings,
        /// What has no effect.
        accepted: AcceptedSettings,
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
