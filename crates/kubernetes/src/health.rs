//! `/healthz`, `/readyz` and `/metrics`, on a port of their own: probes do not pass the data plane, and it has no listener
//! before the first configuration.

use crate::controller::{Figures, Inner, lock};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use report::prometheus::{Kind, Page};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Most connections at once: some probes and some scrapers.
const CONNECTIONS_MAX: usize = 64;
/// The longest time for the head of a request, and so the longest life of an idle connection.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Without a sign of life for this long, the process hangs. A large configuration takes some seconds.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Opens a port for something; an error is one line.
pub(crate) fn listen(address: SocketAddr, what: &str) -> Result<TcpListener, String> {
    let bound = TcpListener::bind(address).or_else(|error| match address.ip() {
        // A node without IPv6.
        IpAddr::V6(ip) if ip.is_unspecified() && error.kind() != std::io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        _ => Err(error),
    });
    let opened = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    opened.map_err(|error| format!("the address {address} of {what} cannot be opened: {error}"))
}

/// Serves as long as the controller runs.
pub(crate) async fn serve(inner: Arc<Inner>, listener: TcpListener) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: there is nothing to do but to wait.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let inner = Arc::clone(&inner);
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let inner = Arc::clone(&inner);
                async move { Ok::<_, Infallible>(answer(inner, request).await) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
            // A client that breaks off gets no answer.
            let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            drop(place);
        });
    }
}

async fn answer(inner: Arc<Inner>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (status, text) = match path {
        "/metrics" => {
            // Rendering waits for locks.
            let text = tokio::task::spawn_blocking(move || metrics(&inner)).await;
            text.map_or((StatusCode::INTERNAL_SERVER_ERROR, Vec::new()), |text| (StatusCode::OK, text))
        }
        "/readyz" => said(inner.figures.ready.load(Ordering::SeqCst), "not ready"),
        path if path == "/healthz" || path == inner.options.health_path => {
            said(lock(&inner.alive).elapsed() < SILENCE_MAX, "the process hangs")
        }
        _ => (StatusCode::NOT_FOUND, b"not found\n".to_vec()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}

fn said(is_ok: bool, otherwise: &str) -> (StatusCode, Vec<u8>) {
    if is_ok {
        (StatusCode::OK, b"ok\n".to_vec())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{otherwise}\n").into())
    }
}

/// The figures of the data plane, then those of the controller.
fn metrics(inner: &Inner) -> Vec<u8> {
    let mut text = inner.host.metrics();
    let mut page = Page::default();
    for (kind, rows) in [(Kind::Counter, counters(&inner.figures)), (Kind::Gauge, gauges(&inner.figures))] {
        for (name, help, value) in rows {
            page.family(&format!("holdfast_ingress_{name}"), kind, help).sample(&[], value);
        }
    }
    text.extend_from_slice(page.into_text().as_bytes());
    text
}

/// Name, help and value of a figure.
type Row = (&'static str, &'static str, u64);

fn count(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

fn counters(figures: &Figures) -> Vec<Row> {
    let webhook = &figures.webhook;
    vec![
        ("generations_total", "Configurations that were applied.", count(&figures.generations)),
        ("refused_generations_total", "Configurations that could not be applied.", count(&figures.refused_generations)),
        (
            "certificate_renewals_total",
            "Certificates that changed without a new configuration.",
            count(&figures.renewals),
        ),
        ("certificates_issued_total", "Certificates that were ordered and issued.", count(&figures.issued)),
        ("certificate_failures_total", "Orders of certificates that failed.", count(&figures.failed_orders)),
        ("endpoint_updates_total", "Lists of endpoints that were computed.", count(&figures.endpoint_changes)),
        ("relists_total", "Lists that were read again because a watch had expired.", count(&figures.relists)),
        ("watch_failures_total", "Lists and watches that failed.", count(&figures.watch_failures)),
        ("webhook_reviews_total", "Reviews that the admission webhook answered.", count(&webhook.reviews)),
        ("webhook_refusals_total", "Objects that the admission webhook refused.", count(&webhook.refusals)),
        ("webhook_errors_total", "Requests to the admission webhook that got an error.", count(&webhook.errors)),
    ]
}

fn gauges(figures: &Figures) -> Vec<Row> {
    let flag = |value: &AtomicBool| u64::from(value.load(Ordering::Relaxed));
    let complete = "1: the API server has listed all kinds; 0: the last known state, or nothing.";
    vec![
        ("refused_objects", "Objects that are not served, or a part of them.", count(&figures.refused_objects)),
        ("leader", "1: this replica writes statuses.", flag(&figures.leader)),
        ("ready", "1: this replica takes traffic.", flag(&figures.ready)),
        ("complete", complete, flag(&figures.complete)),
    ]
}
