//! The zones of `limit_req` and `limit_conn` for several processes (`worker_groups`): tables in memory that all of them map, so
//! that a limit counts a client wherever its connections arrive. Caches share memory in the same way; its content is in
//! `cache::commons`.
//!
//! A table consists of sets of entries, each set with a lock word. A key is its keyed hash; it is in one of the entries of its
//! set. An entry of `limit_conn` has a count for each process, so the counts of a process that has died can be removed.

use crate::base::logs::error::errno;
use crate::registry::cache::commons;
use aws_lc_rs::digest::{Context, SHA256};
use reactor::SharedCounters;
use rules::limit::{Admission, Bucket, RequestRefusal, RequestRule};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Entries of a set. With twice as many entries as keys, a set is full for one key in a thousand.
const WAYS: usize = 16;
/// Bytes of a zone for each key, as nginx documents them for 64-bit platforms.
const REQUEST_KEY_BYTES: u64 = 128;
const CONNECTION_KEY_BYTES: u64 = 64;
/// Words before the sets: the secret of the hash.
pub(crate) const SEED_WORDS: usize = 4;
/// Words of an entry that name its key.
const TAG_WORDS: usize = 2;
/// Words of an entry of `limit_req` after the tag: when the bucket was touched, and what is in it.
const BUCKET_WORDS: usize = 3;
/// How often a worker looks at a lock before it lets other threads run, and how often it does that before it takes the lock
/// away. A lock is held for less than a microsecond; its holder was killed or stopped then.
const SPINS: u32 = 1000;
const YIELDS: u32 = 1000;

/// What a zone is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneKind {
    /// `limit_req`
    Requests,
    /// `limit_conn`
    Connections,
    /// `proxy_cache_path` and its kin
    Cache,
}

impl ZoneKind {
    /// All kinds; the position of a kind is its number for other processes.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Connections, Self::Cache];
}

/// A zone that processes share, by its identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneSpec {
    /// What it is for.
    pub kind: ZoneKind,
    /// Its name; that of a cache has its directory.
    pub name: String,
    /// Its size as configured, where the memory depends on it.
    pub bytes: u64,
}

/// The memory of a zone.
#[derive(Debug, Clone)]
pub struct ZoneMemory {
    /// The zone.
    pub spec: ZoneSpec,
    /// The number of this process.
    pub index: u16,
    /// The number of processes.
    pub of: u16,
    /// The memory.
    pub words: Arc<SharedCounters>,
}

impl ZoneSpec {
    /// Words of memory for a number of processes; pages that are not used take no memory.
    pub fn words(&self, of: u16) -> usize {
        match self.kind {
            ZoneKind::Cache => commons::WORDS,
            ZoneKind::Requests | ZoneKind::Connections => SEED_WORDS + self.sets() * self.set_words(of),
        }
    }

