//! The client's address as reported by a trusted proxy: `set_real_ip_from`, `real_ip_header`, `real_ip_recursive`. As
//! in nginx, it is determined once per exchange: by the server's settings when the server is chosen, else by the
//! location's before its limits and access rules, which use that address.

use crate::exchange::Exchange;
use crate::plan::access::{RealIpPlan, RealIpSource};
use http1::FieldId;
use reactor::PeerAddress;
use rules::forwarded::{Hop, client_behind};
use std::net::SocketAddr;
use std::rc::Rc;

impl Exchange {
    /// Determines the client by the settings of the chosen server.
    pub(crate) fn find_client_of_server(&mut self) {
        let generation = Rc::clone(&self.generation);
        let own = generation.server(self.routing.target.server()).own;
        if let Some(plan) = &generation.location(own).real_ip {
            self.find_client(plan);
        }
    }

    /// Determines the client by these settings, unless it is known already.
    pub(crate) fn find_client(&mut self, plan: &RealIpPlan) {
        if self.admission.real_client.is_some() {
            return;
        }
        let sender = self.down.peer().ip();
        let found = match &plan.source {
            RealIpSource::ProxyProtocol => self.proxied_source().filter(|_| plan.trusts(sender)),
            RealIpSource::Field(name) => self.client_in(plan, sender, |_, field| field.eq_ignore_ascii_case(name), 1),
            RealIpSource::ForwardedFor => {
                self.client_in(plan, sender, |id, _| id == FieldId::XForwardedFor, usize::MAX)
            }
        };
        self.admission.real_client = found.map(|address| Box::new(PeerAddress::Ip(address)));
    }

    /// The source address in the PROXY protocol header.
    fn proxied_source(&self) -> Option<SocketAddr> {
        Some(self.down.proxy_header()?.addresses?.source)
    }

    /// The addresses in the first matching fields, at most this many.
    fn client_in(
        &self,
        plan: &RealIpPlan,
        sender: Hop,
        wanted: impl Fn(FieldId, &[u8]) -> bool,
        most: usize,
    ) -> Option<SocketAddr> {
        let bytes = &self.request.bytes;
        let fields = self.request.head.fields.iter().filter(|field| wanted(field.id, field.name.of(bytes)));
        let values: Vec<&[u8]> = fields.take(most).map(|field| field.value.of(bytes)).collect();
        client_behind(sender, values.into_iter().rev(), plan.recursive, |hop| plan.trusts(hop))
    }
}
