//! The validating admission webhook: HTTPS on a port and a thread of its own. It translates the object of a review in
//! memory and answers. It starts no process, asks no name server, reads no file but its certificate, and changes nothing.
//!
//! It is an aid, not a guard: the controller leaves out what is bad in any case. So every limit ends with an error for
//! the API server, and never costs traffic or the watches.

mod certificate;
mod review;

use crate::controller::Inner;
use crate::health::listen;
use crate::options::{Severity, WebhookOptions};
use certificate::{Certificate, Look};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ingress::Settings;
use ingress::admission::{Judgement, asks_the_same, judge};
use review::{Answer, Change, Unanswered};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Most connections at once: an API server opens one for each review.
const CONNECTIONS_MAX: usize = 64;
/// The longest time for a handshake, and for a head: both are a few packets.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// Largest head. That of the API server has some 500 bytes; hyper asks for at least 8 KB.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most fields of a head.
const FIELDS_MAX: usize = 64;
/// Largest body: the API server takes requests of 3 MB.
const BODY_BYTES_MAX: usize = 3 << 20;
/// The longest time for a body: it comes from inside the cluster.
const BODY_MAX: Duration = Duration::from_secs(5);
/// Most bodies at once, so that they take at most 24 MB.
const BODIES_MAX: usize = 8;
/// The longest time to wait for room, and then for a judgement. The API server waits 10 s by default.
const TURN_MAX: Duration = Duration::from_secs(5);
/// Reviews that are judged at once. One takes some milliseconds; the rest of the processors is for traffic.
const JUDGED_AT_ONCE_MAX: usize = 1;
/// The longest life of a connection, which is for one review: the sum of the times above.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// Time between two looks at the files of the certificate. The kubelet takes a minute to renew a mounted Secret.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// Judges a change; an error: it cannot now.
type Judge = dyn Fn(Change) -> Result<Judgement, &'static str> + Send + Sync;

/// Counts, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Reviews that were answered.
    pub(crate) reviews: AtomicU64,
    /// Those with a refusal.
    pub(crate) refusals: AtomicU64,
    /// Requests that got an error.
    pub(crate) errors: AtomicU64,
}

/// The running webhook. Dropping it ends it.
pub(crate) struct Webhook {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Webhook {
    /// Opens the port and starts the thread. A certificate that cannot be read is an error in the log, and is tried again:
    /// it must not stop traffic.
    pub(crate) fn start(inner: &Arc<Inner>, options: &WebhookOptions) -> Result<Self, String> {
        let listener = listen(options.address, "the admission webhook")?;
        // For a judgement and a look at the certificate.
        let threads = JUDGED_AT_ONCE_MAX + 1;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(threads)
            .build();
        let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}"))?;
        let certificate = Arc::new(Certificate::new(options.certificate.clone(), options.key.clone()));
        note(inner, certificate.look());
        let server = Arc::new(Server::new(judge_of(inner, &options.settings), inner));
        let (end, ended) = oneshot::channel();
        let inner = Arc::clone(inner);
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(server, listener, &certificate) => {}
                    () = renew(&inner, &certificate) => {}
                    _ = ended => {}
                }
            });
            // A judgement that still runs changes nothing.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("webhook".into()).spawn(run);
        let thread = thread.map_err(|error| format!("a thread could not be started: {error}"))?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic has printed its message.
            let _ = thread.join();
        }
    }
}

/// Judges beside the objects that are known.
fn judge_of(inner: &Arc<Inner>, settings: &Settings) -> Box<Judge> {
    let (inner, settings) = (Arc::clone(inner), settings.clone());
    Box::new(move |Change { new, old }| {
        let mut cluster = inner.known().ok_or("the objects of the cluster are not known yet")?;
        // Nothing of an answer may depend on them.
        cluster.secrets.clear();
        if !inner.watches(&cluster, &new.metadata().namespace) {
            return Ok(Judgement::default());
        }
        let asks_nothing_new = old.is_some_and(|old| asks_the_same(&settings, &old, &new));
        let mut found = judge(&cluster, &settings, new);
        if asks_nothing_new {
            // Labels and finalizers of an object from before the webhook can be changed.
            let refused = std::mem::take(&mut found.refused);
            found.warnings.splice(0..0, refused);
        }
        Ok(found)
    })
}

