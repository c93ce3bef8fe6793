//! A `location {}` with all inherited settings.

use crate::plan::access::{AccessPlan, LinkPlan, MirrorPlan, RealIpPlan};
use crate::plan::added_fields::AddedPlan;
use crate::plan::application::ScriptPlan;
use crate::plan::client::ClientPlan;
use crate::plan::files::{FilesPlan, RootPlan};
use crate::plan::filters::{AdditionPlan, CharsetPlan, GzipPlan, RatePlan, SsiPlan, SubstitutePlan};
use crate::plan::limits::LimitPlan;
use crate::plan::logs::{AccessLogPlan, ErrorLogId};
use crate::plan::more_headers::MoreHeadersPlan;
use crate::plan::open_files::OpenFilesPlan;
use crate::plan::otel::TracePlan;
use crate::plan::program::{ProgramPlan, ReturnPlan};
use crate::plan::proxy::ProxyId;
use crate::plan::route_to::RoutePlan;
use crate::plan::slice::SlicePlan;
use crate::plan::symlinks::SymlinkPlan;
use crate::plan::user_id::UserIdPlan;
use crate::plan::variable_pass::VariablePassPlan;
use conf::source::Span;
use http1::Method;
use rules::referer::Referers;
use rules::reply::ErrorPages;
use rules::template::Template;
use std::sync::Arc;

/// Index of a location's settings in its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LocationId(pub(crate) u32);

/// A `location {}` with all inherited settings.
pub(crate) struct LocationPlan {
    /// The prefix, for replacing it; empty for expressions and named locations.
    pub(crate) name: Box<[u8]>,
    /// The name as nginx shows it: also that of an expression or a named location; empty for the server.
    pub(crate) route: Box<[u8]>,
    /// `$server_name` of the server that it belongs to.
    pub(crate) server: Arc<[u8]>,
    /// `otel_trace` and its kin; `None`: nothing of it is configured.
    pub(crate) otel: Option<Box<TracePlan>>,
    /// Where its block was written: a location, an `if`, a `limit_except`, or the server.
    pub(crate) span: Span,
    /// The rewrite program that runs before the content; `None` if there is none.
    pub(crate) program: Option<Box<ProgramPlan>>,
    pub(crate) content: Content,
    pub(crate) client: ClientPlan,
    pub(crate) access_logs: Vec<AccessLogPlan>,
    /// `error_log` of `http`, a server or a location; `None` is the process's.
    pub(crate) error_log: Option<ErrorLogId>,
    /// `server_tokens`: the text in the `Server` field and on error pages.
    pub(crate) server_token: Box<[u8]>,
    /// `root` or `alias`: also if no files are served, for `$document_root`.
    pub(crate) root: RootPlan,
    pub(crate) error_pages: ErrorPages,
    pub(crate) recursive_error_pages: bool,
    pub(crate) try_files: Option<TryFilesPlan>,
    /// `route_to`
    pub(crate) routes: Box<[RoutePlan]>,
    /// `internal`: only internal redirects lead here.
    pub(crate) internal: bool,
    pub(crate) msie_padding: bool,
    /// `uninitialized_variable_warn`
    pub(crate) warns_uninitialized: bool,
    pub(crate) redirects: RedirectPlan,
    /// `add_before_body`, `add_after_body`
    pub(crate) additions: Option<Box<AdditionPlan>>,
    /// `gzip`, `gunzip`, `gzip_static`, and the same of brotli and zstd; `None` if all are off.
    pub(crate) gzip: Option<Box<GzipPlan>>,
    /// `charset`, `source_charset`; `None` if both are off.
    pub(crate) charset: Option<Box<CharsetPlan>>,
    /// `more_set_headers` and its kin; `None` does nothing.
    pub(crate) more_headers: Option<Box<MoreHeadersPlan>>,
    /// `userid`; `None` if it is off.
    pub(crate) user_id: Option<Box<UserIdPlan>>,
    /// `sub_filter`; `None` replaces nothing.
    pub(crate) substitute: Option<Box<SubstitutePlan>>,
    /// `ssi`; `None` if it is off.
    pub(crate) ssi: Option<Box<SsiPlan>>,
    /// `subrequest_output_buffer_size`
    pub(crate) subrequest_bytes_max: u64,
    /// `set_real_ip_from` and what belongs to it; `None` trusts no proxy.
    pub(crate) real_ip: Option<Box<RealIpPlan>>,
    /// `limit_req`, `limit_conn`; `None` limits nothing.
    pub(crate) limits: Option<Box<LimitPlan>>,
    /// `limit_rate`, `limit_rate_after`; `None` for no limit.
    pub(crate) rate: Option<Box<RatePlan>>,
    /// `fastcgi_index`, `fastcgi_split_path_info`
    pub(crate) script: Option<Box<ScriptPlan>>,
    /// `mirror`
    pub(crate) mirror: Option<Box<MirrorPlan>>,
    /// `log_subrequest`
    pub(crate) logs_subrequests: bool,
    /// `request_trace_secret`
    pub(crate) trace_secret: Option<Box<[u8]>>,
    pub(crate) access: Option<Box<AccessPlan>>,
    /// `secure_link`, `secure_link_secret`
    pub(crate) link: Option<Box<LinkPlan>>,
    /// `valid_referers`
    pub(crate) referers: Option<Box<Referers>>,
    /// `limit_except`
    pub(crate) limit_except: Option<Box<LimitExceptPlan>>,
    /// `open_file_cache`
    pub(crate) open_files: Option<OpenFilesPlan>,
    /// `disable_symlinks`
    pub(crate) symlinks: Option<Box<SymlinkPlan>>,
    /// `slice`
    pub(crate) slice: Option<SlicePlan>,
    /// `expires`, `add_header`, `add_trailer`; `None` adds nothing.
    pub(crate) added: Option<Box<AddedPlan>>,
    /// `early_hints`: the conditions for passing a 103 on; empty for never.
    pub(crate) early_hints: Box<[Template]>,
}

