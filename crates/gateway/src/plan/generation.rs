//! One loaded configuration, compiled to what the request path needs: tables to look up, templates to write, numbers to
//! compare. Immutable; workers hold it by reference count, exchanges pin it. Built by `lower`.

use crate::base::body_file::BodyFiles;
use crate::base::logs::access::AccessLog;
use crate::base::logs::error::ErrorLog;
use crate::plan::access::{AccessPlan, RealIpPlan};
use crate::plan::added::AddedPlan;
use crate::plan::computed::ComputedPlan;
use crate::plan::files::{FilesPlan, RootPlan};
use crate::plan::filters::{GzipPlan, RatePlan, SizePlan};
use crate::plan::tunnel::TunnelPlan;
use crate::registry::checks::book::GroupChecks;
use crate::registry::group::GroupPlan;
use crate::registry::limit_zones::LimitPlan;
use conf::model::MemoryBudget;
use conf::value::words::KeepaliveDisable;
use http1::outgoing::{FieldLine, FieldToken};
use http1::{FieldId, Limits, Method};
use reactor::{ConnectOptions, PeerAddress};
use rules::defined::Definitions;
use rules::location::Locations;
use rules::mime::MimeTypes;
use rules::program::Program;
use rules::redirect::Redirects;
use rules::reply::ErrorPages;
use rules::server_name::ServerNames;
use rules::set_cookie::CookieRules;
use rules::template::Template;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use upstream::retry::Conditions;
use upstream::shared::KeyId;

/// Number of a listening address, the same in all generations and never given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// Index of a location's settings in its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LocationId(pub(crate) u32);

/// One loaded configuration.
pub struct Generation {
    /// Counts reloads, from 1.
    pub number: u64,
    /// By [`ListenerId`]; `None` for an address that this configuration does not listen on.
    pub(crate) listeners: Vec<Option<ListenerPlan>>,
    pub(crate) servers: Vec<ServerPlan>,
    /// By [`LocationId`].
    pub(crate) locations: Vec<LocationPlan>,
    /// How the configuration's own variables get their values.
    pub(crate) definitions: Definitions,
    /// Connections that are opened ahead of demand.
    pub(crate) floors: Vec<FloorPlan>,
    /// The same for peers that come out of names.
    pub(crate) moving_floors: Vec<MovingFloor>,
    /// `health_check` of the groups that are used.
    pub(crate) checks: Arc<[GroupChecks]>,
    /// `$hostname`.
    pub(crate) hostname: Box<[u8]>,
    /// `worker_connections`: client connections of one worker.
    pub(crate) worker_connections: usize,
    /// Somebody asks for `$upstream_local_addr`, which costs a system call per attempt.
    pub(crate) wants_upstream_local: bool,
    /// Somebody asks for `$sent_http_…` or `$sent_trailer_…`, so exchanges keep what they send.
    pub(crate) keeps_sent: bool,
    pub(crate) memory_budget: Option<MemoryBudget>,
}

/// `keepalive … floor=`: how many connections to a peer are kept open ahead of demand.
pub(crate) struct FloorPlan {
    pub(crate) key: KeyId,
    pub(crate) address: PeerAddress,
    pub(crate) warming: WarmingPlan,
}

/// The floor of a group whose peers may be replaced at any time: it is that of the present ones.
pub(crate) struct MovingFloor {
    pub(crate) group: Arc<GroupPlan>,
    pub(crate) warming: WarmingPlan,
}

/// How connections are opened ahead of demand, and how many to a peer.
#[derive(Clone)]
pub(crate) struct WarmingPlan {
    pub(crate) connect: ConnectOptions,
    pub(crate) connect_timeout: Duration,
    pub(crate) floor: u32,
}

/// A worker's hold on a generation. Exchanges count references to this, which is the worker's own memory, and not to the
/// generation, whose counter all workers would contend for with every request.
pub(crate) struct Pinned(pub(crate) Arc<Generation>);

impl std::ops::Deref for Pinned {
    type Target = Generation;

    fn deref(&self) -> &Generation {
        &self.0
    }
}

impl Generation {
    pub(crate) fn listener(&self, id: ListenerId) -> Option<&ListenerPlan> {
        self.listeners.get(id.0 as usize)?.as_ref()
    }

