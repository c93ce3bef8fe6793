//! The typed configuration: what the gateway and the tools read. Every value has its unit, every level is merged, every
//! name inside the configuration is resolved to an index. Variables are left to `rules`, DNS to the control plane.
//!
//! One module per subject holds both the types and the way in which directives become them; `lower` walks the tree.

mod accepted;
mod acme;
mod client;
#[cfg(test)]
mod coverage;
mod env;
mod files;
mod gzip;
mod health_check;
mod inside;
mod limit;
mod listen;
mod location;
mod log;
mod lower;
mod main_settings;
mod map;
mod proxy;
mod proxy_pass;
mod realip;
mod response;
mod rewrite;
mod server;
mod settings;
mod sticky;
mod tls;
mod transport;
mod upstream;
mod upstream_server;
mod upstream_tls;

pub use accepted::AcceptedSettings;
pub use acme::{
    AccountKey, AcmeCertificate, AcmeChallenge, AcmeIdentifier, AcmeIssuer, AcmeIssuerId, AcmeIssuerSettings,
    AcmeProfile, CertificateKey, ExternalAccountKey, ExternalKeySource, NamedFile, StatePath,
};
pub use client::{Amount, BodyInFile, ClientSettings, KeepaliveTimeout, LingeringClose, Resolver, TempPath};
pub use files::{FileSettings, IfModifiedSince, Root, TryFallback, TryFile, TryFiles, Types};
pub use gzip::{GzipDisable, GzipSettings, HttpVersion, MediaTypes};
pub use health_check::{CheckCondition, CheckKind, HealthCheck, TextTest};
pub use limit::{ConnectionLimit, ConnectionZone, LimitSettings, RequestLimit, RequestZone, ZoneId};
pub use listen::{FastOpen, Listen, ListenOptions, Listener, SoKeepalive};
pub use location::{Content, LimitExcept, Location, LocationSettings, Matcher};
pub use log::{AccessLog, ErrorLog, Escape, LogFileCache, LogFormat, LogFormatId, LogSettings, LogTarget, Syslog};
pub use lower::{Options, lower, lower_with};
pub use main_settings::{
    Affinity, EnvVariable, Events, EventsSettings, Main, MainSettings, MemoryBudget, Shed, User, WorkerProcesses,
};
pub use map::{Geo, GeoEntry, GeoRange, Map, MapKey, SplitClients, SplitPart};
pub use proxy::{
    CookieFlags, CookiePattern, CookieRewrite, FixedPass, ProxyPass, ProxySettings, Redirect, Scheme, SetHeader,
    UpstreamId,
};
pub use realip::{RealIpHeader, RealIpSettings};
pub use response::{
    AccessRule, AddHeader, ErrorPage, ErrorStatus, ErrorTarget, Expires, HeaderInherit, ResponseSettings, Satisfy,
    ServerTokens, parse_expires_text,
};
pub use rewrite::{Condition, If, Instruction, Program, Return, ReturnBody, Rewrite, RewriteFlag};
pub use server::{HeadSettings, Http, NameForm, Server, ServerId, ServerName, ServerSettings};
pub use tls::{CertificateCache, ConfCommand, Ocsp, PemSource, SessionCache, SharedZone, TlsSettings, VerifyClient};
pub use transport::{Bind, BindAddress, TransportSettings};
pub use upstream::{
    Balance, ConnectionCap, Keepalive, RandomPick, Sticky, TimeMeasure, Upstream, UpstreamPeer, UpstreamServer,
    UpstreamSettings,
};
pub use upstream_tls::UpstreamTlsSettings;

/// A whole configuration.
#[derive(Debug, Clone)]
pub struct Model {
    /// The top level.
    pub main: Main,
    /// `events`
    pub events: Events,
    /// `http`, where there is one.
    pub http: Option<Http>,
}
