//! The request on its way out: whether its body is read first or streamed, and the head that the upstream gets.

use super::body::{BodyError, BodyRead};
use super::proxied_head::has_line_end;
use super::reply::Reply;
use super::{Exchange, ExchangeView};
use crate::body_file;
use crate::close::CloseReason;
use crate::error_log::{errno, quoted};
use crate::generation::{PassUriPlan, ProxyPlan};
use http1::encode::{encode_fields, encode_head_end, encode_number_field};
use http1::{BodyFraming, Method, UpgradeKind};
use rules::uri::{PassUri, ProxyUri};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes read from the client at once while a body is collected.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of a body that goes into a file which are collected before they are written: the offload pool is asked once for
/// many reads.
const PIECE_BYTES: usize = 256 * 1024;

/// What there is of a body for another attempt.
#[derive(Debug, Clone, Default)]
pub(crate) enum ReplayBody {
    /// There is none, or it was not read yet.
    #[default]
    None,
    /// All of it.
    Memory(Rc<Vec<u8>>),
    /// All of it, in a temporary file of this length.
    File(Arc<File>, u64),
    /// It goes to the upstream as it comes from the client.
    Streaming,
}

impl ReplayBody {
    /// Bytes of memory that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.capacity(),
            Self::None | Self::File(..) | Self::Streaming => 0,
        }
    }

    /// Whether it can be sent (again), when this many bytes of it have been taken from the client.
    pub(super) fn can_replay(&self, received: u64) -> bool {
        !matches!(self, Self::Streaming) || received == 0
    }

    /// `$request_body`: a body that was read into memory, unless it is empty.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(bytes) if !bytes.is_empty() => Some(bytes),
            _ => None,
        }
    }

    /// `$request_body_file`: a path that leads to the body's file as long as the request lasts. A file that is not to be
    /// kept has no name any more, and is reached as this process's descriptor.
    pub(super) fn path(&self) -> Option<Vec<u8>> {
        let Self::File(file, _) = self else { return None };
        let descriptor = file.as_raw_fd();
        let named = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok().filter(|path| path.exists());
        let path = named.unwrap_or_else(|| format!("/proc/{}/fd/{descriptor}", std::process::id()).into());
        Some(path.into_os_string().into_vec())
    }
}

/// The body as the upstream gets it.
#[derive(Debug)]
pub(super) struct OutgoingBody {
    pub(super) replay: ReplayBody,
    /// Its whole length, where that is known.
    length: Option<u64>,
    present: bool,
}

impl OutgoingBody {
    const ABSENT: Self = Self { replay: ReplayBody::None, length: None, present: false };

    fn complete(replay: ReplayBody) -> Self {
        let length = match &replay {
            ReplayBody::Memory(bytes) => bytes.len() as u64,
            ReplayBody::File(_, length) => *length,
            ReplayBody::None | ReplayBody::Streaming => 0,
        };
        Self { replay, length: Some(length), present: true }
    }

    /// What goes out with the head.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.replay {
            ReplayBody::Memory(bytes) => bytes,
            _ => &[],
        }
    }

    /// The file behind the head, and its length.
    pub(super) fn file(&self) -> Option<(&File, u64)> {
        match &self.replay {
            ReplayBody::File(file, length) => Some((file, *length)),
            _ => None,
        }
    }

    pub(super) fn is_streamed(&self) -> bool {
        matches!(self.replay, ReplayBody::Streaming)
    }

    /// It is sent in chunks, because its length is not known.
    pub(super) fn is_chunked(&self) -> bool {
        self.present && self.length.is_none()
    }
}

impl Exchange {
    /// The body that the upstream gets: the client's, or that of `proxy_set_body`.
    pub(super) async fn take_body(&mut self, plan: &ProxyPlan) -> Result<OutgoingBody, Reply> {
        let clients = self.take_clients_body(plan).await?;
        let Some(template) = &plan.set_body else { return Ok(clients) };
        let mut bytes = Vec::new();
        template.write(&ExchangeView::of(self), &mut bytes);
        Ok(OutgoingBody::complete(ReplayBody::Memory(Rc::new(bytes))))
    }

