//! Explains what the gateway does with one request: runs the phases of an exchange over a client without a connection,
//! with a tracer that records ([ADR 64](../../../../docs/adr/0064-explain-runs-the-phases.md)). It opens no connection,
//! binds no port and writes no file. `holdfast explain` uses it.

mod places;
mod question;
mod recorder;
mod upstream;

pub use places::ConfigPlace;
pub use question::ExplainedRequest;
pub use upstream::{CacheAnswer, ExplainedPeer, UpstreamAnswer};

use crate::downstream::Asker;
use crate::downstream::internal::{Subrequest, suppose};
use crate::downstream::request::Request;
use crate::exchange::spares::Spares;
use crate::exchange::{Beginning, Exchange, Refusal};
use crate::explain::places::Places;
use crate::explain::question::ListenerReached;
use crate::explain::recorder::{Recorder, Recording};
use crate::registry::generation::{Generation, ListenerId, Pinned};
use crate::registry::process::{Message, Registry};
use crate::thread::WorkerThread;
use conf::Loaded;
use http1::{BodyFraming, Parse, RequestError};
use reactor::Reactor;
use serde::Serialize;
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Bytes of a local answer's body that are shown.
const BODY_BYTES_MAX: usize = 1024;

/// How long to wait for files and password hashes on other threads: a disk that takes longer is broken.
const FILES_AT_MOST: Duration = Duration::from_secs(10);

/// The time between two looks at the jobs of other threads.
const LOOK_MS: u64 = 5;

/// The worker whose thread this one represents.
const WORKER: u16 = 0;

/// What happens to a request.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// The request line.
    pub request: String,
    /// The listening address that it reaches.
    pub listener: String,
    /// The server that serves it; `None` if the request is refused before a server is chosen.
    pub server: Option<ChosenBlock>,
    /// The location that answers; `None` if there is none, and the server's own settings apply.
    pub location: Option<ChosenBlock>,
    /// The steps, in order.
    pub steps: Vec<ExplainedStep>,
    /// The end.
    pub outcome: ExplainedEnd,
    /// The lines for the error log.
    pub log: Vec<String>,
    /// What the explanation takes for granted.
    pub assumptions: Vec<String>,
}

/// A server or a location, and why it was chosen.
#[derive(Debug, Clone, Serialize)]
pub struct ChosenBlock {
    /// The first name of a server, or the directive of a location.
    pub name: String,
    /// Why.
    pub why: String,
    /// Where it was written.
    pub at: ConfigPlace,
}

/// One step.
#[derive(Debug, Clone, Serialize)]
pub struct ExplainedStep {
    /// The phase.
    pub phase: Phase,
    /// What happens.
    pub text: String,
    /// The directive.
    pub at: Option<ConfigPlace>,
    /// What else was tried, or belongs to it.
    pub details: Vec<Detail>,
}

/// A line that belongs to a step.
#[derive(Debug, Clone, Serialize)]
pub struct Detail {
    /// What it says.
    pub text: String,
    /// The directive.
    pub at: Option<ConfigPlace>,
}

/// The phase of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The listening address.
    Listener,
    /// The server.
    Server,
    /// The location.
    Location,
    /// `rewrite`, `set`, `if`, `return`, `break`.
    Rewrite,
    /// `limit_req`, `limit_conn`.
    Limits,
    /// `allow`, `deny`, `auth_basic`, `auth_jwt`, `auth_request`.
    Access,
    /// `try_files`, `index`.
    Files,
    /// An internal redirect.
    Redirect,
    /// `error_page`.
    ErrorPage,
    /// The cache.
    Cache,
    /// The request for the upstream, and its peer.
    Upstream,
    /// The answer of the gateway itself.
    Answer,
}

/// How an explanation ends.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainedEnd {
    /// The gateway answers.
    Answer(LocalAnswer),
    /// The request goes to an upstream.
    Upstream(Box<UpstreamAnswer>),
    /// The connection is closed without an answer; the access log has this status.
    Closed {
        /// The status.
        status: u16,
    },
    /// The end is not known, for this reason.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// An answer of the gateway.
#[derive(Debug, Clone, Serialize)]
pub struct LocalAnswer {
    /// The status.
    pub status: u16,
    /// The fields of its head, without those that depend on the connection.
    pub headers: Vec<(String, String)>,
    /// The file that is sent.
    pub file: Option<String>,
    /// The beginning of a body that is made here.
    pub body: Option<String>,
}

