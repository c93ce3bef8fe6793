//! The upstream's side of an exchange: its proxy and peer, the attempts so far, the state of the cache, and the head of the response.
//! All of it is changed by verbs.

use crate::exchange::Exchange;
use crate::exchange::attempts::{AttemptRecord, Attempts};
use crate::exchange::caching::Caching;
use crate::plan::variable_pass::PassUrl;
use crate::registry::cache::CacheStatus;
use crate::upstream::answer::Answer;
use http1::Trailers;
use reactor::Millis;
use std::cell::RefCell;
use std::rc::Rc;
use upstream::balance::Seat;

/// The state of an exchange towards upstreams.
#[derive(Default)]
pub(crate) struct Conversation {
    /// The response head of the last attempt, once a part of it has come.
    answer: Option<Box<Answer>>,
    /// `grpc-timeout`: when the call is over. While it is set, no wait lasts longer.
    call_deadline: Option<Millis>,
    attempts: Attempts,
    /// Its seat at the present peer.
    seat: Option<Seat>,
    /// The index of the present proxy in its location.
    place: u16,
    /// The parsed URL of a `proxy_pass` with variables.
    url: Option<Box<PassUrl>>,
    /// `proxy_ignore_client_abort` of the present proxy: a client that leaves ends no wait.
    abort_ignored: bool,
    /// The state of `proxy_cache`.
    cache: Option<Box<Caching>>,
    /// Where to report the attempts, for the exchange that started this one.
    asker: Option<Rc<RefCell<Attempts>>>,
    /// `$upstream_cache_status` of the first slice, if the response is assembled (`slice`).
    slice_status: Option<CacheStatus>,
    /// The request as sent asks for an upgrade.
    upgrade_sent: bool,
}

/// The head of the response.
impl Conversation {
    /// The head, once a part of it has come.
    #[inline]
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.answer.as_deref().filter(|answer| !answer.bytes.is_empty())
    }

    /// The bytes received of the head.
    #[inline]
    pub(crate) fn answer_bytes(&self) -> &[u8] {
        self.answer.as_ref().map_or(&[], |answer| &answer.bytes)
    }

    /// The head, to be filled; `spare` gives an empty one.
    #[inline]
    pub(crate) fn answer_mut(&mut self, spare: impl FnOnce() -> Box<Answer>) -> &mut Answer {
        self.answer.get_or_insert_with(spare)
    }

    /// Takes the head out; `None`: nothing has come yet.
    #[inline]
    pub(crate) fn take_answer(&mut self) -> Option<Box<Answer>> {
        self.answer.take()
    }

    /// Puts a head in.
    #[inline]
    pub(crate) fn put_answer(&mut self, answer: Box<Answer>) {
        self.answer = Some(answer);
    }

    /// Drops the head: it was an interim response, or the attempt failed.
    pub(crate) fn forget_answer(&mut self) {
        if let Some(answer) = &mut self.answer {
            answer.forget();
        }
    }

    /// Keeps the trailers of the response.
    pub(crate) fn keep_trailers(&mut self, trailers: Trailers) {
        if let Some(answer) = &mut self.answer {
            answer.trailers = trailers;
        }
    }

    /// Whether the response permits another request on its connection.
    pub(crate) fn allows_another(&self) -> bool {
        self.answer().is_some_and(|answer| answer.head.keepalive)
    }

    /// Bytes of memory of the head.
    pub(crate) fn held_bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, |answer| answer.held_bytes())
    }
}

/// The call, the proxy, and the peer.
impl Conversation {
    /// Begins a proxied call or request that is over at `deadline`; `None`: it has no limit.
    pub(crate) fn begin_call(&mut self, deadline: Option<Millis>) {
        self.call_deadline = deadline;
    }

    /// Ends it: later waits are for the client only.
    pub(crate) fn end_call(&mut self) {
        self.call_deadline = None;
    }

    pub(crate) fn call_deadline(&self) -> Option<Millis> {
        self.call_deadline
    }

