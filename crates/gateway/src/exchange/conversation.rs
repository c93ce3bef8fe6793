//! The upstream's side of an exchange: its proxy and peer, the attempts so far, and the response.

use crate::exchange::attempts::Attempts;
use crate::exchange::caching::Caching;
use crate::plan::variable_pass::PassUrl;
use crate::registry::cache::CacheStatus;
use crate::upstream::answer::Answer;
use reactor::Millis;
use std::cell::RefCell;
use std::rc::Rc;
use upstream::balance::Seat;

/// The state of an exchange towards upstreams.
#[derive(Default)]
pub(crate) struct Conversation {
    /// The response head of the last attempt, once a part of it has come.
    pub(crate) answer: Option<Box<Answer>>,
    /// `grpc-timeout`: when the call is over. While it is set, no wait lasts longer.
    pub(crate) call_deadline: Option<Millis>,
    pub(crate) attempts: Attempts,
    /// Its seat at the present peer.
    pub(crate) seat: Option<Seat>,
    /// The index of the present proxy in its location.
    pub(crate) place: u16,
    /// The parsed URL of a `proxy_pass` with variables.
    pub(crate) url: Option<Box<PassUrl>>,
    /// `proxy_ignore_client_abort` of the present proxy: a client that leaves ends no wait.
    pub(crate) abort_ignored: bool,
    /// The state of `proxy_cache`.
    pub(crate) cache: Option<Box<Caching>>,
    /// Where to report the attempts, for the exchange that started this one.
    pub(crate) told: Option<Rc<RefCell<Attempts>>>,
    /// `$upstream_cache_status` of the first slice, if the response is assembled (`slice`).
    pub(crate) slice_status: Option<CacheStatus>,
    /// The request as sent asks for an upgrade.
    pub(crate) upgrade_sent: bool,
}
