//! The cache of names: answers with their expiry, the tasks that wait for one, and the groups that follow one. Bounded,
//! since requests also bring names.

use crate::registry::Notify;
use crate::registry::names::own::OwnNames;
use crate::registry::names::{Found, NameFailure, Outcome, Question};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Most names kept; beyond it the least recently used one is dropped. A name costs some hundred bytes, and a process
/// that uses more of them proxies to the whole world.
const NAMES_MAX: usize = 4096;
/// Most exchanges that wait for one name. The connections of the process bound them anyway; this protects against a
/// name server that is slow for a name that many requests need.
const WAITERS_MAX: usize = 16_384;
/// Most concurrent lookups: as many questions as a small name server answers at once without dropping some. Others
/// wait.
const LOOKUPS_MAX: usize = 128;
/// Least validity of an answer: with a TTL of 0 every request would cause a lookup.
const TTL_MS_MIN: u64 = 1000;
/// Longest validity of an answer: with a TTL of a week, a moved peer would stay for a week.
const TTL_MS_MAX: u64 = 3_600_000;
/// Longest validity of the answer that a name does not exist: it may be created any time.
const ABSENT_MS_MAX: u64 = 30_000;
/// Pause after a failed lookup, as in nginx: more questions do not help a server in trouble.
const FAILED_MS: u64 = 1000;

/// Follows the addresses of a name. Called on the control plane's thread, without a lock.
pub(crate) trait Watcher: Send + Sync {
    /// The addresses were looked up again; an empty list: the name does not exist any more.
    fn changed(&self, question: &Question, addresses: &[Found]);
}

/// The answer of [`Names::ask`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NameAnswer {
    Known(Arc<[Found]>),
    Failed(NameFailure),
    /// The token's task is woken when it should ask again.
    Wait,
}

/// Work for the control plane.
#[derive(Debug, Default)]
pub struct Due {
    /// Names to look up now; each result must be reported.
    pub questions: Vec<Arc<Question>>,
    /// When to call again at the latest, in milliseconds of the process's clock.
    pub next_ms: Option<u64>,
}

/// The lookup state of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookupStage {
    Idle,
    /// Queued for a lookup.
    Wanted,
    UnderWay,
}

/// The state of a name.
struct NameEntry {
    /// The last good answer.
    addresses: Option<Arc<[Found]>>,
    /// The failure of the last lookup, if it found nothing.
    failure: Option<NameFailure>,
    fresh_until_ms: u64,
    used_at_ms: u64,
    stage: LookupStage,
    /// Wake tokens.
    waiters: Vec<u64>,
    watchers: Vec<Weak<dyn Watcher>>,
}

/// Finished lookups by result, under one `status_zone`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ZoneCounts {
    pub(crate) found: u64,
    /// In the order of [`NameFailure::ALL`].
    pub(crate) failed: [u64; NameFailure::ALL.len()],
}

#[derive(Default)]
struct NameTable {
    entries: FxHashMap<Arc<Question>, NameEntry>,
    wanted: VecDeque<Arc<Question>>,
    /// Names that a watcher follows, or has followed.
    followed: Vec<Arc<Question>>,
    under_way: usize,
    zones: FxHashMap<Box<str>, ZoneCounts>,
}

/// All names of the process.
pub struct Names {
    cache: Mutex<NameTable>,
    own: OwnNames,
    control: OnceLock<Notify>,
    wake: Box<dyn Fn(u64) + Send + Sync>,
}

impl NameEntry {
    fn new(now_ms: u64) -> Self {
        Self {
            addresses: None,
            failure: None,
            fresh_until_ms: 0,
            used_at_ms: now_ms,
            stage: LookupStage::Idle,
            waiters: Vec::new(),
            watchers: Vec::new(),
        }
    }

    fn is_followed(&self) -> bool {
        self.watchers.iter().any(|watcher| watcher.strong_count() > 0)
    }

    /// The answer that is known without another lookup.
    fn known(&self, now_ms: u64) -> Option<NameAnswer> {
        if self.fresh_until_ms <= now_ms {
            return None;
        }
        match (&self.addresses, self.failure) {
            // U12: after a failure, the last good answer.
            (Some(addresses), _) => Some(NameAnswer::Known(Arc::clone(addresses))),
            (None, Some(failure)) => Some(NameAnswer::Failed(failure)),
            (None, None) => None,
        }
    }
}

