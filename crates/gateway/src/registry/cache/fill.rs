//! A response that is being stored, for the requests that wait for it: they read its file while it is written. The
//! exchange that receives it owns a [`Filling`]; the others share the [`Fill`], which the zone finds by its key.

use crate::registry::cache::{CacheHold, CacheZone};
use crate::registry::process::Registry;
use cache::{Entry, Key};
use reactor::OpenFile;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What is known of the response once its head has come.
pub(crate) struct FillHead {
    /// The text of the key.
    pub(crate) text: Vec<u8>,
    pub(crate) entry: Entry,
    /// The head as the upstream sent it.
    pub(crate) head: Vec<u8>,
    /// Offset of the body in the file.
    pub(crate) body_start: u64,
}

/// A response that is being stored.
pub(crate) struct Fill {
    pub(crate) known: FillHead,
    /// The file, once it is open. All readers share this descriptor.
    file: OnceLock<Arc<OpenFile>>,
    progress: Mutex<Progress>,
    /// Wakes the exchange that receives the response.
    owner: u64,
}

struct Progress {
    now: Reached,
    /// Tasks that have read everything written so far.
    waiting: HashSet<u64>,
}

/// Progress of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Bytes of the body in the file.
    pub(crate) written: u64,
    pub(crate) state: FillState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillState {
    Going,
    /// The file is complete.
    Whole,
    /// The rest will not come.
    Failed,
}

impl Fill {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        // The lock is only held for whole steps, so a panic leaves the state consistent.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self) -> Option<&Arc<OpenFile>> {
        self.file.get()
    }

    /// The length of the body, once the file is complete.
    pub(crate) fn whole(&self) -> Option<u64> {
        Some(self.progress().now).filter(|now| now.state == FillState::Whole).map(|now| now.written)
    }

    /// The progress. If it is no further than `offset`, and more may come, registers `token` to be woken, and wakes the
    /// receiving exchange through `shared`: it may hold bytes back, since no reader waited until now.
    pub(crate) fn look(&self, offset: u64, token: u64, shared: &Registry) -> Reached {
        let mut progress = self.progress();
        let now = progress.now;
        if now.written > offset || now.state != FillState::Going {
            return now;
        }
        let is_first = progress.waiting.is_empty();
        progress.waiting.insert(token);
        drop(progress);
        if is_first {
            shared.wake(self.owner);
        }
        now
    }
}

/// The side of the exchange that receives the response. Dropping it means that the rest will not come.
pub(crate) struct Filling {
    fill: Arc<Fill>,
    zone: Arc<CacheZone>,
    shared: &'static Registry,
    key: Key,
}

impl Filling {
    /// The readers' side.
    pub(crate) fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Whether a reader waits for more.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.fill.progress().waiting.is_empty()
    }

    /// Sets the file once it is open.
    pub(crate) fn opened(&self, file: OpenFile) {
        // It is opened once; a second one would be the same file.
        let _ = self.fill.file.set(Arc::new(file));
    }

    /// Reports how many bytes of the body the file has.
    pub(crate) fn advance(&self, written: u64) {
        self.notify(Reached { written, state: FillState::Going });
    }

    /// Reports that the file is complete.
    pub(crate) fn complete(self, written: u64) {
        self.notify(Reached { written, state: FillState::Whole });
    }

    fn notify(&self, reached: Reached) {
        let waiting = {
            let mut progress = self.fill.progress();
            progress.now = reached;
            std::mem::take(&mut progress.waiting)
        };
        for token in waiting {
            self.shared.wake(token);
        }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.zone.end_fill(self.key, &self.fill);
        let now = self.fill.progress().now;
        if now.state == FillState::Going {
            self.notify(Reached { state: FillState::Failed, ..now });
        }
    }
}

impl CacheHold {
    /// Lets others read the response of this key while it is stored; `None` if another exchange fills the key. Wakes
    /// the requests that wait for it. `owner` wakes this exchange.
    pub(crate) fn begin_fill(&self, key: Key, known: FillHead, owner: u64) -> Option<Filling> {
        if !self.updates {
            return None;
        }
        let now = Reached { written: 0, state: FillState::Going };
        let progress = Progress { now, waiting: HashSet::new() };
        let fill = Arc::new(Fill { known, file: OnceLock::new(), progress: Mutex::new(progress), owner });
        let waiting = {
            let mut state = self.zone.state();
            state.fills.insert(key, Arc::clone(&fill));
            state.index.take_waiting(self.place)
        };
        self.wake(waiting);
        Some(Filling { fill, zone: Arc::clone(&self.zone), shared: self.shared, key })
    }
}

impl CacheZone {
    /// The response of a key that is being stored.
    pub(crate) fn fill_of(&self, key: Key) -> Option<Arc<Fill>> {
        self.state().fills.get(&key).cloned()
    }

    fn end_fill(&self, key: Key, fill: &Arc<Fill>) {
        let mut state = self.state();
        if state.fills.get(&key).is_some_and(|known| Arc::ptr_eq(known, fill)) {
            state.fills.remove(&key);
        }
    }
}
