//! `pass`: another listener of this configuration gets the connection, as if it had accepted it.

use crate::base::close::CloseReason;
use crate::base::logs::error::{Level, quoted};
use crate::connector::Caller as _;
use crate::plan::listener::Serves;
use crate::plan::stream::PassPlan;
use crate::registry::generation::{ListenerId, Pinned};
use crate::session::client::SessionClient;
use crate::session::{RefusedSession, SessionContent, StreamSession};
use conf::value::Host;
use conf::value::address::parse_url;
use reactor::{PeerAddress, TaskId};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;

/// Most passes of one connection: as in nginx, a circle of `pass` ends here.
const PASSES_MAX: u8 = 10;

/// A connection for another listener.
pub(crate) struct PassedConnection {
    pub(crate) client: SessionClient,
    pub(crate) task: TaskId,
    /// Bytes that were read from it.
    pub(crate) pending: Vec<u8>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) listener: ListenerId,
    pub(crate) serves: Serves,
    pub(crate) peer: PeerAddress,
    /// How often it was passed.
    pub(crate) passes: u8,
    pub(crate) serial: u64,
}

impl StreamSession {
    /// Finds the listener.
    pub(super) fn pass(&self, plan: &PassPlan) -> Result<SessionContent, RefusedSession> {
        if self.connection.is_datagrams() {
            self.log(Level::Error, "cannot pass UDP connection");
            return Err(RefusedSession::INTERNAL);
        }
        let address = match plan {
            PassPlan::Fixed(address) => Cow::Borrowed(address),
            PassPlan::Variable(template) => {
                let text = self.value(template);
                self.refuse_undecided()?;
                Cow::Owned(self.address_in(&text)?)
            }
        };
        if self.passes >= PASSES_MAX {
            self.log(Level::Error, &format!("too many passes of one connection, at most {PASSES_MAX}"));
            return Err(RefusedSession::INTERNAL);
        }
        let found = self.generation.listener_at(&address);
        let Some((id, listener)) = found.and_then(|id| Some((id, self.generation.listener(id)?))) else {
            self.log(Level::Error, &format!("port not found for \"{address}\" while passing connection to port"));
            return Err(RefusedSession { status: 200, reason: CloseReason::SessionRefused });
        };
        if listener.tls.is_some() && self.connection.is_secure() {
            let message = format!("a connection under TLS cannot be passed to {address}, which has \"ssl\"");
            self.log(Level::Error, &message);
            return Err(RefusedSession::INTERNAL);
        }
        Ok(SessionContent::Pass(id, listener.serves))
    }

    /// The address in a variable's value.
    fn address_in(&self, text: &[u8]) -> Result<PeerAddress, RefusedSession> {
        let url = parse_url(text).ok().filter(|url| url.uri.is_empty());
        let address = url.and_then(|url| match (url.host, url.port) {
            (Host::Ip(ip), Some(port)) => Some(PeerAddress::Ip(SocketAddr::new(ip, port))),
            (Host::Unix(path), _) => Some(PeerAddress::Unix(path.into())),
            (Host::Ip(_), None) | (Host::Name(_), _) => None,
        });
        address.ok_or_else(|| {
            self.log(Level::Error, &format!("\"{}\" in \"pass\" is no address with a port", quoted(text)));
            RefusedSession::INTERNAL
        })
    }

    /// The connection with all that the next listener needs.
    pub(super) fn into_passed(self, listener: ListenerId, serves: Serves) -> PassedConnection {
        let peer = self.client().clone();
        let Self { connection: client, task, pending, generation, serial, passes, .. } = self;
        let passes = passes + 1;
        PassedConnection { client, task, pending, generation, listener, serves, peer, passes, serial }
    }
}