impl Names {
    /// An empty cache. `wake` wakes the task of a token.
    pub(crate) fn new(wake: Box<dyn Fn(u64) + Send + Sync>) -> Self {
        Self { cache: Mutex::default(), own: OwnNames::default(), control: OnceLock::new(), wake }
    }

    /// Registers the control plane: `notify` is called, from any thread, when [`Self::due`] has something new. Only the
    /// first call counts.
    pub fn attach(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.control.set(Box::new(notify));
    }

    fn lock(&self) -> MutexGuard<'_, NameTable> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of a name; if they are not known, registers the token to be woken.
    pub(crate) fn ask(&self, question: &Arc<Question>, token: u64, now_ms: u64) -> NameAnswer {
        if let Some(addresses) = self.own.get(&question.name) {
            let is_empty = addresses.is_empty();
            return if is_empty { NameAnswer::Failed(NameFailure::NotFound) } else { NameAnswer::Known(addresses) };
        }
        let Some(notify) = self.control.get() else { return NameAnswer::Failed(NameFailure::ServerFailure) };
        let mut cache = self.lock();
        let Some(entry) = cache.entry(question, now_ms) else { return NameAnswer::Failed(NameFailure::ServerFailure) };
        entry.used_at_ms = now_ms;
        if let Some(known) = entry.known(now_ms) {
            return known;
        }
        if let Some(addresses) = entry.addresses.clone().filter(|_| entry.failure.is_some()) {
            // U12: after a failure no request waits for an answer that may not come; the lookup runs in the background.
            let is_new = entry.stage == LookupStage::Idle;
            if is_new {
                entry.stage = LookupStage::Wanted;
                cache.wanted.push_back(Arc::clone(question));
            }
            drop(cache);
            if is_new {
                notify();
            }
            return NameAnswer::Known(addresses);
        }
        if entry.waiters.len() >= WAITERS_MAX {
            return NameAnswer::Failed(NameFailure::ServerFailure);
        }
        if !entry.waiters.contains(&token) {
            entry.waiters.push(token);
        }
        if entry.stage == LookupStage::Idle {
            entry.stage = LookupStage::Wanted;
            cache.wanted.push_back(Arc::clone(question));
            drop(cache);
            notify();
        }
        NameAnswer::Wait
    }

    /// Whether this process answers the name itself.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.own.get(name).is_some()
    }

    /// Follows a name. The watcher gets the known addresses at once.
    pub(crate) fn follow(&self, question: &Arc<Question>, watcher: &Arc<dyn Watcher>, now_ms: u64) {
        if self.own.follow(question, watcher) {
            return;
        }
        let mut cache = self.lock();
        let Some(entry) = cache.entry(question, now_ms) else { return };
        entry.watchers.retain(|known| known.strong_count() > 0);
        entry.watchers.push(Arc::downgrade(watcher));
        let known = entry.addresses.clone();
        if !cache.followed.contains(question) {
            cache.followed.push(Arc::clone(question));
        }
        drop(cache);
        if let Some(addresses) = known {
            watcher.changed(question, &addresses);
        }
        if let Some(notify) = self.control.get() {
            notify();
        }
    }

    /// The names to look up now, within the limit of concurrent lookups.
    pub fn due(&self, now_ms: u64) -> Due {
        let mut due = Due::default();
        let cache = &mut *self.lock();
        let NameTable { entries, followed, wanted, .. } = cache;
        followed.retain(|question| {
            let Some(entry) = entries.get_mut(question).filter(|entry| entry.is_followed()) else { return false };
            match entry.stage {
                LookupStage::Idle if entry.fresh_until_ms <= now_ms => {
                    entry.stage = LookupStage::Wanted;
                    wanted.push_back(Arc::clone(question));
                }
                LookupStage::Idle => {
                    due.next_ms = Some(due.next_ms.map_or(entry.fresh_until_ms, |next| next.min(entry.fresh_until_ms)));
                }
                LookupStage::Wanted | LookupStage::UnderWay => {}
            }
            true
        });
        while cache.under_way < LOOKUPS_MAX
            && let Some(question) = cache.wanted.pop_front()
        {
            if let Some(entry) = cache.entries.get_mut(&question) {
                entry.stage = LookupStage::UnderWay;
                cache.under_way += 1;
                due.questions.push(question);
            }
        }
        due
    }

    /// Reports the result of a lookup. Groups that follow the name are told first, so that a request which finds the
    /// answer also finds the peers.
    pub fn settle(&self, question: &Arc<Question>, outcome: Outcome, now_ms: u64) {
        let told = outcome.addresses_for_watchers();
        let mut told_to: Vec<Arc<dyn Watcher>> = Vec::new();
        let waiters = loop {
            let mut cache = self.lock();
            // A reload may add a few watchers meanwhile.
            let untold = match (cache.entries.get(question), &told) {
                (Some(entry), Some(_)) => entry.watchers_without(&told_to),
                _ => Vec::new(),
            };
            if untold.is_empty() {
                cache.under_way = cache.under_way.saturating_sub(1);
                cache.count(question, &outcome);
                let entry = cache.entries.get_mut(question);
                break entry.map(|entry| entry.take(outcome, question.resolver.valid_ms, now_ms));
            }
            drop(cache);
            for watcher in &untold {
                watcher.changed(question, told.as_deref().unwrap_or_default());
            }
            told_to.extend(untold);
        };
        let Some(waiters) = waiters else { return };
        for token in waiters {
            (self.wake)(token);
        }
        if let Some(notify) = self.control.get() {
            // Another lookup may start now, and a followed name has a new time.
            notify();
        }
    }

    /// Answers a name without a lookup, now and from now on; an empty list: it has no addresses. Groups that follow it
    /// have the new peers when this returns. Returns whether the addresses changed.
    pub fn answer(&self, name: &str, addresses: Vec<Found>) -> bool {
        self.own.set(name, addresses)
    }

    /// Lookups by zone.
    pub(crate) fn zones(&self) -> Vec<(Box<str>, ZoneCounts)> {
        let mut zones: Vec<_> = self.lock().zones.iter().map(|(zone, counts)| (zone.clone(), *counts)).collect();
        zones.sort_by(|one, other| one.0.cmp(&other.0));
        zones
    }
}

