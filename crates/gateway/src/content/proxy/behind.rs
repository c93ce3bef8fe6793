//! The client that fetches a response for the cache (`proxy_cache_lock`) is slower than the requests that wait for it.
//! It then gets the body out of the cache's file, so that it does not hold the others back.

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::content::cache::follow::CachedBody;
use crate::content::files::send::gone;
use crate::content::proxy::relay::Relay;
use crate::exchange::Exchange;
use crate::registry::cache::fill::{Fill, Reached, Reader};
use std::sync::Arc;

/// Bytes of the file that are sent at once.
const PIECE_BYTES: usize = 128 * 1024;

/// Pieces before the upstream gets its turn: half a megabyte.
const PIECES_MAX: u32 = 4;

/// What a client that is behind does after it was sent some of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaughtUp {
    /// It would accept more at once.
    TakesMore,
    /// It waits for the upstream, or the upstream for it; or it is not behind any more.
    Waits,
}

impl Exchange {
    /// Serves a client that is behind, if this one is. Returns whether it would accept more.
    pub(super) async fn serve_behind(
        &mut self,
        relay: &mut Relay,
        buffer_bytes: usize,
    ) -> Result<CaughtUp, CloseReason> {
        let caught_up = match relay.behind {
            None => CaughtUp::Waits,
            Some(_) => Box::pin(self.catch_up(relay, buffer_bytes)).await?,
        };
        if let Some(store) = &relay.store {
            store.place_client(relay.behind);
        }
        Ok(caught_up)
    }

    /// Sends what the file has and the client's socket accepts, at most `buffer_bytes` ahead of it.
    async fn catch_up(&mut self, relay: &mut Relay, buffer_bytes: usize) -> Result<CaughtUp, CloseReason> {
        for _ in 0..PIECES_MAX {
            let (Some(behind), Some(store)) = (relay.behind, relay.store.as_ref()) else { return Ok(CaughtUp::Waits) };
            let fill = store.fill().cloned().ok_or(CloseReason::Truncated)?;
            if gone(self.response.filters.flush(&mut self.down))? == Flushed::Waiting {
                return Ok(CaughtUp::Waits);
            }
            if behind == store.taken() && !relay.body.is_done() {
                // The client has caught up: it gets the rest directly as it arrives.
                relay.behind = None;
                relay.muted = false;
                return Ok(CaughtUp::Waits);
            }
            let sent = self.send_of_fill(&fill, behind, PIECE_BYTES.min(buffer_bytes)).await?;
            if sent == 0 {
                return Ok(CaughtUp::Waits);
            }
            relay.behind = Some(behind + sent);
        }
        Ok(CaughtUp::TakesMore)
    }

    /// Sends a piece of a body that is being stored, as far as it has come.
    async fn send_of_fill(&mut self, fill: &Fill, offset: u64, most: usize) -> Result<u64, CloseReason> {
        let end = match fill.find(offset) {
            Reached::InFile(end) => end,
            Reached::InMemory(piece, at) => {
                let bytes = &piece[at..piece.len().min(at + most)];
                gone(self.response.filters.send_body(&mut self.down, bytes, false))?;
                return Ok(bytes.len() as u64);
            }
            Reached::NotYet | Reached::End => return Ok(0),
            Reached::Failed => return Err(CloseReason::Truncated),
        };
        let most = most.min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        let (file, place) = (Arc::clone(fill.file()), fill.known.body_start + offset);
        let cached = file.read_cached_with(place, most, <[u8]>::to_vec);
        let bytes = match cached {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                let read = self.offload(move || file.read_at(place, most)).await.flatten();
                read.map_err(|error| self.read_failed(&error))?
            }
            Err(error) => return Err(self.read_failed(&error)),
        };
        if bytes.is_empty() {
            self.error_log("the cache file was truncated while it was sent");
            return Err(CloseReason::Truncated);
        }
        gone(self.response.filters.send_body(&mut self.down, &bytes, false))?;
        Ok(bytes.len() as u64)
    }

    /// Sends the rest of a body that was stored for others, and its end. `reader`: `None` if it has not come to its end.
    pub(super) async fn send_rest(&mut self, reader: Option<Reader>, from: u64, chunk: usize) {
        let whole = reader.and_then(|reader| reader.fill().whole().map(|end| (reader, end)));
        let Some((reader, end)) = whole else {
            self.truncate();
            return;
        };
        let body = CachedBody::of_fill(reader, Some(end));
        let sent = self.send_cached_range(&body, from..end, None, chunk).await;
        let ended = match sent {
            Ok(true) => gone(self.response.filters.send_body(&mut self.down, &[], true)),
            Ok(false) => Err(CloseReason::Truncated),
            Err(reason) => Err(reason),
        };
        match ended {
            Ok(()) => {}
            Err(CloseReason::Truncated) => {
                self.error_log("the cache file was truncated while it was sent");
                self.truncate();
            }
            Err(reason) => {
                self.stop_sending(reason, "sending response to client");
            }
        }
    }
}
