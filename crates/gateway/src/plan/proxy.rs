//! `proxy_pass` and its settings.

use crate::plan::application::ApplicationPlan;
use crate::plan::cache::CachePlan;
use crate::plan::filters::SizePlan;
use crate::plan::group::GroupUseId;
use crate::plan::store::StorePlan;
use crate::plan::tunnel::TunnelPlan;
use crate::plan::upstream_tls::UpstreamTlsPlan;
use http1::outgoing::{FieldLine, FieldToken};
use http1::{FieldId, Limits};
use reactor::ConnectOptions;
use rules::redirect::Redirects;
use rules::set_cookie::CookieRules;
use rules::template::Template;
use std::net::IpAddr;
use std::time::Duration;
use upstream::retry::Conditions;

/// Index of a proxy in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProxyId(pub(crate) u32);

/// How often a request is tried, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TriesLimits {
    /// `proxy_next_upstream_tries`; 0 for no limit.
    pub(crate) most: u32,
    /// `proxy_next_upstream_timeout`
    pub(crate) timeout_ms: Option<u64>,
    /// `proxy_next_upstream_again`
    pub(crate) again: bool,
    /// `proxy_next_upstream_pause`
    pub(crate) pause: Option<Duration>,
}

/// `proxy_pass` and its settings.
pub(crate) struct ProxyPlan {
    pub(crate) group: GroupUseId,
    /// `$proxy_host`, if the URL has no variables.
    pub(crate) host: Box<[u8]>,
    pub(crate) uri: PassUriPlan,
    /// `$proxy_port`; none for a Unix socket.
    pub(crate) port: Option<u16>,
    /// Fields that the configuration sets, in order.
    pub(crate) set_fields: Vec<SetField>,
    /// Client fields that are not passed on: `set_fields` replaces them, or they concern the connection.
    pub(crate) replaced: FieldNames,
    /// Fields of the response that are not passed on.
    pub(crate) hidden: FieldNames,
    pub(crate) redirects: Redirects,
    /// How Set-Cookie is rewritten; `None` leaves it as it is.
    pub(crate) cookies: Option<Box<CookieRules>>,
    /// `proxy_force_ranges`, unless `max_ranges` is 0.
    pub(crate) force_ranges: bool,
    pub(crate) http_1_1: bool,
    /// `proxy_http_version 2`: requests share connections.
    pub(crate) http2: bool,
    /// How connections are opened.
    pub(crate) connect: ConnectOptions,
    pub(crate) source: SourcePlan,
    /// `fastcgi_pass`, `scgi_pass`, `uwsgi_pass`: their own settings.
    pub(crate) application: Option<Box<ApplicationPlan>>,
    /// `grpc_pass`
    pub(crate) is_grpc: bool,
    /// `grpc_set_header TE`
    pub(crate) sets_te: bool,
    /// `proxy_pass https://…`, `grpc_pass grpcs://…`
    pub(crate) tls: Option<UpstreamTlsPlan>,
    pub(crate) connect_timeout: Duration,
    pub(crate) send_timeout: Duration,
    pub(crate) read_timeout: Duration,
    /// Of the whole request.
    pub(crate) request_timeout: Option<Duration>,
    /// Limits of the response head (`proxy_buffer_size`).
    pub(crate) limits: Limits,
    /// Bytes of a response buffered for a client that does not accept them.
    pub(crate) buffer_bytes: usize,
    /// Without `proxy_buffering`, received data is passed on at once, also by a compressor.
    pub(crate) flushes: bool,
    /// `proxy_limit_rate`: bytes per second read of a response.
    pub(crate) limit_rate: Option<SizePlan>,
    /// `X-Accel-Limit-Rate` is honoured.
    pub(crate) obeys_limit_rate: bool,
    /// `X-Accel-Charset` is honoured.
    pub(crate) obeys_charset: bool,
    /// Bytes buffered with `X-Accel-Buffering: no`, and with `yes`.
    pub(crate) accel_buffer_bytes: [usize; 2],
    /// `X-Accel-Buffering` is honoured.
    pub(crate) obeys_buffering: bool,
    /// `X-Accel-Redirect` is followed.
    pub(crate) accel_redirect: bool,
    pub(crate) request_buffering: bool,
    pub(crate) ignore_client_abort: bool,
    /// `proxy_intercept_errors`: `error_page` applies to the upstream's statuses.
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
    pub(crate) tries: TriesLimits,
    pub(crate) retry_unsent: bool,
    pub(crate) tunnel: TunnelPlan,
    /// `proxy_cache`
    pub(crate) cache: Option<Box<CachePlan>>,
    /// `proxy_store`
    pub(crate) store: Option<Box<StorePlan>>,
}

/// The source address of connections.
#[derive(Clone)]
pub(crate) enum SourcePlan {
    /// The one in the options, or the kernel's choice.
    Options,
    /// `proxy_bind` with variables: it depends on the request, so the connection is not shared.
    Template(Template),
    /// `proxy_bind_pool`
    Pool(Box<[IpAddr]>),
}

/// One `proxy_set_header`, or a default one. An empty value is not sent.
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
    /// The URI of a URL with variables, which the exchange has.
    Variable,
}

impl PassUriPlan {
    /// The URI part as written, if there is one without variables.
    pub(crate) fn written(&self) -> Option<&[u8]> {
        match self {
            Self::Replace(uri) => Some(uri),
            Self::Absent | Self::Variable => None,
        }
    }
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