    /// Takes a seat at a peer, after leaving the last one.
    pub(crate) fn take_seat(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    /// Leaves the peer.
    pub(crate) fn leave_seat(&mut self) {
        self.seat = None;
    }

    /// Gives the seat to what goes on with the peer.
    pub(crate) fn hand_over_seat(&mut self) -> Option<Seat> {
        self.seat.take()
    }

    pub(crate) fn seat_mut(&mut self) -> Option<&mut Seat> {
        self.seat.as_mut()
    }

    /// Uses the only proxy of the location.
    pub(crate) fn use_only_proxy(&mut self) {
        self.place = 0;
    }

    /// Uses the proxy with this index for the URL that variables gave.
    pub(crate) fn use_proxy_for(&mut self, place: u16, url: PassUrl) {
        (self.place, self.url) = (place, Some(Box::new(url)));
    }

    /// The index of the present proxy in its location.
    pub(crate) fn place(&self) -> u16 {
        self.place
    }

    /// The URL of a `proxy_pass` with variables.
    pub(crate) fn url(&self) -> Option<&PassUrl> {
        self.url.as_deref()
    }

    /// Says whether a client that leaves ends a wait.
    pub(crate) fn ignore_abort(&mut self, is_ignored: bool) {
        self.abort_ignored = is_ignored;
    }

    /// Whether a client that leaves ends no wait.
    #[inline]
    pub(crate) fn ignores_abort(&self) -> bool {
        self.abort_ignored
    }

    /// Notes whether the request as sent asks for an upgrade.
    pub(crate) fn note_upgrade(&mut self, is_sent: bool) {
        self.upgrade_sent = is_sent;
    }

    pub(crate) fn has_sent_upgrade(&self) -> bool {
        self.upgrade_sent
    }
}

/// The attempts.
impl Conversation {
    #[inline]
    pub(crate) fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// The record of the last attempt.
    #[inline]
    pub(crate) fn attempt_mut(&mut self) -> Option<&mut AttemptRecord> {
        self.attempts.last_mut()
    }

    /// Adds the record of an attempt that begins.
    pub(crate) fn begin_attempt(&mut self, record: AttemptRecord) -> &mut AttemptRecord {
        self.attempts.push(record)
    }

    /// Counts a proxy that begins to ask peers.
    pub(crate) fn begin_proxy(&mut self) {
        self.attempts.begin_proxy();
    }

    /// Takes over the attempts of an exchange that this one started, unless it has attempts already.
    pub(crate) fn adopt_attempts(&mut self, asked: &RefCell<Attempts>) {
        if self.attempts.all().is_empty() {
            self.attempts = asked.take();
        }
    }

    /// At its end, the exchange reports its attempts to the one that started it.
    pub(crate) fn report_attempts_to(&mut self, asker: Rc<RefCell<Attempts>>) {
        self.asker = Some(asker);
    }

    /// Whether the attempts belong to the exchange that started this one.
    pub(crate) fn reports_attempts(&self) -> bool {
        self.asker.is_some()
    }

    /// Moves the records of the attempts to the exchange that started this one.
    pub(crate) fn report_attempts(&mut self) {
        if let Some(asker) = &self.asker {
            *asker.borrow_mut() = std::mem::take(&mut self.attempts);
        }
    }
}

/// The cache.
impl Conversation {
    /// The state of `proxy_cache`, if it is used.
    #[inline]
    pub(crate) fn caching(&self) -> Option<&Caching> {
        self.cache.as_deref()
    }

    #[inline]
    pub(crate) fn caching_mut(&mut self) -> Option<&mut Caching> {
        self.cache.as_deref_mut()
    }

    /// Begins to use a cache.
    pub(crate) fn begin_caching(&mut self, caching: Caching) {
        self.cache = Some(Box::new(caching));
    }

    /// The cache is not used any more.
    pub(crate) fn end_caching(&mut self) {
        self.cache = None;
    }

    /// Shows the cache status of the first slice.
    pub(crate) fn show_slice_status(&mut self, status: Option<CacheStatus>) {
        self.slice_status = status;
    }

    /// `$upstream_cache_status`
    pub(crate) fn cache_status(&self) -> Option<CacheStatus> {
        self.cache.as_ref().map(|caching| caching.status).or(self.slice_status)
    }
}

/// The head of the response, for every layer above.
impl Exchange {
    /// The response head, once a part of it has come.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.upstream.answer()
    }

    /// The bytes received of the head.
    pub(crate) fn answer_bytes(&self) -> &[u8] {
        self.upstream.answer_bytes()
    }

