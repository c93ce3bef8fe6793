//! The upstream's side of an exchange: which proxy and peer it is with, what was tried, and what was answered.

use crate::exchange::attempts::Attempts;
use crate::plan::variable_pass::PassUrl;
use crate::upstream::answer::Answer;
use upstream::balance::Seat;

/// What an exchange has to do with upstreams.
#[derive(Default)]
pub(crate) struct Conversation {
    /// The response head of the upstream that was tried last, once something of it is there.
    pub(crate) answer: Option<Box<Answer>>,
    pub(crate) attempts: Attempts,
    /// Its place at the peer that it is with.
    pub(crate) seat: Option<Seat>,
    /// Which of the location's proxies the exchange uses.
    pub(crate) place: u16,
    /// What the URL of a `proxy_pass` with variables came to.
    pub(crate) url: Option<Box<PassUrl>>,
    /// `proxy_ignore_client_abort` of the proxy that it uses: a client that leaves ends no wait.
    pub(crate) abort_ignored: bool,
    /// The request as the upstream gets it asks for an upgrade.
    pub(crate) upgrade_sent: bool,
}
