//! A `server {}`.

use crate::plan::http2::Http2Plan;
use crate::plan::location::LocationId;
use crate::plan::program::{ProgramPlan, ReturnPlan};
use crate::plan::tls::{ClientDemands, TlsPlan};
use conf::source::Span;
use http1::Limits;
use rules::location::Locations;
use std::sync::Arc;

/// A `server {}`.
pub(crate) struct ServerPlan {
    /// `$server_name`: the first name.
    pub(crate) name: Arc<[u8]>,
    /// Where it was written.
    pub(crate) span: Span,
    pub(crate) locations: Locations,
    /// Its limits for a request's head.
    pub(crate) limits: Limits,
    pub(crate) merge_slashes: bool,
    /// `return` as the first directive of the server: it answers before a location is sought.
    pub(crate) answer: Option<ReturnPlan>,
    /// The program that runs before a location is sought.
    pub(crate) program: Option<Box<ProgramPlan>>,
    /// Its TLS, if it uses TLS.
    pub(crate) tls: Option<Box<TlsPlan>>,
    /// The requirements for clients' certificates of a server without TLS of its own: the default server shakes hands
    /// for it, and requests are checked.
    pub(crate) bare_demands: Option<Box<ClientDemands>>,
    pub(crate) http2: Http2Plan,
    /// The server's own settings, for requests that no location matches.
    pub(crate) own: LocationId,
}

impl ServerPlan {
    /// The requirements for clients' certificates.
    pub(crate) fn demands(&self) -> Option<&ClientDemands> {
        let own = self.tls.as_deref().and_then(|tls| tls.demands.as_ref());
        own.or(self.bare_demands.as_deref())
    }
}
