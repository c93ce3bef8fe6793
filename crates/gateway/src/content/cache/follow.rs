//! A response that another exchange is storing (`proxy_cache_lock`): this exchange sends what the file has, and waits
//! for more. It never reads past the end of the file, and the storing exchange does not wait for it, unless the file takes no more:
//! the rest then comes from memory.

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::base::stall_timeout::StallTimeout;
use crate::content::files::send::gone;
use crate::exchange::Exchange;
use crate::exchange::waiting::Wants;
use crate::registry::cache::cached_file::CachedFile;
use crate::registry::cache::fill::{Reached, Reader};
use reactor::{Interest, OpenFile, Woken};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The position of a cached response's body.
pub(crate) struct CachedBody {
    /// Its offset in the file.
    start: u64,
    /// Its length. If it is still being stored and has no stated length, an upper bound.
    pub(super) size: u64,
    is_length_known: bool,
    from: From,
}

/// How often a request that waits for more of the file checks again without being woken.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

enum From {
    File(Rc<CachedFile>),
    Fill(Reader),
}

/// The next bytes of a body.
enum NextBytes {
    /// The file has them up to this offset.
    InFile(Arc<OpenFile>, u64),
    /// A piece in memory, and the position in it.
    InMemory(Arc<Vec<u8>>, usize),
    /// The body is over.
    End,
}

impl CachedBody {
    pub(super) fn of_file(found: Rc<CachedFile>) -> Self {
        let (start, size) = (found.body_start as u64, found.entry.body_bytes);
        Self { start, size, is_length_known: true, from: From::File(found) }
    }

    pub(crate) fn of_fill(reader: Reader, stated: Option<u64>) -> Self {
        let start = reader.fill().known.body_start;
        let size = stated.unwrap_or(u64::MAX - start);
        Self { start, size, is_length_known: stated.is_some(), from: From::Fill(reader) }
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
    pub(crate) async fn send_cached_range(
        &mut self,
        body: &CachedBody,
        range: Range<u64>,
        by_sendfile: Option<usize>,
        chunk: usize,
    ) -> Result<bool, CloseReason> {
        let mut offset = range.start;
        while offset < range.end {
            let (file, end) = match self.await_cached(body, offset, range.end).await? {
                NextBytes::InFile(file, end) => (file, end),
                NextBytes::InMemory(piece, at) => {
                    let left = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
                    let bytes = &piece[at..piece.len().min(at.saturating_add(left))];
                    self.send_from_memory(bytes, chunk).await?;
                    offset += bytes.len() as u64;
                    continue;
                }
                NextBytes::End => return Ok(!body.is_length_known),
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

    /// Sends bytes in pieces of `chunk`, each when the client has accepted the one before.
    async fn send_from_memory(&mut self, bytes: &[u8], chunk: usize) -> Result<(), CloseReason> {
        for piece in bytes.chunks(chunk.max(1)) {
            gone(self.response.filters.send_body(&mut self.down, piece, false))?;
            while gone(self.response.filters.flush(&mut self.down))? == Flushed::Waiting {
                self.wait_for_client().await?;
            }
        }
        Ok(())
    }

    /// Waits for the next bytes.
    async fn await_cached(&mut self, body: &CachedBody, offset: u64, end: u64) -> Result<NextBytes, CloseReason> {
        let reader = match &body.from {
            From::File(found) => return Ok(NextBytes::InFile(Arc::clone(&found.file), end)),
            From::Fill(reader) => reader,
        };
        let mut stall = StallTimeout::new(0, self.thread.reactor.now());
        loop {
            if self.response.filters.flush(&mut self.down).is_err() {
                return Err(CloseReason::ClientAborted);
            }
            match reader.look(offset) {
                Reached::InFile(reached) => {
                    return Ok(NextBytes::InFile(Arc::clone(reader.fill().file()), reached.min(end)));
                }
                Reached::InMemory(piece, at) => return Ok(NextBytes::InMemory(piece, at)),
                Reached::NotYet => {}
                Reached::End => return Ok(NextBytes::End),
                Reached::Failed => {
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
