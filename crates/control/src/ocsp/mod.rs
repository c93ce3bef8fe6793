//! Asks OCSP responders (RFC 6960, RFC 5019): `staples` about our own certificates, before handshakes need them;
//! `client_statuses` about clients' certificates, while they wait. `tls` parses and verifies the answers.

pub(crate) mod client_statuses;
pub(crate) mod staples;

use crate::bell::ringer;
use crate::dial::{AbortOnDrop, Dialer, Failed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway::Registry;
use gateway::names::ResolverPlan;
use gateway::ocsp::Responder;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tls::{StatusAnswer, StatusQuestion, StatusTrust};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time for one request with its name resolution and connection, as in nginx.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Largest answer; with a certificate of the responder, 2 KB are usual.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longer requests are not sent in a URL, because caches do not accept them (RFC 5019, 5).
const URL_REQUEST_BYTES_MAX: usize = 255;
/// Most dialers kept; if there are more, those of earlier configurations are dropped together.
const DIALERS_MAX: usize = 32;

/// Connects to the registry. The bells signal new work for staples and for the statuses of clients.
pub(crate) fn attach(registry: &'static Registry) -> (Arc<Notify>, Arc<Notify>) {
    let (staples, client_statuses) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    registry.attach_staples(ringer(&staples));
    registry.client_statuses().attach(ringer(&client_statuses));
    (staples, client_statuses)
}

/// Dialers by their resolver.
#[derive(Default)]
struct Dialers(HashMap<Option<Arc<ResolverPlan>>, Dialer>);

impl Dialers {
    fn of(&mut self, responder: &Responder) -> Dialer {
        if self.0.len() > DIALERS_MAX {
            self.0.clear();
        }
        let dialer = self.0.entry(responder.resolver.clone());
        dialer.or_insert_with_key(|plan| Dialer::new(plan.as_ref())).clone()
    }
}

/// Asks a responder. Returns the verified answer and its bytes. An error is for the log.
async fn ask(
    dialer: Dialer,
    question: &StatusQuestion,
    responder: &Responder,
    trusted: Option<&StatusTrust>,
) -> Result<(StatusAnswer, Bytes), String> {
    let response = timeout(REQUEST_TIMEOUT, exchange(dialer, question, responder)).await;
    let response = response.map_err(|_| "OCSP responder timed out (110: Connection timed out)".to_owned())?;
    let bytes = response.map_err(|error| error.to_string())?;
    let answer = question.read(&bytes, now_seconds(), trusted).map_err(|error| error.to_string())?;
    Ok((answer, bytes))
}

async fn exchange(dialer: Dialer, question: &StatusQuestion, responder: &Responder) -> Result<Bytes, Failed> {
    let uri: Uri = responder.url.parse()?;
    let authority = uri.authority().ok_or("the URL of the OCSP responder names no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = dialer.connect(host, authority.port_u16().unwrap_or(80)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let _connection = AbortOnDrop(tokio::spawn(async { drop(connection.await) }));
    let response = sender.send_request(request_to(&uri, authority.as_str(), &question.request())?).await?;
    if response.status() != 200 {
        return Err(format!("OCSP responder sent status {}", response.status().as_u16()).into());
    }
    let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if !kind.is_empty() && !kind.eq_ignore_ascii_case(b"application/ocsp-response") {
        return Err(format!("OCSP responder sent invalid \"Content-Type\" header: \"{}\"", kind.escape_ascii()).into());
    }
    Ok(Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await?.to_bytes())
}

/// A short request goes into the URL, so that caches can answer it; a long one becomes a body.
fn request_to(uri: &Uri, authority: &str, asked: &[u8]) -> Result<Request<Full<Bytes>>, http::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut encoded = String::new();
    for character in STANDARD.encode(asked).chars() {
        match character {
            '+' => encoded.push_str("%2B"),
            '/' => encoded.push_str("%2F"),
            '=' => encoded.push_str("%3D"),
            other => encoded.push(other),
        }
    }
    let request = Request::builder().header(HOST, authority);
    if encoded.len() <= URL_REQUEST_BYTES_MAX {
        let slash = if path.ends_with('/') { "" } else { "/" };
        return request.method(Method::GET).uri(format!("{path}{slash}{encoded}")).body(Full::default());
    }
    let request = request.method(Method::POST).uri(path).header(CONTENT_TYPE, "application/ocsp-request");
    request.body(Full::new(Bytes::copy_from_slice(asked)))
}

/// Seconds since 1970.
fn now_seconds() -> i64 {
    i64::try_from(reactor::wall_clock().as_secs()).unwrap_or(i64::MAX)
}

/// The suffix of a log line about a fault, as in nginx.
fn place(responder: &Responder) -> String {
    let host = responder.url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    format!("while requesting certificate status, responder: {}", host.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_are_sent_as_a_body() {
        let uri: Uri = "http://ocsp.test:81/here".parse().unwrap();
        let short = request_to(&uri, "ocsp.test:81", &[0xfb, 0xff, 0xfe, 0]).unwrap();
        assert_eq!((short.method(), short.uri().to_string().as_str()), (&Method::GET, "/here/%2B%2F%2F%2BAA%3D%3D"));
        assert_eq!(short.headers()["host"], "ocsp.test:81");
        let long = request_to(&uri, "ocsp.test:81", &[0; 300]).unwrap();
        assert_eq!((long.method(), long.uri().to_string().as_str()), (&Method::POST, "/here"));
        assert_eq!(long.headers()["content-type"], "application/ocsp-request");
    }
}
