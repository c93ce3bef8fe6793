//! An HTTP client for one server: a request on a connection of its own, over TLS if the URL says so.

use crate::Url;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::time::Duration;
use tls::{ClientSide, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Time for a request with its connection. Shorter than the time in which the queue fills at one interval a second.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of an answer that are read; its start is shown if the request was refused.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Characters of a refusal that are shown.
const SHOWN_MAX: usize = 200;

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<Stream: AsyncRead + AsyncWrite + Unpin + Send> Wire for Stream {}

/// A POST: its header fields besides those of every request, and its body.
pub(super) struct Request {
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

pub(super) struct Client {
    url: Url,
    tls: Option<TlsConnector>,
}

impl Client {
    pub(super) fn new(url: &Url, what: &str) -> Result<Self, String> {
        let side = |trust| ClientSide::new(trust).alpn(["http/1.1"]).build();
        let tls = url.tls.then(|| side(Trust::System)).transpose().map_err(|error| format!("{what}: {error}"))?;
        Ok(Self { url: url.clone(), tls: tls.map(|side| TlsConnector::from(side.to_rustls())) })
    }

    /// Sends a request. The error is for the operator.
    pub(super) async fn post(&self, request: &Request) -> Result<(), String> {
        match timeout(REQUEST_TIMEOUT, self.exchange(request)).await {
            Ok(result) => result,
            Err(_) => Err(format!("no answer in {} s", REQUEST_TIMEOUT.as_secs())),
        }
    }

    async fn exchange(&self, request: &Request) -> Result<(), String> {
        let failed = |error: hyper::Error| format!("HTTP: {error}");
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(failed)?;
        let connection = tokio::spawn(connection);
        let mut builder = hyper::Request::post(&self.url.path)
            .header(HOST, &self.url.authority)
            .header(USER_AGENT, concat!("holdfast/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &request.fields {
            builder = builder.header(name, value);
        }
        let body = Full::new(Bytes::from(request.body.clone()));
        let answer = async {
            let request = builder.body(body).map_err(|error| error.to_string())?;
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            if status.is_success() {
                return Ok(());
            }
            let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).trim().to_owned()).unwrap_or_default();
            let text: String = text.chars().filter(|symbol| !symbol.is_control()).take(SHOWN_MAX).collect();
            Err(format!("status {}{}{text}", status.as_u16(), if text.is_empty() { "" } else { ": " }))
        };
        let result = answer.await;
        connection.abort();
        result
    }

    async fn connect(&self) -> Result<Box<dyn Wire>, String> {
        let (host, port) = (self.url.host.as_str(), self.url.port);
        let connected = TcpStream::connect((host, port)).await;
        let stream = connected.map_err(|error| format!("connecting to {host}:{port}: {error}"))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("`{host}` is no name for TLS"))?;
        let secured = tls.connect(name, stream).await;
        Ok(Box::new(secured.map_err(|error| format!("TLS with {host}: {error}"))?))
    }
}