    /// Whose connection it is that came through a socket: `local` tells the address that it came to, and is asked only
    /// where that makes a difference.
    pub(crate) fn listener_behind(&self, socket: ListenerId, local: impl FnOnce() -> Option<IpAddr>) -> ListenerId {
        match self.listener(socket) {
            Some(plan) if !plan.behind.is_empty() => {
                let local = local();
                plan.behind.iter().find(|(ip, _)| Some(*ip) == local).map_or(socket, |(_, id)| *id)
            }
            _ => socket,
        }
    }

    pub(crate) fn server(&self, index: u32) -> &ServerPlan {
        &self.servers[index as usize]
    }

    pub(crate) fn location(&self, id: LocationId) -> &LocationPlan {
        &self.locations[id.0 as usize]
    }
}

/// What is decided by the address alone, before a request names a host: as in nginx by the default server of the address.
pub(crate) struct ListenerPlan {
    pub(crate) names: ServerNames,
    /// As wide as those of any server of this address: whose a request is says a field of its head.
    pub(crate) limits: Limits,
    /// The servers differ in what they take of a head, so each request is held against its own.
    pub(crate) limits_differ: bool,
    pub(crate) header_timeout: Duration,
    /// `proxy_protocol`: connections begin with a header that says whose they are.
    pub(crate) proxy_protocol: bool,
    /// Addresses without a socket of their own, whose connections come through this one.
    pub(crate) behind: Vec<(IpAddr, ListenerId)>,
}

/// A `server {}`.
pub(crate) struct ServerPlan {
    /// `$server_name`: the first name.
    pub(crate) name: Box<[u8]>,
    pub(crate) locations: Locations,
    /// What it takes of a request's head.
    pub(crate) limits: Limits,
    pub(crate) merge_slashes: bool,
    /// `return` as the first thing at server level: it answers before a location is sought.
    pub(crate) answer: Option<ReturnPlan>,
    /// What else is done before a location is sought.
    pub(crate) program: Option<Box<ProgramPlan>>,
    /// The server's own settings, for requests that no location matches.
    pub(crate) own: LocationId,
}

/// A `location {}`, with everything inherited.
pub(crate) struct LocationPlan {
    /// The prefix, for replacing it; empty for expressions and named locations.
    pub(crate) name: Box<[u8]>,
    /// What is done before the content; `None` for nothing.
    pub(crate) program: Option<Box<ProgramPlan>>,
    pub(crate) content: Content,
    pub(crate) client: ClientPlan,
    pub(crate) access_logs: Vec<AccessLog>,
    /// `error_log` of `http`, a server or a location; `None` is the process's.
    pub(crate) error_log: Option<Arc<ErrorLog>>,
    /// `server_tokens`: what the `Server` field and error pages say.
    pub(crate) server_token: Box<[u8]>,
    /// `root` or `alias`: also where no files are served, for `$document_root`.
    pub(crate) root: RootPlan,
    pub(crate) error_pages: ErrorPages,
    pub(crate) recursive_error_pages: bool,
    pub(crate) try_files: Option<TryFilesPlan>,
    /// `internal`: only internal redirects lead here.
    pub(crate) internal: bool,
    pub(crate) msie_padding: bool,
    /// `uninitialized_variable_warn`
    pub(crate) warns_uninitialized: bool,
    pub(crate) redirects: RedirectPlan,
    /// `gzip`; `None` compresses nothing.
    pub(crate) gzip: Option<Box<GzipPlan>>,
    /// `set_real_ip_from` and what belongs to it; `None` trusts nobody.
    pub(crate) real_ip: Option<Box<RealIpPlan>>,
    /// `limit_req`, `limit_conn`; `None` limits nothing.
    pub(crate) limits: Option<Box<LimitPlan>>,
    /// `limit_rate`, `limit_rate_after`; `None` for no limit.
    pub(crate) rate: Option<Box<RatePlan>>,
    /// `allow`, `deny`; `None` lets everybody in.
    pub(crate) access: Option<Box<AccessPlan>>,
    /// `limit_except`
    pub(crate) limit_except: Option<Box<LimitExceptPlan>>,
    /// `expires`, `add_header`, `add_trailer`; `None` adds nothing.
    pub(crate) added: Option<Box<AddedPlan>>,
    /// `early_hints`: when 103 is passed on; nothing for never.
    pub(crate) early_hints: Box<[Template]>,
}

