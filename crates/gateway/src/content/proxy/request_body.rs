//! The body of the request on its way to the upstream: read first, or streamed. `request_head` writes its head.

use crate::base::body_file::{self, FileNames, RemovedName};
use crate::base::close::CloseReason;
use crate::base::logs::error::{Level, errno, quoted};
use crate::downstream::body::{BodyError, BodyRead};
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::Wants;
use crate::registry::generation::BoundProxy;
use crate::upstream::outgoing_body::OutgoingBody;
use crate::upstream::replay_body::ReplayBody;
use http1::{BodyFraming, Method};
use reactor::{Interest, Woken};
use rules::template::Template;
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes read from the client at once while a body is collected.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of a body that are collected before they are written to its file: one job of the offload pool for many reads.
const PIECE_BYTES: usize = 256 * 1024;

impl Exchange {
    /// The body for the upstream: the client's, or that of `proxy_set_body`.
    pub(crate) async fn take_body(&mut self, plan: &BoundProxy) -> Result<OutgoingBody, Reply> {
        let clients = self.take_clients_body(plan).await?;
        Ok(plan.set_body.as_ref().map_or(clients, |template| self.configured_body(template)))
    }

    /// `proxy_set_body`
    pub(super) fn configured_body(&self, template: &Template) -> OutgoingBody {
        let mut bytes = Vec::new();
        template.write(&ExchangeView::of(self), &mut bytes);
        OutgoingBody::complete(ReplayBody::Memory(Rc::new(bytes)))
    }

    /// Whether the client has a body for the upstream.
    pub(super) fn passes_body(&self, plan: &BoundProxy) -> bool {
        let wanted = plan.pass_request_body || plan.set_body.is_some();
        wanted && self.intake.body.framing() != BodyFraming::None && !self.intake.refused
    }

    /// Reads the body, as far as the configuration wants that before the upstream gets the request. `proxy_set_body`
    /// may use `$request_body`, so the body is read in that case as well.
    async fn take_clients_body(&mut self, plan: &BoundProxy) -> Result<OutgoingBody, Reply> {
        let framing = self.intake.body.framing();
        let length = match framing {
            BodyFraming::Length(length) => Some(length),
            BodyFraming::None | BodyFraming::Chunked => None,
        };
        if !self.passes_body(plan) {
            return Ok(OutgoingBody::ABSENT);
        }
        let begun = match &self.intake.replay {
            // An internal redirect led from one proxy to another.
            kept @ (ReplayBody::Memory(_) | ReplayBody::File(..)) => return Ok(OutgoingBody::complete(kept.clone())),
            ReplayBody::None if self.intake.body.is_done() => return Ok(OutgoingBody::complete(ReplayBody::None)),
            // Everything received so far is still held, so it can be sent.
            ReplayBody::Streaming(begun) if self.intake.body.received == begun.len() as u64 => Some(Rc::clone(begun)),
            ReplayBody::None => None,
            // The first proxy has passed a part of the body on: an error page needs none, another request cannot be
            // sent.
            _ if self.routing.method() == Method::Get || self.routing.method() == Method::Head => {
                return Ok(OutgoingBody::ABSENT);
            }
            _ => {
                self.error_log("the request body was streamed to an upstream and cannot be sent again");
                return Err(Reply::error(500));
            }
        };
        let begun = begun.map(Rc::unwrap_or_clone).unwrap_or_default();
        self.send_continue()?;
        // HTTP/1.0 upstreams know no chunks and need a length, so a body without one is read first.
        if !plan.request_buffering && plan.set_body.is_none() && (plan.http_1_1 || length.is_some()) {
            return self.begin_streaming(begun, length);
        }
        self.collect_whole(begun, length).await?;
        Ok(OutgoingBody::complete(self.intake.replay.clone()))
    }