/// Explains a request under a configuration: `loaded` is the text of `generation`. The registry serves nothing else. The
/// error says why no listener takes the request.
pub fn explain(
    registry: &'static Registry,
    generation: &Arc<Generation>,
    loaded: &Loaded,
    question: &ExplainedRequest,
) -> Result<Explanation, String> {
    let ListenerReached { listener, client, others } = question.find_listener(generation)?;
    let reactor = Reactor::new().map_err(|error| format!("epoll_create1() failed: {error}"))?;
    let thread = Rc::new(WorkerThread::new(WORKER, registry, reactor));
    let places = Places::of(loaded);
    let recording = RefCell::new(Recording::new(&places));
    let (request, beginning) = parse(generation, listener, question)?;
    let (internal, response) = suppose(&thread, client, request.head.method);
    let line = recorder::shown(request.head.line.of(&request.bytes));
    let pinned = Rc::new(Pinned(Arc::clone(generation)));
    let mut exchange = Exchange::new(
        Rc::clone(&thread),
        Rc::new(Spares::default()),
        pinned,
        Asker::Exchange(internal),
        request,
        &beginning,
    );
    if exchange.intake.body.framing() == BodyFraming::Chunked {
        exchange.intake.body.received = question.body_bytes.unwrap_or_default();
    }
    let recorder = Recorder(&recording);
    recorder.begin(&exchange, listener, &others);
    let ended = run(&mut exchange, &response, &beginning, recorder);
    let mut recording = recording.into_inner();
    let outcome = recording.outcome(&exchange, &response, ended);
    drop(exchange);
    Ok(Explanation {
        request: line,
        listener: recording.listener.take().unwrap_or_default(),
        server: recording.server.take(),
        location: recording.location.take(),
        steps: recording.steps,
        outcome,
        log: log_lines(registry),
        assumptions: recording.assumptions,
    })
}

/// Parses the head under the limits of the listener.
fn parse(
    generation: &Generation,
    listener: ListenerId,
    question: &ExplainedRequest,
) -> Result<(Box<Request>, Beginning), String> {
    let bytes = question.head();
    let listener = generation.listener(listener).ok_or("the listener is gone")?;
    let mut request: Box<Request> = Box::default();
    let refused = |mut request: Box<Request>, error: RequestError| {
        request.keep_refused(&bytes);
        (request, Beginning::Refused(Refusal::Malformed(error)))
    };
    Ok(match request.parse(&bytes, &listener.limits) {
        Ok(Parse::Complete { .. }) => (request, Beginning::Head),
        Ok(_) => return Err("the head of the request does not end".to_owned()),
        Err(error) => refused(request, error),
    })
}

/// How far an exchange came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// It has ended, or has sent the head of its response.
    Done,
    /// It waits for a subrequest.
    Subrequest,
    /// A file or a password took too long.
    TooLong,
}

/// Runs the exchange until it has sent a head or has ended.
fn run(exchange: &mut Exchange, response: &Subrequest, beginning: &Beginning, recorder: Recorder<'_, '_>) -> Run {
    let (thread, spares) = (Rc::clone(&exchange.thread), Rc::clone(&exchange.spares));
    let serving = async {
        let step = match beginning {
            Beginning::Refused(refusal) => exchange.refuse(*refusal),
            Beginning::Head | Beginning::Subrequest(_) => exchange.route(recorder),
        };
        exchange.serve(step, recorder).await;
    };
    let mut serving = pin!(serving);
    let until = Instant::now() + FILES_AT_MOST;
    while Instant::now() < until {
        if let Poll::Ready(()) = serving.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Run::Done;
        }
        if response.has_head() {
            return Run::Done;
        }
        if spares.next_started().is_some() {
            return Run::Subrequest;
        }
        wait(&thread);
    }
    Run::TooLong
}

/// Waits a moment for jobs of other threads.
fn wait(thread: &WorkerThread) {
    let mut messages = Vec::new();
    thread.registry.workers[usize::from(WORKER)].mailbox.take(&mut messages);
    for message in messages {
        if let Message::Wake(task) = message {
            thread.reactor.wake(task);
        }
    }
    // An epoll instance without sockets does not fail; if it does, this loop still ends by its time.
    let _ = thread.reactor.turn(Some(LOOK_MS));
    while thread.reactor.next_ready().is_some() {}
}

/// The messages for the error log, without time, process and request.
fn log_lines(registry: &Registry) -> Vec<String> {
    let mut lines = Vec::new();
    registry.error_log().flush(|text, _| {
        for line in String::from_utf8_lossy(text).lines() {
            let message =
                line.split_once('#').and_then(|(_, rest)| rest.split_once(": ")).map_or(line, |(_, rest)| rest);
            let message = message.strip_prefix("*1 ").unwrap_or(message);
            let level = line.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(level, _)| level);
            let end = message.find(", client: ").unwrap_or(message.len());
            lines.push(format!("[{level}] {}", &message[..end]));
        }
    });
    lines
}
