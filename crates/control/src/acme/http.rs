//! HTTP to an ACME server: one connection a request, over TLS, to a host that is looked up as the configuration says. What is
//! asked is `instant-acme`'s business.

use crate::dns;
use gateway::acme::AcmeIssuerPlan;
use gateway::names::{Outcome, Question, ResolverPlan};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tls::{ClientSide, Trust};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// One request with its connection and its lookup. Authorities answer in a second or two; certificates are waited for by asking
/// again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// One address of a host that has several.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response: a chain of certificates takes 10 KB.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Addresses of a host that are tried.
const ADDRESSES_MAX: usize = 8;

const AGENT: &str = concat!("holdfast/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// A client of one authority. Cloning shares its settings.
#[derive(Clone)]
pub(crate) struct Http {
    tls: TlsConnector,
    resolver: Option<(Arc<ResolverPlan>, dns::Resolver)>,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Http {
    pub(crate) fn new(plan: &AcmeIssuerPlan) -> Result<Self, tls::SetupError> {
        let trust = match (&plan.trusted, plan.verify) {
            (_, false) => Trust::Anyone,
            (Some(pem), true) => Trust::Authorities(pem.clone()),
            (None, true) => Trust::System,
        };
        let side = ClientSide::new(trust).build()?;
        let resolver = plan.resolver.as_ref().map(|plan| (Arc::clone(plan), dns::Resolver::new(plan)));
        Ok(Self { tls: TlsConnector::from(side.to_rustls()), resolver })
    }

    async fn exchange(self, request: http::Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Failed> {
        let (mut parts, body) = request.into_parts();
        let authority = parts.uri.authority().cloned().filter(|_| parts.uri.scheme_str() == Some("https"));
        let authority = authority.ok_or_else(|| format!("\"{}\" is no https URL", parts.uri))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = self.connect(&host, authority.port_u16().unwrap_or(443)).await?;
        let name = ServerName::try_from(host.clone())?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| format!("TLS with {host}: {error}"))?;
        parts.headers.insert(http::header::HOST, authority.as_str().parse()?);
        parts.headers.insert(http::header::USER_AGENT, AGENT.parse()?);
        parts.uri = parts.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let _connection = AbortOnDrop(tokio::spawn(async { drop(connection.await) }));
        let response = sender.send_request(http::Request::from_parts(parts, body)).await?;
        let (parts, body) = response.into_parts();
        let bytes = Limited::new(body, BODY_BYTES_MAX).collect().await?.to_bytes();
        Ok(http::Response::from_parts(parts, Full::new(bytes)).into())
    }

    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Failed> {
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
        let Some((plan, resolver)) = &self.resolver else {
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

impl HttpClient for Http {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let this = self.clone();
        Box::pin(async move {
            let response = timeout(REQUEST_TIMEOUT, this.exchange(request)).await;
            let late = |_| Err(format!("no answer in {} s", REQUEST_TIMEOUT.as_secs()).into());
            let response: Result<BytesResponse, Failed> = response.unwrap_or_else(late);
            response.map_err(|error| Error::Other(Box::new(Unreached(Arc::from(error)))))
        })
    }
}

/// The authority could not be asked: that says nothing about the order.
#[derive(Debug, Clone)]
pub(crate) struct Unreached(Arc<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for Unreached {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for Unreached {}

/// A task that ends with its owner.
pub(crate) struct AbortOnDrop(pub(crate) tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
