//! Selects the action for a request head: the table of behaviours as code. It reads only the head and performs nothing;
//! `connection` performs the action once the body has been read.

use crate::body::{Body, CutBy, Framing};
use crate::connection::params_json;
use crate::events::Events;
use crate::options::{Closing, ClosingStyle};
use crate::query::{Complaint, Query, number};
use crate::reply::{Content, Page, PagePart, Reply};
use crate::websocket::{self, Opening};
use crate::work::WORK_US_MAX;
use cgi::fastcgi::RequestParams;
use http1::encode::encode_field;
use http1::{FieldId, Method, RequestHead, UpgradeKind, Version};
use http2::ErrorCode;
use reactor::PeerAddress;
use serde::Serialize;
use std::time::Duration;

/// Longest body of a response: 1 TB takes minutes on loopback, so more is not needed.
const BODY_BYTES_MAX: u64 = 1 << 40;
/// Longest wait that a request can specify: an hour is longer than every timeout under test.
const WAIT_MS_MAX: u64 = 3_600_000;
/// Most bytes after a 101; a proxy's buffers are much smaller.
const EARLY_BYTES_MAX: u64 = 1 << 20;
/// Most fields that `header=` can add to a response.
const ADDED_FIELDS_MAX: usize = 32;
/// Most interim responses before a final one; a proxy gives up much earlier.
const INTERIMS_MAX: u64 = 10_000;
/// Longest execution id: a UUID with some context.
const ID_BYTES_MAX: usize = 128;
/// Milliseconds between two events if the request does not specify it.
const EVENTS_EVERY_MS: u64 = 100;
/// Most bytes of filler in an event: more than browsers get in practice.
const EVENT_BYTES_MAX: u64 = 64 * 1024;
/// Data per chunk if the request does not specify it.
const CHUNK_BYTES_DEFAULT: u64 = 1024;
/// Size of the body that `/reset/at?point=body` promises.
const RESET_BODY_BYTES_DEFAULT: u64 = 1000;

/// A request, as input for the behaviours.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: &'a RequestHead,
    /// The bytes that the spans of the head refer to.
    pub(crate) bytes: &'a [u8],
    pub(crate) page: &'a Page,
    /// Serial number of the connection, from 1.
    pub(crate) connection: u64,
    /// Number of the request on it, from 1.
    pub(crate) number: u64,
    pub(crate) from: &'a PeerAddress,
    /// Whether other processes serve the same address.
    pub(crate) is_one_of_several: bool,
    /// Whether the request came over HTTP/2.
    pub(crate) is_http2: bool,
    /// The parameters, if it came over FastCGI.
    pub(crate) params: Option<&'a RequestParams>,
}

/// The action for a request.
#[derive(Debug)]
pub(crate) enum Action {
    Page(PagePart),
    Reply(Reply),
    /// Reply after this many milliseconds.
    Delay(u64, Reply),
    /// The part of an echo that is known before the body: a JSON object without its closing brace.
    Echo(Vec<u8>),
    /// Send RST before any byte of a response.
    Reset {
        /// Whether the request counts as executed.
        executed: bool,
    },
    /// Send part of the head, then RST.
    CutHead(Reply),
    /// Reset this many of the next connections at accept.
    ArmResets(u64),
    CloseAfter(Closing),
    /// Report how often an id was executed, or the sum over all ids.
    Executed(Option<String>),
    ForgetExecuted,
    Counters,
    Upgrade {
        protocol: Vec<u8>,
        early_bytes: u64,
    },
    WebSocket(Box<Opening>),
    /// Answer a gRPC call.
    Grpc(Call),
}

impl Action {
    /// The action if other processes serve the same address. Each process knows only its own counters and room members, so
    /// actions that need them are refused.
    fn of_one_of_several(self) -> Self {
        let is_impossible = match &self {
            Self::ArmResets(_) | Self::Executed(_) | Self::ForgetExecuted | Self::Counters => true,
            Self::WebSocket(opening) => opening.room.is_some(),
            _ => false,
        };
        if !is_impossible {
            return self;
        }
        let text = "rooms, counters and executions are known to one process alone: start the origin with --processes 1";
        Self::Reply(Reply::text(501, text.to_owned()))
    }
}

/// An action, the execution id of the request, and the CPU time that it costs before its response.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) action: Action,
    pub(crate) id: Option<String>,
    pub(crate) work: Option<Duration>,
    pub(crate) fault: StreamFault,
}

impl From<Action> for Chosen {
    fn from(action: Action) -> Self {
        Self { action, id: None, work: None, fault: StreamFault::default() }
    }
}

