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
    /// Its limits for a request's head.
    pub(crate) limits: Limits,
    pub(crate) merge_slashes: bool,
    /// `return` as the first directive of the server: it answers before a location is sought.
    pub(crate) answer: Option<ReturnPlan>,
    /// The program that runs before a location is sought.
    pub(crate) program: Option<Box<ProgramPlan>>,
    /// Its TLS, if it uses TLS.
    pub(crate) tls: Option<Box<TlsPlan>>,
    pub(crate) http2: Http2Plan,
    /// The server's own settings, for requests that no location matches.
    pub(crate) own: LocationId,
}

impl ServerPlan {
    /// Whether OCSP answers about its clients' certificates are kept in the cache with this name and size.
    pub(crate) fn keeps_standings(&self, cache: &(Box<str>, u64)) -> bool {
        let demands = self.tls.as_ref().and_then(|tls| tls.demands.as_ref());
        demands.and_then(|demands| demands.status.as_ref()?.cache.as_ref()).is_some_and(|kept| kept == cache)
    }
}
