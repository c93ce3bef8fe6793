//! What the processes of `worker_groups` share of a cache, in memory that all of them map: news of files, which process fetches
//! a key, and which process removes old files. The files themselves are the truth; no response depends on this memory.
//!
//! One lock word protects all of it, held for some hundred nanoseconds. It is not part of a hit, except once in some seconds for
//! each key.

use crate::registry::shared_zones::{LockWord, SEED_WORDS, ZoneMemory};
use cache::{Key, NEWS_WORDS, News};
use reactor::SharedCounters;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// News that is kept. A process reads ten times a second, so 160,000 changes a second are not too many; memory that is not used
/// does not exist.
pub(crate) const NEWS_MAX: u32 = 16_384;
/// News read under one lock.
pub(crate) const READ_AT_ONCE: u32 = 32;
/// Keys that are fetched at the same time, in sets. A key that finds its set full is fetched by each process for itself.
const SETS: usize = 1024;
const WAYS: usize = 8;
/// The key, the number of the process that fetches it and 1, and until when.
const FETCH_WORDS: usize = 6;
/// A process that has not tended the cache for this long is stopped, or finishes: another one does it.
const TENDING_MS: i32 = 5000;

/// Words after the secret, which identifies the memory.
const LOCK: usize = SEED_WORDS;
const HEAD: usize = LOCK + 1;
const TENDER: usize = HEAD + 1;
const TENDED_AT: usize = TENDER + 1;
const NEWS: usize = TENDED_AT + 1;
const FETCHES: usize = NEWS + NEWS_MAX as usize * NEWS_WORDS;
/// Words of memory of a cache.
pub(crate) const WORDS: usize = FETCHES + SETS * WAYS * FETCH_WORDS;

/// What this process has of a cache's shared memory.
pub(crate) struct CacheCommons {
    words: Arc<SharedCounters>,
    /// The number of this process, and 1.
    own: u32,
}

/// The result of reading news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewsRead {
    /// There is more.
    pub(crate) has_more: bool,
    /// Some of it is lost.
    pub(crate) has_lost: bool,
}

/// Whether a process removes old files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tending {
    /// Another process does.
    Other,
    /// This process does from now on.
    Begins,
    /// This process does.
    Own,
}

/// Removes what a process that has died holds.
pub(crate) fn clear(words: &SharedCounters, index: u16) {
    let own = u32::from(index) + 1;
    let free = |word: &AtomicU32| {
        let _ = word.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
    };
    let Some(words) = words.all().get(..WORDS) else { return };
    free(&words[LOCK]);
    free(&words[TENDER]);
    for fetch in words[FETCHES..].chunks_exact(FETCH_WORDS) {
        free(&fetch[4]);
    }
}

/// Whether a moment is over; moments wrap around.
fn is_over(until_ms: u32, now_ms: u64) -> bool {
    (now_ms as u32).wrapping_sub(until_ms).cast_signed() >= 0
}

fn load(word: &AtomicU32) -> u32 {
    word.load(Ordering::Relaxed)
}

impl CacheCommons {
    /// The part of one process.
    pub(crate) fn new(memory: ZoneMemory) -> Self {
        Self { words: memory.words, own: u32::from(memory.index) + 1 }
    }

    /// Whether this is the same memory.
    pub(crate) fn is_same(&self, other: &ZoneMemory) -> bool {
        let seed = |words: &[AtomicU32]| -> Vec<u32> { words.iter().take(SEED_WORDS).map(load).collect() };
        seed(self.words.all()) == seed(other.words.all())
    }

    fn words(&self) -> &[AtomicU32] {
        &self.words.all()[..WORDS]
    }

