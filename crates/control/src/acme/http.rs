//! HTTP to an ACME server: one TLS connection per request, to a host resolved as the configuration says. `instant-acme`
//! makes the requests.

use crate::dial::{AbortOnDrop, Dialer, Failed};
use gateway::acme::AcmeIssuerPlan;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls_pki_types::ServerName;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tls::{ClientSide, Trust};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Time for one request with its connection and name resolution. Authorities answer in a second or two; the client
/// polls for certificates.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest response: a chain of certificates takes 10 KB.
const BODY_BYTES_MAX: usize = 256 * 1024;

const AGENT: &str = concat!("holdfast/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// A client of one authority. Cloning shares its settings.
#[derive(Clone)]
pub(crate) struct Http {
    tls: TlsConnector,
    dialer: Dialer,
}

impl Http {
    pub(crate) fn new(plan: &AcmeIssuerPlan) -> Result<Self, tls::SetupError> {
        let trust = match (&plan.trusted, plan.verify) {
            (_, false) => Trust::Anyone,
            (Some(pem), true) => Trust::Authorities(pem.clone()),
            (None, true) => Trust::System,
        };
        let side = ClientSide::new(trust).build()?;
        let dialer = Dialer::new(plan.resolver.as_ref());
        Ok(Self { tls: TlsConnector::from(side.to_rustls()), dialer })
    }

    async fn exchange(self, request: http::Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Failed> {
        let (mut parts, body) = request.into_parts();
        let authority = parts.uri.authority().cloned().filter(|_| parts.uri.scheme_str() == Some("https"));
        let authority = authority.ok_or_else(|| format!("\"{}\" is no https URL", parts.uri))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = self.dialer.connect(&host, authority.port_u16().unwrap_or(443)).await?;
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

/// The authority could not be reached, which does not affect the order.
#[derive(Debug, Clone)]
pub(crate) struct Unreached(Arc<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for Unreached {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for Unreached {}
