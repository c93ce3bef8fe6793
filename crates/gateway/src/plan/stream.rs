//! `stream`: its servers, and the targets of their sessions.

use crate::plan::access::RealIpPlan;
use crate::plan::filters::SizePlan;
use crate::plan::group::GroupUseId;
use crate::plan::limits::LimitPlan;
use crate::plan::logs::{AccessLogPlan, ErrorLogId};
use crate::plan::name::ResolverPlan;
use crate::plan::proxy::SourcePlan;
use crate::plan::tls::TlsPlan;
use crate::plan::tunnel::TunnelPlan;
use crate::plan::upstream_tls::UpstreamTlsPlan;
use crate::plan::variable_pass::GuestsId;
use conf::model::{AccessRule, ProxyGreeting};
use reactor::{ConnectOptions, PeerAddress};
use rules::template::Template;
use rules::user_variables::Definitions;
use rules::variable::Slot;
use std::sync::Arc;
use std::time::Duration;
use upstream::retry::Conditions;

/// Index of a [`StreamProxyPlan`] in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamProxyId(pub(crate) u32);

/// The configuration of `stream`.
#[derive(Default)]
pub(crate) struct StreamPlan {
    /// By the numbers in the listeners' names.
    pub(crate) servers: Vec<StreamServerPlan>,
    /// How the variables of `stream` get their values.
    pub(crate) definitions: Definitions,
    /// By [`StreamProxyId`].
    pub(crate) proxies: Vec<Arc<StreamProxyPlan>>,
}

/// One `server`.
pub(crate) struct StreamServerPlan {
    /// `$server_name`: the first name.
    pub(crate) name: Box<[u8]>,
    /// `set`, in order.
    pub(crate) sets: Vec<(Slot, Template)>,
    pub(crate) real_ip: Option<Box<RealIpPlan>>,
    /// `allow` and `deny`, in order.
    pub(crate) access: Vec<AccessRule>,
    pub(crate) limits: Option<Box<LimitPlan>>,
    /// Its TLS towards clients, if it uses TLS.
    pub(crate) tls: Option<Box<TlsPlan>>,
    /// `ssl_handshake_timeout`
    pub(crate) handshake_timeout: Duration,
    /// `ssl_preread`
    pub(crate) preread: Option<PrereadPlan>,
    pub(crate) content: StreamContentPlan,
    pub(crate) access_logs: Vec<AccessLogPlan>,
    pub(crate) error_log: Option<ErrorLogId>,
    pub(crate) proxy_protocol_timeout: Duration,
    pub(crate) nodelay: bool,
    pub(crate) warns_uninitialized: bool,
}

/// What is read from a client before its peer is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrereadPlan {
    pub(crate) bytes_max: usize,
    pub(crate) timeout: Duration,
}

/// What a session gets.
pub(crate) enum StreamContentPlan {
    Proxy(StreamProxyId),
    /// `proxy_pass` with variables.
    Variable(Box<StreamVariablePlan>),
    /// Send a text, then close.
    Return(Template),
    Pass(PassPlan),
}

/// `pass`: which listener gets the connection.
pub(crate) enum PassPlan {
    Fixed(PeerAddress),
    Variable(Template),
}

/// `proxy_pass` with variables.
pub(crate) struct StreamVariablePlan {
    pub(crate) address: Template,
    /// Groups that it may name: name in lower case, port of an implicit one, and the proxy.
    pub(crate) known: Vec<(Box<str>, Option<u16>, StreamProxyId)>,
    /// For every other address; its group has no peers.
    pub(crate) other: StreamProxyId,
    pub(crate) guests: GuestsId,
    pub(crate) resolver: Option<Arc<ResolverPlan>>,
}

/// How sessions of a server reach the peers of a group.
pub(crate) struct StreamProxyPlan {
    pub(crate) group: GroupUseId,
    /// The group as written: `$upstream_addr` if no peer could be chosen.
    pub(crate) name: Box<[u8]>,
    /// How connections are opened.
    pub(crate) connect: ConnectOptions,
    pub(crate) source: SourcePlan,
    pub(crate) connect_timeout: Duration,
    /// In which cases the next peer is tried.
    pub(crate) conditions: Conditions,
    /// 0 for no limit.
    pub(crate) tries_max: u32,
    pub(crate) tries_timeout_ms: Option<u64>,
    /// `proxy_ssl on`
    pub(crate) tls: Option<UpstreamTlsPlan>,
    /// `proxy_protocol`
    pub(crate) greeting: ProxyGreeting,
    /// `proxy_requests`: datagrams of a client in one session; 0 for no limit.
    pub(crate) requests: u32,
    /// `proxy_responses`: datagrams expected in answer to each; `None` for any number.
    pub(crate) responses: Option<u32>,
    /// `proxy_upload_rate` and `proxy_download_rate`, if written.
    pub(crate) rates: [Option<SizePlan>; 2],
    pub(crate) tunnel: TunnelPlan,
}
