//! The variables of the configuration language. A name is resolved to a [`Variable`] once, when the configuration is loaded;
//! the request path only matches on the enum. The values live elsewhere: `template::View` is asked for them.
//!
//! Order of work when a configuration is lowered: declare everything that defines variables (`set`, `map`, `geo`,
//! `split_clients`, named groups of expressions) in a [`UserVariables`], then resolve. nginx allows use before definition.

mod field;
mod idle;
mod jwt;
mod names;
mod otel;
mod tls;

pub use field::{FieldName, arg, cookie, set_cookie};
pub use idle::Idle;
pub use jwt::JwtVariable;
pub use otel::OtelVariable;
pub use tls::TlsVariable;

use rustc_hash::FxHashMap;

/// A kind of block with servers; each kind has its own variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// `http`
    #[default]
    Http,
    /// `stream`
    Stream,
}

/// Index of a user-defined variable in the exchange's `VarSlots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// More user-defined variables than this are refused: each exchange that uses any owns a table of all slots.
const SLOTS_MAX: usize = 4096;

/// A resolved variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fixed ones are nginx's documented variables, one to one; `names` has the table
pub enum Variable {
    Args,
    BinaryRemoteAddr,
    BodyBytesSent,
    BytesReceived,
    BytesSent,
    Connection,
    ConnectionRequests,
    ConnectionTime,
    ConnectionsActive,
    ConnectionsReading,
    ConnectionsWaiting,
    ConnectionsWriting,
    ContentLength,
    ContentType,
    /// `$date_gmt`
    DateGmt,
    /// `$date_local`
    DateLocal,
    DocumentRoot,
    GzipRatio,
    BrotliRatio,
    ZstdRatio,
    Host,
    Hostname,
    Http2,
    Https,
    IsArgs,
    /// `$invalid_referer`
    InvalidReferer,
    IsRequestPort,
    LimitConnStatus,
    LimitRate,
    LimitReqStatus,
    Msec,
    NginxVersion,
    Pid,
    Pipe,
    Protocol,
    ProxyAddXForwardedFor,
    ProxyHost,
    ProxyPort,
    ProxyProtocolAddr,
    ProxyProtocolPort,
    ProxyProtocolServerAddr,
    ProxyProtocolServerPort,
    RealipRemoteAddr,
    RealipRemotePort,
    RealpathRoot,
    RemoteAddr,
    RemotePort,
    RemoteUser,
    Request,
    RequestBody,
    RequestBodyFile,
    RequestCompletion,
    RequestFilename,
    RequestId,
    RequestLength,
    RequestMethod,
    RequestPort,
    RequestTime,
    /// Ours: the phases of a request that has the secret.
    RequestTrace,
    RequestUri,
    Scheme,
    /// `$secure_link`
    SecureLink,
    /// `$secure_link_expires`
    SecureLinkExpires,
    ServerAddr,
    ServerName,
    ServerPort,
    ServerProtocol,
    SessionTime,
    SslPrereadAlpnProtocols,
    SslPrereadProtocol,
    SslPrereadServerName,
    Status,
    TcpinfoRcvSpace,
    TcpinfoRtt,
    TcpinfoRttvar,
    TcpinfoSndCwnd,
    TimeIso8601,
    TimeLocal,
    UpstreamAddr,
    UpstreamBytesReceived,
    UpstreamBytesSent,
    UpstreamCacheEtag,
    UpstreamCacheLastModified,
    UpstreamCacheStatus,
    /// `$slice_range`
    SliceRange,
    UpstreamConnectTime,
    UpstreamFirstByteTime,
    UpstreamHeaderTime,
    UpstreamQueueTime,
    UpstreamResponseLength,
    UpstreamResponseTime,
    UpstreamSessionTime,
    UpstreamStatus,
    Uri,
    /// `$fastcgi_script_name`
    FastcgiScriptName,
    /// `$fastcgi_path_info`
    FastcgiPathInfo,
    /// Ours: whether the attempt went over a reused connection.
    UpstreamReused,
    /// Ours: why the upstream connection was closed.
    UpstreamCloseReason,
    /// Ours: time spent waiting for the pool.
    PoolWaitTime,
    /// Ours: the local address of the upstream connection.
    UpstreamLocalAddr,
    /// Ours: which side closed first.
    CloseSide,
    /// `$arg_name`: an argument of the query, by name in lower case.
    Arg(Box<[u8]>),
    /// `$cookie_name`: a cookie of the request.
    Cookie(Box<[u8]>),
    /// `$http_name`: a request field.
    Http(FieldName),
    /// `$sent_http_name`: a response field as sent.
    SentHttp(FieldName),
    /// `$sent_trailer_name`: a trailer field as sent.
    SentTrailer(FieldName),
    /// `$trailer_name`: a trailer field of the request.
    Trailer(FieldName),
    /// `$upstream_http_name`: a field of the upstream's response.
    UpstreamHttp(FieldName),
    /// `$upstream_trailer_name`: a trailer field of the upstream's response.
    UpstreamTrailer(FieldName),
    /// `$upstream_cookie_name`: a cookie that the upstream sets.
    UpstreamCookie(Box<[u8]>),
    /// `$proxy_protocol_tlv_name`: by name or `0x..`, without the prefix.
    ProxyProtocolTlv(Box<[u8]>),
    /// One about TLS towards the client.
    Tls(TlsVariable),
    /// A value of a JSON Web Token.
    Jwt(JwtVariable),
    /// A part of the trace context.
    Otel(OtelVariable),
    /// A variable of a module that has no effect here.
    Idle(Idle),
    /// `$uid_got`: the number of `userid` that the client sent.
    UidGot,
    /// `$uid_set`: the number that the client gets.
    UidSet,
    /// `$1` to `$9`.
    Capture(u8),
    /// `set`, `map`, `geo`, `split_clients` or a named group.
    User(Slot),
}

