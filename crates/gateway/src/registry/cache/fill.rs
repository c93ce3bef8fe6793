//! A response that is being stored, for the requests that wait for it: they read its file while it is written. The
//! exchange that receives it owns a [`Filling`]; the others have a [`Reader`] of the [`Fill`], which the zone finds by its
//! key. If the file takes no more, the rest of the body is kept in memory until the readers have it (`kept`).

use crate::base::memory::CommonBytes;
use crate::registry::cache::kept::MemoryTail;
use crate::registry::cache::{CacheHold, CacheZone};
use crate::registry::process::Registry;
use cache::{Entry, Key};
use reactor::OpenFile;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// All readers share this descriptor.
    file: Arc<OpenFile>,
    progress: Mutex<Progress>,
    /// Wakes the exchange that receives the response.
    owner: u64,
}

struct Progress {
    /// Bytes of the body that readers may have.
    written: u64,
    state: FillState,
    /// Tasks that have read everything written so far.
    waiting: HashSet<u64>,
    /// The readers, by their tasks, with the offset in the body of the byte that each needs next.
    readers: HashMap<u64, u64>,
    /// A write has failed: the rest of the body, from `in_file` on.
    kept: Option<MemoryTail>,
    /// Bytes of the body in the file, if a write has failed.
    in_file: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FillState {
    Going,
    Whole,
    Failed,
}

/// What a reader finds at its offset.
pub(crate) enum Reached {
    /// The file has the body up to this offset.
    InFile(u64),
    /// A piece of the body, and the position in it.
    InMemory(Arc<Vec<u8>>, usize),
    /// It has not come yet.
    NotYet,
    /// The body is complete and ends here.
    End,
    /// The rest will not come.
    Failed,
}

impl Progress {
    fn find(&self, offset: u64) -> Reached {
        let in_file = if self.kept.is_some() { self.in_file } else { self.written };
        if offset < in_file {
            return Reached::InFile(in_file);
        }
        if let Some((piece, at)) = self.kept.as_ref().and_then(|kept| kept.at(offset)) {
            return Reached::InMemory(piece, at);
        }
        match self.state {
            // A reader that went back: others did not need these bytes any more.
            _ if offset < self.written => Reached::Failed,
            FillState::Going => Reached::NotYet,
            FillState::Whole => Reached::End,
            FillState::Failed => Reached::Failed,
        }
    }

    /// Drops what no reader needs any more. `true`: the storing exchange waits for that.
    fn forget_read(&mut self) -> bool {
        let Some(kept) = &mut self.kept else { return false };
        kept.forget_before(self.readers.values().min().copied().unwrap_or(u64::MAX))
    }
}

impl Fill {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        // The lock is only held for whole steps, so a panic leaves the state consistent.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    /// Lets a task read from the beginning; `None` if the response can no longer be read along.
    pub(crate) fn join(self: &Arc<Self>, token: u64, registry: &'static Registry) -> Option<Reader> {
        let mut progress = self.progress();
        if progress.kept.is_some() || progress.state == FillState::Failed {
            return None;
        }
        progress.readers.insert(token, 0);
        drop(progress);
        Some(Reader { fill: Arc::clone(self), token, registry })
    }

    /// What is at an offset.
    pub(crate) fn find(&self, offset: u64) -> Reached {
        self.progress().find(offset)
    }

    /// The length of the body, once it is complete.
    pub(crate) fn whole(&self) -> Option<u64> {
        let progress = self.progress();
        (progress.state == FillState::Whole).then_some(progress.written)
    }
}

/// A reader of a response that is being stored. What it has not read yet is kept until it is dropped.
pub(crate) struct Reader {
    fill: Arc<Fill>,
    token: u64,
    registry: &'static Registry,
}

impl Reader {
    /// The client of the exchange that stores the response reads the rest.
    pub(crate) fn of_owner(fill: Arc<Fill>, registry: &'static Registry) -> Self {
        Self { token: fill.owner, fill, registry }
    }

