//! What an exchange reports while it passes its phases. The serving path uses [`Untraced`], which has no size and whose
//! methods are empty: the compiler removes every call. `explain` has a tracer that records.

use crate::exchange::Exchange;
use crate::exchange::step::Step;
use crate::plan::access::{AccessPlan, AuthRequestPlan, BasicPlan, MirrorPlan};
use crate::plan::auth_jwt::JwtPlan;
use crate::plan::limits::LimitPlan;
use crate::plan::location::TryFallbackPlan;
use crate::plan::program::ProgramPlan;
use crate::plan::route_to::RoutePlan;
use crate::plan::slice::SlicePlan;
use crate::plan::variable_pass::PassUrl;
use crate::registry::generation::BoundProxy;
use crate::registry::group::PeerSet;
use rules::location::Tried;
use rules::program::Did;
use rules::reply::PageTarget;
use rules::server_name::MatchedBy;

/// Follows an exchange.
pub(crate) trait Tracer: Copy {
    /// The exchange asks no other host, starts no subrequest, and writes no file. It ends where it would send its
    /// request to a peer. A constant, so that the serving path has no check at run time.
    const OFFLINE: bool;

    /// Something has happened to the exchange.
    fn note(self, exchange: &Exchange, event: Event<'_>);

    /// A search for a location came across one.
    fn tried(self, exchange: &Exchange, tried: Tried<'_>);
}

/// For exchanges that serve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Untraced;

impl Tracer for Untraced {
    const OFFLINE: bool = false;

    #[inline(always)]
    fn note(self, _: &Exchange, _: Event<'_>) {}

    #[inline(always)]
    fn tried(self, _: &Exchange, _: Tried<'_>) {}
}

/// What a cache does for a request.
pub(crate) enum CacheNote<'a> {
    /// Nothing: it does not concern the method, or a variable turns it off.
    Unused,
    /// It is looked up, unless it is bypassed.
    Looks { bypasses: bool },
    /// The stored response is removed.
    Purges { zone: &'a str },
}

/// What happens to an exchange.
pub(crate) enum Event<'a> {
    /// The server was chosen.
    Server(MatchedBy),
    /// `return` at the beginning of a server's program or a location's.
    Returns,
    /// A location is sought for the URI.
    Search,
    /// The search has ended; the exchange has the location.
    Found,
    /// The location is `internal`, and the client asked for it.
    Internal,
    /// The next step of the exchange.
    Next(&'a Step),
    /// An instruction has run.
    Ran(&'a ProgramPlan, u32, Did<'a>),
    /// A test of a file, for the `if` that ran last.
    Looked { path: &'a [u8], found: bool, holds: bool },
    /// The limits of the location come next.
    Limits(&'a LimitPlan),
    /// The access rules of the location come next.
    Access(&'a AccessPlan),
    /// The password was checked; the status of the refusal, if there is one.
    Password(&'a BasicPlan, Option<u16>),
    /// The token was checked; the status of the refusal, if there is one.
    Token(&'a JwtPlan, Option<u16>),
    /// A subrequest would decide.
    AuthRequest(&'a AuthRequestPlan),
    /// A `route_to` leads to its location.
    RoutedTo(&'a RoutePlan),
    /// Subrequests would copy the request.
    Mirror(&'a MirrorPlan),
    /// Subrequests would fetch the response in slices.
    Slices(SlicePlan),
    /// `try_files` has looked for a path.
    TriedFile { path: &'a [u8], directory: bool, found: bool },
    /// `try_files` has found none.
    FellBack(&'a TryFallbackPlan),
    /// `error_page` replaces a response.
    ErrorPage { status: u16, target: &'a PageTarget<'a> },
    /// A cache's part in the request; the exchange has the key.
    Cache(CacheNote<'a>),
    /// The URL of a `proxy_pass` with variables.
    PassUrl(&'a PassUrl),
    /// The request is complete for its upstream.
    Upstream(&'a BoundProxy),
    /// A peer was chosen among these, by its index; `None` if none is available, or the peers are not known.
    Peer { plan: &'a BoundProxy, set: Option<&'a PeerSet>, bound: &'a [u8], chosen: Option<usize> },
}