/// The HTTP/2 equivalent of a reset or an early close of an HTTP/1 connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFault {
    /// Reset the stream with this code.
    Stream(ErrorCode),
    /// Reset the connection.
    Connection,
}

impl Default for StreamFault {
    fn default() -> Self {
        Self::Stream(ErrorCode::INTERNAL_ERROR)
    }
}

/// The answer to a gRPC call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Return the messages of the request.
    Echo,
    /// Return this status without a message.
    Status(u32),
    /// `grpc.health.v1.Health/Check`: report that it serves.
    Healthy,
}

/// Selects the action by path and query. The error becomes a 400.
pub(crate) fn choose(request: &Request<'_>) -> Result<Chosen, Complaint> {
    let target = &request.head.target;
    let path = target.path.of(request.bytes);
    if request.is_http2 && is_grpc(request) {
        return Ok(Action::Grpc(call(request, path)?).into());
    }
    let Some(query) = target.query else {
        return if matches!(path, b"/" | b"/page" | b"") {
            Ok(Action::Page(request.page.part(request.head, request.bytes)).into())
        } else {
            let action = action(request, path, Query(b""))?;
            Ok(if request.is_one_of_several { action.of_one_of_several() } else { action }.into())
        };
    };
    let query = Query(query.of(request.bytes));
    let action = action(request, path, query)?;
    let action = if request.is_one_of_several { action.of_one_of_several() } else { action };
    let id = if matches!(action, Action::Executed(_)) { None } else { id(query)? };
    let fault = match query.number("code", 0, u64::from(u32::MAX))? {
        _ if query.text("connection").is_some() => StreamFault::Connection,
        Some(code) => StreamFault::Stream(ErrorCode(code as u32)),
        None => StreamFault::default(),
    };
    let work = query.number("work", 0, WORK_US_MAX)?.map(Duration::from_micros);
    Ok(Chosen { action, id, work, fault })
}

fn is_grpc(request: &Request<'_>) -> bool {
    let content = request.head.value(FieldId::ContentType, request.bytes).unwrap_or_default();
    request.head.method == Method::Post && content.starts_with(b"application/grpc")
}

fn call(request: &Request<'_>, path: &[u8]) -> Result<Call, Complaint> {
    let Request { head, bytes, .. } = *request;
    let wanted = head.fields.iter().find(|field| field.name.of(bytes).eq_ignore_ascii_case(b"x-grpc-status"));
    if let Some(wanted) = wanted {
        let text = String::from_utf8_lossy(wanted.value.of(bytes)).into_owned();
        return Ok(Call::Status(number("x-grpc-status", &text, 0, u64::from(u32::MAX))? as u32));
    }
    Ok(if path == b"/grpc.health.v1.Health/Check" { Call::Healthy } else { Call::Echo })
}

fn id(query: Query<'_>) -> Result<Option<String>, Complaint> {
    match query.text("id") {
        Some(id) if id.is_empty() || id.len() > ID_BYTES_MAX => {
            Err(Complaint(format!("id: expected 1 to {ID_BYTES_MAX} bytes")))
        }
        id => Ok(id),
    }
}

fn action(request: &Request<'_>, path: &[u8], query: Query<'_>) -> Result<Action, Complaint> {
    let path = String::from_utf8_lossy(path);
    let mut segments = path.trim_start_matches('/').splitn(2, '/');
    let (name, argument) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    Ok(match name {
        "" | "page" => Action::Page(request.page.part(request.head, request.bytes)),
        "bytes" => Action::Reply(Reply::pattern(body(Framing::Length, argument, query)?)),
        "chunked" => Action::Reply(Reply::pattern(body(chunked(request, query)?, argument, query)?)),
        "close-delimited" => Action::Reply(Reply::pattern(body(Framing::UntilClose, argument, query)?)),
        "slow" => Action::Reply(Reply::pattern(slow(request, argument, query)?)),
        "events" => Action::Reply(events(request, query)?),
        "echo" => Action::Echo(echo(request)),
        "status" => Action::Reply(status(request, argument, query)?),
        "delay" => {
            let delay_ms = number("delay", argument, 0, WAIT_MS_MAX)?;
            Action::Delay(delay_ms, Reply::text(200, format!("after {delay_ms} ms")))
        }
        "reset" if argument == "at" => reset_at(query)?,
        "execute-then-reset" => execute_then_reset(request, query)?,
        "executed" if request.head.method == Method::Delete => Action::ForgetExecuted,
        "executed" => Action::Executed(id(query)?),
        "params" => match request.params {
            Some(params) => Action::Reply(Reply::json(params_json(params))),
            None => Action::Reply(Reply::text(404, "only FastCGI has parameters".to_owned())),
        },
        "counters" => Action::Counters,
        "close-after" => Action::CloseAfter(close_after(query)?),
        "upgrade" => upgrade(request, query)?,
        "websocket" => websocket::choose(request.head, request.bytes, argument, query)?,
        _ => Action::Reply(Reply::text(404, "no such behaviour; `holdfast origin --help` lists them".to_owned())),
    })
}

