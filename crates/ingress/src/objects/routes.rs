//! `gateway.networking.k8s.io`: the routes. A `GRPCRoute` has filters and backends of the same form as an `HTTPRoute`.

use super::gateway::ObjectReference;
use super::{Metadata, object};
use serde::{Deserialize, Serialize};

/// Where a route attaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParentReference {
    /// The group of the parent.
    pub group: Option<String>,
    /// `Gateway` (missing), `ListenerSet`, or another.
    pub kind: Option<String>,
    /// Its namespace, if it is another one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// One listener.
    pub section_name: Option<String>,
    /// The listeners of one port.
    pub port: Option<u16>,
}

/// What controllers wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteStatus {
    /// One for each parent and controller.
    pub parents: Vec<RouteParentStatus>,
}

/// The state of a route at one parent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteParentStatus {
    /// The parent.
    pub parent_ref: ParentReference,
    /// The controller that wrote it.
    pub controller_name: String,
}

/// Rules of a `HTTPRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpRoute {
    /// Name, labels.
    pub metadata: Metadata,
    /// The rules.
    pub spec: HttpRouteSpec,
    /// What controllers wrote.
    pub status: RouteStatus,
}
object!(HttpRoute, HttpRoute);

/// The specification of a `HTTPRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// Where it attaches.
    pub parent_refs: Vec<ParentReference>,
    /// Its hostnames; empty for those of the listener.
    pub hostnames: Vec<String>,
    /// The rules.
    pub rules: Vec<HttpRule>,
}

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpRule {
    /// Its name.
    pub name: Option<String>,
    /// One of them must match; empty: all requests.
    pub matches: Vec<HttpMatch>,
    /// What is changed.
    pub filters: Vec<HttpFilter>,
    /// Where its requests go.
    pub backend_refs: Vec<BackendRef>,
    /// Time limits.
    pub timeouts: Option<HttpTimeouts>,
    /// When a request is sent again.
    pub retry: Option<HttpRetry>,
    /// Requests of one session go to one Pod.
    pub session_persistence: Option<SessionPersistence>,
}

/// Conditions that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpMatch {
    /// On the path.
    pub path: Option<PathMatch>,
    /// On fields.
    pub headers: Vec<ValueMatch>,
    /// On arguments.
    pub query_params: Vec<ValueMatch>,
    /// On the method.
    pub method: Option<String>,
}

/// A condition on the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathMatch {
    /// `Exact`, `PathPrefix` (missing), `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The path; missing: `/`.
    pub value: Option<String>,
}

/// A condition on a field or an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ValueMatch {
    /// `Exact` (missing), `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A change to requests or responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpFilter {
    /// Which of the others counts.
    #[serde(rename = "type")]
    pub kind: String,
    /// Fields of the request.
    pub request_header_modifier: Option<HeaderFilter>,
    /// Fields of the response.
    pub response_header_modifier: Option<HeaderFilter>,
    /// Copies of the request.
    pub request_mirror: Option<MirrorFilter>,
    /// A redirect instead of a backend.
    pub request_redirect: Option<RedirectFilter>,
    /// Another path or host.
    pub url_rewrite: Option<UrlRewriteFilter>,
    /// Cross-origin requests.
    pub cors: Option<CorsFilter>,
    /// A filter of an implementation: not supported.
    pub extension_ref: Option<ObjectReference>,
}

/// Changes to fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeaderFilter {
    /// Replaced.
    pub set: Vec<HeaderValue>,
    /// Added.
    pub add: Vec<HeaderValue>,
    /// Removed.
    pub remove: Vec<String>,
}

/// A field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeaderValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Copies of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MirrorFilter {
    /// Where they go.
    pub backend_ref: BackendRef,
    /// How many of a hundred.
    pub percent: Option<i32>,
    /// How many.
    pub fraction: Option<Fraction>,
}

/// A part of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Fraction {
    /// The number of requests that are copied …
    pub numerator: i32,
    /// … among this many; missing: 100.
    pub denominator: Option<i32>,
}

/// A redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RedirectFilter {
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// The host.
    pub hostname: Option<String>,
    /// The path.
    pub path: Option<PathModifier>,
    /// The port.
    pub port: Option<u16>,
    /// 301, 302 (missing), 303, 307, 308.
    pub status_code: Option<u16>,
}

/// Another path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathModifier {
    /// `ReplaceFullPath` or `ReplacePrefixMatch`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The whole path.
    pub replace_full_path: Option<String>,
    /// In place of the prefix that matched.
    pub replace_prefix_match: Option<String>,
}

/// Another host or path for the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UrlRewriteFilter {
    /// The host.
    pub hostname: Option<String>,
    /// The path.
    pub path: Option<PathModifier>,
}