    /// The whole body, for copies of the request; it is also kept for the request itself. `None` if a proxy has already
    /// passed a part of it on.
    pub(crate) async fn read_whole_body(&mut self) -> Result<ReplayBody, Reply> {
        let framing = self.intake.body.framing();
        let is_kept = matches!(self.intake.replay, ReplayBody::Memory(_) | ReplayBody::File(..));
        if !is_kept && framing != BodyFraming::None && !self.intake.refused && self.intake.body.received == 0 {
            let length = match framing {
                BodyFraming::Length(length) => Some(length),
                BodyFraming::None | BodyFraming::Chunked => None,
            };
            self.send_continue()?;
            self.collect_whole(Vec::new(), length).await?;
        }
        Ok(match &self.intake.replay {
            kept @ (ReplayBody::Memory(_) | ReplayBody::File(..)) => kept.clone(),
            ReplayBody::None | ReplayBody::Streaming(_) => ReplayBody::None,
        })
    }

    /// Reads the whole body into memory or a file; `begun` is its beginning.
    async fn collect_whole(&mut self, begun: Vec<u8>, length: Option<u64>) -> Result<(), Reply> {
        let limit = self.client_plan().body_buffer_bytes;
        // If memory is short, a body that would fit the buffer goes into a file.
        let wanted = length.map_or(limit, |length| limit.min(usize::try_from(length).unwrap_or(usize::MAX)));
        let limit = self.thread.memory.room_for_body(wanted);
        let to_file = self.client_plan().body_files.names != FileNames::Removed
            || length.is_some_and(|length| length > limit as u64);
        // Reserved at once: a buffer that doubles would hold twice as much for a moment.
        let expected = length.filter(|_| !to_file).and_then(|length| usize::try_from(length).ok());
        let mut bytes = begun;
        bytes.reserve_exact(expected.unwrap_or_default().saturating_sub(bytes.len()));
        if !to_file {
            // One byte more than fits shows whether a chunked body exceeds the buffer.
            self.collect_body(&mut bytes, limit + 1).await?;
        }
        self.intake.replay = if to_file || bytes.len() > limit {
            self.body_to_file(bytes).await?
        } else {
            ReplayBody::Memory(Rc::new(bytes))
        };
        Ok(())
    }

    /// Takes what has arrived of a body that is to be streamed. A body that has arrived completely is treated like a
    /// buffered one: it can be sent again, and has a length. Does not wait.
    fn begin_streaming(&mut self, mut bytes: Vec<u8>, length: Option<u64>) -> Result<OutgoingBody, Reply> {
        let limit = self.client_plan().body_buffer_bytes;
        let wanted = length.map_or(limit, |length| limit.min(usize::try_from(length).unwrap_or(usize::MAX)));
        let limit = self.thread.memory.room_for_body(wanted);
        if length.is_none_or(|length| length <= limit as u64) {
            while !self.intake.body.is_done() && bytes.len() < limit {
                let room = (limit - bytes.len()).min(READ_BYTES);
                match self.down.read_body(&mut self.intake.body, room, |data| bytes.extend_from_slice(data)) {
                    Ok(BodyRead::Data | BodyRead::Done) => {
                        if let Some(reply) = self.check_received_size() {
                            return Err(reply);
                        }
                    }
                    Ok(BodyRead::NotReady) => break,
                    Err(error) => return Err(self.refuse_body(&error)),
                }
            }
        }
        let bytes = Rc::new(bytes);
        if self.intake.body.is_done() {
            self.intake.replay = ReplayBody::Memory(bytes);
            return Ok(OutgoingBody::complete(self.intake.replay.clone()));
        }
        self.intake.replay = ReplayBody::Streaming(bytes);
        Ok(OutgoingBody::streamed(self.intake.replay.clone(), length))
    }