    /// Reads the body, as far as the configuration wants that before the upstream sees the request. `proxy_set_body` may
    /// name it (`$request_body`), so it is read then as well.
    async fn take_clients_body(&mut self, plan: &ProxyPlan) -> Result<OutgoingBody, Reply> {
        let framing = self.body.framing();
        let length = match framing {
            BodyFraming::Length(length) => Some(length),
            BodyFraming::None | BodyFraming::Chunked => None,
        };
        let wanted = plan.pass_request_body || plan.set_body.is_some();
        if !wanted || framing == BodyFraming::None || self.body_refused {
            return Ok(OutgoingBody::ABSENT);
        }
        match &self.replay {
            // An internal redirect has led from one proxy to another.
            kept @ (ReplayBody::Memory(_) | ReplayBody::File(..)) => return Ok(OutgoingBody::complete(kept.clone())),
            ReplayBody::None if self.body.is_done() => return Ok(OutgoingBody::complete(ReplayBody::None)),
            replay if replay.can_replay(self.body.received) => {}
            // The first proxy has passed a part of it on: an error page does without, another request cannot.
            _ if self.method == Method::Get || self.method == Method::Head => return Ok(OutgoingBody::ABSENT),
            _ => {
                self.error_log("the request body was streamed to an upstream and cannot be sent again");
                return Err(Reply::error(500));
            }
        }
        self.send_continue()?;
        // An upstream of version 1.0 knows no chunks and must be told the length, so all of such a body is read first.
        if !plan.request_buffering && plan.set_body.is_none() && (plan.http_1_1 || length.is_some()) {
            self.replay = ReplayBody::Streaming;
            return Ok(OutgoingBody { replay: ReplayBody::Streaming, length, present: true });
        }
        let limit = self.client_plan().body_buffer_bytes;
        // Where memory is short the disk takes what would fit the buffer otherwise.
        let wanted = length.map_or(limit, |length| limit.min(usize::try_from(length).unwrap_or(usize::MAX)));
        let limit = self.worker.memory.room_for_body(wanted);
        let to_file = self.client_plan().body_files.always || length.is_some_and(|length| length > limit as u64);
        // In one piece from the beginning: a buffer that doubles would hold twice as much for a moment.
        let expected = length.filter(|_| !to_file).and_then(|length| usize::try_from(length).ok());
        let mut bytes = Vec::with_capacity(expected.unwrap_or_default());
        if !to_file {
            // One byte more than fits tells a chunked body that does from one that does not.
            self.collect_body(&mut bytes, limit + 1).await?;
        }
        self.replay = if to_file || bytes.len() > limit {
            self.body_to_file(bytes).await?
        } else {
            ReplayBody::Memory(Rc::new(bytes))
        };
        Ok(OutgoingBody::complete(self.replay.clone()))
    }

    /// Reads until the body is complete or this many bytes of it are there. So many count as held from the beginning: other
    /// bodies that come at the same time see what is left.
    async fn collect_body(&mut self, bytes: &mut Vec<u8>, most: usize) -> Result<(), Reply> {
        while !self.body.is_done() && bytes.len() < most {
            let room = (most - bytes.len()).min(READ_BYTES);
            match self.body.read(&mut self.down.connection, room, |data| bytes.extend_from_slice(data)) {
                Ok(BodyRead::Data | BodyRead::Done) => {
                    if let Some(reply) = self.check_received_size() {
                        return Err(reply);
                    }
                }
                Ok(BodyRead::NotReady) => {
                    let timed_out =
                        self.wait_holding(bytes.capacity().max(most), self.client_plan().body_timeout).await;
                    // More of it may have come in the same turn as the deadline.
                    if timed_out && !self.down.connection.stream.is_readable() {
                        return Err(self.body_timed_out());
                    }
                }
                Err(error) => return Err(self.refuse_body(&error)),
            }
        }
        Ok(())
    }