impl NameEntry {
    /// The watchers of the name, without these.
    fn watchers_without(&self, told: &[Arc<dyn Watcher>]) -> Vec<Arc<dyn Watcher>> {
        let is_told = |watcher: &Arc<dyn Watcher>| {
            told.iter().any(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(watcher)))
        };
        self.watchers.iter().filter_map(Weak::upgrade).filter(|watcher| !is_told(watcher)).collect()
    }

    /// Records the result of a lookup; returns the waiting tokens.
    fn take(&mut self, outcome: Outcome, valid_ms: Option<u64>, now_ms: u64) -> Vec<u64> {
        match outcome {
            Outcome::Found { addresses, ttl_ms } => {
                let holds_ms = valid_ms.unwrap_or_else(|| ttl_ms.clamp(TTL_MS_MIN, TTL_MS_MAX));
                self.fresh_until_ms = now_ms.saturating_add(holds_ms);
                self.failure = None;
                self.addresses = Some(addresses.into());
            }
            Outcome::Failed { failure: NameFailure::NotFound, ttl_ms } => {
                // This is an answer, not a failure: the name is gone, and so are its addresses.
                let holds_ms = ttl_ms.unwrap_or(FAILED_MS).clamp(TTL_MS_MIN, ABSENT_MS_MAX);
                self.fresh_until_ms = now_ms.saturating_add(holds_ms);
                self.failure = Some(NameFailure::NotFound);
                self.addresses = None;
            }
            Outcome::Failed { failure, .. } => {
                self.fresh_until_ms = now_ms.saturating_add(FAILED_MS);
                self.failure = Some(failure);
            }
        }
        self.stage = LookupStage::Idle;
        std::mem::take(&mut self.waiters)
    }
}

impl NameTable {
    /// The entry of a name, created if needed. `None`: all entries are in use.
    fn entry(&mut self, question: &Arc<Question>, now_ms: u64) -> Option<&mut NameEntry> {
        if !self.entries.contains_key(question) && self.entries.len() >= NAMES_MAX {
            let unused =
                self.entries.iter().filter(|(_, entry)| entry.stage == LookupStage::Idle && !entry.is_followed());
            let oldest = unused.min_by_key(|(_, entry)| entry.used_at_ms).map(|(question, _)| Arc::clone(question))?;
            self.entries.remove(&oldest);
        }
        Some(self.entries.entry(Arc::clone(question)).or_insert_with(|| NameEntry::new(now_ms)))
    }