fn note(inner: &Inner, look: Look) {
    match look {
        Look::Same => {}
        Look::Renewed => inner.log(Severity::Notice, "the admission webhook uses a new certificate"),
        Look::Trouble(why) => {
            inner.log(Severity::Error, &format!("the certificate of the admission webhook cannot be used: {why}"));
        }
    }
}

async fn renew(inner: &Inner, certificate: &Arc<Certificate>) {
    loop {
        tokio::time::sleep(LOOK_PERIOD).await;
        let certificate = Arc::clone(certificate);
        if let Ok(look) = tokio::task::spawn_blocking(move || certificate.look()).await {
            note(inner, look);
        }
    }
}

struct Server {
    judge: Box<Judge>,
    bodies: Semaphore,
    judging: Arc<Semaphore>,
    counts: Arc<Counts>,
    /// [`TURN_MAX`]; shorter in tests.
    turn_max: Duration,
}

impl Server {
    fn new(judge: Box<Judge>, inner: &Inner) -> Self {
        Self::with(judge, Arc::clone(&inner.figures.webhook))
    }

    fn with(judge: Box<Judge>, counts: Arc<Counts>) -> Self {
        let (bodies, judging) = (Semaphore::new(BODIES_MAX), Arc::new(Semaphore::new(JUDGED_AT_ONCE_MAX)));
        Self { judge, bodies, judging, counts, turn_max: TURN_MAX }
    }
}

async fn serve(server: Arc<Server>, listener: std::net::TcpListener, certificate: &Certificate) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: there is nothing to do but to wait.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Without a certificate the connection is closed.
        let Some(config) = certificate.config() else { continue };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let _ = timeout(CONNECTION_MAX, converse(server, TlsAcceptor::from(config), stream)).await;
            drop(place);
        });
    }
}

