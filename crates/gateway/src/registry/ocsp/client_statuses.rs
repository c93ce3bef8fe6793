//! The OCSP status of clients' certificates (`ssl_ocsp`): questions of the workers, and answers of the control plane.
//! Concurrent handshakes of one client share one question.

use crate::plan::ocsp::{ClientStatusPlan, Responder, is_responder_url};
use crate::registry::ocsp::ControlBell;
use lru::LruCache;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tls::{CertStatus, STATUS_REQUEST_FAILED, StatusAnswer, StatusQuestion};

/// Most open questions: if a responder does not answer, each handshake waits for `client_header_timeout`, and further
/// ones fail at once.
const OPEN_MAX: usize = 1024;
/// Bytes of a cache that nginx needs for an answer.
const ENTRY_BYTES: u64 = 128;
/// Seconds for which an answer without a stated validity is kept.
const UNDATED_SECONDS: i64 = 3600;

/// The result of a question; `None` if the responder has not answered, or its answer is not valid.
pub(crate) type StandingFound = Option<CertStatus>;
/// Where the result will be stored.
pub(crate) type Awaited = Arc<OnceLock<StandingFound>>;
/// The certificate and the cache's name.
type Key = ([u8; 32], Responder);
/// Name and bytes.
type CacheName = (Box<str>, u64);
type AnswerCache = LruCache<[u8; 32], StatusAnswer>;

/// A question for the control plane.
#[derive(Debug, Clone)]
pub struct OpenQuestion {
    /// The question.
    pub question: StatusQuestion,
    /// The responder.
    pub responder: Responder,
}

impl OpenQuestion {
    fn key(&self) -> Key {
        (self.question.key(), self.responder.clone())
    }
}

/// The questions about a client's chain: one certificate after the other.
#[derive(Debug)]
pub(crate) struct ClientStatusSearch {
    questions: std::vec::IntoIter<StatusQuestion>,
    plan: Arc<ClientStatusPlan>,
    awaited: Option<Awaited>,
}

impl ClientStatusSearch {
    pub(crate) fn new(questions: Box<[StatusQuestion]>, plan: Arc<ClientStatusPlan>) -> Self {
        Self { questions: questions.into_vec().into_iter(), plan, awaited: None }
    }

    /// Whether all certificates are good, or nginx's words for why not; `None` while an answer is awaited.
    pub(crate) fn go_on(
        &mut self,
        client_statuses: &ClientStatuses,
        token: u64,
        now_s: i64,
    ) -> Option<Result<(), &'static str>> {
        loop {
            let outcome = if let Some(awaited) = &self.awaited {
                *awaited.get()?
            } else {
                let Some(question) = self.questions.next() else { return Some(Ok(())) };
                match client_statuses.ask(&question, &self.plan, token, now_s) {
                    Answered::Now(outcome) => outcome,
                    Answered::Later(awaited) => {
                        self.awaited = Some(awaited);
                        continue;
                    }
                }
            };
            self.awaited = None;
            match outcome {
                Some(CertStatus::Good) => {}
                Some(CertStatus::Revoked) => return Some(Err("certificate revoked")),
                Some(CertStatus::Unknown) => return Some(Err("certificate status unknown")),
                None => return Some(Err(STATUS_REQUEST_FAILED)),
            }
        }
    }
}

/// Questions and answers of the whole process.
pub struct ClientStatuses {
    questions: Mutex<Questions>,
    bell: ControlBell,
    wake: Box<dyn Fn(u64) + Send + Sync>,
}

#[derive(Default)]
struct Questions {
    open: HashMap<Key, Open>,
    /// Questions that the control plane has not taken yet.
    fresh: Vec<OpenQuestion>,
    caches: HashMap<CacheName, AnswerCache>,
}

#[derive(Default)]
struct Open {
    awaited: Awaited,
    /// Tasks to wake.
    waiting: Vec<u64>,
    caches: Vec<CacheName>,
}

/// The immediate answer.
pub(crate) enum Answered {
    Now(StandingFound),
    Later(Awaited),
}

impl ClientStatuses {
    /// `wake` is called with the tokens of [`Self::ask`].
    pub(crate) fn new(wake: Box<dyn Fn(u64) + Send + Sync>) -> Self {
        Self { questions: Mutex::default(), bell: ControlBell::default(), wake }
    }

    /// Registers the control plane: `notify` is called, from any thread, when there is a new question.
    pub fn attach(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.bell.attach(notify);
    }

    /// The status of a certificate at this time (seconds since 1970), or where it will be stored when the token's task
    /// is woken.
    pub(crate) fn ask(&self, question: &StatusQuestion, plan: &ClientStatusPlan, token: u64, now_s: i64) -> Answered {
        let url = plan.responder.as_deref().or(question.responder());
        let Some(url) = url.filter(|url| is_responder_url(url)) else { return Answered::Now(None) };
        let responder = Responder { url: url.into(), resolver: plan.resolver.clone() };
        let mut questions = self.lock();
        let known = plan.cache.as_ref().and_then(|name| questions.caches.get_mut(name)?.get(&question.key()).copied());
        if let Some(answer) = known.filter(|answer| answer.next_update.is_some_and(|until| until >= now_s)) {
            return Answered::Now(Some(answer.status));
        }
        let wanted = OpenQuestion { question: question.clone(), responder };
        let key = wanted.key();
        let is_new = !questions.open.contains_key(&key);
        if is_new && questions.open.len() >= OPEN_MAX {
            return Answered::Now(None);
        }
        let open = questions.open.entry(key).or_default();
        open.waiting.push(token);
        open.caches.extend(plan.cache.clone().filter(|cache| !open.caches.contains(cache)));
        let awaited = Arc::clone(&open.awaited);
        if is_new {
            questions.fresh.push(wanted);
            drop(questions);
            self.bell.ring();
        }
        Answered::Later(awaited)
    }