    /// Reads the whole body into a temporary file, `piece` being its beginning. A disk that is full fails this request
    /// alone.
    async fn body_to_file(&mut self, mut piece: Vec<u8>) -> Result<ReplayBody, Reply> {
        let files = Arc::clone(&self.client_plan().body_files);
        let created = self.offload(move || files.create()).await.flatten();
        let file = Arc::new(created.map_err(|error| self.body_file_failed("creating", &error))?);
        let mut length = 0;
        loop {
            let left = match self.body.framing() {
                BodyFraming::Length(all) => usize::try_from(all - length).unwrap_or(usize::MAX),
                BodyFraming::None | BodyFraming::Chunked => usize::MAX,
            };
            let most = self.worker.memory.room_for_body(left.min(PIECE_BYTES));
            piece.reserve_exact(most.saturating_sub(piece.len()));
            self.collect_body(&mut piece, most).await?;
            self.account(piece.capacity());
            if piece.is_empty() {
                break;
            }
            let (file, whole, offset) = (Arc::clone(&file), piece, length);
            length += whole.len() as u64;
            let write = move || {
                body_file::write_piece(&file, &whole, offset).map(|()| {
                    let mut spare = whole;
                    spare.clear();
                    spare
                })
            };
            piece = self.offload(write).await.flatten().map_err(|error| self.body_file_failed("writing", &error))?;
        }
        Ok(ReplayBody::File(file, length))
    }

    fn body_file_failed(&self, doing: &str, error: &std::io::Error) -> Reply {
        let directory = self.client_plan().body_files.directory.display();
        self.error_log(&format!(
            "{doing} a temporary file in \"{directory}\" failed ({}) while reading client request body",
            errno(error)
        ));
        Reply::error(500)
    }

    /// Tells a client that waits for it to go on.
    fn send_continue(&mut self) -> Result<(), Reply> {
        let waits =
            self.request.head.expect_continue && self.body.received == 0 && self.down.connection.pending.is_empty();
        if waits && self.down.send_interim(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            self.close = Some(CloseReason::ClientAborted);
            return Err(Reply::error(499));
        }
        Ok(())
    }

    pub(super) fn check_received_size(&mut self) -> Option<Reply> {
        let limit = self.client_plan().body_size_max;
        if limit == 0 || self.body.received <= limit {
            return None;
        }
        self.error_log(&format!("client intended to send too large chunked body: {} bytes", self.body.received));
        self.down.keepalive = false;
        self.close.get_or_insert(CloseReason::BodyUnread);
        self.body_refused = true;
        Some(Reply::error(413))
    }

    /// The answer to a body that does not come.
    pub(super) fn body_timed_out(&mut self) -> Reply {
        self.client_log("client timed out (110: Connection timed out) while reading client request body");
        self.close = Some(CloseReason::BodyTimeout);
        self.down.keepalive = false;
        Reply::error(408)
    }

    /// The answer to a body that cannot be read.
    pub(super) fn refuse_body(&mut self, error: &BodyError) -> Reply {
        self.down.keepalive = false;
        match error {
            BodyError::Malformed(error) => {
                self.error_log(&format!("{}: {error}", error.request_phrase()));
                self.close = Some(CloseReason::BadRequest);
                Reply::error(400)
            }
            BodyError::Closed => {
                self.client_log("client prematurely closed connection while sending request body");
                self.close = Some(CloseReason::ClientAborted);
                Reply::error(400)
            }
            BodyError::Broken(error) => {
                self.client_log(&format!("recv() failed ({}) while reading client request body", errno(error)));
                self.close = Some(CloseReason::ClientAborted);
                Reply::error(400)
            }
        }
    }