/// Cross-origin requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CorsFilter {
    /// Origins, perhaps with `*`.
    pub allow_origins: Vec<String>,
    /// Whether cookies may be sent.
    pub allow_credentials: Option<bool>,
    /// Methods, or `*`.
    pub allow_methods: Vec<String>,
    /// Fields of requests, or `*`.
    pub allow_headers: Vec<String>,
    /// Fields of responses.
    pub expose_headers: Vec<String>,
    /// Seconds that an answer may be kept.
    pub max_age: Option<i64>,
}

/// Time limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpTimeouts {
    /// Of a whole request.
    pub request: Option<String>,
    /// Of one attempt.
    pub backend_request: Option<String>,
}

/// When a request is sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpRetry {
    /// After these statuses.
    pub codes: Vec<u16>,
    /// How often.
    pub attempts: Option<u32>,
    /// The pause before it.
    pub backoff: Option<String>,
}

/// Requests of one session go to one Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionPersistence {
    /// The name of the cookie or field.
    pub session_name: Option<String>,
    /// How long a session lasts.
    pub absolute_timeout: Option<String>,
    /// How long it may be idle.
    pub idle_timeout: Option<String>,
    /// `Cookie` (missing) or `Header`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The cookie.
    pub cookie_config: Option<CookieConfig>,
}

/// A cookie of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CookieConfig {
    /// `Session` (missing) or `Permanent`.
    pub lifetime_type: Option<String>,
}

/// Where requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendRef {
    /// The group; missing: the core group.
    pub group: Option<String>,
    /// `Service` (missing) or another.
    pub kind: Option<String>,
    /// Its name.
    pub name: String,
    /// Its namespace, if it is another one.
    pub namespace: Option<String>,
    /// The port of the Service.
    pub port: Option<u16>,
    /// Its share; missing: 1.
    pub weight: Option<u32>,
    /// Changes for this backend only.
    pub filters: Vec<HttpFilter>,
}

/// Rules of a `GRPCRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcRoute {
    /// Name, labels.
    pub metadata: Metadata,
    /// The rules.
    pub spec: GrpcRouteSpec,
    /// What controllers wrote.
    pub status: RouteStatus,
}
object!(GrpcRoute, GrpcRoute);

/// The specification of a `GRPCRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// Where it attaches.
    pub parent_refs: Vec<ParentReference>,
    /// Its hostnames; empty for those of the listener.
    pub hostnames: Vec<String>,
    /// The rules.
    pub rules: Vec<GrpcRule>,
}

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcRule {
    /// Its name.
    pub name: Option<String>,
    /// One of them must match; empty: all calls.
    pub matches: Vec<GrpcMatch>,
    /// What is changed.
    pub filters: Vec<HttpFilter>,
    /// Where its calls go.
    pub backend_refs: Vec<BackendRef>,
    /// Calls of one session go to one Pod.
    pub session_persistence: Option<SessionPersistence>,
}

/// Conditions that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcMatch {
    /// On the method.
    pub method: Option<GrpcMethodMatch>,
    /// On metadata.
    pub headers: Vec<ValueMatch>,
}

/// A condition on the method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcMethodMatch {
    /// `Exact` (missing) or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The service.
    pub service: Option<String>,
    /// The method.
    pub method: Option<String>,
}

/// Rules of a `TLSRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TlsRoute {
    /// Name, labels.
    pub metadata: Metadata,
    /// The rules.
    pub spec: TlsRouteSpec,
    /// What controllers wrote.
    pub status: RouteStatus,
}
object!(TlsRoute, TlsRoute);

/// The specification of a `TLSRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// Where it attaches.
    pub parent_refs: Vec<ParentReference>,
    /// Its hostnames; empty for those of the listener.
    pub hostnames: Vec<String>,
    /// The rules.
    pub rules: Vec<StreamRule>,
}

/// Rules of a `TCPRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TcpRoute {
    /// Name, labels.
    pub metadata: Metadata,
    /// The rules.
    pub spec: TcpRouteSpec,
    /// What controllers wrote.
    pub status: RouteStatus,
}
object!(TcpRoute, TcpRoute);

/// The specification of a `TCPRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TcpRouteSpec {
    /// Where it attaches.
    pub parent_refs: Vec<ParentReference>,
    /// The rules.
    pub rules: Vec<StreamRule>,
}

/// Rules of a `UDPRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UdpRoute {
    /// Name, labels.
    pub metadata: Metadata,
    /// The rules.
    pub spec: UdpRouteSpec,
    /// What controllers wrote.
    pub status: RouteStatus,
}
object!(UdpRoute, UdpRoute);

/// The specification of a `UDPRoute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UdpRouteSpec {
    /// Where it attaches.
    pub parent_refs: Vec<ParentReference>,
    /// The rules.
    pub rules: Vec<StreamRule>,
}

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StreamRule {
    /// Its name.
    pub name: Option<String>,
    /// Where its connections go.
    pub backend_refs: Vec<BackendRef>,
}