    /// Takes the new questions. The caller reports the result of each.
    pub fn take(&self) -> Vec<OpenQuestion> {
        std::mem::take(&mut self.lock().fresh)
    }

    /// Reports the result of a question at this time.
    pub fn settle(&self, question: &OpenQuestion, answer: Option<StatusAnswer>, now_s: i64) {
        let mut questions = self.lock();
        let Some(open) = questions.open.remove(&question.key()) else { return };
        if let Some(answer) = answer {
            let kept = StatusAnswer { next_update: answer.next_update.or(Some(now_s + UNDATED_SECONDS)), ..answer };
            for name in open.caches {
                let entries_max = usize::try_from(name.1 / ENTRY_BYTES).unwrap_or(usize::MAX);
                let cache = questions.caches.entry(name).or_insert_with(|| {
                    // No capacity is reserved: there may be far fewer clients.
                    let mut cache = LruCache::unbounded();
                    cache.resize(NonZeroUsize::new(entries_max).unwrap_or(NonZeroUsize::MIN));
                    cache
                });
                cache.put(question.question.key(), kept);
            }
        }
        drop(questions);
        let _ = open.awaited.set(answer.map(|answer| answer.status));
        for token in open.waiting {
            (self.wake)(token);
        }
    }

    /// Drops caches that no configuration names.
    pub(crate) fn keep_caches(&self, is_named: impl Fn(&(Box<str>, u64)) -> bool) {
        self.lock().caches.retain(|name, _| is_named(name));
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tls::Pair;

    fn question() -> StatusQuestion {
        let pem = include_bytes!("../../../../tls/tests/data/ocsp.pem");
        StatusQuestion::of_pair(&Pair::from_pem(pem, pem, b"").unwrap(), b"").unwrap().unwrap()
    }

    fn plan(responder: &str) -> ClientStatusPlan {
        ClientStatusPlan { responder: Some(responder.into()), resolver: None, cache: Some(("zone".into(), 1024)) }
    }

    #[test]
    fn handshakes_share_one_ocsp_question_and_its_answer() {
        let woken = Arc::<Mutex<Vec<u64>>>::default();
        let client_statuses = ClientStatuses::new(Box::new({
            let woken = Arc::clone(&woken);
            move |token| woken.lock().unwrap().push(token)
        }));
        let (question, plan) = (question(), plan("http://ocsp.test"));
        let ask = |token, now_s| client_statuses.ask(&question, &plan, token, now_s);
        let (Answered::Later(first), Answered::Later(second)) = (ask(1, 100), ask(2, 100)) else { panic!() };
        let taken = client_statuses.take();
        assert_eq!((taken.len(), client_statuses.take().len()), (1, 0));
        let answer = StatusAnswer { status: CertStatus::Revoked, next_update: Some(200) };
        client_statuses.settle(&taken[0], Some(answer), 100);
        assert_eq!(*woken.lock().unwrap(), [1, 2]);
        assert_eq!([first.get(), second.get()], [Some(&Some(CertStatus::Revoked)); 2]);
        assert!(matches!(ask(3, 200), Answered::Now(Some(CertStatus::Revoked))));
        assert!(matches!(ask(4, 201), Answered::Later(_)), "it has ended");
        // A missing answer is not kept.
        client_statuses.settle(&client_statuses.take()[0], None, 201);
        assert!(matches!(ask(5, 201), Answered::Later(_)));
        client_statuses.settle(&client_statuses.take()[0], Some(StatusAnswer { next_update: None, ..answer }), 201);
        assert!(matches!(ask(6, 201 + UNDATED_SECONDS), Answered::Now(_)));
        client_statuses.keep_caches(|_| false);
        assert!(matches!(ask(7, 201), Answered::Later(_)), "no configuration has that cache");
    }

    #[test]
    fn asks_only_with_a_responder_and_below_the_limit() {
        let (client_statuses, question) = (ClientStatuses::new(Box::new(|_| ())), question());
        let ask = |responder: &str| client_statuses.ask(&question, &plan(responder), 0, 0);
        assert!(matches!(ask("https://ocsp.test"), Answered::Now(None)));
        for number in 0..OPEN_MAX {
            assert!(matches!(ask(&format!("http://ocsp.test/{number}")), Answered::Later(_)));
        }
        assert!(matches!(ask("http://ocsp.test/more"), Answered::Now(None)));
        assert!(matches!(ask("http://ocsp.test/0"), Answered::Later(_)), "who waits for the same is no more");
    }
}
