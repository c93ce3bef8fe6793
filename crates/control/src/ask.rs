//! Sends one question to the name servers of a `resolver`: which server is asked when, and which answer counts. hickory
//! does messages, sockets, and the validation of answers. Called by `dns`.

use gateway::names::{NameFailure, ResolverPlan};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::udp::UdpClientStream;
use hickory_resolver::net::xfer::{DnsHandle as _, DnsRequestSender as _, FirstAnswer as _};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{DnsRequest, DnsRequestOptions, DnsResponse, Query, ResponseCode};
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Servers that are asked at the same time: if one is dead, the other answers without delay.
const AT_ONCE: usize = 2;

/// After this time without an answer the next servers are asked, or the same ones again, as in nginx. Servers asked
/// before may still answer.
const RESEND: Duration = Duration::from_secs(5);

/// Most rounds: six in the default `resolver_timeout`. Each open question is a socket.
const ROUNDS_MAX: usize = 6;

/// After a server has reported that the name does not exist, how long other servers may contradict it.
const ABSENCE_PATIENCE: Duration = Duration::from_secs(1);

/// A failure, and how many seconds it is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) failure: NameFailure,
    pub(crate) ttl_s: Option<u32>,
}

impl Failed {
    pub(crate) const TIMED_OUT: Self = Self { failure: NameFailure::TimedOut, ttl_s: None };
    pub(crate) const TROUBLE: Self = Self { failure: NameFailure::ServerFailure, ttl_s: None };

    /// A name that does not exist is an answer; it takes precedence over trouble at another server.
    fn or(self, other: Self) -> Self {
        if other.failure == NameFailure::NotFound { other } else { self }
    }
}

/// The servers of a `resolver`. Cloning shares them.
#[derive(Clone)]
pub(crate) struct Servers {
    all: Arc<[Server]>,
    /// The server to ask next.
    turn: Arc<AtomicUsize>,
}

struct Server {
    address: SocketAddr,
    /// For answers that do not fit a datagram. `None`: hickory refuses the server.
    tcp: Option<NameServerPool<TokioRuntimeProvider>>,
}

impl Servers {
    pub(crate) fn new(plan: &ResolverPlan) -> Self {
        let all = plan.servers.iter().map(|&address| Server { address, tcp: tcp(address, plan.timeout_ms) });
        Self { all: all.collect(), turn: Arc::default() }
    }

    /// Asks until an answer with records (or aliases) arrives, until no server is left that could have one, or until
    /// the time is over. An answer to an earlier attempt counts like one to the last.
    pub(crate) async fn ask(&self, query: &Query, until: Instant) -> Result<DnsResponse, Failed> {
        let mut race = Race { servers: self, query, until, tries: JoinSet::new(), begun: 0, first: 0 };
        race.first = self.turn.fetch_add(1, Ordering::Relaxed);
        race.begin(AT_ONCE.min(self.all.len()));
        let (mut failed, mut patience) = (None::<Failed>, until);
        let (mut again, mut rounds) = (Instant::now() + RESEND, 1);
        loop {
            tokio::select! {
                ended = race.tries.join_next() => match ended {
                    Some(Ok(Ok(response))) => return Ok(response),
                    Some(Ok(Err(other))) => {
                        if other.failure == NameFailure::NotFound {
                            patience = patience.min(Instant::now() + ABSENCE_PATIENCE);
                        }
                        failed = Some(failed.map_or(other, |failed| failed.or(other)));
                        race.begin_new();
                    }
                    // hickory has panicked.
                    Some(Err(_)) => race.begin_new(),
                    None => return Err(failed.unwrap_or(Failed::TROUBLE)),
                },
                () = sleep_until(again), if rounds < ROUNDS_MAX => {
                    race.begin(AT_ONCE.min(self.all.len()));
                    again += RESEND;
                    rounds += 1;
                }
                () = sleep_until(patience) => return Err(failed.unwrap_or(Failed::TIMED_OUT)),
            }
        }
    }
}

/// The attempts for one question.
struct Race<'a> {
    servers: &'a Servers,
    query: &'a Query,
    until: Instant,
    tries: JoinSet<Result<DnsResponse, Failed>>,
    begun: usize,
    first: usize,
}

impl Race<'_> {
    fn begin(&mut self, count: usize) {
        for _ in 0..count {
            let servers = Arc::clone(&self.servers.all);
            let place = (self.first + self.begun) % servers.len().max(1);
            let (query, until) = (self.query.clone(), self.until);
            self.begun += 1;
            self.tries.spawn(async move {
                let Some(server) = servers.get(place) else { return Err(Failed::TROUBLE) };
                server.ask(query, until).await.map_err(|error| failed(&error))
            });
        }
    }

    /// Asks a server that was not asked yet, if there is one.
    fn begin_new(&mut self) {
        if self.begun < self.servers.all.len() {
            self.begin(1);
        }
    }
}

impl Server {
    async fn ask(&self, query: Query, until: Instant) -> Result<DnsResponse, NetError> {
        let left = until.saturating_duration_since(Instant::now());
        // Each attempt has its own socket, port and id; it is sent once.
        let udp = UdpClientStream::builder(self.address, TokioRuntimeProvider::new());
        let mut udp = udp.with_timeout(Some(left)).with_max_retries(1).build();
        let options = DnsRequestOptions::default();
        let mut response = udp.send_message(DnsRequest::from_query(query.clone(), options)).first_answer().await?;
        if response.truncation {
            let tcp = self.tcp.as_ref().ok_or(NetError::NoConnections)?;
            response = tcp.lookup(query, options).first_answer().await?;
        }
        Ok(DnsError::from_response(response)?)
    }
}

fn tcp(address: SocketAddr, timeout_ms: u64) -> Option<NameServerPool<TokioRuntimeProvider>> {
    let mut connection = ConnectionConfig::tcp();
    connection.port = address.port();
    let server = NameServerConfig::new(address.ip(), true, vec![connection]);
    let mut options = ResolverOpts::default();
    options.timeout = Duration::from_millis(timeout_ms);
    let context = Arc::new(PoolContext::new(options, TlsConfig::new().ok()?));
    Some(NameServerPool::from_config([server], context, TokioRuntimeProvider::new()))
}

fn failed(error: &NetError) -> Failed {
    let of = |failure| Failed { failure, ttl_s: None };
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NoError => Failed { failure: NameFailure::NotFound, ttl_s: none.negative_ttl },
            code => Failed { ttl_s: none.negative_ttl, ..of(failure_of(code)) },
        },
        NetError::Dns(DnsError::ResponseCode(code)) => of(failure_of(*code)),
        NetError::Timeout => Failed::TIMED_OUT,
        _ => Failed::TROUBLE,
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
