//! Name lookups during an exchange: for a `proxy_pass` with variables, and for a group without resolved names yet.

use crate::base::logs::error::quoted;
use crate::connector::names::{NoAddress, hold_members, named_peers};
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::ClientLeft;
use crate::plan::variable_pass::{PassUrl, VariablePassPlan};
use crate::registry::generation::BoundProxy;
use crate::registry::group::{HeldPeers, PeerSet};
use conf::value::Host;
use std::rc::Rc;
use std::sync::Arc;

impl Exchange {
    /// `proxy_pass` with variables.
    pub(crate) async fn proxy_looked_up<T: Tracer>(&mut self, plan: &VariablePassPlan, trace: T) -> Step {
        let mut url = Vec::new();
        plan.url.write(&ExchangeView::of(self), &mut url);
        let target = match PassUrl::parse(&url) {
            Ok(target) => target,
            Err(message) => {
                self.error_log(&message);
                return Step::Reply(Reply::error(500));
            }
        };
        trace.note(self, Event::PassUrl(&target));
        let (place, is_known) = plan.place(&target);
        // Only a resolver can tell the addresses of a name.
        let is_unknown = T::OFFLINE && plan.resolver.is_some() && matches!(target.host, Host::Name(_));
        let held = if is_known || is_unknown {
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
        self.upstream.use_proxy_for(place, target);
        let held = match held {
            Some(set) => Some(set),
            None if T::OFFLINE => proxy.group.members.hold(),
            None => match self.hold_members(proxy).await {
                Ok(held) => held,
                Err(ClientLeft) => return self.client_left(),
            },
        };
        self.proxy(proxy, held, trace).await
    }

    /// The peers of a target that is no group; the error is a status.
    async fn peers_of(&self, plan: &VariablePassPlan, target: &PassUrl) -> Result<Arc<PeerSet>, u16> {
        let Some(port) = target.port().or(matches!(target.host, Host::Unix(_)).then_some(0)) else {
            self.error_log(&format!("no port in upstream \"{}\"", quoted(&target.host_text)));
            return Err(500);
        };
        let Some(targets) = plan.targets(target.scheme) else { return Err(500) };
        let guests = self.generation.guests(targets.guests);
        named_peers(self, guests, &target.host, port, plan.resolver.as_ref()).await.map_err(|no_address| {
            match no_address {
                NoAddress::Failed => 502,
                NoAddress::ClientLeft => 499,
            }
        })
    }

    /// The peers of a proxy's group.
    pub(crate) async fn hold_members(&self, plan: &BoundProxy) -> Result<HeldPeers, ClientLeft> {
        hold_members(self, &plan.group).await.map_err(|_| ClientLeft)
    }
}