/// One review on a connection.
async fn converse(server: Arc<Server>, acceptor: TlsAcceptor, stream: tokio::net::TcpStream) {
    let Ok(Ok(stream)) = timeout(HEAD_MAX, acceptor.accept(stream)).await else { return };
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(respond(&server, request).await) }
    });
    let mut builder = http1::Builder::new();
    // One review on each connection: an idle one would take a place, and its end could meet a review on its way.
    builder.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    builder.max_buf_size(HEAD_BYTES_MAX).max_headers(FIELDS_MAX);
    // A client that breaks off gets no answer.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond<B>(server: &Arc<Server>, request: Request<B>) -> Response<Full<Bytes>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (status, kind, body) = match review(server, request).await {
        Ok(answer) => {
            server.counts.reviews.fetch_add(1, Ordering::Relaxed);
            server.counts.refusals.fetch_add(u64::from(answer.is_refusal), Ordering::Relaxed);
            (StatusCode::OK, "application/json", answer.body)
        }
        Err((status, message)) => {
            server.counts.errors.fetch_add(1, Ordering::Relaxed);
            (status, "text/plain; charset=utf-8", format!("{message}\n").into_bytes())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

/// A status and one line.
type Failure = (StatusCode, String);

fn failure(status: StatusCode, message: &str) -> Failure {
    (status, message.to_owned())
}

async fn review<B>(server: &Arc<Server>, request: Request<B>) -> Result<Answer, Failure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    const BUSY: &str = "too many reviews at once";
    if request.method() != Method::POST {
        return Err(failure(StatusCode::METHOD_NOT_ALLOWED, "reviews are sent by POST"));
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Err(failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a review is application/json"));
    }
    let busy = |_| failure(StatusCode::SERVICE_UNAVAILABLE, BUSY);
    let room = timeout(server.turn_max, server.bodies.acquire()).await.map_err(busy)?;
    let body = body_of(request.into_body()).await?;
    let turn = timeout(server.turn_max, Arc::clone(&server.judging).acquire_owned()).await.map_err(busy)?;
    let worker = Arc::clone(server);
    let work = tokio::task::spawn_blocking(move || {
        // Held until it is done, even if the API server has gone.
        let _turn = turn;
        review::answer(&body, &*worker.judge)
    });
    let outcome = timeout(server.turn_max, work).await;
    drop(room);
    match outcome {
        Err(_) => Err(failure(StatusCode::SERVICE_UNAVAILABLE, "the review takes too long")),
        Ok(Err(_)) => Err(failure(StatusCode::BAD_REQUEST, "the review cannot be judged: the program has an error")),
        Ok(Ok(Err(Unanswered::Wrong(message)))) => Err((StatusCode::BAD_REQUEST, message)),
        Ok(Ok(Err(Unanswered::Unavailable(why)))) => Err(failure(StatusCode::SERVICE_UNAVAILABLE, why)),
        Ok(Ok(Ok(answer))) => Ok(answer),
    }
}

async fn body_of<B>(body: B) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = || (StatusCode::PAYLOAD_TOO_LARGE, format!("a review has at most {BODY_BYTES_MAX} bytes"));
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    match timeout(BODY_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Err(_) => Err(failure(StatusCode::REQUEST_TIMEOUT, "the body takes too long")),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(failure(StatusCode::BAD_REQUEST, "the body breaks off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingress::{Finding, Kind, Level, ObjectName};

    const REVIEW: &str = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
        "kind": {"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"}, "operation": "CREATE",
        "namespace": "shop", "name": "front", "object": {"metadata": {"name": "front"}}}}"#;

    fn request(body: &str) -> Request<Full<Bytes>> {
        let kind = (header::CONTENT_TYPE, "application/json; charset=utf-8");
        let request = Request::post("/networking/v1/ingresses").header(kind.0, kind.1);
        request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
    }

    fn server(judge: impl Fn(Change) -> Result<Judgement, &'static str> + Send + Sync + 'static) -> Arc<Server> {
        Arc::new(Server::with(Box::new(judge), Arc::default()))
    }

    async fn ask(server: &Arc<Server>, request: Request<Full<Bytes>>) -> (u16, String) {
        let response = respond(server, request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn reviews_are_answered_and_counted() {
        let server = server(|change| {
            let object = ObjectName { kind: Kind::Ingress, name: change.new.metadata().key() };
            let (level, message) = (Level::Refused, "\"x\" is no host".to_owned());
            Ok(Judgement {
                refused: vec![Finding { object, level, reason: "WrongHost", message }],
                warnings: Vec::new(),
            })
        });
        let (status, text) = ask(&server, request(REVIEW)).await;
        assert!(status == 200 && text.contains("Holdfast would not serve Ingress shop/front. WrongHost"), "{text}");
        assert_eq!(ask(&server, request("{")).await.0, 400);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &server.counts;
        assert_eq!((count(&counts.reviews), count(&counts.refusals), count(&counts.errors)), (1, 1, 1));
    }

    #[tokio::test]
    async fn panic_is_an_error_and_the_next_review_works() {
        let panics = AtomicU64::new(0);
        let server = server(move |_| {
            assert!(panics.fetch_add(1, Ordering::Relaxed) > 0, "the first review meets an error of the program");
            Ok(Judgement::default())
        });
        let (status, text) = ask(&server, request(REVIEW)).await;
        assert!(status == 400 && text.contains("the program has an error"), "{status} {text}");
        assert_eq!(ask(&server, request(REVIEW)).await.0, 200);
    }

    #[tokio::test]
    async fn other_requests_get_an_error() {
        let server = server(|_| Ok(Judgement::default()));
        let get = Request::get("/").body(Full::default()).unwrap();
        assert_eq!(ask(&server, get).await.0, 405);
        let form = Request::post("/").header(header::CONTENT_TYPE, "text/plain").body(Full::default()).unwrap();
        assert_eq!(ask(&server, form).await.0, 415);
        assert_eq!(ask(&server, request(&" ".repeat(BODY_BYTES_MAX + 1))).await.0, 413);
        assert_eq!(ask(&server, request(&" ".repeat(BODY_BYTES_MAX))).await.0, 400);
    }

    #[tokio::test]
    async fn webhook_is_unavailable_before_sync_or_after_timeout() {
        let unknown = server(|_| Err("not yet"));
        assert_eq!(ask(&unknown, request(REVIEW)).await, (503, "not yet\n".to_owned()));
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let judge: Box<Judge> = Box::new(move |_| {
            // Until the test drops the other end.
            let _ = wait.lock().unwrap().recv();
            Ok(Judgement::default())
        });
        let turn_max = Duration::from_millis(100);
        let slow = Arc::new(Server { turn_max, ..Server::with(judge, Arc::default()) });
        assert_eq!(ask(&slow, request(REVIEW)).await.0, 503, "it takes too long");
        assert_eq!(ask(&slow, request(REVIEW)).await, (503, "too many reviews at once\n".to_owned()));
        drop(go_on);
        let turn = timeout(Duration::from_mins(1), slow.judging.acquire()).await;
        drop(turn.expect("the place is free again"));
    }
}