fn chunked(request: &Request<'_>, query: Query<'_>) -> Result<Framing, Complaint> {
    let chunk = query.number("chunk", 1, BODY_BYTES_MAX)?.unwrap_or(CHUNK_BYTES_DEFAULT);
    // HTTP/1.0 has no chunked coding (RFC 9112 §6.1).
    Ok(if request.head.version == Version::Http10 { Framing::UntilClose } else { Framing::Chunked(chunk) })
}

fn body(framing: Framing, argument: &str, query: Query<'_>) -> Result<Body, Complaint> {
    let mut body = Body::new(framing, number("size", argument, 0, BODY_BYTES_MAX)?);
    if let Some(after_bytes) = query.number("cut", 0, BODY_BYTES_MAX)? {
        let by = match query.text("by").as_deref() {
            None | Some("fin") => CutBy::Fin,
            Some("reset") => CutBy::Reset,
            Some("bad-chunk") if matches!(framing, Framing::Chunked(_)) => CutBy::BadChunk,
            Some(_) => return Err(Complaint("by: expected fin, reset or (of a chunked body) bad-chunk".to_owned())),
        };
        body = body.cut_off(after_bytes, by);
    }
    if matches!(framing, Framing::Chunked(_)) {
        add_fields("trailer", query, &mut body.trailers)?;
    }
    Ok(body)
}

fn slow(request: &Request<'_>, argument: &str, query: Query<'_>) -> Result<Body, Complaint> {
    let framing = match query.text("framing").as_deref() {
        None | Some("length") => Framing::Length,
        Some("chunked") => chunked(request, query)?,
        Some("close") => Framing::UntilClose,
        Some(_) => return Err(Complaint("framing: expected length, chunked or close".to_owned())),
    };
    let step_bytes = query.number("step", 1, BODY_BYTES_MAX)?.unwrap_or(1);
    let every_ms = query.number("every", 0, WAIT_MS_MAX)?.unwrap_or(100);
    Ok(body(framing, argument, query)?.paced(step_bytes, every_ms))
}

/// Server-sent events, from the one after `Last-Event-ID` on.
fn events(request: &Request<'_>, query: Query<'_>) -> Result<Reply, Complaint> {
    let Request { head, bytes, .. } = *request;
    let last = head.fields.iter().find(|field| field.name.of(bytes).eq_ignore_ascii_case(b"last-event-id"));
    let last = last.and_then(|field| std::str::from_utf8(field.value.of(bytes)).ok()?.parse::<u64>().ok());
    let cut = match query.text("by").as_deref() {
        None => None,
        Some("fin") => Some(CutBy::Fin),
        Some("reset") => Some(CutBy::Reset),
        Some(_) => return Err(Complaint("by: expected fin or reset".to_owned())),
    };
    let events = Events {
        next: last.map_or(1, |last| last.saturating_add(1)),
        left: query.number("count", 0, u64::MAX)?,
        every_ms: query.number("every", 0, WAIT_MS_MAX)?.unwrap_or(EVENTS_EVERY_MS),
        fill_bytes: query.number("size", 0, EVENT_BYTES_MAX)?.unwrap_or(0) as usize,
        retry_ms: query.number("retry", 0, WAIT_MS_MAX)?,
        cut,
    };
    let framing = if head.version == Version::Http10 { Framing::UntilClose } else { Framing::Chunked(1) };
    let mut reply = Reply { content_type: "text/event-stream", ..Reply::pattern(Body::of_events(framing, events)) };
    encode_field(b"Cache-Control", b"no-store", &mut reply.fields);
    Ok(reply)
}

/// Appends a field line for each parameter of this name, with the value `Name:value`.
fn add_fields(parameter: &str, query: Query<'_>, lines: &mut Vec<u8>) -> Result<(), Complaint> {
    for (count, line) in query.values(parameter).enumerate() {
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default().trim_ascii());
        let is_name = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_value = |&byte: &u8| byte == b'\t' || (byte >= b' ' && byte != 0x7F);
        if count >= ADDED_FIELDS_MAX || name.is_empty() || !name.iter().all(is_name) || !value.iter().all(is_value) {
            return Err(Complaint(format!("{parameter}: expected up to {ADDED_FIELDS_MAX} times Name:value")));
        }
        encode_field(name, value, lines);
    }
    Ok(())
}

