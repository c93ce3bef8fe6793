//! A response that another exchange is storing (`proxy_cache_lock`): this exchange sends what the file has, and waits
//! for more. It never reads past the end of the file, and the storing exchange does not wait for it.

use crate::base::close::CloseReason;
use crate::base::stall_timeout::StallTimeout;
use crate::exchange::Exchange;
use crate::exchange::waiting::Wants;
use crate::registry::cache::cached_file::CachedFile;
use crate::registry::cache::fill::{Fill, FillState};
use crate::registry::process::wake_token;
use reactor::{Interest, OpenFile, Woken};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The position of a cached response's body.
pub(super) struct CachedBody {
    /// Its offset in the file.
    pub(super) start: u64,
    /// Its length. If it is still being stored and has no stated length, an upper bound.
    pub(super) size: u64,
    is_length_known: bool,
    from: From,
}

/// How often a request that waits for more of the file checks again without being woken.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

enum From {
    File(Rc<CachedFile>),
    Fill(Arc<Fill>),
}

impl CachedBody {
    pub(super) fn of_file(found: Rc<CachedFile>) -> Self {
        let (start, size) = (found.body_start as u64, found.entry.body_bytes);
        Self { start, size, is_length_known: true, from: From::File(found) }
    }

    pub(super) fn of_fill(fill: Arc<Fill>, stated: Option<u64>) -> Self {
        let start = fill.known.body_start;
        let size = stated.unwrap_or(u64::MAX - start);
        Self { start, size, is_length_known: stated.is_some(), from: From::Fill(fill) }
    }

    /// The bytes of a range, if they were read with the head.
    pub(super) fn in_memory(&self, range: &Range<u64>) -> Option<&[u8]> {
        let From::File(found) = &self.from else { return None };
        let place = |offset: u64| usize::try_from(self.start + offset).ok();
        found.bytes.get(place(range.start)?..place(range.end)?)
    }

    /// The beginning of a range, as far as it was read with the head.
    pub(super) fn in_memory_from(&self, range: &Range<u64>) -> &[u8] {
        let From::File(found) = &self.from else { return &[] };
        let end = range.end.min((found.bytes.len() as u64).saturating_sub(self.start));
        self.in_memory(&(range.start..end)).unwrap_or_default()
    }

    /// Whether it is known to be empty.
    pub(super) fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl Exchange {
    /// Sends a range of a cached body, by `sendfile(2)` in pieces of `by_sendfile` bytes, or else by reading pieces of
    /// `chunk`. `false`: the file is shorter.
    pub(super) async fn send_cached_range(
        &mut self,
        body: &CachedBody,
        range: Range<u64>,
        by_sendfile: Option<usize>,
        chunk: usize,
    ) -> Result<bool, CloseReason> {
        let mut offset = range.start;
        while offset < range.end {
            let Some((file, end)) = self.await_cached(body, offset, range.end).await? else {
                return Ok(!body.is_length_known);
            };
            let place = body.start + offset..body.start + end;
            match by_sendfile {
                Some(chunk) => self.send_by_sendfile(&file, place, chunk).await?,
                None if !self.send_by_reading(None, &file, place, chunk).await? => return Ok(false),
                None => {}
            }
            offset = end;
        }
        Ok(true)
    }

    /// The file, and how far it can be read now; `None` at the end of the body.
    async fn await_cached(
        &mut self,
        body: &CachedBody,
        offset: u64,
        end: u64,
    ) -> Result<Option<(Arc<OpenFile>, u64)>, CloseReason> {
        let fill = match &body.from {
            From::File(found) => return Ok(Some((Arc::clone(&found.file), end))),
            From::Fill(fill) => fill,
        };
        let token = wake_token(self.thread.index, self.task());
        let mut stall = StallTimeout::new(0, self.thread.reactor.now());
        loop {
            if self.response.filters.flush(&mut self.down).is_err() {
                return Err(CloseReason::ClientAborted);
            }
            let reached = fill.look(offset, token, self.thread.shared);
            if let Some(file) = fill.file().filter(|_| reached.written > offset) {
                return Ok(Some((Arc::clone(file), reached.written.min(end))));
            }
            match reached.state {
                FillState::Going => {}
                FillState::Whole => return Ok(None),
                FillState::Failed => {
                    self.error_log(
                        "the request that gets this response for the cache has failed while reading upstream",
                    );
                    return Err(CloseReason::Truncated);
                }
            }
            let client_full = self.down.waiting_bytes() > 0;
            let left = if client_full {
                stall.left(self.down.bytes_sent(), self.client_plan().send_timeout, self.thread.reactor.now())
            } else {
                LOOK_AGAIN
            };
            match self.wait(Wants::of_client(Interest::WRITE.only_if(client_full)), left).await {
                Woken::PeerGone => return Err(CloseReason::ClientAborted),
                Woken::Deadline if client_full => return Err(CloseReason::SendTimeout),
                // The exchange that stores the response has the upstream's timeouts, and if it ends, so does this one.
                // A pause of its own, as with `proxy_limit_rate`, is no fault of the upstream.
                Woken::Ready | Woken::Deadline => {}
            }
        }
    }
}
