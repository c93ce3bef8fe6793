//! TLS of servers: finds certificates, ticket keys and session caches by identity, so that a reload keeps sessions.

use crate::plan::tls::{CacheSize, SessionCachePlan, TlsPlan};
use crate::registry::acme::BoundOrder;
use crate::registry::bind::Binding;
use crate::registry::certificate_finder::CertificateFinder;
use crate::registry::process::Registry;
use crate::registry::tls_choice::{BoundTls, TlsAnswer};
use conf::diagnostic::Diagnostic;
use conf::model::CertificateCache;
use std::sync::Arc;
use tls::{Pairs, ServerSide, SessionCache, TicketKeys, TicketState};

/// Early data accepted before the handshake is complete: as much as OpenSSL allows nginx.
const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

/// ALPN offers, as in nginx, without HTTP/2 and with it.
const PROTOCOLS: [&[&str]; 2] = [&["http/1.1", "http/1.0", "http/0.9"], &["h2", "http/1.1", "http/1.0", "http/0.9"]];

impl Registry {
    /// The ticket keys that this process has generated, for another process that should use the same.
    pub fn ticket_states(&self) -> Vec<TicketState> {
        self.identities.lock().ticket_keys.values().filter_map(|keys| keys.state()).collect()
    }

    /// Takes over ticket keys, unless there are keys for tickets with the same lifetime already.
    pub fn adopt_tickets(&self, states: &[TicketState]) {
        let mut known = self.identities.lock();
        for state in states {
            let identity = (Vec::new(), state.lifetime_seconds);
            known.ticket_keys.entry(identity).or_insert_with(|| Arc::new(TicketKeys::of_state(state.clone())));
        }
    }
}

impl Binding<'_> {
    /// By the index of the server; `None` for a server without TLS.
    pub(super) fn tls(&mut self, orders: &[BoundOrder]) -> Arc<[Option<BoundTls>]> {
        self.registry.certificates.forget_unused();
        let plan = self.plan;
        let places = self.before.as_ref().map(|before| before.places_of_servers()).unwrap_or_default();
        let bound = plan.servers.iter().map(|server| {
            let before = self.before.as_ref();
            let known = before.and_then(|before| before.tls_again(server, &places));
            known.or_else(|| server.tls.as_deref().and_then(|tls| self.tls_of(tls, orders)))
        });
        bound.collect()
    }

    /// The same of `stream`.
    pub(super) fn stream_tls(&mut self) -> Arc<[Option<BoundTls>]> {
        let servers = &self.plan.stream.servers;
        servers.iter().map(|server| server.tls.as_deref().and_then(|tls| self.tls_of(tls, &[]))).collect()
    }

    fn tls_of(&mut self, plan: &TlsPlan, orders: &[BoundOrder]) -> Option<BoundTls> {
        if plan.reject {
            return Some(BoundTls { answers: [Some(TlsAnswer::Refuse), None], slot: None });
        }
        if let Some(made) = &plan.made {
            let finder = self.finder(made.cache);
            let answer = |side| TlsAnswer::Find(Arc::new(side), finder.clone());
            let answers = self.answers(plan, &Pairs::default(), answer)?;
            return Some(BoundTls { answers, slot: None });
        }
        let order = plan.acme.and_then(|id| orders.get(id.0 as usize));
        let (pairs, slot) = if let Some(order) = order {
            (order.certificate.pairs().clone(), None)
        } else {
            let slot = self.registry.certificates.slot(&plan.pairs);
            (slot.pairs.clone(), Some(slot))
        };
        let answers = self.answers(plan, &pairs, |side| TlsAnswer::Serve(Arc::new(side)))?;
        Some(BoundTls { answers, slot })
    }

    /// The settings for each list of ALPN protocols. They share certificates, sessions and ticket keys.
    fn answers(
        &mut self,
        plan: &TlsPlan,
        pairs: &Pairs,
        answer: impl Fn(ServerSide) -> TlsAnswer,
    ) -> Option<[Option<TlsAnswer>; 2]> {
        let mut answers = [None, None];
        for (place, is_offered) in [plan.offers.http1 || !plan.offers.http2, plan.offers.http2].into_iter().enumerate()
        {
            if is_offered {
                let protocols = match &plan.alpn {
                    Some(written) => written.iter().map(String::as_str).collect(),
                    None => PROTOCOLS[place].to_vec(),
                };
                answers[place] = Some(answer(self.checked(plan, pairs.clone(), &protocols)?));
            }
        }
        Some(answers)
    }

    fn checked(&mut self, plan: &TlsPlan, pairs: Pairs, protocols: &[&str]) -> Option<ServerSide> {
        let failed = |error| Diagnostic::error(plan.span, format!("TLS cannot be set up: {error}"));
        self.server_side(plan, pairs, protocols).map_err(|error| self.found.push(failed(error))).ok()
    }

    /// One cache for all servers of this configuration with the same settings: most inherit them from `http`.
    pub(super) fn finder(&mut self, words: Option<CertificateCache>) -> CertificateFinder {
        let Some(words) = words else { return CertificateFinder::default() };
        self.finders.entry(words).or_insert_with(|| CertificateFinder::new(Some(words))).clone()
    }

    fn server_side(&mut self, plan: &TlsPlan, pairs: Pairs, protocols: &[&str]) -> Result<ServerSide, tls::SetupError> {
        let cache = plan.cache.as_ref().map(|cache| self.session_cache(cache, plan));
        let tickets = plan.tickets.then(|| self.ticket_keys(plan));
        let mut side = ServerSide::new()
            .pairs(pairs)
            .protocols(plan.protocols.clone())
            .ciphers(plan.ciphers.clone())
            .curves(plan.curves.clone())
            .prefer_server_ciphers(plan.prefer_server_ciphers)
            .alpn(protocols.iter().copied())
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

    /// A cache without a name is the server's own.
    fn session_cache(&mut self, cache: &SessionCachePlan, plan: &TlsPlan) -> Arc<SessionCache> {
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

    /// The same files give the same keys; without files the process uses keys of its own, for its lifetime.
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
