//! Builds the questions for a name, and interprets the answers for the gateway: families, aliases, services. `ask`
//! chooses the servers. This module caches nothing, because the gateway's book does.

use crate::ask::{Failed, Servers};
use gateway::names::{Found, NameFailure, Outcome, Question, ResolverPlan};
use hickory_resolver::proto::op::{DnsResponse, Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Most targets of a service that are resolved; each needs one lookup of its addresses.
const TARGETS_MAX: usize = 64;
/// Most addresses of a name that are used: a message of 64 KB has more than a group needs.
const ADDRESSES_MAX: usize = 512;
/// Most questions that aliases may cause, one after the other. Answers contain whole chains, so a longer one is a loop.
const ALIASES_MAX: usize = 8;
/// After one family has addresses, how long to wait for the other. If a server drops the questions of one family, every
/// new answer is late by this time.
const FAMILY_PATIENCE: Duration = Duration::from_millis(500);

/// A resolver with its servers. Cloning shares its connections.
#[derive(Clone)]
pub(crate) struct Resolver {
    servers: Servers,
    ipv4: bool,
    ipv6: bool,
    timeout: Duration,
}

/// Addresses and their time to live in seconds, or the reason of the failure.
type Addresses = Result<(Vec<IpAddr>, u32), Failed>;

impl Resolver {
    pub(crate) fn new(plan: &ResolverPlan) -> Self {
        let timeout = Duration::from_millis(plan.timeout_ms);
        Self { servers: Servers::new(plan), ipv4: plan.ipv4, ipv6: plan.ipv6, timeout }
    }

    /// Resolves a name, within the resolver's time limit.
    pub(crate) async fn look_up(&self, question: &Question) -> Outcome {
        let until = Instant::now() + self.timeout;
        let found = match &question.service {
            None => self.addresses(&question.name, until).await.map(|(addresses, ttl_s)| {
                let plain = |ip| Found { ip, port: None, priority: 0, weight: 0 };
                (addresses.into_iter().map(plain).collect::<Vec<_>>(), ttl_s)
            }),
            Some(service) => self.service(&service_name(service, &question.name), until).await,
        };
        match found {
            Ok((mut addresses, ttl_s)) => {
                addresses.truncate(ADDRESSES_MAX);
                Outcome::Found { addresses, ttl_ms: u64::from(ttl_s) * 1000 }
            }
            Err(Failed { failure, ttl_s }) => {
                Outcome::Failed { failure, ttl_ms: ttl_s.map(|seconds| u64::from(seconds) * 1000) }
            }
        }
    }

    async fn addresses(&self, name: &str, until: Instant) -> Addresses {
        match (self.ipv4, self.ipv6) {
            (true, false) => self.addresses_of(name, RecordType::A, until).await,
            (false, _) => self.addresses_of(name, RecordType::AAAA, until).await,
            (true, true) => {
                let mut four = pin!(self.addresses_of(name, RecordType::A, until));
                let mut six = pin!(self.addresses_of(name, RecordType::AAAA, until));
                let (first, other) = tokio::select! {
                    first = &mut four => (first, six),
                    first = &mut six => (first, four),
                };
                let patience = if first.is_ok() { until.min(Instant::now() + FAMILY_PATIENCE) } else { until };
                let second = timeout_at(patience, other).await.unwrap_or(Err(Failed::TIMED_OUT));
                join(first, second)
            }
        }
    }

    async fn addresses_of(&self, name: &str, kind: RecordType, until: Instant) -> Addresses {
        let (records, ttl_s) = self.records(name, kind, until).await?;
        let addresses = records.iter().filter_map(|record| match record {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        Ok((addresses.collect(), ttl_s))
    }

    /// The records of a name, after all aliases, with the lowest time to live on the way. Never empty.
    async fn records(&self, name: &str, kind: RecordType, until: Instant) -> Result<(Vec<RData>, u32), Failed> {
        // The final dot marks a fully qualified name.
        let mut name = Name::from_utf8(format!("{name}.")).map_err(|_| Failed::TROUBLE)?;
        let mut ttl_s = u32::MAX;
        for _ in 0..ALIASES_MAX {
            let response = self.servers.ask(&Query::query(name.clone(), kind), until).await?;
            let end = follow_aliases(&response, &name, &mut ttl_s);
            let found = response.answers.iter().filter(|record| record.name == end && record.record_type() == kind);
            let found: Vec<_> = found.collect();
            if !found.is_empty() {
                let ttl_s = found.iter().map(|record| record.ttl).fold(ttl_s, u32::min);
                return Ok((found.into_iter().map(|record| record.data.clone()).collect(), ttl_s));
            }
            if end == name || response.response_code == ResponseCode::NXDomain {
                // The alias leads to no records.
                return Err(Failed { failure: NameFailure::NotFound, ttl_s: response.negative_ttl() });
            }
            name = end;
        }
        Err(Failed::TROUBLE)
    }

    async fn service(&self, name: &str, until: Instant) -> Result<(Vec<Found>, u32), Failed> {
        let (records, mut ttl_s) = self.records(name, RecordType::SRV, until).await?;
        let services = records
            .into_iter()
            .filter_map(|record| if let RData::SRV(service) = record { Some(service) } else { None });
        // The root as target means that there is no such service (RFC 2782).
        let services: Vec<_> = services.filter(|service| !service.target.is_root()).take(TARGETS_MAX).collect();
        let mut lookups = JoinSet::new();
        for (place, service) in services.iter().enumerate() {
            let (resolver, target) = (self.clone(), service.target.to_utf8());
            lookups.spawn(async move { (place, resolver.addresses(target.trim_end_matches('.'), until).await) });
        }
        let mut found = Vec::new();
        let mut trouble = Failed { failure: NameFailure::NotFound, ttl_s: Some(ttl_s) };
        while let Some(ended) = lookups.join_next().await {
            let Ok((place, addresses)) = ended else { continue };
            let Some(service) = services.get(place) else { continue };
            match addresses {
                Ok((addresses, target_ttl_s)) => {
                    ttl_s = ttl_s.min(target_ttl_s);
                    found.extend(addresses.into_iter().map(|ip| Found {
                        ip,
                        port: Some(service.port),
                        priority: service.priority,
                        weight: service.weight,
                    }));
                }
                // A target without addresses does not affect the others.
                Err(failed) => trouble = failed,
            }
        }
        if found.is_empty() { Err(trouble) } else { Ok((found, ttl_s)) }
    }
}

/// The name at the end of the aliases in an answer, as far as the answer has them.
fn follow_aliases(response: &DnsResponse, name: &Name, ttl_s: &mut u32) -> Name {
    let mut end = name.clone();
    // Each alias is followed at most once, so a loop ends.
    for _ in 0..response.answers.len() {
        let next = response.answers.iter().find_map(|record| match &record.data {
            RData::CNAME(alias) if record.name == end => Some((alias.0.clone(), record.ttl)),
            _ => None,
        });
        let Some((target, alias_ttl_s)) = next else { break };
        *ttl_s = (*ttl_s).min(alias_ttl_s);
        end = target;
    }
    end
}

/// The name of a service's records: `http` gives `_http._tcp`; a service with a dot is prepended unchanged.
fn service_name(service: &str, name: &str) -> String {
    if service.contains('.') { format!("{service}.{name}") } else { format!("_{service}._tcp.{name}") }
}

/// Merges both families: addresses of one are sufficient. Without any, trouble takes precedence over absence, because
/// it may soon be over.
fn join(one: Addresses, other: Addresses) -> Addresses {
    match (one, other) {
        (Ok((mut all, ttl_s)), Ok((more, more_ttl_s))) => {
            all.extend(more);
            Ok((all, ttl_s.min(more_ttl_s)))
        }
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(one), Err(other)) if one.failure == NameFailure::NotFound => Err(match other.failure {
            NameFailure::NotFound => Failed { ttl_s: one.ttl_s.min(other.ttl_s), ..one },
            _ => other,
        }),
        (Err(one), Err(_)) => Err(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_without_a_dot_is_one_over_tcp() {
        assert_eq!(service_name("http", "example.com"), "_http._tcp.example.com");
        assert_eq!(service_name("_http._udp", "example.com"), "_http._udp.example.com");
        assert_eq!(service_name("server1.app", "example.com"), "server1.app.example.com");
    }

    #[test]
    fn one_address_family_is_enough_and_errors_outweigh_absence() {
        let absent = |ttl_s| Failed { failure: NameFailure::NotFound, ttl_s: Some(ttl_s) };
        let trouble = Failed { failure: NameFailure::ServerFailure, ttl_s: None };
        let (four, six): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        assert_eq!(join(Ok((vec![four], 9)), Ok((vec![six], 5))), Ok((vec![four, six], 5)));
        assert_eq!(join(Err(trouble), Ok((vec![six], 5))), Ok((vec![six], 5)));
        assert_eq!(join(Ok((vec![four], 9)), Err(absent(1))), Ok((vec![four], 9)));
        assert_eq!(join(Err(absent(7)), Err(absent(3))), Err(absent(3)));
        assert_eq!(join(Err(absent(7)), Err(trouble)), Err(trouble));
        assert_eq!(join(Err(trouble), Err(absent(7))), Err(trouble));
    }
}