    /// Reads until the body is complete or this many bytes of it have come. All of them count as held from the
    /// beginning, so that other bodies arriving at the same time see the remaining memory.
    async fn collect_body(&mut self, bytes: &mut Vec<u8>, most: usize) -> Result<(), Reply> {
        while !self.intake.body.is_done() && bytes.len() < most {
            let room = (most - bytes.len()).min(READ_BYTES);
            match self.down.read_body(&mut self.intake.body, room, |data| bytes.extend_from_slice(data)) {
                Ok(BodyRead::Data | BodyRead::Done) => {
                    if let Some(reply) = self.check_received_size() {
                        return Err(reply);
                    }
                }
                Ok(BodyRead::NotReady) => {
                    let wants = Wants::of_client(Interest::READ).holding(bytes.capacity().max(most));
                    if self.wait(wants, self.client_plan().body_timeout).await == Woken::Deadline {
                        return Err(self.body_timed_out());
                    }
                }
                Err(error) => return Err(self.refuse_body(&error)),
            }
        }
        Ok(())
    }

    /// Reads the whole body into a temporary file; `piece` is its beginning. A full disk fails this request alone.
    async fn body_to_file(&mut self, mut piece: Vec<u8>) -> Result<ReplayBody, Reply> {
        let files = Arc::clone(&self.client_plan().body_files);
        let names = files.names;
        let created = self.offload(move || files.create()).await.flatten();
        let (file, path) = created.map_err(|error| self.body_file_failed("creating", &error))?;
        let (file, shown) = (Arc::new(file), quoted(path.as_os_str().as_bytes()));
        if names == FileNames::UntilEnd {
            let offload = self.thread.registry.offload.clone();
            self.intake.file_name = Some(Box::new(RemovedName::new(path, offload)));
        }
        // With a name it is no sign of a buffer that is too small.
        let level = if names == FileNames::Removed { Level::Warn } else { Level::Notice };
        self.log_at(level, &format!("a client request body is buffered to a temporary file {shown}"));
        let mut length = 0;
        loop {
            let left = match self.intake.body.framing() {
                BodyFraming::Length(all) => usize::try_from(all - length).unwrap_or(usize::MAX),
                BodyFraming::None | BodyFraming::Chunked => usize::MAX,
            };
            let most = self.thread.memory.room_for_body(left.min(PIECE_BYTES));
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

    /// Sends 100 Continue to a client that waits for it.
    fn send_continue(&mut self) -> Result<(), Reply> {
        let waits = self.request.head.expect_continue && self.intake.body.received == 0 && !self.down.has_pending();
        if waits && self.down.send_interim(ReplyHead::of(100).with(b"")).is_err() {
            return Err(Reply::to_nobody(499));
        }
        Ok(())
    }

    pub(crate) fn check_received_size(&mut self) -> Option<Reply> {
        let limit = self.client_plan().body_size_max;
        if limit == 0 || self.intake.body.received <= limit {
            return None;
        }
        self.error_log(&format!("client intended to send too large chunked body: {} bytes", self.intake.body.received));
        self.down.ending.close(CloseReason::BodyUnread);
        self.intake.refused = true;
        Some(Reply::error(413))
    }

    /// The answer if the body does not arrive in time.
    pub(crate) fn body_timed_out(&mut self) -> Reply {
        self.client_log("client timed out (110: Connection timed out) while reading client request body");
        self.down.ending.break_off(CloseReason::BodyTimeout);
        Reply::error(408)
    }

    /// The answer if the body cannot be read.
    pub(crate) fn refuse_body(&mut self, error: &BodyError) -> Reply {
        match error {
            BodyError::Malformed(error) => {
                self.error_log(&format!("{}: {error}", error.request_phrase()));
                self.down.ending.break_off(CloseReason::BadRequest);
                Reply::error(400)
            }
            BodyError::Closed => {
                self.client_log("client prematurely closed connection while sending request body");
                Reply::to_nobody(400)
            }
            BodyError::Broken(error) => {
                self.client_log(&format!("recv() failed ({}) while reading client request body", errno(error)));
                Reply::to_nobody(400)
            }
        }
    }
}
