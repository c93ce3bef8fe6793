//! `resolver`, and servers of groups with names that are looked up at run time.

use crate::lower::Lowering;
use crate::plan::group::AddressSource;
use crate::plan::name::{Question, ResolverPlan};
use conf::model::{Resolver, Upstream, UpstreamServer};
use conf::value::Host;
use reactor::PeerAddress;
use std::sync::Arc;
use std::time::Duration;

impl Lowering<'_> {
    pub(super) fn resolver(&mut self, written: &Resolver, timeout: Duration) -> Arc<ResolverPlan> {
        let mut servers = Vec::new();
        for server in &written.servers {
            servers.extend(self.addresses(server, Some(written.span)).into_iter().filter_map(
                |address| match address {
                    PeerAddress::Ip(address) => Some(address),
                    PeerAddress::Unix(_) => None,
                },
            ));
        }
        Arc::new(ResolverPlan {
            servers,
            // `valid=0` means the TTL of the answers.
            valid_ms: written.valid.map(|valid| valid.as_millis() as u64).filter(|&valid| valid > 0),
            ipv4: written.ipv4,
            ipv6: written.ipv6,
            timeout_ms: timeout.as_millis() as u64,
            zone: written.status_zone.as_deref().map(Into::into),
        })
    }

    /// The resolver of a group: its own, or that of its block.
    pub(super) fn resolver_of(&mut self, upstream: &Upstream) -> Option<Arc<ResolverPlan>> {
        let settings = &upstream.settings;
        if let Some(own) = &settings.resolver {
            return Some(self.resolver(own, settings.resolver_timeout));
        }
        let (outer, timeout) = self.outer_resolver.clone()?;
        Some(self.resolver(&outer, timeout))
    }

    /// `resolver` is the group's, if a server has `resolve`.
    pub(super) fn address_source(
        &mut self,
        server: &UpstreamServer,
        resolver: Option<&Arc<ResolverPlan>>,
    ) -> AddressSource {
        let address = &server.address.address;
        match (&address.host, resolver) {
            (Host::Name(name), Some(resolver)) if server.resolve => {
                let question = Question {
                    resolver: Arc::clone(resolver),
                    name: name.strip_suffix('.').unwrap_or(name).into(),
                    service: server.service.as_deref().map(Into::into),
                };
                AddressSource::Name(Arc::new(question), address.port)
            }
            _ => AddressSource::Fixed(self.addresses(address, Some(server.span))),
        }
    }
}
