//! Looks names up before a connection: for a group without resolved peers yet, and for a host that only a variable
//! names.

use crate::base::logs::error::Level;
use crate::connector::Caller;
use crate::registry::group::{BoundGroup, HeldPeers, PeerSet};
use crate::registry::guests::Guests;
use crate::registry::names::cache::NameAnswer;
use crate::registry::names::{Found, NameFailure, Question, ResolverPlan};
use crate::registry::process::wake_token;
use conf::value::Host;
use reactor::Woken;
use std::sync::Arc;
use std::time::Duration;

/// Why a name has no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAddress {
    /// The reason was logged.
    Failed,
    ClientLeft,
}

/// Extra time that an exchange waits beyond the lookup's own limit: the delay between threads on a busy machine.
const SETTLING: Duration = Duration::from_millis(250);

/// The peers of a host that is no group of the configuration.
pub(crate) async fn named_peers<C: Caller>(
    caller: &C,
    guests: &Guests,
    host: &Host,
    port: u16,
    resolver: Option<&Arc<ResolverPlan>>,
) -> Result<Arc<PeerSet>, NoAddress> {
    let reactor = &caller.thread().reactor;
    let (name, found): (_, Arc<[Found]>) = match host {
        Host::Ip(ip) => {
            let only = Found { ip: *ip, port: None, priority: 0, weight: 0 };
            (ip.to_string(), [only].into())
        }
        Host::Unix(path) => return Ok(guests.unix_peer(path, reactor.now().0)),
        Host::Name(name) => {
            let Some(resolver) = resolver else {
                caller.log_line(Level::Error, &format!("no resolver defined to resolve {name}"));
                return Err(NoAddress::Failed);
            };
            let whole = name.strip_suffix('.').unwrap_or(name);
            let question = Question { resolver: Arc::clone(resolver), name: whole.into(), service: None };
            match look_up(caller, &Arc::new(question)).await? {
                Ok(found) => (name.clone(), found),
                Err(failure) => {
                    caller.log_line(Level::Error, &format!("{name} could not be resolved ({failure})"));
                    return Err(NoAddress::Failed);
                }
            }
        }
    };
    Ok(guests.peers(&name, port, &found, reactor.now().0))
}

/// The peers of a group. If its names were never looked up, the first callers wait for the lookup. The only error is
/// that the client has left.
pub(crate) async fn hold_members<C: Caller>(caller: &C, group: &BoundGroup) -> Result<HeldPeers, NoAddress> {
    if let Some(moving) = &group.moving {
        for question in moving.unresolved() {
            // With or without an answer the caller goes on: the peer set then has the addresses, or is empty.
            let _ = look_up(caller, &question).await?;
        }
    }
    Ok(group.members.hold())
}

/// The addresses of a name: the known ones, or those that the control plane finds within the resolver's timeout. The
/// outer error is that the client has left.
async fn look_up<C: Caller>(
    caller: &C,
    question: &Arc<Question>,
) -> Result<Result<Arc<[Found]>, NameFailure>, NoAddress> {
    let thread = caller.thread();
    let names = &thread.registry.names;
    let token = wake_token(thread.index, caller.task());
    // The control plane ends a lookup after the timeout with the answers so far; the margin lets this exchange see
    // them.
    let at_most = Duration::from_millis(question.resolver.timeout_ms).saturating_add(SETTLING);
    let began = thread.reactor.now();
    loop {
        let now = thread.reactor.now();
        match names.ask(question, token, now.0) {
            NameAnswer::Known(found) => return Ok(Ok(found)),
            NameAnswer::Failed(failure) => return Ok(Err(failure)),
            NameAnswer::Wait => {}
        }
        let left = at_most.saturating_sub(Duration::from_millis(now.since(began)));
        if left.is_zero() {
            return Ok(Err(NameFailure::TimedOut));
        }
        if caller.wait_for(None, left).await == Woken::PeerGone {
            return Err(NoAddress::ClientLeft);
        }
    }
}