    fn lock(&self) -> LockWord<'_> {
        LockWord::acquire(&self.words()[LOCK], self.own)
    }

    fn news(&self, number: u32) -> &[AtomicU32] {
        let at = NEWS + (number % NEWS_MAX) as usize * NEWS_WORDS;
        &self.words()[at..at + NEWS_WORDS]
    }

    /// The number of the next news: where a new process begins to read.
    pub(crate) fn head(&self) -> u32 {
        self.words()[HEAD].load(Ordering::Acquire)
    }

    /// Tells the other processes.
    pub(crate) fn publish(&self, news: News) {
        let _locked = self.lock();
        let number = self.head();
        let words = news.encode(number);
        self.news(number).iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        // It fails if this process was stopped for so long that another one has taken the lock away: the news is lost then.
        let (next, head) = (number.wrapping_add(1), &self.words()[HEAD]);
        let _ = head.compare_exchange(number, next, Ordering::Release, Ordering::Relaxed);
    }

    /// Reads the next news from a position on, and moves the position.
    pub(crate) fn read(&self, position: &mut u32, out: &mut Vec<News>) -> NewsRead {
        if *position == self.head() {
            return NewsRead { has_more: false, has_lost: false };
        }
        let _locked = self.lock();
        let head = self.head();
        let mut has_lost = false;
        if head.wrapping_sub(*position) > NEWS_MAX {
            has_lost = true;
            *position = head.wrapping_sub(NEWS_MAX);
        }
        for _ in 0..READ_AT_ONCE.min(head.wrapping_sub(*position)) {
            let mut words = [0; NEWS_WORDS];
            words.iter_mut().zip(self.news(*position)).for_each(|(value, word)| *value = load(word));
            match News::decode(*position, &words) {
                Some(news) => out.push(news),
                None => has_lost = true,
            }
            *position = position.wrapping_add(1);
        }
        NewsRead { has_more: *position != head, has_lost }
    }

    fn fetches(&self, words: [u32; 4]) -> std::slice::ChunksExact<'_, AtomicU32> {
        let at = FETCHES + words[0] as usize % SETS * WAYS * FETCH_WORDS;
        self.words()[at..at + WAYS * FETCH_WORDS].chunks_exact(FETCH_WORDS)
    }

    /// Takes the right to fetch a key for some time. `false`: another process has it.
    pub(crate) fn claim(&self, key: Key, now_ms: u64, age_ms: u64) -> bool {
        let words = key.words();
        let _locked = self.lock();
        let is_free = |fetch: &&[AtomicU32]| load(&fetch[4]) == 0 || is_over(load(&fetch[5]), now_ms);
        let is_key = |fetch: &&[AtomicU32]| fetch.iter().zip(words).all(|(word, value)| load(word) == value);
        let known = self.fetches(words).filter(|fetch| load(&fetch[4]) != 0).find(is_key);
        if known.is_some_and(|fetch| load(&fetch[4]) != self.own && !is_free(&fetch)) {
            return false;
        }
        if let Some(fetch) = known.or_else(|| self.fetches(words).find(is_free)) {
            // Half of what the moments can tell apart.
            let until_ms = (now_ms as u32).wrapping_add(age_ms.min(1 << 30) as u32);
            let values = words.into_iter().chain([self.own, until_ms]);
            fetch.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }
        true
    }

    /// Gives the right to fetch a key back, if this process has it.
    pub(crate) fn release(&self, key: Key) {
        let words = key.words();
        let _locked = self.lock();
        for fetch in self.fetches(words) {
            if load(&fetch[4]) == self.own && fetch.iter().zip(words).all(|(word, value)| load(word) == value) {
                fetch[4].store(0, Ordering::Relaxed);
            }
        }
    }

    /// Whether this process removes old files: the first one does, until it dies or is silent.
    pub(crate) fn tends(&self, now_ms: u64) -> Tending {
        let (tender, at) = (&self.words()[TENDER], &self.words()[TENDED_AT]);
        let owner = tender.load(Ordering::Acquire);
        if owner == self.own {
            at.store(now_ms as u32, Ordering::Relaxed);
            return Tending::Own;
        }
        if owner != 0 && (now_ms as u32).wrapping_sub(load(at)).cast_signed() < TENDING_MS {
            return Tending::Other;
        }
        // Before the claim: a third process must not find this one silent.
        at.store(now_ms as u32, Ordering::Relaxed);
        match tender.compare_exchange(owner, self.own, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Tending::Begins,
            Err(_) => Tending::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::shared_zones::{ZoneKind, ZoneSpec};
    use cache::Record;
    use std::sync::atomic::AtomicUsize;

    fn spec() -> ZoneSpec {
        ZoneSpec { kind: ZoneKind::Cache, name: "c".to_owned(), bytes: 0 }
    }

    fn memory(words: &SharedCounters, index: u16) -> ZoneMemory {
        ZoneMemory::new(spec(), index, 3, words.descriptor().try_clone_to_owned().unwrap()).unwrap()
    }

    /// Three processes, and the memory as the master has it.
    fn processes() -> (Vec<CacheCommons>, SharedCounters) {
        let words = spec().allocate(3).unwrap();
        ((0..3).map(|index| CacheCommons::new(memory(&words, index))).collect(), words)
    }

    fn key(number: u64) -> Key {
        Key::of(&number.to_le_bytes())
    }

    fn file(number: u64) -> News {
        let key = key(number);
        News::File(Record { key, tag: key.tag(), bytes: number, expires_s: 7 })
    }

    fn read_all(one: &CacheCommons, position: &mut u32) -> (Vec<News>, bool) {
        let (mut news, mut has_lost) = (Vec::new(), false);
        loop {
            let reading = one.read(position, &mut news);
            has_lost |= reading.has_lost;
            if !reading.has_more {
                return (news, has_lost);
            }
        }
    }

    #[test]
    fn all_processes_read_the_same_news_in_the_same_order() {
        let (all, _words) = processes();
        let mut positions = [0, 0, 0].map(|_: u32| all[0].head());
        for number in 0..100 {
            all[number as usize % 3].publish(file(number));
        }
        let expected: Vec<News> = (0..100).map(file).collect();
        for (one, position) in all.iter().zip(&mut positions) {
            assert_eq!(read_all(one, position), (expected.clone(), false));
            assert_eq!(read_all(one, position), (vec![], false));
        }
    }

    #[test]
    fn lagging_process_learns_that_news_was_lost() {
        let (all, _words) = processes();
        let mut position = all[1].head();
        (0..u64::from(NEWS_MAX) + 5).for_each(|number| all[0].publish(file(number)));
        let (news, has_lost) = read_all(&all[1], &mut position);
        assert!(has_lost);
        assert_eq!((news.len(), news.last().copied()), (NEWS_MAX as usize, Some(file(u64::from(NEWS_MAX) + 4))));
        all[2].publish(file(9));
        assert_eq!(read_all(&all[1], &mut position), (vec![file(9)], false));
    }

    #[test]
    fn numbers_of_news_wrap_around() {
        let (all, words) = processes();
        words.all()[HEAD].store(u32::MAX - 1, Ordering::Relaxed);
        let mut position = all[1].head();
        (0..4).for_each(|number| all[0].publish(file(number)));
        assert_eq!(read_all(&all[1], &mut position), ((0..4).map(file).collect(), false));
    }

    #[test]
    fn torn_news_is_lost_and_the_rest_is_read() {
        let (all, words) = processes();
        (0..3).for_each(|number| all[0].publish(file(number)));
        words.all()[NEWS + NEWS_WORDS + 5].fetch_add(1, Ordering::Relaxed);
        assert_eq!(read_all(&all[1], &mut 0), (vec![file(0), file(2)], true));
    }

    #[test]
    fn one_process_fills_a_key() {
        let (all, words) = processes();
        assert!(all[0].claim(key(1), 100, 50) && all[0].claim(key(1), 100, 50), "its own");
        assert!(!all[1].claim(key(1), 149, 50) && all[1].claim(key(2), 149, 50));
        all[1].release(key(1));
        assert!(!all[2].claim(key(1), 149, 50), "only the owner gives it back");
        all[0].release(key(1));
        assert!(all[2].claim(key(1), 149, 50) && !all[0].claim(key(1), 198, 50));
        assert!(all[0].claim(key(1), 199, 50) && !all[2].claim(key(1), 199, 50), "it was late");
        spec().clear(&words, 0, 3);
        assert!(all[2].claim(key(1), 199, 50), "it was killed");
        assert!(!all[0].claim(key(2), 150, 50), "others keep what they have");
        let wraps = u64::from(u32::MAX) - 10;
        assert!(all[0].claim(key(3), wraps, 50) && !all[1].claim(key(3), wraps + 49, 50));
        assert!(all[1].claim(key(3), wraps + 50, 50));
    }

    #[test]
    fn keys_beyond_the_room_are_fetched_by_each_process() {
        let (all, _words) = processes();
        let same_set = |number: &u64| key(*number).words()[0] as usize % SETS == 3;
        let keys: Vec<Key> = (0..).filter(same_set).take(WAYS + 1).map(key).collect();
        assert!(keys.iter().all(|key| all[0].claim(*key, 0, 50)));
        let refused = keys.iter().filter(|key| !all[1].claim(**key, 0, 50)).count();
        assert_eq!(refused, WAYS);
        all[0].release(keys[WAYS]);
        assert!(!all[1].claim(keys[0], 0, 50));
    }

    #[test]
    fn one_process_tends_until_it_dies_or_is_silent() {
        let (all, words) = processes();
        assert_eq!(all[1].tends(0), Tending::Begins);
        assert_eq!([all[1].tends(4000), all[0].tends(8999)], [Tending::Own, Tending::Other]);
        assert_eq!([all[0].tends(9000), all[1].tends(9000)], [Tending::Begins, Tending::Other]);
        spec().clear(&words, 0, 3);
        assert_eq!([all[2].tends(9001), all[0].tends(9001)], [Tending::Begins, Tending::Other]);
    }

    #[test]
    fn the_lock_of_a_killed_process_is_given_back() {
        let (all, words) = processes();
        std::mem::forget(all[0].lock());
        spec().clear(&words, 0, 3);
        all[1].publish(file(1));
        // A process that was stopped inside: its news is not seen.
        std::mem::forget(all[0].lock());
        all[1].publish(file(2));
        assert_eq!(read_all(&all[2], &mut 0), (vec![file(1), file(2)], false));
    }

    #[test]
    fn a_key_is_never_fetched_by_two_processes() {
        let (all, _words) = processes();
        let (inside, rounds) = (AtomicUsize::new(0), 3000);
        std::thread::scope(|scope| {
            for one in &all {
                let inside = &inside;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let key = key(round % 3);
                        // Each process asks once at a time, so the claim is not its own.
                        if one.claim(key, 0, 1000) {
                            if round % 3 == 0 {
                                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                                inside.fetch_sub(1, Ordering::SeqCst);
                            }
                            one.publish(News::Gone(key));
                            one.release(key);
                        }
                    }
                });
            }
        });
        assert!(all[0].claim(key(0), 0, 1000));
    }

    #[test]
    fn another_memory_is_noticed() {
        let (all, words) = processes();
        assert!(all[0].is_same(&memory(&words, 2)) && !all[0].is_same(&memory(&spec().allocate(3).unwrap(), 0)));
    }
}
