//! Sends replies. A small file goes out with its head in one write; a large one by `sendfile(2)` or in pieces, as fast
//! as the client accepts them. Other tasks get their turn between the pieces.

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::content::filtered::{Compress, Ranges};
use crate::downstream::reply_head::{Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::reply::{FileReply, Reply, ReplyBody, is_bodiless};
use crate::exchange::response::Response;
use crate::exchange::step::Served;
use crate::exchange::subrequest::LOOK_AGAIN;
use crate::exchange::waiting::Wants;
use crate::filter::forced_range::Portion;
use http1::FieldId;
use reactor::{Interest, OpenFile, Woken};
use rules::time_format::Moment;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Bytes up to which a file is read and sent together with its head instead of by `sendfile(2)`. Both cost about the
/// same here: a worker needed 19–22 µs of CPU for a request of 16 KB this way and 21–24 µs for one of 17 KB by
/// `sendfile` (three interleaved rounds of 3,000, shared machine).
const SMALL_BYTES_MAX: u64 = 16 * 1024;

impl Exchange {
    /// Sends a reply.
    pub(crate) async fn deliver(&mut self, mut reply: Reply) -> Served {
        if let Some(status) = self.response.shown_status().filter(|_| !matches!(reply.body, ReplyBody::ErrorPage)) {
            reply.status = status;
        }
        if matches!(reply.body, ReplyBody::File(_) | ReplyBody::Bytes(_))
            && let Some(carried) = self.response.carried_type()
        {
            reply.content_type = Some(carried.into());
        }
        match std::mem::take(&mut reply.body) {
            // A page shown under a status that has no body (`error_page 304 /page`).
            ReplyBody::File(_) if is_bodiless(reply.status) => self.respond(&reply),
            ReplyBody::File(file) => self.send_file(&reply, *file).await,
            body => self.respond(&Reply { body, ..reply }),
        }
    }

    async fn send_file(&mut self, reply: &Reply, file: FileReply) -> Served {
        let mut head = self.begin_head(reply.status);
        self.settle_keepalive();
        self.begin_pace();
        head.has_body = true;
        head.length = Some(file.parts.length());
        head.has_trailers = self.wants_trailers(reply.status, false);
        let portion = self.fill_file_head(reply, &file, &mut head);
        self.filter_head(&mut head, Ranges::OfFile(&portion), Compress::Yes);
        if let Some(refusal) = self.refuse_undecided() {
            self.spares.recycle_reply_head(head);
            return self.respond(&refusal);
        }
        let sent = self.send_file_with_head(&head, file).await;
        self.spares.recycle_reply_head(head);
        match sent {
            Ok(()) if self.down.is_complete() || self.response.filters.holds_rest() => Served::Responded,
            Ok(()) => {
                self.error_log("the file was truncated while it was sent");
                self.truncate()
            }
            Err(reason) => {
                self.stop_sending(reason, "sending response to client");
                Served::Responded
            }
        }
    }

    async fn send_file_with_head(&mut self, head: &ReplyHead, file: FileReply) -> Result<(), CloseReason> {
        let length = file.parts.length();
        if !self.down.sends_body(head) || length == 0 {
            return gone(self.response.filters.send_head(&mut self.down, head.with(b""), &[], true));
        }
        match file.parts.single() {
            Some(range) if self.down.states_length(head) => {
                let range = range.clone();
                let FileReply { file, sendfile, chunk, .. } = file;
                let is_plain = !self.response.filters.changes_body();
                if sendfile && length > SMALL_BYTES_MAX && is_plain && self.down.sends_files() {
                    gone(self.response.filters.send_head_of_file(&mut self.down, head.with(b""), b""))?;
                    self.send_by_sendfile(&file, range, chunk).await
                } else {
                    self.send_by_reading(Some(head), &file, range, chunk).await.map(drop)
                }
            }
            _ => self.send_parts(head, file).await,
        }
    }

    /// Sends several parts with their separators, or a body in chunks: `sendfile(2)` cannot frame either.
    async fn send_parts(&mut self, head: &ReplyHead, file: FileReply) -> Result<(), CloseReason> {
        let FileReply { file, parts, chunk, .. } = file;
        gone(self.response.filters.send_head(&mut self.down, head.with(b""), &[], false))?;
        for part in &parts.parts {
            if !part.before.is_empty() {
                gone(self.response.filters.send_body(&mut self.down, &part.before, false))?;
            }
            if !self.send_by_reading(None, &file, part.range.clone(), chunk).await? {
                // The file has become shorter than its head said.
                return Ok(());
            }
        }
        gone(self.response.filters.send_body(&mut self.down, &parts.after, true))
    }

    /// Sends a range by `sendfile(2)`. If the page cache does not have the next part, the kernel reads it in this call,
    /// with read-ahead (ADR 12).
    pub(crate) async fn send_by_sendfile(
        &mut self,
        file: &OpenFile,
        range: Range<u64>,
        chunk: usize,
    ) -> Result<(), CloseReason> {
        let mut offset = range.start;
        while offset < range.end {
            if self.response.filters.pause(&self.down).is_some() {
                self.wait_for_client().await?;
                continue;
            }
            let count = usize::try_from(range.end - offset).unwrap_or(usize::MAX).min(chunk);
            let sent = match self.response.filters.send_file(&mut self.down, file, &mut offset, count) {
                Ok(sent) => sent,
                Err(error) => return Err(self.read_failed(&error)),
            };
            if offset == range.end {
                break;
            }
            if sent == 0 && self.down.waiting_bytes() == 0 && self.down.is_writable() {
                // The file has become shorter than its head said.
                break;
            }
            self.wait_for_client().await?;
        }
        Ok(())
    }

    /// Reads what is in the page cache; the offload pool reads the rest. The first piece, which is all of a small file,
    /// goes out with the head, if one is given. `false`: the file has become shorter.
    pub(crate) async fn send_by_reading(
        &mut self,
        mut head: Option<&ReplyHead>,
        file: &Arc<OpenFile>,
        range: Range<u64>,
        chunk: usize,
    ) -> Result<bool, CloseReason> {
        let mut offset = range.start;
        while offset < range.end {
            if gone(self.response.filters.flush(&mut self.down))? == Flushed::Waiting {
                self.wait_for_client().await?;
                continue;
            }
            let left = range.end - offset;
            let small = self.response.filters.is_paced() || self.response.filters.changes_body();
            let piece = if small { SMALL_BYTES_MAX } else { (chunk as u64).max(SMALL_BYTES_MAX) };
            let max = piece.min(left) as usize;
            let Self { response: Response { filters, .. }, down, .. } = &mut *self;
            let mut send = |bytes: &[u8]| {
                let sent = match head.take() {
                    Some(head) => filters.send_head(down, head.with(b""), bytes, false),
                    None => filters.send_body(down, bytes, false),
                };
                sent.map(|()| bytes.len())
            };
            let sent = match file.read_cached_with(offset, max, &mut send) {
                Ok(Some(sent)) => sent,
                Ok(None) => {
                    let cold = Arc::clone(file);
                    match self.offload(move || cold.read_at(offset, max)).await.flatten() {
                        Ok(bytes) => {
                            let sent = match head.take() {
                                Some(head) => {
                                    self.response.filters.send_head(&mut self.down, head.with(b""), &bytes, false)
                                }
                                None => self.response.filters.send_body(&mut self.down, &bytes, false),
                            };
                            sent.map(|()| bytes.len())
                        }
                        Err(error) => return Err(self.read_failed(&error)),
                    }
                }
                Err(error) => return Err(self.read_failed(&error)),
            };
            match gone(sent)? {
                0 => return Ok(false),
                sent => offset += sent as u64,
            }
            if offset < range.end && self.down.waiting_bytes() == 0 {
                self.yield_now().await;
            }
        }
        Ok(true)
    }

    /// Waits until the client accepts more, as long as `send_timeout` allows; if its socket has room, only yields to
    /// other tasks. Bytes that the client sends meanwhile do not count as progress.
    pub(crate) async fn wait_for_client(&self) -> Result<(), CloseReason> {
        if let Some(pause) = self.response.filters.pause(&self.down) {
            let left = self.wait(Wants::NOTHING, pause).await == Woken::PeerGone;
            return if left { Err(CloseReason::ClientAborted) } else { Ok(()) };
        }
        if self.down.waiting_bytes() == 0 && self.response.filters.awaits_subrequest() {
            return match self.wait(Wants::NOTHING, LOOK_AGAIN).await {
                Woken::Ready => Ok(()),
                Woken::PeerGone => Err(CloseReason::ClientAborted),
                Woken::Deadline => Err(CloseReason::SendTimeout),
            };
        }
        if self.down.is_writable() {
            self.yield_now().await;
        }
        let timeout = self.client_plan().send_timeout;
        let began = self.thread.reactor.now();
        while !self.down.is_writable() && !self.down.is_failed() {
            let waited = Duration::from_millis(self.thread.reactor.now().since(began));
            let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(CloseReason::SendTimeout);
            };
            if self.wait(Wants::of_client(Interest::WRITE), left).await == Woken::PeerGone {
                return Err(CloseReason::ClientAborted);
            }
        }
        if self.down.is_failed() { Err(CloseReason::ClientAborted) } else { Ok(()) }
    }

    /// Handles an error of reading the file or writing to the client; the error tells them apart.
    pub(crate) fn read_failed(&self, error: &io::Error) -> CloseReason {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
                CloseReason::ClientAborted
            }
            _ => {
                self.error_log(&format!("reading a file failed ({error}) while sending response to client"));
                CloseReason::Truncated
            }
        }
    }

    /// Fills the head; returns the portion of the file in the response.
    fn fill_file_head(&self, reply: &Reply, file: &FileReply, head: &mut ReplyHead) -> Portion {
        let status = &file.file.status;
        self.fill_server_and_date(head);
        if let Some(media) = reply.content_type.as_deref().filter(|media| !media.is_empty()) {
            head.fields.push(FieldId::ContentType, media);
        }
        head.fields.mark(Mark::Length);
        // The date of an error page is not that of the requested file.
        if matches!(reply.status, 200 | 206) {
            head.fields.push(FieldId::LastModified, &Moment::new(status.modified, 0).http_date());
        }
        // An error page shown as a 206 is still sent whole.
        let part = file.parts.single().filter(|_| reply.status == 206 && self.response.shown_status().is_none());
        self.fill_carried(|id| part.is_some() && id == FieldId::ContentRange, head);
        if let Some(tag) = &file.tag {
            head.fields.push(FieldId::ETag, tag.as_bytes());
        }
        if let Some(coding) = file.coding {
            head.fields.push(FieldId::ContentEncoding, coding.as_bytes());
        }
        head.fields.mark(Mark::Connection);
        match part {
            Some(part) => Portion::Part { range: part.clone(), size: status.size },
            None if reply.status != 206 && file.ranges => Portion::Offered,
            None => Portion::Whole,
        }
    }
}

pub(crate) fn gone<T>(result: io::Result<T>) -> Result<T, CloseReason> {
    result.map_err(|_| CloseReason::ClientAborted)
}
