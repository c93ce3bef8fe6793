//! Binds listening addresses to their numbers.

use crate::plan::listener::{ListenerPlan, Serves};
use crate::registry::bind::{Binding, ListenerSpec};
use crate::registry::generation::{BoundListener, ListenerId};
use crate::registry::tls_choice::{BoundTls, TlsChoice};
use reactor::PeerAddress;
use std::net::IpAddr;
use std::sync::Arc;

impl Binding<'_> {
    pub(super) fn listeners(
        &mut self,
        tls: &Arc<[Option<BoundTls>]>,
        stream_tls: &Arc<[Option<BoundTls>]>,
    ) -> (Vec<Option<BoundListener>>, Vec<ListenerSpec>) {
        let (mut bound, mut specs) = (Vec::new(), Vec::new());
        for plan in &self.plan.listeners {
            let id = self.listener_id(&plan.address, plan.datagrams);
            let behind: Vec<(IpAddr, ListenerId)> = plan
                .behind
                .iter()
                .filter_map(|address| match address {
                    PeerAddress::Ip(ip) => Some((ip.ip(), self.listener_id(address, plan.datagrams))),
                    PeerAddress::Unix(_) => None,
                })
                .collect();
            // The list has gaps for the addresses of other generations.
            let index = id.0 as usize;
            if index >= bound.len() {
                bound.resize_with(index + 1, || None);
            }
            bound[index] = Some(BoundListener {
                tls: plan.tls.then(|| match plan.serves {
                    Serves::Http => self.choice_of(plan, tls),
                    Serves::Stream => self.choice_of(plan, stream_tls),
                }),
                plan: Arc::clone(plan),
                behind,
            });
            if let Some(options) = &plan.socket {
                specs.push(ListenerSpec { id, address: plan.address.clone(), options: options.clone() });
            }
        }
        (bound, specs)
    }

    /// TCP and UDP have ports of their own.
    fn listener_id(&mut self, address: &PeerAddress, datagrams: bool) -> ListenerId {
        let next = ListenerId(self.known.listeners.len() as u32);
        *self.known.listeners.entry((address.clone(), datagrams)).or_insert(next)
    }

    fn choice_of(&self, plan: &Arc<ListenerPlan>, tls: &Arc<[Option<BoundTls>]>) -> Arc<dyn tls::Listener> {
        let challenges = self.registry.acme.challenges().clone();
        let http2 = match plan.serves {
            Serves::Http => self.plan.servers.iter().map(|server| server.http2.enabled).collect(),
            Serves::Stream => Arc::default(),
        };
        Arc::new(TlsChoice { listener: Arc::clone(plan), servers: Arc::clone(tls), http2, challenges })
    }
}