/// What `set` (and `auth_request_set`, and so on) may assign to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignable {
    /// `set $args`: the arguments of the request.
    Args,
    /// `set $limit_rate`: the rate of the response.
    LimitRate,
    /// A variable of the user.
    Slot(Slot),
}

/// The variables that a configuration defines, by name in lower case: nginx does not tell `$Foo` from `$foo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserVariables {
    scope: Scope,
    slots: FxHashMap<Box<str>, Slot>,
    names: Vec<Box<str>>,
}

impl UserVariables {
    /// None yet, for a block.
    pub fn of(scope: Scope) -> Self {
        Self { scope, ..Self::default() }
    }

    /// Declares `name` (without `$`), or finds its slot if it is declared already. A user variable may hide a family such
    /// as `$http_…`, but of the fixed ones only those that nginx lets change. The error is nginx's phrase.
    pub fn declare(&mut self, name: &str) -> Result<Slot, String> {
        let lower = name.to_ascii_lowercase();
        if let Some(slot) = self.slot(&lower) {
            return Ok(slot);
        }
        if names::built_in(self.scope, &lower).is_some_and(|variable| !is_changeable(&variable)) {
            return Err(format!("the duplicate \"{lower}\" variable"));
        }
        if self.names.len() >= SLOTS_MAX {
            return Err(format!("more than {SLOTS_MAX} variables"));
        }
        let slot = Slot(self.names.len() as u16);
        self.names.push(lower.as_str().into());
        self.slots.insert(lower.into(), slot);
        Ok(slot)
    }

    /// Declares `name` for `set`. `$args` and `$limit_rate` are the exchange's own.
    pub fn declare_assignable(&mut self, name: &str) -> Result<Assignable, String> {
        match names::built_in(self.scope, &name.to_ascii_lowercase()) {
            Some(Variable::Args) => Ok(Assignable::Args),
            Some(Variable::LimitRate) => Ok(Assignable::LimitRate),
            _ => self.declare(name).map(Assignable::Slot),
        }
    }