    pub(crate) fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// What is at an offset; earlier bytes are no longer needed. If nothing is there yet, wakes the task when there is, and the
    /// receiving exchange now: it may hold bytes back, since no reader waited until now.
    pub(crate) fn look(&self, offset: u64) -> Reached {
        let mut progress = self.fill.progress();
        progress.readers.insert(self.token, offset);
        let mut wakes_owner = progress.forget_read();
        let found = progress.find(offset);
        if matches!(found, Reached::NotYet) {
            wakes_owner |= progress.waiting.is_empty();
            progress.waiting.insert(self.token);
        }
        drop(progress);
        if wakes_owner {
            self.registry.wake(self.fill.owner);
        }
        found
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut progress = self.fill.progress();
        progress.readers.remove(&self.token);
        progress.waiting.remove(&self.token);
        let wakes_owner = progress.forget_read();
        drop(progress);
        if wakes_owner {
            self.registry.wake(self.fill.owner);
        }
    }
}

/// The side of the exchange that receives the response. Dropping it means that the rest will not come.
pub(crate) struct Filling {
    fill: Arc<Fill>,
    zone: Arc<CacheZone>,
    registry: &'static Registry,
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

    /// Reports how many bytes of the body the file has.
    pub(crate) fn advance(&self, written: u64) {
        self.notify(|progress| progress.written = written);
    }

    /// The file takes no more after the last reported byte. Later requests cannot read along.
    pub(crate) fn leave_file(&self) {
        self.zone.end_fill(self.key, &self.fill);
        let mut progress = self.fill.progress();
        progress.in_file = progress.written;
        progress.kept = Some(MemoryTail::new(progress.written, CommonBytes::new(&self.registry.memory)));
    }

    /// Keeps the next piece of the body for those that read along. `behind`: the position of this exchange's client, if
    /// it reads along, too. `false`: nothing is read along any more.
    pub(crate) fn keep(&self, piece: Arc<Vec<u8>>, behind: Option<u64>) -> bool {
        self.place_client(behind);
        self.notify(|progress| {
            progress.written += piece.len() as u64;
            if let Some(kept) = &mut progress.kept {
                kept.push(piece);
            }
            progress.forget_read();
            !progress.readers.is_empty()
        })
    }

    /// Sets the position of this exchange's client, if it reads along.
    pub(crate) fn place_client(&self, behind: Option<u64>) {
        let mut progress = self.fill.progress();
        match behind {
            Some(offset) => progress.readers.insert(self.fill.owner, offset),
            None => progress.readers.remove(&self.fill.owner),
        };
        progress.forget_read();
    }

    /// Whether so much is kept that readers must take some of it first; they then wake this exchange. `pending` bytes are not
    /// yet given to them.
    pub(crate) fn is_full(&self, pending: usize) -> bool {
        self.fill.progress().kept.as_mut().is_some_and(|kept| kept.is_full(pending))
    }

    /// Reports that the body is complete.
    pub(crate) fn complete(self, written: u64) {
        self.notify(|progress| {
            progress.written = written;
            progress.state = FillState::Whole;
        });
    }

    /// Changes the progress, and wakes the readers that wait.
    fn notify<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        let (said, waiting) = {
            let mut progress = self.fill.progress();
            (change(&mut progress), std::mem::take(&mut progress.waiting))
        };
        for token in waiting {
            self.registry.wake(token);
        }
        said
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.zone.end_fill(self.key, &self.fill);
        if self.fill.progress().state == FillState::Going {
            self.notify(|progress| progress.state = FillState::Failed);
        }
    }
}

impl CacheHold {
    /// Whether this exchange may let others read the response of its key while it is stored.
    pub(crate) fn may_share(&self) -> bool {
        self.updates
    }

    /// Whether a response of this key is being stored and can be read meanwhile.
    pub(crate) fn has_fill(&self) -> bool {
        self.zone.fill_of(self.key).is_some()
    }

    /// Lets others read the response of this key in this file while it is stored. Wakes the requests that wait for it. `owner`
    /// wakes this exchange.
    pub(crate) fn begin_fill(&self, key: Key, known: FillHead, file: OpenFile, owner: u64) -> Filling {
        let progress = Progress {
            written: 0,
            state: FillState::Going,
            waiting: HashSet::new(),
            readers: HashMap::new(),
            kept: None,
            in_file: 0,
        };
        let fill = Arc::new(Fill { known, file: Arc::new(file), progress: Mutex::new(progress), owner });
        let waiting = {
            let mut state = self.zone.state();
            state.fills.insert(key, Arc::clone(&fill));
            state.index.take_waiting(self.place)
        };
        self.wake(waiting);
        Filling { fill, zone: Arc::clone(&self.zone), registry: self.registry, key }
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