/// `limit_except`: other settings for other methods.
pub(crate) struct LimitExceptPlan {
    /// Those that it does not concern.
    pub(crate) methods: Vec<Method>,
    /// What holds for the others.
    pub(crate) others: LocationId,
}

/// What a Location field of ours that is a path is made into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RedirectPlan {
    /// `absolute_redirect`: scheme and host go before it.
    pub(crate) absolute: bool,
    /// `port_in_redirect`: with the port, unless it is 80.
    pub(crate) port: bool,
    /// `server_name_in_redirect`: the host is the first name of the server, whatever the client says.
    pub(crate) server_name: bool,
}

/// How the client's side is treated in a location.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) keepalive_timeout: Duration,
    /// What `Keep-Alive: timeout=` says, in seconds.
    pub(crate) keepalive_header: Option<u64>,
    /// An idle connection is kept at least so long while the process ends gently.
    pub(crate) keepalive_min: Duration,
    pub(crate) keepalive_disable: KeepaliveDisable,
    pub(crate) keepalive_requests: u32,
    pub(crate) keepalive_time: Duration,
    /// Bytes; 0 for no limit.
    pub(crate) body_size_max: u64,
    pub(crate) body_buffer_bytes: usize,
    /// Where bodies go that do not fit it.
    pub(crate) body_files: Arc<BodyFiles>,
    pub(crate) body_timeout: Duration,
    /// `client_half_close`: a FIN is no end.
    pub(crate) half_close: bool,
    pub(crate) send_timeout: Duration,
    pub(crate) lingering_time: Duration,
    pub(crate) lingering_timeout: Duration,
    pub(crate) chunked_transfer_encoding: bool,
    /// `tcp_nodelay`
    pub(crate) nodelay: bool,
    /// `reset_timedout_connection`
    pub(crate) reset_timed_out: bool,
}

/// `try_files`
pub(crate) struct TryFilesPlan {
    pub(crate) tries: Vec<TryFilePlan>,
    pub(crate) fallback: TryFallbackPlan,
}

/// One path of `try_files`.
pub(crate) struct TryFilePlan {
    /// Without the slash that marks a directory.
    pub(crate) path: Template,
    pub(crate) directory: bool,
}

/// The last resort of `try_files`.
pub(crate) enum TryFallbackPlan {
    Uri(Template),
    /// With its `@`.
    Named(Box<[u8]>),
    Status(u16),
}

/// What a location does with a request.
pub(crate) enum Content {
    Proxy(Box<ProxyPlan>),
    /// `proxy_pass` with variables.
    Computed(Box<ComputedPlan>),
    Return(ReturnPlan),
    /// `stub_status`
    StubStatus,
    /// `status_page`
    StatusPage,
    Files(Box<FilesPlan>),
    /// Nothing is configured to answer: 404.
    Nothing,
}

impl Content {
    /// The proxy of that number: a `proxy_pass` with variables has several.
    pub(crate) fn proxy(&self, place: u16) -> Option<&ProxyPlan> {
        match self {
            Self::Proxy(plan) => Some(plan),
            Self::Computed(plan) => plan.proxy(place),
            _ => None,
        }
    }
}

/// A rewrite program, with what its numbers stand for.
pub(crate) struct ProgramPlan {
    pub(crate) program: Program,
    pub(crate) answers: Vec<ReturnPlan>,
    /// The settings of each `if`.
    pub(crate) places: Vec<LocationId>,
}

/// `return`.
pub(crate) struct ReturnPlan {
    pub(crate) status: u16,
    pub(crate) text: Option<Template>,
    pub(crate) types: Arc<MimeTypes>,
}

