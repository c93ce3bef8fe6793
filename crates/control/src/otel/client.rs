//! Calls of a collector: connects, over TLS if the endpoint says so, and sends a batch by OTLP over gRPC or over HTTP.
//! `grpc` makes calls of gRPC.

use crate::dial::{AbortOnDrop, Dialer, Failed};
use crate::otel::grpc::Link;
use crate::otel::messages::{Acceptance, parse_response};
use gateway::spans::ExporterPlan;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tls::{ClientSide, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Time for a call with its connection: the default of OTLP's exporters.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer over HTTP.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A connection, plain or under TLS.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<Stream: AsyncRead + AsyncWrite + Unpin + Send> Wire for Stream {}

/// Why spans were not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) text: String,
    /// Another attempt may succeed.
    pub(super) is_passing: bool,
}

impl Fault {
    pub(super) fn again(text: &str) -> Self {
        Self { text: text.to_owned(), is_passing: true }
    }

    pub(super) fn last(text: &str) -> Self {
        Self { text: text.to_owned(), is_passing: false }
    }
}

impl From<Failed> for Fault {
    fn from(failed: Failed) -> Self {
        Self::again(&failed.to_string())
    }
}

/// The fault of an HTTP status other than 200; OTLP lists those after which a client may try again.
pub(super) fn judge(status: u16) -> Fault {
    let text = format!("the collector answers with status {status}");
    if matches!(status, 429 | 502 | 503 | 504) { Fault::again(&text) } else { Fault::last(&text) }
}

/// A client of one collector.
pub(super) struct Client {
    pub(super) plan: Arc<ExporterPlan>,
    tls: Option<TlsConnector>,
    link: Option<Link>,
}

impl Client {
    pub(super) fn new(plan: Arc<ExporterPlan>) -> Result<Self, Failed> {
        let tls = if plan.secure {
            let trust = plan.trusted.clone().map_or(Trust::System, Trust::Authorities);
            let protocol = if plan.path.is_some() { "http/1.1" } else { "h2" };
            let side = ClientSide::new(trust).alpn([protocol]).build()?;
            Some(TlsConnector::from(side.to_rustls()))
        } else {
            None
        };
        Ok(Self { plan, tls, link: None })
    }

    /// A call that was abandoned has left its connection in an unknown state.
    pub(super) fn forget_connection(&mut self) {
        self.link = None;
    }

    /// Sends a message.
    pub(super) async fn send(&mut self, message: &[u8]) -> Result<Acceptance, Fault> {
        let sent = match timeout(CALL_TIMEOUT, self.exchange(message)).await {
            Ok(sent) => sent,
            Err(_) => Err(Fault::again(&format!("the collector did not answer in {} s", CALL_TIMEOUT.as_secs()))),
        };
        if sent.is_err() {
            self.link = None;
        }
        parse_response(&sent?).ok_or_else(|| Fault::last("the collector's answer is not one of OTLP"))
    }

    async fn exchange(&mut self, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let plan = Arc::clone(&self.plan);
        if let Some(path) = &plan.path {
            return self.post(path, message).await;
        }
        let is_old = self.link.as_ref().is_some_and(Link::is_usable);
        if !is_old {
            self.link = Some(Link::new(self.connect().await?));
        }
        let link = self.link.as_mut().ok_or_else(|| Fault::again("no connection"))?;
        match link.call(&plan, message).await {
            // The collector may have closed the idle connection; spans that arrive twice have the same ids.
            Err(fault) if is_old && fault.is_passing => {
                let link = self.link.insert(Link::new(self.connect().await?));
                link.call(&plan, message).await
            }
            result => result,
        }
    }

    async fn connect(&self) -> Result<Box<dyn Wire>, Fault> {
        let host = &self.plan.host;
        let stream = Dialer::new(None).connect(host, self.plan.port).await?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name =
            ServerName::try_from(host.clone()).map_err(|_| Fault::last(&format!("\"{host}\" is no name for TLS")))?;
        let secured = tls.connect(name, stream).await;
        Ok(Box::new(secured.map_err(|error| Fault::again(&format!("TLS with {host}: {error}")))?))
    }

    /// OTLP over HTTP, one connection for each call.
    async fn post(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let stream = TokioIo::new(self.connect().await?);
        let failed = |error: hyper::Error| Fault::again(&format!("HTTP with the collector: {error}"));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(failed)?;
        let _connection = AbortOnDrop(tokio::spawn(async { drop(connection.await) }));
        let mut request = http::Request::post(path)
            .header(HOST, self.plan.authority())
            .header(USER_AGENT, concat!("holdfast/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &self.plan.headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::copy_from_slice(message));
        let request = request.body(body).map_err(|error| Fault::last(&error.to_string()))?;
        let response = sender.send_request(request).await.map_err(failed)?;
        if response.status() != 200 {
            return Err(judge(response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await?;
        Ok(body.to_bytes().to_vec())
    }
}