    fn count(&mut self, question: &Question, outcome: &Outcome) {
        let Some(zone) = &question.resolver.zone else { return };
        let counts = self.zones.entry(zone.clone()).or_default();
        match outcome {
            Outcome::Found { .. } => counts.found += 1,
            Outcome::Failed { failure, .. } => {
                let place = NameFailure::ALL.iter().position(|known| known == failure);
                if let Some(count) = place.and_then(|place| counts.failed.get_mut(place)) {
                    *count += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::names::ResolverPlan;
    use std::net::Ipv4Addr;

    fn question(name: &str, valid_ms: Option<u64>) -> Arc<Question> {
        let zone = Some("dns".into());
        let resolver = ResolverPlan { servers: vec![], valid_ms, ipv4: true, ipv6: true, timeout_ms: 1000, zone };
        Arc::new(Question { resolver: Arc::new(resolver), name: name.into(), service: None })
    }

    fn found(last: u8, ttl_ms: u64) -> Outcome {
        Outcome::Found { addresses: vec![address(last)], ttl_ms }
    }

    fn address(last: u8) -> Found {
        Found { ip: Ipv4Addr::new(192, 0, 2, last).into(), port: None, priority: 0, weight: 0 }
    }

    fn failed(failure: NameFailure) -> Outcome {
        Outcome::Failed { failure, ttl_ms: None }
    }

    /// A cache with a control plane, and the tokens that it wakes.
    fn names() -> (Names, Arc<Mutex<Vec<u64>>>) {
        let woken = Arc::<Mutex<Vec<u64>>>::default();
        let names = Names::new({
            let woken = Arc::clone(&woken);
            Box::new(move |token| woken.lock().unwrap().push(token))
        });
        names.attach(|| {});
        (names, woken)
    }

    fn known(last: u8) -> NameAnswer {
        NameAnswer::Known([address(last)].into())
    }

    #[test]
    fn one_lookup_serves_all_waiters() {
        let (names, woken) = names();
        let a = question("a", None);
        assert_eq!(names.ask(&a, 7, 0), NameAnswer::Wait);
        assert_eq!(names.ask(&a, 8, 0), NameAnswer::Wait);
        assert_eq!(names.due(0).questions, [Arc::clone(&a)]);
        assert_eq!(names.ask(&a, 7, 1), NameAnswer::Wait);
        assert!(names.due(1).questions.is_empty());
        names.settle(&a, found(1, 5000), 10);
        assert_eq!(*woken.lock().unwrap(), [7, 8]);
        assert_eq!(names.ask(&a, 7, 5009), known(1));
        assert_eq!(names.ask(&a, 7, 5010), NameAnswer::Wait);
    }

    /// Asks for the name while it is told about it.
    struct AskingFollower {
        names: Weak<Names>,
        saw: Mutex<Vec<NameAnswer>>,
    }

    impl Watcher for AskingFollower {
        fn changed(&self, question: &Question, _: &[Found]) {
            let names = self.names.upgrade().unwrap();
            self.saw.lock().unwrap().push(names.ask(&Arc::new(question.clone()), 9, 1));
        }
    }

    #[test]
    fn followers_learn_answers_before_requests() {
        let (names, woken) = names();
        let names = Arc::new(names);
        let a = question("a", None);
        let follower = Arc::new(AskingFollower { names: Arc::downgrade(&names), saw: Mutex::default() });
        names.follow(&a, &(Arc::clone(&follower) as Arc<dyn Watcher>), 0);
        assert_eq!(names.due(0).questions.len(), 1);
        names.settle(&a, found(1, 5000), 1);
        assert_eq!(*follower.saw.lock().unwrap(), [NameAnswer::Wait], "a request at that moment waits");
        assert_eq!(*woken.lock().unwrap(), [9], "and is woken once the follower knows");
        assert_eq!(names.ask(&a, 7, 2), known(1));
    }

    #[test]
    fn ttl_has_bounds_and_valid_overrides_it() {
        let (names, _) = names();
        for (name, valid_ms, ttl_ms, holds_ms) in [
            ("zero", None, 0, TTL_MS_MIN),
            ("week", None, 604_800_000, TTL_MS_MAX),
            ("plain", None, 30_000, 30_000),
            ("valid", Some(200), 30_000, 200),
        ] {
            let question = question(name, valid_ms);
            assert_eq!(names.ask(&question, 1, 0), NameAnswer::Wait);
            names.due(0);
            names.settle(&question, found(1, ttl_ms), 0);
            assert_eq!(names.ask(&question, 1, holds_ms - 1), known(1), "{name}");
            assert_eq!(names.ask(&question, 1, holds_ms), NameAnswer::Wait, "{name}");
        }
    }

    #[test]
    fn u12_last_good_answer_survives_errors_but_not_nxdomain() {
        let (names, _) = names();
        let a = question("a", None);
        let look_up = |at_first, outcome, now_ms| {
            assert_eq!(names.ask(&a, 1, now_ms), at_first);
            assert_eq!(names.due(now_ms).questions.len(), 1);
            names.settle(&a, outcome, now_ms);
        };
        look_up(NameAnswer::Wait, failed(NameFailure::TimedOut), 0);
        assert_eq!(names.ask(&a, 1, 1), NameAnswer::Failed(NameFailure::TimedOut));
        look_up(NameAnswer::Wait, found(1, 2000), 1000);
        look_up(NameAnswer::Wait, failed(NameFailure::ServerFailure), 3000);
        assert_eq!(names.ask(&a, 1, 3001), known(1));
        // No request waits again while lookups fail.
        look_up(known(1), failed(NameFailure::TimedOut), 4000);
        assert_eq!(names.ask(&a, 1, 4001), known(1));
        look_up(known(1), failed(NameFailure::NotFound), 5000);
        assert_eq!(names.ask(&a, 1, 5001), NameAnswer::Failed(NameFailure::NotFound));
        let zones = names.zones();
        assert_eq!(zones[0].1.found, 1);
        assert_eq!(zones[0].1.failed, [0, 1, 1, 0, 0, 2]);
    }

    /// Remembers what it was told.
    #[derive(Default)]
    struct Follower(Mutex<Vec<usize>>);

    impl Watcher for Follower {
        fn changed(&self, _: &Question, addresses: &[Found]) {
            self.0.lock().unwrap().push(addresses.len());
        }
    }

    #[test]
    fn followed_name_is_looked_up_until_its_last_follower_leaves() {
        let (names, _) = names();
        let a = question("a", None);
        let follower = Arc::new(Follower::default());
        let watcher: Arc<dyn Watcher> = Arc::clone(&follower) as _;
        names.follow(&a, &watcher, 0);
        assert_eq!(names.due(0).questions.len(), 1);
        names.settle(&a, found(1, 5000), 0);
        let due = names.due(100);
        assert_eq!((due.questions.len(), due.next_ms), (0, Some(5000)));
        assert_eq!(names.due(5000).questions.len(), 1);
        names.settle(&a, failed(NameFailure::Refused), 5000);
        assert_eq!(names.due(5000).next_ms, Some(5000 + FAILED_MS));
        assert_eq!(names.due(6000).questions.len(), 1);
        names.settle(&a, failed(NameFailure::NotFound), 6000);
        // A later watcher is told what is known.
        names.due(7000);
        names.settle(&a, found(2, 5000), 7000);
        let late = Arc::new(Follower::default());
        names.follow(&a, &(Arc::clone(&late) as _), 7001);
        assert_eq!((&*follower.0.lock().unwrap(), &*late.0.lock().unwrap()), (&vec![1, 0, 1], &vec![1]));
        drop((watcher, follower, late));
        let due = names.due(100_000);
        assert_eq!((due.questions.len(), due.next_ms), (0, None));
    }

    #[test]
    fn names_from_requests_do_not_fill_the_memory() {
        let (names, _) = names();
        let kept = question("kept", None);
        names.ask(&kept, 1, 1);
        for number in 0..NAMES_MAX as u64 + 50 {
            let one = question(&number.to_string(), None);
            names.ask(&one, 1, number + 2);
            for question in names.due(number + 2).questions {
                names.settle(&question, failed(NameFailure::NotFound), number + 2);
            }
        }
        assert_eq!(names.lock().entries.len(), NAMES_MAX);
        assert!(!names.lock().entries.contains_key(&kept));
    }

    #[test]
    fn limits_the_lookups_under_way() {
        let (names, _) = names();
        let all: Vec<_> = (0..=LOOKUPS_MAX).map(|number| question(&number.to_string(), None)).collect();
        for question in &all {
            names.ask(question, 1, 0);
        }
        assert_eq!(names.due(0).questions.len(), LOOKUPS_MAX);
        assert!(names.due(0).questions.is_empty());
        names.settle(&all[0], found(1, 5000), 0);
        assert_eq!(names.due(0).questions, all[LOOKUPS_MAX..]);
    }
}