    /// The head, to be filled.
    pub(crate) fn answer_mut(&mut self) -> &mut Answer {
        let Self { upstream, spares, thread, .. } = self;
        upstream.answer_mut(|| spares.answer(&thread.memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::FieldId;

    fn answered() -> Conversation {
        let mut upstream = Conversation::default();
        let answer = upstream.answer_mut(Box::default);
        answer.keep(b"HTTP/1.1 200 OK\r\n\r\n");
        answer.head.keepalive = true;
        upstream
    }

    #[test]
    fn a_head_is_there_once_a_part_of_it_has_come() {
        let mut upstream = Conversation::default();
        assert!(upstream.answer().is_none() && upstream.answer_bytes().is_empty());
        upstream.answer_mut(Box::default);
        assert!(upstream.answer().is_none(), "an empty buffer is no head");
        upstream.answer_mut(|| unreachable!("there is one")).keep(b"HTTP");
        assert_eq!(upstream.answer_bytes(), b"HTTP");
        assert!(upstream.answer().is_some() && upstream.held_bytes() >= 4);
    }

    #[test]
    fn a_forgotten_head_keeps_its_buffer() {
        let mut upstream = answered();
        let held = upstream.held_bytes();
        upstream.forget_answer();
        assert!(upstream.answer().is_none() && !upstream.allows_another());
        assert_eq!(upstream.held_bytes(), held);
    }

    #[test]
    fn a_head_is_taken_out_and_put_back() {
        let mut upstream = answered();
        let answer = upstream.take_answer().expect("a head");
        assert!(upstream.take_answer().is_none());
        upstream.put_answer(answer);
        assert!(upstream.allows_another());
    }

    #[test]
    fn trailers_belong_to_a_head() {
        let mut trailers = Trailers::default();
        trailers.push(FieldId::Other, b"x", b"1");
        let mut upstream = Conversation::default();
        upstream.keep_trailers(trailers.clone());
        assert!(upstream.take_answer().is_none());
        let mut upstream = answered();
        upstream.keep_trailers(trailers.clone());
        assert_eq!(upstream.answer().map(|answer| &answer.trailers), Some(&trailers));
        upstream.forget_answer();
        assert!(upstream.take_answer().is_some_and(|answer| answer.trailers.is_empty()));
    }

    #[test]
    fn a_call_has_a_deadline_until_it_ends() {
        let mut upstream = Conversation::default();
        upstream.begin_call(Some(Millis(5)));
        assert_eq!(upstream.call_deadline(), Some(Millis(5)));
        upstream.end_call();
        assert_eq!(upstream.call_deadline(), None);
        upstream.begin_call(None);
        assert_eq!(upstream.call_deadline(), None);
    }

    #[test]
    fn a_client_that_leaves_ends_waits_unless_that_is_ignored() {
        let mut upstream = Conversation::default();
        assert!(!upstream.ignores_abort());
        upstream.ignore_abort(true);
        assert!(upstream.ignores_abort());
        upstream.ignore_abort(false);
        assert!(!upstream.ignores_abort());
    }

    #[test]
    fn without_a_seat_there_is_none_to_hand_over() {
        let mut upstream = Conversation::default();
        upstream.leave_seat();
        assert!(upstream.seat_mut().is_none() && upstream.hand_over_seat().is_none());
    }

    #[test]
    fn the_only_proxy_is_the_first() {
        let mut upstream = Conversation::default();
        assert_eq!((upstream.place(), upstream.url().is_none()), (0, true));
        upstream.place = 3;
        upstream.use_only_proxy();
        assert_eq!(upstream.place(), 0);
    }

    #[test]
    fn an_upgrade_counts_for_the_request_as_sent_last() {
        let mut upstream = Conversation::default();
        upstream.note_upgrade(true);
        assert!(upstream.has_sent_upgrade());
        upstream.note_upgrade(false);
        assert!(!upstream.has_sent_upgrade());
    }

    #[test]
    fn attempts_are_reported_to_the_asker() {
        let asker = Rc::new(RefCell::new(Attempts::default()));
        let mut upstream = Conversation::default();
        upstream.begin_proxy();
        upstream.begin_proxy();
        upstream.report_attempts();
        assert_eq!((upstream.attempts().proxies(), upstream.reports_attempts()), (2, false), "no exchange asked");
        upstream.report_attempts_to(Rc::clone(&asker));
        upstream.report_attempts();
        assert!(upstream.reports_attempts());
        assert_eq!((asker.borrow().proxies(), upstream.attempts().proxies()), (2, 0));
        let mut first = Conversation::default();
        first.adopt_attempts(&asker);
        assert_eq!((asker.borrow().proxies(), first.attempts().proxies()), (0, 2));
    }

    #[test]
    fn the_first_slice_gives_the_cache_status() {
        let mut upstream = Conversation::default();
        assert_eq!(upstream.cache_status(), None);
        upstream.show_slice_status(Some(CacheStatus::Stale));
        assert_eq!(upstream.cache_status(), Some(CacheStatus::Stale));
    }
}
