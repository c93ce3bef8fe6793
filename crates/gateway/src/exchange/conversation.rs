//! The upstream's side of an exchange: which proxy and peer it is with, what was tried, and what was answered.

use crate::exchange::attempts::Attempts;
use crate::exchange::caching::Caching;
use crate::plan::variable_pass::PassUrl;
use crate::registry::cache::CacheStatus;
use crate::upstream::answer::Answer;
use crate::upstream::records::Records;
use reactor::Millis;
use std::cell::RefCell;
use std::rc::Rc;
use upstream::balance::Seat;

/// What an exchange has to do with upstreams.
#[derive(Default)]
pub(crate) struct Conversation {
    /// The response head of the upstream that was tried last, once something of it is there.
    pub(crate) answer: Option<Box<Answer>>,
    /// What has come of a FastCGI response, until its body begins.
    pub(crate) records: Option<Box<Records>>,
    /// Over HTTP/2, whether what was read last is the end of the response.
    pub(crate) stream_ended: Option<bool>,
    /// The same where no trailers have come with it: the end was that of the head, or of the body.
    pub(crate) lacks_trailers: bool,
    /// `grpc-timeout`: when the call is over. As long as it is set, no wait is longer.
    pub(crate) call_deadline: Option<Millis>,
    pub(crate) attempts: Attempts,
    /// Its place at the peer that it is with.
    pub(crate) seat: Option<Seat>,
    /// Which of the location's proxies the exchange uses.
    pub(crate) place: u16,
    /// What the URL of a `proxy_pass` with variables came to.
    pub(crate) url: Option<Box<PassUrl>>,
    /// `proxy_ignore_client_abort` of the proxy that it uses: a client that leaves ends no wait.
    pub(crate) abort_ignored: bool,
    /// What `proxy_cache` has to do with it.
    pub(crate) cache: Option<Box<Caching>>,
    /// What was asked of upstreams is told here, for the exchange that has started this one.
    pub(crate) told: Option<Rc<RefCell<Attempts>>>,
    /// `$upstream_cache_status` of the first piece, where the response is put together (`slice`).
    pub(crate) slice_status: Option<CacheStatus>,
    /// The request as the upstream gets it asks for an upgrade.
    pub(crate) upgrade_sent: bool,
}