/// `proxy_pass` and everything around it.
pub(crate) struct ProxyPlan {
    pub(crate) group: Arc<GroupPlan>,
    pub(crate) uri: PassUriPlan,
    /// `$proxy_port`; none for a Unix socket.
    pub(crate) port: Option<u16>,
    /// Fields that the configuration sets, in order.
    pub(crate) set_fields: Vec<SetField>,
    /// The client's fields that are not passed on because one of `set_fields` stands for them, or the connection does.
    pub(crate) replaced: FieldNames,
    /// Fields of the response that are not passed on.
    pub(crate) hidden: FieldNames,
    pub(crate) redirects: Redirects,
    /// How Set-Cookie is rewritten; `None` leaves it as it is.
    pub(crate) cookies: Option<Box<CookieRules>>,
    /// `proxy_force_ranges`, unless `max_ranges` is 0.
    pub(crate) force_ranges: bool,
    pub(crate) http_1_1: bool,
    /// How connections are opened.
    pub(crate) connect: ConnectOptions,
    pub(crate) source: SourcePlan,
    pub(crate) connect_timeout: Duration,
    pub(crate) send_timeout: Duration,
    pub(crate) read_timeout: Duration,
    /// Limits of the response head (`proxy_buffer_size`).
    pub(crate) limits: Limits,
    /// Bytes of a response held for a client that does not take them.
    pub(crate) buffer_bytes: usize,
    /// Without `proxy_buffering` what comes is passed on at once, also by a compressor.
    pub(crate) flushes: bool,
    /// `proxy_limit_rate`: bytes per second that are read of a response.
    pub(crate) limit_rate: Option<SizePlan>,
    /// The upstream may say how fast its response goes to the client.
    pub(crate) obeys_limit_rate: bool,
    /// The same where `X-Accel-Buffering: no`, and where it says `yes`.
    pub(crate) accel_buffer_bytes: [usize; 2],
    /// `X-Accel-Buffering` has a say.
    pub(crate) obeys_buffering: bool,
    /// `X-Accel-Redirect` is followed.
    pub(crate) accel_redirect: bool,
    pub(crate) request_buffering: bool,
    pub(crate) ignore_client_abort: bool,
    /// `proxy_intercept_errors`: `error_page` has a say in what the upstream answers.
    pub(crate) intercept_errors: bool,
    pub(crate) pass_request_headers: bool,
    pub(crate) pass_request_body: bool,
    /// `proxy_method`
    pub(crate) method: Option<Template>,
    /// `proxy_set_body`
    pub(crate) set_body: Option<Template>,
    /// `proxy_pass_trailers`
    pub(crate) pass_trailers: bool,
    pub(crate) conditions: Conditions,
    /// `proxy_next_upstream_tries`; 0 for no limit.
    pub(crate) tries_max: u32,
    pub(crate) tries_timeout_ms: Option<u64>,
    pub(crate) retry_unsent: bool,
    pub(crate) tunnel: Arc<TunnelPlan>,
}

/// From which address connections come.
#[derive(Clone)]
pub(crate) enum SourcePlan {
    /// The one in the options, or the kernel's choice.
    Options,
    /// `proxy_bind` with variables: the request's own, so that its connection is nobody else's.
    Template(Template),
    /// `proxy_bind_pool`
    Pool(Box<[IpAddr]>),
}

/// One `proxy_set_header`, or a default one. A value that comes to nothing is not sent.
pub(crate) enum SetField {
    /// The same in every request.
    Constant(FieldLine),
    Made {
        name: FieldToken,
        value: Template,
    },
}

/// The URI part of `proxy_pass`.
pub(crate) enum PassUriPlan {
    Absent,
    Replace(Box<[u8]>),
    /// That of a URL with variables, which the exchange has.
    Computed,
}

/// A set of field names: the well-known ones as bits, the others as a short list.
#[derive(Default)]
pub(crate) struct FieldNames {
    known: u128,
    /// In lower case.
    others: Vec<Box<[u8]>>,
}

impl FieldNames {
    pub(crate) fn insert(&mut self, name: &[u8]) {
        match FieldId::of_name(name) {
            FieldId::Other => self.others.push(name.to_ascii_lowercase().into()),
            id => self.known |= 1 << id as u8,
        }
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        match FieldId::of_name(name) {
            FieldId::Other => self.others.retain(|other| !other.eq_ignore_ascii_case(name)),
            id => self.known &= !(1 << id as u8),
        }
    }

    /// Whether a field of a parsed head is in the set.
    #[inline]
    pub(crate) fn contains(&self, id: FieldId, name: &[u8]) -> bool {
        if id == FieldId::Other {
            self.others.iter().any(|other| other.eq_ignore_ascii_case(name))
        } else {
            self.known & (1 << id as u8) != 0
        }
    }
}
