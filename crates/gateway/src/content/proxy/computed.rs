//! Names during an exchange: a `proxy_pass` with variables goes where its URL leads, and a group whose names were never
//! looked up is waited for.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::{ClientLeft, Wants};
use crate::plan::variable_pass::{PassUrl, VariablePassPlan};
use crate::registry::generation::BoundProxy;
use crate::registry::group::{HeldPeers, PeerSet};
use crate::registry::names::cache::Asked;
use crate::registry::names::{Found, NameFailure, Question};
use crate::registry::shared::wake_token;
use conf::value::Host;
use reactor::Woken;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Why a name has no addresses.
enum NoAddress {
    Failed(NameFailure),
    ClientLeft,
}

/// What an exchange waits for longer than a lookup may take: the way from one thread to another on a busy machine.
const SETTLING: Duration = Duration::from_millis(250);

impl Exchange {
    /// `proxy_pass` with variables.
    pub(crate) async fn proxy_computed(&mut self, plan: &VariablePassPlan) -> Step {
        let mut url = Vec::new();
        plan.url.write(&ExchangeView::of(self), &mut url);
        let target = match PassUrl::parse(&url) {
            Ok(target) => target,
            Err(message) => {
                self.error_log(&message);
                return Step::Reply(Reply::error(500));
            }
        };
        let (place, is_known) = plan.place(&target);
        let held = if is_known {
            None
        } else {
            match self.peers_of(plan, &target).await {
                Ok(set) => Some(set),
                Err(499) => return self.client_left(),
                Err(status) => return Step::Reply(Reply::error(status)),
            }
        };
        let generation = Rc::clone(&self.generation);
        let Some(proxy) = plan.proxy(place).map(|id| generation.proxy(id)) else {
            return Step::Reply(Reply::error(500));
        };
        self.upstream.url = Some(Box::new(target));
        self.upstream.place = place;
        let held = match held {
            Some(set) => Some(set),
            None => match self.hold_members(proxy).await {
                Ok(held) => held,
                Err(ClientLeft) => return self.client_left(),
            },
        };
        self.proxy(proxy, held).await
    }

    /// The peers of a target that is no group; the error is a status.
    async fn peers_of(&self, plan: &VariablePassPlan, target: &PassUrl) -> Result<Arc<PeerSet>, u16> {
        let port = target.port();
        let Some(targets) = plan.targets(target.scheme) else { return Err(500) };
        let guests = self.generation.guests(targets.guests);
        let (name, found): (_, Arc<[Found]>) = match &target.host {
            Host::Ip(ip) => {
                let only = Found { ip: *ip, port: None, priority: 0, weight: 0 };
                (ip.to_string(), [only].into())
            }
            Host::Unix(path) => return Ok(guests.unix_peer(path, self.thread.reactor.now().0)),
            Host::Name(name) => {
                let Some(resolver) = &plan.resolver else {
                    self.error_log(&format!("no resolver defined to resolve {name}"));
                    return Err(502);
                };
                let whole = name.strip_suffix('.').unwrap_or(name);
                let question = Question { resolver: Arc::clone(resolver), name: whole.into(), service: None };
                match self.look_up(&Arc::new(question)).await {
                    Ok(found) => (name.clone(), found),
                    Err(NoAddress::ClientLeft) => return Err(499),
                    Err(NoAddress::Failed(failure)) => {
                        self.error_log(&format!("{name} could not be resolved ({failure})"));
                        return Err(502);
                    }
                }
            }
        };
        Ok(guests.peers(&name, port, &found, self.thread.reactor.now().0))
    }

    /// The addresses of a name: those that are known, or those that the control plane finds within the resolver's time.
    async fn look_up(&self, question: &Arc<Question>) -> Result<Arc<[Found]>, NoAddress> {
        let names = &self.thread.shared.names;
        let token = wake_token(self.thread.index, self.task());
        // The control plane ends a lookup in time, with whatever has come by then: that is to be seen here, too.
        let at_most = Duration::from_millis(question.resolver.timeout_ms).saturating_add(SETTLING);
        let began = self.thread.reactor.now();
        loop {
            let now = self.thread.reactor.now();
            match names.ask(question, token, now.0) {
                Asked::Known(found) => return Ok(found),
                Asked::Failed(failure) => return Err(NoAddress::Failed(failure)),
                Asked::Wait => {}
            }
            let left = at_most.saturating_sub(Duration::from_millis(now.since(began)));
            if left.is_zero() {
                return Err(NoAddress::Failed(NameFailure::TimedOut));
            }
            if self.wait(Wants::NOTHING, left).await == Woken::PeerGone {
                return Err(NoAddress::ClientLeft);
            }
        }
    }

    /// The peers of a group. Where names of it were never looked up, the first exchanges wait for that.
    pub(crate) async fn hold_members(&self, plan: &BoundProxy) -> Result<HeldPeers, ClientLeft> {
        if let Some(moving) = &plan.group.moving {
            for question in moving.unresolved() {
                // Whatever comes of it, the peers are there, or there are none.
                if let Err(NoAddress::ClientLeft) = self.look_up(&question).await {
                    return Err(ClientLeft);
                }
            }
        }
        Ok(plan.group.members.hold())
    }
}