    /// Memory for a number of processes.
    pub fn allocate(&self, of: u16) -> io::Result<SharedCounters> {
        let words = SharedCounters::new(self.words(of))?;
        let mut seed = [0; SEED_WORDS * 4];
        aws_lc_rs::rand::fill(&mut seed).map_err(|_| io::Error::other("no random bytes"))?;
        for (word, bytes) in words.all().iter().zip(seed.as_chunks::<4>().0) {
            word.store(u32::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        Ok(words)
    }

    /// Removes the counts of a process that has died.
    pub fn clear(&self, words: &SharedCounters, index: u16, of: u16) {
        if self.kind == ZoneKind::Cache {
            return commons::clear(words, index);
        }
        for set in words.all().get(SEED_WORDS..).unwrap_or_default().chunks_exact(self.set_words(of)) {
            let Some((lock, entries)) = set.split_first() else { continue };
            // It may have died while it held the lock.
            let _ = lock.compare_exchange(u32::from(index) + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
            if self.kind == ZoneKind::Requests {
                continue;
            }
            for entry in entries.chunks_exact(self.entry_words(of)) {
                if let Some(count) = entry.get(TAG_WORDS + usize::from(index)) {
                    // Most are zero: a write would allocate the page.
                    if count.load(Ordering::Relaxed) != 0 {
                        count.store(0, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    fn sets(&self) -> usize {
        let key_bytes = match self.kind {
            ZoneKind::Requests | ZoneKind::Cache => REQUEST_KEY_BYTES,
            ZoneKind::Connections => CONNECTION_KEY_BYTES,
        };
        let keys = usize::try_from(self.bytes / key_bytes).unwrap_or(usize::MAX / 2);
        (2 * keys).div_ceil(WAYS).max(1)
    }

    fn set_words(&self, of: u16) -> usize {
        1 + WAYS * self.entry_words(of)
    }

    fn entry_words(&self, of: u16) -> usize {
        TAG_WORDS
            + match self.kind {
                ZoneKind::Requests | ZoneKind::Cache => BUCKET_WORDS,
                ZoneKind::Connections => usize::from(of),
            }
    }
}

/// A lock word that this process holds.
pub(crate) struct LockWord<'a> {
    word: &'a AtomicU32,
    own: u32,
}

impl<'a> LockWord<'a> {
    /// Takes it; `own` is the number of this process, and 1.
    pub(crate) fn acquire(word: &'a AtomicU32, own: u32) -> Self {
        acquire(word, own);
        Self { word, own }
    }
}

impl Drop for LockWord<'_> {
    fn drop(&mut self) {
        // It fails if this process was stopped for so long that another one has taken the lock away.
        let _ = self.word.compare_exchange(self.own, 0, Ordering::Release, Ordering::Relaxed);
    }
}

/// A locked set.
struct LockedSet<'a> {
    _lock: LockWord<'a>,
    entries: &'a [AtomicU32],
    entry_words: usize,
    tag: [u32; TAG_WORDS],
}

impl LockedSet<'_> {
    fn entries(&self) -> impl Iterator<Item = &[AtomicU32]> {
        self.entries.chunks_exact(self.entry_words)
    }

    fn find(&self) -> Option<&[AtomicU32]> {
        self.entries().find(|entry| tag_of(entry) == self.tag).and_then(|entry| entry.get(TAG_WORDS..))
    }

    /// Gives an entry to this key; its words after the tag are the caller's to set.
    fn claim<'e>(&self, entry: &'e [AtomicU32]) -> &'e [AtomicU32] {
        entry.iter().zip(self.tag).for_each(|(word, tag)| word.store(tag, Ordering::Relaxed));
        entry.get(TAG_WORDS..).unwrap_or_default()
    }
}

fn tag_of(entry: &[AtomicU32]) -> [u32; TAG_WORDS] {
    std::array::from_fn(|at| entry.get(at).map_or(0, |word| word.load(Ordering::Relaxed)))
}

impl ZoneMemory {
    /// One of several processes takes part in a zone. An error: the memory is another one.
    pub fn new(spec: ZoneSpec, index: u16, of: u16, memory: std::os::fd::OwnedFd) -> Result<Self, String> {
        let words = SharedCounters::from_descriptor(memory, spec.words(of));
        let words = words.map_err(|error| format!("the zone \"{}\" cannot be shared {}", spec.name, errno(&error)))?;
        Ok(Self { spec, index, of, words: Arc::new(words) })
    }

    fn lock(&self, key: &[u8]) -> LockedSet<'_> {
        let (seed, sets) = self.words.all().split_at(SEED_WORDS);
        let mut context = Context::new(&SHA256);
        for word in seed {
            context.update(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        context.update(key);
        let digest = context.finish();
        let (parts, _) = digest.as_ref().as_chunks::<4>();
        let part = |at: usize| parts.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let (entry_words, set_words) = (self.spec.entry_words(self.of), self.spec.set_words(self.of));
        let at = part(0) as usize % self.spec.sets();
        let set = &sets[at * set_words..(at + 1) * set_words];
        // A tag of zero is a free entry.
        let tag = [part(1), part(2).max(1)];
        let lock = LockWord::acquire(&set[0], u32::from(self.index) + 1);
        LockedSet { _lock: lock, entries: &set[1..], entry_words, tag }
    }

    /// As `RequestStates::probe`.
    pub(crate) fn probe(&self, key: &[u8], rule: &RequestRule, now_ms: u64) -> Result<u64, RequestRefusal> {
        let set = self.lock(key);
        let bucket = set.find().and_then(bucket_of);
        bucket.map_or(Ok(0), |bucket| rule.admit(bucket.with_one_more(rule.rate_milli, now_ms)))
    }

    /// As `RequestStates::take`.
    pub(crate) fn take(&self, key: &[u8], rule: &RequestRule, now_ms: u64) -> Result<u64, RequestRefusal> {
        let set = self.lock(key);
        let Some((words, bucket)) = set.find().and_then(|words| Some((words, bucket_of(words)?))) else {
            begin(&set, now_ms);
            return Ok(0);
        };
        let excess_milli = rule.admit(bucket.with_one_more(rule.rate_milli, now_ms))?;
        put_bucket(words, Bucket { excess_milli, touched_ms: bucket.touched_ms.max(now_ms) });
        Ok(excess_milli)
    }

    /// As `RequestStates::charge`.
    pub(crate) fn charge(&self, key: &[u8], rule: &RequestRule, now_ms: u64) -> u64 {
        let set = self.lock(key);
        let Some((words, bucket)) = set.find().and_then(|words| Some((words, bucket_of(words)?))) else {
            begin(&set, now_ms);
            return 0;
        };
        let excess_milli = bucket.with_one_more(rule.rate_milli, now_ms);
        put_bucket(words, Bucket { excess_milli, touched_ms: bucket.touched_ms.max(now_ms) });
        excess_milli
    }

    /// As `ConnectionStates::admit`.
    pub(crate) fn admit(&self, key: &[u8], most: u32) -> Admission {
        let set = self.lock(key);
        let sum =
            |counts: &[AtomicU32]| -> u64 { counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).sum() };
        let counts = match set.find() {
            Some(counts) if sum(counts) >= most.into() => return Admission::TooMany,
            Some(counts) => counts,
            None => {
                let free = set.entries().find(|entry| sum(entry.get(TAG_WORDS..).unwrap_or_default()) == 0);
                let Some(free) = free else { return Admission::Exhausted };
                set.claim(free)
            }
        };
        if let Some(own) = counts.get(usize::from(self.index)) {
            own.store(own.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
        Admission::Admitted
    }

    /// As `ConnectionStates::leave`.
    pub(crate) fn leave(&self, key: &[u8]) {
        let set = self.lock(key);
        if let Some(own) = set.find().and_then(|counts| counts.get(usize::from(self.index))) {
            own.store(own.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        }
    }
}

/// The first request of a key. The bucket that was touched least recently makes room.
fn begin(set: &LockedSet<'_>, now_ms: u64) {
    let age = |entry: &&[AtomicU32]| {
        let is_free = tag_of(entry) == [0; TAG_WORDS];
        let touched = entry.get(TAG_WORDS..).and_then(bucket_of).map_or(0, |bucket| bucket.touched_ms);
        if is_free { 0 } else { touched.saturating_add(1) }
    };
    if let Some(entry) = set.entries().min_by_key(age) {
        put_bucket(set.claim(entry), Bucket { excess_milli: 0, touched_ms: now_ms });
    }
}

fn bucket_of(words: &[AtomicU32]) -> Option<Bucket> {
    let [low, high, excess] = words else { return None };
    let read = |word: &AtomicU32| u64::from(word.load(Ordering::Relaxed));
    Some(Bucket { excess_milli: read(excess), touched_ms: read(high) << 32 | read(low) })
}

fn put_bucket(words: &[AtomicU32], bucket: Bucket) {
    let [low, high, excess] = words else { return };
    low.store(bucket.touched_ms as u32, Ordering::Relaxed);
    high.store((bucket.touched_ms >> 32) as u32, Ordering::Relaxed);
    // Four million requests above the rate.
    excess.store(u32::try_from(bucket.excess_milli).unwrap_or(u32::MAX), Ordering::Relaxed);
}

fn acquire(lock: &AtomicU32, own: u32) {
    for _ in 0..YIELDS {
        for _ in 0..SPINS {
            if lock.load(Ordering::Relaxed) == 0
                && lock.compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
    lock.store(own, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(kind: ZoneKind, bytes: u64, of: u16) -> Vec<ZoneMemory> {
        let spec = ZoneSpec { kind, name: "z".to_owned(), bytes };
        let memory = spec.allocate(of).unwrap();
        let share = |index| {
            let memory = memory.descriptor().try_clone_to_owned().unwrap();
            ZoneMemory::new(spec.clone(), index, of, memory).unwrap()
        };
        (0..of).map(share).collect()
    }

    #[test]
    fn counts_connections_of_living_processes_only() {
        let zones = zone(ZoneKind::Connections, 64 * 1024, 3);
        let admitted = |at: usize, key: &[u8]| zones[at].admit(key, 4) == Admission::Admitted;
        assert!(admitted(0, b"a") && admitted(0, b"a") && admitted(1, b"a") && admitted(2, b"a"));
        assert!((0..3).all(|at| zones[at].admit(b"a", 4) == Admission::TooMany));
        assert!(admitted(1, b"b"), "another key");
        zones[2].leave(b"a");
        assert!(admitted(1, b"a") && !admitted(2, b"a"));
        // Two connections of the first process are gone with it.
        zones[0].spec.clear(&zones[1].words, 0, 3);
        assert!(admitted(0, b"a") && admitted(2, b"a") && !admitted(1, b"a"));
    }

    #[test]
    fn a_full_set_is_exhausted_and_room_comes_back() {
        let zones = zone(ZoneKind::Connections, 64, 2);
        let results: Vec<Admission> = (0..=WAYS).map(|key| zones[key % 2].admit(&[key as u8], 9)).collect();
        assert!(results[..WAYS].iter().all(|admission| *admission == Admission::Admitted));
        assert_eq!(results[WAYS], Admission::Exhausted);
        zones[1].leave(&[1]);
        assert_eq!(zones[0].admit(&[99], 9), Admission::Admitted);
        assert_eq!(zones[1].admit(&[1], 9), Admission::Exhausted);
    }

    #[test]
    fn requests_of_all_processes_fill_one_bucket() {
        let zones = zone(ZoneKind::Requests, 128 * 1024, 2);
        let rule = RequestRule { rate_milli: 1000, burst: 2, delay: u32::MAX };
        let mut now = 5_000_000_000;
        assert_eq!(zones[0].probe(b"a", &rule, now), Ok(0));
        assert_eq!([0, 1, 0].map(|at: usize| zones[at].take(b"a", &rule, now)), [Ok(0), Ok(1000), Ok(2000)]);
        let refused = Err(RequestRefusal::TooMany { excess_milli: 3000 });
        assert_eq!((zones[1].take(b"a", &rule, now), zones[0].probe(b"a", &rule, now)), (refused, refused));
        assert_eq!(zones[1].take(b"b", &rule, now), Ok(0));
        now += 1000;
        assert_eq!(zones[1].take(b"a", &rule, now), Ok(2000));
        assert_eq!(zones[0].charge(b"a", &rule, now), 3000);
    }

    #[test]
    fn the_oldest_bucket_of_a_set_makes_room() {
        let zones = zone(ZoneKind::Requests, 128, 1);
        let rule = RequestRule { rate_milli: 1, burst: 0, delay: 0 };
        for key in 0..=WAYS {
            assert_eq!(zones[0].take(&[key as u8], &rule, 1000 + key as u64), Ok(0));
        }
        assert!(zones[0].take(&[1], &rule, 2000).is_err(), "it is still there");
        assert_eq!(zones[0].take(&[0], &rule, 2000), Ok(0), "it was forgotten");
    }

    #[test]
    fn many_threads_of_two_processes_never_exceed_the_limit() {
        let zones = zone(ZoneKind::Connections, 64 * 1024, 2);
        let (most, counted) = (7, std::sync::atomic::AtomicI64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (zone, counted) = (&zones[thread % 2], &counted);
                scope.spawn(move || {
                    for _ in 0..5000 {
                        if zone.admit(b"key", most) == Admission::Admitted {
                            assert!(counted.fetch_add(1, Ordering::SeqCst) < i64::from(most));
                            counted.fetch_sub(1, Ordering::SeqCst);
                            zone.leave(b"key");
                        }
                    }
                });
            }
        });
        assert!((0..most).all(|_| zones[0].admit(b"key", most) == Admission::Admitted), "nothing is left over");
        assert_eq!(zones[1].admit(b"key", most), Admission::TooMany);
    }

    #[test]
    fn the_lock_of_a_killed_process_is_taken_away() {
        let zones = zone(ZoneKind::Connections, 64, 2);
        std::mem::forget(zones[0].lock(b"a"));
        assert_eq!(zones[1].admit(b"a", 1), Admission::Admitted);
        std::mem::forget(zones[0].lock(b"a"));
        zones[0].spec.clear(&zones[1].words, 0, 2);
        assert_eq!(zones[1].admit(b"a", 1), Admission::TooMany);
    }
}
