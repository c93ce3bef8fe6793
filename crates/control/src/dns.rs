//! One `resolver` as a stub resolver: UDP first, TCP for what was truncated, several servers. What is sent and what is
//! believed is hickory's; here stands what is asked for, and what an answer means to the gateway. Nothing is remembered:
//! the gateway's book does that.

use gateway::names::{Found, NameFailure, Outcome, Question, ResolverPlan};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::net::IpAddr;
use std::time::Duration;

/// A server that has not answered for so long is asked again, or another one is; nginx's time.
const RESEND: Duration = Duration::from_secs(5);
/// Further tries after the first. With less than this times [`RESEND`] of `resolver_timeout` each try gets less.
const RETRIES: u32 = 2;
/// Targets of a service that are looked up: their addresses are one lookup each.
const TARGETS_MAX: usize = 64;
/// Addresses of a name that are used: what fits a message of 64 KB is more than a group can make use of.
const ADDRESSES_MAX: usize = 512;

/// A resolver with its servers. Cloning shares its connections.
#[derive(Clone)]
pub(crate) struct Resolver {
    /// `None`: its servers are none that hickory takes.
    stub: Option<TokioResolver>,
    ipv4: bool,
    ipv6: bool,
}

/// Addresses and their time to live in seconds, or why there are none.
type Addresses = Result<(Vec<IpAddr>, u32), Failed>;

/// A failure with the time that it holds, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed {
    failure: NameFailure,
    ttl_s: Option<u32>,
}

impl Resolver {
    pub(crate) fn new(plan: &ResolverPlan) -> Self {
        let servers = plan.servers.iter().map(|server| {
            let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
            (udp.port, tcp.port) = (server.port(), server.port());
            // Whether a name exists is the same for all servers of a resolver.
            NameServerConfig::new(server.ip(), true, vec![udp, tcp])
        });
        // No search list: a name of the configuration is whole, as in nginx.
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let options = builder.options_mut();
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        options.timeout = RESEND.min(Duration::from_millis(plan.timeout_ms) / (RETRIES + 1));
        options.attempts = RETRIES as usize;
        Self { stub: builder.build().ok(), ipv4: plan.ipv4, ipv6: plan.ipv6 }
    }

    /// Looks a name up.
    pub(crate) async fn look_up(&self, question: &Question) -> Outcome {
        let found = match &question.service {
            None => self.addresses(&question.name).await.map(|(addresses, ttl_s)| {
                let plain = |ip| Found { ip, port: None, priority: 0, weight: 0 };
                (addresses.into_iter().map(plain).collect::<Vec<_>>(), ttl_s)
            }),
            Some(service) => self.service(&service_name(service, &question.name)).await,
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

    async fn addresses(&self, name: &str) -> Addresses {
        match (self.ipv4, self.ipv6) {
            (true, false) => self.addresses_of(name, RecordType::A).await,
            (false, _) => self.addresses_of(name, RecordType::AAAA).await,
            (true, true) => {
                let both =
                    tokio::join!(self.addresses_of(name, RecordType::A), self.addresses_of(name, RecordType::AAAA));
                join(both.0, both.1)
            }
        }
    }

    async fn addresses_of(&self, name: &str, kind: RecordType) -> Addresses {
        let (records, ttl_s) = self.records(name, kind).await?;
        let addresses = records.iter().filter_map(|record| match record {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        let addresses: Vec<IpAddr> = addresses.collect();
        // An alias that leads to nothing.
        if addresses.is_empty() {
            Err(Failed { failure: NameFailure::NotFound, ttl_s: Some(ttl_s) })
        } else {
            Ok((addresses, ttl_s))
        }
    }

    /// The records of an answer, aliases included, with their least time to live.
    async fn records(&self, name: &str, kind: RecordType) -> Result<(Vec<RData>, u32), Failed> {
        let trouble = Failed { failure: NameFailure::ServerFailure, ttl_s: None };
        let stub = self.stub.as_ref().ok_or(trouble)?;
        // The dot says that the name is whole.
        let answer = stub.lookup(format!("{name}."), kind).await.map_err(|error| failed(&error))?;
        let ttl_s = answer.answers().iter().map(|record| record.ttl).min().unwrap_or(0);
        Ok((answer.answers().iter().map(|record| record.data.clone()).collect(), ttl_s))
    }

    async fn service(&self, name: &str) -> Result<(Vec<Found>, u32), Failed> {
        let (records, mut ttl_s) = self.records(name, RecordType::SRV).await?;
        let mut found = Vec::new();
        let mut trouble = Failed { failure: NameFailure::NotFound, ttl_s: Some(ttl_s) };
        let services =
            records.iter().filter_map(|record| if let RData::SRV(service) = record { Some(service) } else { None });
        for service in services.take(TARGETS_MAX) {
            let target = service.target.to_utf8();
            match self.addresses(target.trim_end_matches('.')).await {
                Ok((addresses, target_ttl_s)) => {
                    ttl_s = ttl_s.min(target_ttl_s);
                    found.extend(addresses.into_iter().map(|ip| Found {
                        ip,
                        port: Some(service.port),
                        priority: service.priority,
                        weight: service.weight,
                    }));
                }
                // One target without addresses does not take the others away.
                Err(failed) => trouble = failed,
            }
        }
        if found.is_empty() { Err(trouble) } else { Ok((found, ttl_s)) }
    }
}

/// The name of a service's records: `http` is `_http._tcp`, and what has a dot is put before the name as it is.
fn service_name(service: &str, name: &str) -> String {
    if service.contains('.') { format!("{service}.{name}") } else { format!("_{service}._tcp.{name}") }
}

/// What both families came to: addresses of one are enough; without any, trouble weighs more than absence, since it may
/// be over soon.
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

fn failed(error: &NetError) -> Failed {
    let of = |failure| Failed { failure, ttl_s: None };
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NoError => Failed { failure: NameFailure::NotFound, ttl_s: none.negative_ttl },
            code => Failed { ttl_s: none.negative_ttl, ..of(failure_of(code)) },
        },
        NetError::Dns(DnsError::ResponseCode(code)) => of(failure_of(*code)),
        NetError::Timeout => of(NameFailure::TimedOut),
        _ => of(NameFailure::ServerFailure),
    }
}

fn failure_of(code: ResponseCode) -> NameFailure {
    match code {
        ResponseCode::FormErr => NameFailure::FormatError,
        ResponseCode::NXDomain => NameFailure::NotFound,
        ResponseCode::NotImp => NameFailure::Unimplemented,
        ResponseCode::Refused => NameFailure::Refused,
        _ => NameFailure::ServerFailure,
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
    fn addresses_of_one_family_are_enough_and_trouble_weighs_more_than_absence() {
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