fn status(request: &Request<'_>, argument: &str, query: Query<'_>) -> Result<Reply, Complaint> {
    let status = number("status", argument, 200, 999)? as u16;
    let mut reply = Reply::text(status, format!("status {status}"));
    if matches!(status, 204 | 304) {
        reply.content = Content::None;
    }
    add_fields("header", query, &mut reply.fields)?;
    if let Some(interim) = query.number("interim", 100, 199)?
        && request.head.version == Version::Http11
    {
        let count = query.number("interims", 0, INTERIMS_MAX)?.unwrap_or(1);
        // HTTP/2 has no 101 (RFC 9113 section 8.6).
        reply.interim = (!request.is_http2 || interim != 101).then_some((interim as u16, count));
    }
    Ok(reply)
}

fn reset_at(query: Query<'_>) -> Result<Action, Complaint> {
    match query.text("point").as_deref() {
        Some("accept") => Ok(Action::ArmResets(query.number("count", 0, u64::from(u32::MAX))?.unwrap_or(1))),
        Some("request") => Ok(Action::Reset { executed: false }),
        Some("head") => Ok(Action::CutHead(Reply::text(200, "never sent".to_owned()))),
        Some("body") => {
            let total = query.number("size", 1, BODY_BYTES_MAX)?.unwrap_or(RESET_BODY_BYTES_DEFAULT);
            let after_bytes = query.number("sent", 0, total)?.unwrap_or(total / 2);
            let body = Body::new(Framing::Length, total).cut_off(after_bytes, CutBy::Reset);
            Ok(Action::Reply(Reply::pattern(body)))
        }
        _ => Err(Complaint("point: expected accept, request, head or body".to_owned())),
    }
}

fn execute_then_reset(request: &Request<'_>, query: Query<'_>) -> Result<Action, Complaint> {
    let every = query.number("every", 1, u64::MAX)?.unwrap_or(1);
    if request.number.is_multiple_of(every) {
        return Ok(Action::Reset { executed: true });
    }
    Ok(Action::Reply(Reply::text(200, "executed".to_owned())))
}

fn close_after(query: Query<'_>) -> Result<Closing, Complaint> {
    let style = match query.text("style") {
        None => ClosingStyle::Fin,
        Some(word) => word.parse().map_err(|error| Complaint(format!("style: {error}")))?,
    };
    Ok(Closing {
        after_requests: query.number("requests", 1, u64::MAX)?,
        after_idle: query.number("idle", 0, WAIT_MS_MAX)?.map(Duration::from_millis),
        style,
        unannounced: query.text("unannounced").is_some(),
    })
}

fn upgrade(request: &Request<'_>, query: Query<'_>) -> Result<Action, Complaint> {
    // h2c asks for HTTP/2 by upgrade. The origin supports HTTP/2 only by ALPN and with prior knowledge (RFC 9113 section
    // 3.1).
    let Some(upgrade) = request.head.upgrade.filter(|upgrade| upgrade.kind != UpgradeKind::H2c) else {
        let mut reply = Reply::text(426, "send Connection: upgrade and an Upgrade field".to_owned());
        encode_field(b"Upgrade", b"echo", &mut reply.fields);
        return Ok(Action::Reply(reply));
    };
    let early_bytes = query.number("early", 0, EARLY_BYTES_MAX)?.unwrap_or(0);
    let first = upgrade.value.of(request.bytes).split(|&byte| byte == b',').next().unwrap_or_default().trim_ascii();
    Ok(Action::Upgrade { protocol: first.to_vec(), early_bytes })
}

/// The JSON of `/echo` for a request, except its body.
#[derive(Serialize)]
struct Echo {
    method: String,
    target: String,
    version: &'static str,
    fields: Vec<(String, String)>,
    connection: u64,
    request: u64,
    remote: String,
}

fn echo(request: &Request<'_>) -> Vec<u8> {
    let Request { head, bytes, .. } = *request;
    let echo = Echo {
        method: latin1(head.method_name.of(bytes)),
        target: latin1(head.target.raw.of(bytes)),
        version: match head.version {
            _ if request.is_http2 => "HTTP/2.0",
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        },
        fields: head.fields.iter().map(|field| (latin1(field.name.of(bytes)), latin1(field.value.of(bytes)))).collect(),
        connection: request.connection,
        request: request.number,
        remote: request.from.to_string(),
    };
    let mut json = to_json(&echo);
    json.pop(); // the closing brace: the body follows
    json
}

/// One character per byte, so that every byte can be recovered from the JSON text.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// The JSON text of a value.
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers under string keys always serialize")
}
