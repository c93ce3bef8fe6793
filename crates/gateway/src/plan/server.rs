//! A `server {}`.

use crate::plan::http2::Http2Plan;
use crate::plan::location::LocationId;
use crate::plan::program::{ProgramPlan, ReturnPlan};
use crate::plan::tls::TlsPlan;
use http1::Limits;
use rules::location::Locations;

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
    /// Its TLS, where it has any.
    pub(crate) tls: Option<Box<TlsPlan>>,
    pub(crate) http2: Http2Plan,
    /// The server's own settings, for requests that no location matches.
    pub(crate) own: LocationId,
}

impl ServerPlan {
    /// Whether answers about its clients' certificates are kept in the cache of this name and size.
    pub(crate) fn keeps_standings(&self, cache: &(Box<str>, u64)) -> bool {
        let demands = self.tls.as_ref().and_then(|tls| tls.demands.as_ref());
        demands.and_then(|demands| demands.status.as_ref()?.cache.as_ref()).is_some_and(|kept| kept == cache)
    }
}
