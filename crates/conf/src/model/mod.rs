//! The typed configuration: what the gateway and the tools read. Every value has its unit, every level is merged, and
//! every name inside the configuration is an index. `rules` resolves variables, the control plane resolves DNS names.
//!
//! One module per subject holds both the types and their parsers; `lower` walks the tree.

mod accepted;
mod access;
mod acme;
mod application;
mod auth_jwt;
mod cache;
mod charset;
mod client;
mod codings;
#[cfg(test)]
mod coverage;
mod env;
mod files;
mod filters;
mod geoip2;
mod gzip;
mod health_check;
mod http2;
mod inside;
mod limit;
mod listen;
mod location;
mod log;
mod lower;
mod main_settings;
mod map;
pub(crate) mod memory;
mod more_headers;
mod otel;
mod proxy;
mod proxy_pass;
mod realip;
mod response;
mod rewrite;
mod route_to;
mod server;
mod settings;
mod sticky;
mod stream;
mod tls;
mod transport;
mod upstream;
mod upstream_server;
mod upstream_tls;
mod user_id;

pub use accepted::AcceptedSettings;
pub use access::{AccessSettings, RefererName, SecureLink, ValidReferers};
pub use acme::{
    AccountKey, AcmeCertificate, AcmeChallenge, AcmeIdentifier, AcmeIssuer, AcmeIssuerId, AcmeIssuerSettings,
    AcmeProfile, CertificateKey, ExternalAccountKey, ExternalKeySource, StatePath,
};
pub use application::{ApplicationParam, ApplicationSettings, UwsgiSettings};
pub use auth_jwt::{JwtCheck, JwtRequire, JwtSettings, JwtVariable, TokenKind};
pub use cache::{CacheChoice, CachePace, CacheSettings, CacheValid, CacheZone, StoreChoice};
pub use charset::{CharsetMap, CharsetSettings};
pub use client::{Amount, BodyInFile, ClientSettings, KeepaliveTimeout, LingeringClose, Resolver, TempPath};
pub use codings::{BROTLI_LEVEL_MAX, BROTLI_WINDOW_MAX, BrotliSettings, ZSTD_LEVEL_MAX, ZstdSettings};
pub use files::{
    FileSettings, IfModifiedSince, ListFormat, Root, SymlinkSettings, TryFallback, TryFile, TryFiles, Types,
};
pub use filters::{FilterSettings, Substitution};
pub use geoip2::{Geoip2, Geoip2Metadata, Geoip2Proxies, Geoip2Value, Geoip2Variable};
pub use gzip::{GzipDisable, GzipSettings, HttpVersion, MediaTypes, ReadyMade};
pub use health_check::{CheckCondition, CheckKind, HealthCheck, TextTest};
pub use http2::Http2Settings;
pub use limit::{ConnectionLimit, ConnectionZone, LimitSettings, RequestLimit, RequestZone, ZoneId};
pub use listen::{FastOpen, Listen, ListenOptions, Listener, SoKeepalive};
pub use location::{Content, LimitExcept, Location, LocationSettings, Matcher};
pub use log::{AccessLog, ErrorLog, Escape, LogFileCache, LogFormat, LogFormatId, LogSettings, LogTarget, Syslog};
pub use lower::{Options, lower, lower_reusing, lower_with};
pub use main_settings::{
    Affinity, CtlSocket, EnvVariable, Events, EventsSettings, Main, MainSettings, MemoryBudget, Shed, User,
    WorkerGroups, WorkerProcesses,
};
pub use map::{Geo, GeoEntry, GeoRange, Map, MapKey, SplitClients, SplitPart};
pub use memory::Frame;
pub use more_headers::{HeaderChange, HeaderCommand, HeaderEdit, HeaderName, MoreHeadersSettings};
pub use otel::{OtelEndpoint, OtelExporter, OtelExporterSettings, OtelPropagation, OtelSettings};
pub use proxy::{
    CookieFlags, CookiePattern, CookieRewrite, FixedPass, ProxyPass, ProxySettings, Redirect, Scheme, SetHeader,
};
pub use realip::{RealIpHeader, RealIpSettings};
pub use response::{
    AccessRule, AddHeader, ErrorPage, ErrorStatus, ErrorTarget, Expires, HeaderInherit, ResponseSettings, Satisfy,
    ServerTokens, SetFromSubrequest, parse_expires_text,
};
pub use rewrite::{Condition, If, Instruction, Program, Return, ReturnBody, Rewrite, RewriteFlag};
pub use route_to::{RouteCondition, RouteSubject, RouteTest, RouteTo};
pub use server::{Declared, HeadSettings, Http, NameForm, Server, ServerId, ServerName, ServerSettings};
pub use stream::{
    ProxyGreeting, RESPONSES_UNLIMITED, SessionSettings, SetVariable, Stream, StreamContent, StreamPass,
    StreamProxySettings, StreamServer, StreamSettings,
};
pub use tls::{CertificateCache, ConfCommand, Ocsp, PemSource, SessionCache, SharedZone, TlsSettings, VerifyClient};
pub use transport::{Bind, BindAddress, TransportSettings};
pub use upstream::{
    Balance, ConnectionCap, Http2Ping, Keepalive, RandomPick, Sticky, TimeMeasure, Upstream, UpstreamPeer,
    UpstreamServer, UpstreamSettings,
};
pub use upstream_tls::{SubjectName, UpstreamTlsSettings};
pub use user_id::{UserIdExpiry, UserIdMode, UserIdSettings};

/// A whole configuration.
#[derive(Debug, Clone)]
pub struct Model {
    /// The top level.
    pub main: Main,
    /// `events`
    pub events: Events,
    /// `http`, where there is one.
    pub http: Option<Http>,
    /// `stream`, where there is one.
    pub stream: Option<Stream>,
}