    /// The slot of a declared variable.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).or_else(|| self.slots.get(&*name.to_ascii_lowercase())).copied()
    }

    /// The name of a slot, in lower case.
    pub fn name(&self, slot: Slot) -> Option<&str> {
        self.names.get(usize::from(slot.0)).map(|name| &**name)
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The fixed variables that nginx marks as changeable.
fn is_changeable(variable: &Variable) -> bool {
    matches!(
        variable,
        Variable::Args | Variable::LimitRate | Variable::ProxyHost | Variable::ProxyPort | Variable::InvalidReferer
    )
}

impl Variable {
    /// The names of the fixed variables of `http`, except for those of TLS and those without effect.
    pub fn names() -> impl Iterator<Item = &'static str> {
        names::all(Scope::Http).iter().map(|(name, _)| *name)
    }

    /// Resolves a name without `$`; what the user declared goes first. `None` if it is unknown.
    pub fn resolve(name: &str, users: &UserVariables) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let user = users.slot(&lower).map(Self::User);
        let fixed =
            user.or_else(|| names::built_in(users.scope, &lower)).or_else(|| names::family(users.scope, &lower));
        match users.scope {
            Scope::Http => fixed
                .or_else(|| TlsVariable::find(&lower).map(Self::Tls))
                .or_else(|| Idle::find(&lower).map(Self::Idle)),
            Scope::Stream => fixed
                .or_else(|| TlsVariable::find(&lower).filter(|variable| variable.is_of_stream()).map(Self::Tls))
                .or_else(|| Idle::find(&lower).filter(|idle| idle.name().starts_with("ssl_")).map(Self::Idle)),
        }
    }

    /// The name, with `$`, for messages; only the prefix for a member of a family that is not text.
    pub fn shown(&self) -> String {
        // Of `$uri` and `$document_uri` the shorter one is the one that people write.
        let names = names::all(Scope::Http).iter().chain(names::all(Scope::Stream));
        let names = names.filter(|(_, variable)| variable == self);
        if let Some((name, _)) = names.min_by_key(|(name, _)| name.len()) {
            return format!("${name}");
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('-', "_");
        match self {
            Self::Arg(name) => format!("$arg_{}", text(name)),
            Self::Cookie(name) => format!("$cookie_{}", text(name)),
            Self::Http(name) => format!("$http_{}", text(name.dashed())),
            Self::SentHttp(name) => format!("$sent_http_{}", text(name.dashed())),
            Self::SentTrailer(name) => format!("$sent_trailer_{}", text(name.dashed())),
            Self::Trailer(name) => format!("$trailer_{}", text(name.dashed())),
            Self::UpstreamHttp(name) => format!("$upstream_http_{}", text(name.dashed())),
            Self::UpstreamTrailer(name) => format!("$upstream_trailer_{}", text(name.dashed())),
            Self::UpstreamCookie(name) => format!("$upstream_cookie_{}", text(name)),
            Self::ProxyProtocolTlv(name) => format!("$proxy_protocol_tlv_{}", text(name)),
            Self::Tls(variable) => format!("${}", variable.name()),
            Self::Idle(idle) => format!("${}", idle.name()),
            Self::Jwt(variable) => variable.shown(),
            Self::Capture(number) => format!("${number}"),
            _ => "$…".to_owned(),
        }
    }

    /// What is wrong with a name that does not resolve: nginx's phrase, and the nearest known name if one is near.
    pub fn explain_unknown(name: &str, users: &UserVariables) -> (String, Option<String>) {
        let lower = name.to_ascii_lowercase();
        let fixed = names::all(users.scope).iter().map(|(known, _)| *known);
        let modules = TlsVariable::names().chain(Idle::names());
        let modules = modules.filter(|_| users.scope == Scope::Http || lower.starts_with("ssl_"));
        let fixed = fixed.chain(modules);
        let known = fixed.chain(users.names.iter().map(|known| &**known));
        let nearest = known.map(|known| (strsim::damerau_levenshtein(known, &lower), known)).min();
        // A third of the letters may be wrong; beyond that a suggestion misleads.
        let near = nearest.filter(|(distance, _)| *distance * 3 <= lower.len());
        (format!("unknown \"{lower}\" variable"), near.map(|(_, known)| format!("did you mean `${known}`?")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str) -> Option<Variable> {
        Variable::resolve(name, &UserVariables::default())
    }

    #[test]
    fn variable_is_shown_by_its_resolved_name() {
        for name in
            ["request_id", "uri", "args", "http_x_forwarded_for", "arg_q", "upstream_http_etag", "arg_", "http2"]
        {
            assert_eq!(resolve(name).unwrap().shown(), format!("${name}"));
        }
    }

    #[test]
    fn fixed_names_and_families_resolve_without_regard_to_case() {
        assert_eq!(resolve("remote_addr"), Some(Variable::RemoteAddr));
        assert_eq!(resolve("Remote_Addr"), Some(Variable::RemoteAddr));
        assert_eq!(resolve("query_string"), Some(Variable::Args));
        assert_eq!(resolve("document_uri"), Some(Variable::Uri));
        assert_eq!(resolve("arg_ID"), Some(Variable::Arg((*b"id").into())));
        assert_eq!(resolve("http_X_Y"), Some(Variable::Http(FieldName::new("x_y"))));
        assert_eq!(resolve("upstream_http_etag"), Some(Variable::UpstreamHttp(FieldName::new("etag"))));
        assert_eq!(resolve("proxy_protocol_tlv_alpn"), Some(Variable::ProxyProtocolTlv((*b"alpn").into())));
        assert_eq!(resolve("nonsense"), None);
    }

    #[test]
    fn variable_of_an_absent_module_may_be_declared() {
        assert!(matches!(resolve("SSL_ECH_Status"), Some(Variable::Idle(idle)) if idle.name() == "ssl_ech_status"));
        let mut users = UserVariables::default();
        let slot = users.declare("geoip_country_code").unwrap();
        assert_eq!(Variable::resolve("geoip_country_code", &users), Some(Variable::User(slot)));
    }

    #[test]
    fn a_variable_about_tls_is_known_and_may_be_declared() {
        assert_eq!(resolve("SSL_Protocol"), Some(Variable::Tls(TlsVariable::Protocol)));
        assert_eq!(Variable::Tls(TlsVariable::ClientSubject).shown(), "$ssl_client_s_dn");
        let mut users = UserVariables::default();
        let slot = users.declare("ssl_protocol").unwrap();
        assert_eq!(Variable::resolve("ssl_protocol", &users), Some(Variable::User(slot)));
        let (_, hint) = Variable::explain_unknown("ssl_protocl", &UserVariables::default());
        assert_eq!(hint.as_deref(), Some("did you mean `$ssl_protocol`?"));
    }

    #[test]
    fn a_family_has_a_member_without_a_name() {
        assert_eq!(resolve("arg_"), Some(Variable::Arg(Box::default())));
        assert_eq!(resolve("http_"), Some(Variable::Http(FieldName::new(""))));
        assert_eq!(resolve("upstream_cookie_"), Some(Variable::UpstreamCookie(Box::default())));
    }

    #[test]
    fn user_variables_share_a_slot_by_name_and_hide_families() {
        let mut users = UserVariables::default();
        let slot = users.declare("Mine").unwrap();
        assert_eq!(users.declare("mine"), Ok(slot));
        assert_eq!(Variable::resolve("MINE", &users), Some(Variable::User(slot)));
        let header = users.declare("http_x").unwrap();
        assert_eq!(Variable::resolve("http_x", &users), Some(Variable::User(header)));
        assert_eq!((users.len(), users.name(header)), (2, Some("http_x")));
    }

    #[test]
    fn a_fixed_variable_cannot_be_declared_unless_it_may_change() {
        let mut users = UserVariables::default();
        assert_eq!(users.declare("host"), Err("the duplicate \"host\" variable".into()));
        assert_eq!(users.declare_assignable("args"), Ok(Assignable::Args));
        assert_eq!(users.declare_assignable("limit_rate"), Ok(Assignable::LimitRate));
        assert_eq!(users.declare_assignable("uri"), Err("the duplicate \"uri\" variable".into()));
        assert!(users.is_empty());
    }

    #[test]
    fn an_unknown_name_gets_nginx_phrase_and_the_nearest_name() {
        let (message, hint) = Variable::explain_unknown("remote_adr", &UserVariables::default());
        assert_eq!(message, "unknown \"remote_adr\" variable");
        assert_eq!(hint.as_deref(), Some("did you mean `$remote_addr`?"));
        assert_eq!(Variable::explain_unknown("xyzzy", &UserVariables::default()).1, None);
    }

    #[test]
    fn stream_has_separate_variables() {
        let users = UserVariables::of(Scope::Stream);
        assert_eq!(Variable::resolve("Session_Time", &users), Some(Variable::SessionTime));
        assert_eq!(Variable::resolve("proxy_protocol_tlv_alpn", &users), resolve("proxy_protocol_tlv_alpn"));
        for name in ["uri", "http_host", "arg_x", "http3"] {
            assert_eq!(Variable::resolve(name, &users), None, "{name}");
        }
        assert_eq!(resolve("session_time"), None);
    }

    #[test]
    fn a_variable_stays_small() {
        assert!(size_of::<Variable>() <= 32, "{}", size_of::<Variable>());
    }
}
