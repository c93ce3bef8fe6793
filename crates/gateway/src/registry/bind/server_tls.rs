//! TLS of servers: certificates, ticket keys and session caches are found by their identity, so that a reload keeps sessions.

use crate::plan::tls::{CachePlan, CacheSize, TlsPlan};
use crate::registry::acme::BoundOrder;
use crate::registry::bind::Binding;
use crate::registry::tls_choice::{BoundTls, TlsAnswer};
use conf::diagnostic::Diagnostic;
use std::sync::Arc;
use tls::{Pairs, ServerSide, SessionCache, TicketKeys};

/// Early data that is taken before the handshake is complete: as much as OpenSSL takes for nginx.
const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

impl Binding<'_> {
    /// By the index of the server; `None` where a server has no TLS.
    pub(super) fn tls(&mut self, orders: &[BoundOrder]) -> Arc<[Option<BoundTls>]> {
        self.shared.certificates.forget_unused();
        let plan = self.plan;
        plan.servers.iter().map(|server| server.tls.as_deref().and_then(|tls| self.tls_of(tls, orders))).collect()
    }

    fn tls_of(&mut self, plan: &TlsPlan, orders: &[BoundOrder]) -> Option<BoundTls> {
        if plan.reject {
            return Some(BoundTls { answer: TlsAnswer::Refuse, slot: None });
        }
        let order = plan.acme.and_then(|id| orders.get(id.0 as usize));
        let (pairs, slot) = if let Some(order) = order {
            (order.certificate.pairs().clone(), None)
        } else {
            let slot = self.shared.certificates.slot(&plan.pairs);
            (slot.pairs.clone(), Some(slot))
        };
        match self.server_side(plan, pairs) {
            Ok(side) => Some(BoundTls { answer: TlsAnswer::Serve(Arc::new(side)), slot }),
            Err(error) => {
                self.found.push(Diagnostic::error(plan.span, format!("TLS cannot be set up: {error}")));
                None
            }
        }
    }

    fn server_side(&mut self, plan: &TlsPlan, pairs: Pairs) -> Result<ServerSide, tls::SetupError> {
        let cache = plan.cache.as_ref().map(|cache| self.session_cache(cache, plan));
        let tickets = plan.tickets.then(|| self.ticket_keys(plan));
        let mut side = ServerSide::new()
            .pairs(pairs)
            .protocols(plan.protocols.clone())
            .ciphers(plan.ciphers.clone())
            .curves(plan.curves.clone())
            .prefer_server_ciphers(plan.prefer_server_ciphers)
            .alpn(["http/1.1", "http/1.0", "http/0.9"])
            .record_bytes_max(plan.record_bytes_max)
            .session_name(plan.session_name.clone())
            .session_cache(cache)
            .ticket_keys(tickets);
        if plan.compress {
            side = side.compress_certificates(true);
        }
        if plan.early_data {
            side = side.early_data(EARLY_DATA_BYTES_MAX);
        }
        if plan.keep_offers {
            side = side.keep_offers();
        }
        if let Some(demands) = &plan.demands {
            side = side.client_check(Arc::clone(&demands.check));
        }
        side.build()
    }

    /// One without a name is the server's own.
    fn session_cache(&mut self, cache: &CachePlan, plan: &TlsPlan) -> Arc<SessionCache> {
        let name = cache.name.as_ref();
        let name = name.map_or_else(|| format!("server {}", plan.session_name), |name| format!("shared {name}"));
        let known = self.known.session_caches.entry((name, cache.size, plan.session_seconds));
        let cache = known.or_insert_with(|| {
            let cache = match cache.size {
                CacheSize::Sessions(count) => SessionCache::new(count),
                CacheSize::Bytes(bytes) => SessionCache::of_size(bytes),
            };
            Arc::new(cache.lifetime_seconds(plan.session_seconds))
        });
        Arc::clone(cache)
    }

    /// The same files give the same keys; without files the process has keys of its own, which live as long as it does.
    fn ticket_keys(&mut self, plan: &TlsPlan) -> Arc<TicketKeys> {
        let identity = (plan.ticket_keys.clone(), plan.session_seconds);
        let known = self.known.ticket_keys.entry(identity);
        let keys = known.or_insert_with(|| {
            let keys = if plan.ticket_keys.is_empty() {
                TicketKeys::random()
            } else {
                TicketKeys::new(plan.ticket_keys.iter().map(|secret| &**secret))
            };
            Arc::new(keys.lifetime_seconds(plan.session_seconds))
        });
        Arc::clone(keys)
    }
}