impl LocationPlan {
    /// Whether filters may change bodies.
    pub(crate) fn changes_bodies(&self) -> bool {
        self.gzip.is_some() || self.charset.is_some() || self.substitute.is_some() || self.ssi.is_some()
    }
}

/// `limit_except`: other settings for other methods.
pub(crate) struct LimitExceptPlan {
    /// The methods that keep the location's own settings.
    pub(crate) methods: Vec<Method>,
    /// The settings for all other methods.
    pub(crate) others: LocationId,
}

/// How a path in a Location field of ours becomes a URL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RedirectPlan {
    /// `absolute_redirect`: scheme and host are added.
    pub(crate) absolute: bool,
    /// `port_in_redirect`: the port is added, unless it is 80.
    pub(crate) port: bool,
    /// `server_name_in_redirect`: the host is the first name of the server, not the request's Host.
    pub(crate) server_name: bool,
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

/// The fallback of `try_files`.
pub(crate) enum TryFallbackPlan {
    Uri(Template),
    /// With its `@`.
    Named(Box<[u8]>),
    Status(u16),
}

/// How a location answers a request.
pub(crate) enum Content {
    Proxy(ProxyId),
    /// `proxy_pass` with variables.
    VariablePass(Box<VariablePassPlan>),
    Return(ReturnPlan),
    /// `stub_status`
    StubStatus,
    /// `status_page`
    StatusPage,
    /// `empty_gif`
    EmptyGif,
    Files(Box<FilesPlan>),
    /// Nothing is configured to answer: 404.
    Nothing,
}

impl Content {
    /// A few words for operators. A `proxy_pass` is better named by its upstream.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Proxy(_) => "proxy",
            Self::VariablePass(_) => "to what a variable names",
            Self::Return(_) => "return",
            Self::StubStatus => "stub_status",
            Self::StatusPage => "status_page",
            Self::EmptyGif => "empty_gif",
            Self::Files(_) => "files",
            Self::Nothing => "nothing",
        }
    }

    /// Whether it may answer a client that wants a tunnel.
    pub(crate) fn answers_tunnels(&self) -> bool {
        matches!(self, Self::Proxy(_) | Self::VariablePass(_) | Self::Return(_))
    }

    /// The proxy with this index: a `proxy_pass` with variables has several.
    pub(crate) fn proxy(&self, place: u16) -> Option<ProxyId> {
        match self {
            Self::Proxy(proxy) => Some(*proxy),
            Self::VariablePass(plan) => plan.proxy(place),
            _ => None,
        }
    }
}
