//! Connects to a host, resolved as the configuration says, for the clients of ACME and of OCSP.

use crate::dns;
use gateway::names::{Outcome, Question, ResolverPlan};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time for a connect to one address of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most addresses of a host to try.
const ADDRESSES_MAX: usize = 8;

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Resolves hosts and connects to them. Cloning shares the resolver; without one it uses the system's.
#[derive(Clone)]
pub(crate) struct Dialer(Option<(Arc<ResolverPlan>, dns::Resolver)>);

impl Dialer {
    pub(crate) fn new(plan: Option<&Arc<ResolverPlan>>) -> Self {
        Self(plan.map(|plan| (Arc::clone(plan), dns::Resolver::new(plan))))
    }

    pub(crate) async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Failed> {
        let mut last: Failed = format!("{host} has no address").into();
        for ip in self.addresses(host, port).await?.into_iter().take(ADDRESSES_MAX) {
            let address = SocketAddr::new(ip, port);
            last = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => format!("connect() to {address} failed ({})", gateway::errno(&error)).into(),
                Err(_) => format!("connect() to {address} timed out").into(),
            };
        }
        Err(last)
    }

    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<IpAddr>, Failed> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let Some((plan, resolver)) = &self.0 else {
            let found = tokio::net::lookup_host((host, port)).await;
            let found = found.map_err(|error| format!("{host} could not be resolved ({error})"))?;
            return Ok(found.map(|address| address.ip()).collect());
        };
        let question = Question { resolver: Arc::clone(plan), name: host.to_ascii_lowercase().into(), service: None };
        match resolver.look_up(&question).await {
            Outcome::Found { addresses, .. } => Ok(addresses.into_iter().map(|found| found.ip).collect()),
            Outcome::Failed { failure, .. } => Err(format!("{host} could not be resolved ({failure})").into()),
        }
    }
}

/// A task that is aborted with its owner.
pub(crate) struct AbortOnDrop(pub(crate) tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