    /// Writes the head for the upstream.
    pub(super) fn encode_upstream_head(&mut self, plan: &ProxyPlan, body: &OutgoingBody) {
        let mut out = std::mem::take(&mut self.request.upstream_head);
        out.clear();
        self.write_upstream_method(plan, &mut out);
        out.push(b' ');
        self.write_upstream_target(plan, &mut out);
        out.extend_from_slice(if plan.http_1_1 { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" });
        let mut upgrade_sent = false;
        let view = ExchangeView::of(self);
        for field in &plan.set_fields {
            let start = out.len();
            out.extend_from_slice(&field.name);
            out.extend_from_slice(b": ");
            let value = out.len();
            field.value.write(&view, &mut out);
            if self.is_h2c(&field.name) {
                // R47: `Upgrade: h2c` ends here, also where a template passes the client's field on.
                out.truncate(start);
                continue;
            }
            if out.len() == value {
                out.truncate(start);
                continue;
            }
            if has_line_end(&out[value..]) {
                // A captured or decoded value with a line end in it would become a field of its own.
                out.truncate(start);
                self.error_log(
                    "a line end in the value of a request header that proxy_set_header sets; it is not sent",
                );
                continue;
            }
            out.extend_from_slice(b"\r\n");
            upgrade_sent |= field.name.eq_ignore_ascii_case(b"Upgrade");
        }
        if body.is_chunked() {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        } else if let Some(length) = body.length.filter(|_| body.present) {
            encode_number_field(b"Content-Length", length, &mut out);
        }
        let head = &self.request.head;
        let bytes = &self.request.bytes;
        let passed = head.fields.iter().filter(|field| {
            plan.pass_request_headers && !field.hop && !plan.replaced.contains(field.id, field.name.of(bytes))
        });
        encode_fields(bytes, passed, &mut out);
        encode_head_end(&mut out);
        self.request.upstream_head = out;
        self.upgrade_sent = upgrade_sent;
    }

    /// The client's method, or that of `proxy_method`. What a variable brings must not end the word.
    fn write_upstream_method(&self, plan: &ProxyPlan, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(method) = &plan.method {
            method.write(&ExchangeView::of(self), out);
            let written = out.get(start..).unwrap_or_default();
            if !written.is_empty() && written.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)) {
                return;
            }
            self.error_log(&format!("\"proxy_method\" gives \"{}\", which is no method", quoted(written)));
            out.truncate(start);
        }
        out.extend_from_slice(self.method_name());
    }

    /// The method in the head that was written for the upstream.
    pub(super) fn upstream_method(&self) -> &[u8] {
        let head = &self.request.upstream_head;
        head.split(|&byte| byte == b' ').next().unwrap_or_default()
    }

    fn is_h2c(&self, name: &[u8]) -> bool {
        let h2c = self.request.head.upgrade.is_some_and(|upgrade| upgrade.kind == UpgradeKind::H2c);
        h2c && name.eq_ignore_ascii_case(b"Upgrade")
    }

    fn write_upstream_target(&self, plan: &ProxyPlan, out: &mut Vec<u8>) {
        let parsed = self.target.parsed.as_ref();
        let uri = ProxyUri {
            raw: self.raw_target(),
            raw_is_valid: parsed.is_some_and(|parsed| !parsed.empty_path) && !self.target.uri_replaced,
            uri: self.uri(),
            args: self.args(),
            location: &self.location().name,
            location_is_valid: !self.target.name_is_stale,
            needs_escape: (self.target.uri_replaced && !self.target.uri_verbatim)
                || parsed.is_some_and(|parsed| parsed.quoted),
        };
        uri.write(
            match &plan.uri {
                PassUriPlan::Absent => PassUri::Absent,
                PassUriPlan::Replace(uri) => PassUri::Replace(uri),
                PassUriPlan::Computed => PassUri::AsGiven(self.computed.as_ref().map_or(&[], |target| &target.uri)),
            },
            out,
        );
    }
}
