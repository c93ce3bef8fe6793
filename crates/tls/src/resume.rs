//! Session resumption: ticket keys, which can be rotated and shared, and a session cache. Several servers share both. Each session is bound
//! to one server and its demands on client certificates; no other server resumes it (CVE-2025-23419).

use crate::notes;
use crate::peer::ClientCheck;
use crate::ticket_ratchet::TicketState;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use aws_lc_rs::rand;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls_pki_types::UnixTime;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Bytes of a ticket key as it is shared.
pub const TICKET_KEY_BYTES: usize = 80;
/// Keys that still open tickets, beside the one that seals them: nginx's files are rarely more than three.
const OLD_KEYS_MAX: usize = 15;
/// Old keys that are kept when each key seals for as long as a ticket lasts.
const OWN_OLD_KEYS: usize = 1;
/// Bytes in front of a ticket that name its key.
const KEY_NAME_BYTES: usize = 16;
/// Bytes in a ticket that say when it was made, in seconds since 1970.
const ISSUED_BYTES: usize = 8;
/// How long a session can be resumed (`ssl_session_timeout`, 5 minutes by default).
const LIFETIME_SECONDS: u32 = 300;
/// Longest lifetime of a ticket (RFC 8446 §4.6.1): a week.
const LIFETIME_SECONDS_MAX: u32 = 7 * 24 * 3600;
/// nginx's manual: one megabyte of `ssl_session_cache` stores about 4000 sessions.
const SESSIONS_PER_MEGABYTE: usize = 4000;
/// Bytes of a random name of a cached session: as long as OpenSSL's ids.
const SESSION_NAME_BYTES: usize = 32;
/// Bytes of sessions for each that a cache has room for, on average: those with a client's certificates are longer.
const SESSION_BYTES: usize = 1024;

/// One key, made of shared bytes.
struct TicketKey {
    name: [u8; KEY_NAME_BYTES],
    key: LessSafeKey,
}

impl TicketKey {
    /// From the bytes of an `ssl_session_ticket_key` file, 48 or 80 of them, or of any other secret.
    fn new(secret: &[u8]) -> Self {
        let labelled = |label: &[u8]| {
            let mut context = Context::new(&SHA256);
            context.update(label);
            context.update(secret);
            context.finish()
        };
        let mut name = [0; KEY_NAME_BYTES];
        name.copy_from_slice(&labelled(b"holdfast ticket key name").as_ref()[..KEY_NAME_BYTES]);
        let key = UnboundKey::new(&AES_256_GCM, labelled(b"holdfast ticket key").as_ref());
        Self { name, key: LessSafeKey::new(key.expect("a digest has the length of the key")) }
    }
}

/// Keys for session tickets. The first one seals, all open. Clones of the `Arc` share them, and so can other processes that are
/// given the same bytes.
pub struct TicketKeys {
    keys: RwLock<Keys>,
    lifetime_seconds: u32,
}

struct Keys {
    /// The first one seals.
    list: VecDeque<TicketKey>,
    /// Where the next ones come from; `None` where files say which there are.
    ratchet: Option<TicketState>,
}

impl Keys {
    fn push(&mut self, secret: &[u8], old_max: usize) {
        self.list.push_front(TicketKey::new(secret));
        self.list.truncate(1 + old_max);
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TicketKeys").field("lifetime_seconds", &self.lifetime_seconds).finish_non_exhaustive()
    }
}

impl TicketKeys {
    /// Keys of this process alone. They follow each other: each seals for as long as a ticket lasts, and opens for as long again.
    pub fn random() -> Self {
        let mut secret = [0; SHA256_OUTPUT_LEN];
        rand::fill(&mut secret).expect("the kernel gives random bytes");
        Self::of_state(TicketState::new(secret, LIFETIME_SECONDS, unix_seconds()))
    }

    /// The keys of another process, now and in future.
    pub fn of_state(state: TicketState) -> Self {
        let (list, lifetime_seconds) = (VecDeque::from([TicketKey::new(state.secret())]), state.lifetime_seconds);
        Self { keys: RwLock::new(Keys { list, ratchet: Some(state) }), lifetime_seconds }
    }

    /// For a process that is to have the same keys; `None` where they come from files.
    pub fn state(&self) -> Option<TicketState> {
        self.turn(unix_seconds());
        self.keys.read().unwrap_or_else(PoisonError::into_inner).ratchet.clone()
    }

    /// Lets the key of this time seal.
    fn turn(&self, now: u64) {
        let is_due = |keys: &Keys| keys.ratchet.as_ref().is_some_and(|state| state.is_due(now));
        if !is_due(&self.keys.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let Some(mut state) = keys.ratchet.take() else { return };
        state.advance(now, |secret| keys.push(secret, OWN_OLD_KEYS));
        keys.ratchet = Some(state);
    }

    /// From secrets, such as the contents of `ssl_session_ticket_key` files: the first one seals.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let keys = secrets.into_iter().take(1 + OLD_KEYS_MAX).map(TicketKey::new).collect();
        let keys = Keys { list: keys, ratchet: None };
        Self { keys: RwLock::new(keys), lifetime_seconds: LIFETIME_SECONDS }
    }

    /// `ssl_session_timeout`: how long a ticket opens, a week at most.
    pub fn lifetime_seconds(mut self, seconds: u32) -> Self {
        self.lifetime_seconds = seconds.min(LIFETIME_SECONDS_MAX);
        if let Some(state) = &mut self.keys.get_mut().unwrap_or_else(PoisonError::into_inner).ratchet {
            *state = state.with_lifetime(self.lifetime_seconds, unix_seconds());
        }
        self
    }

    /// Bytes for a new key, to be shared with all processes that open its tickets.
    pub fn random_secret() -> [u8; TICKET_KEY_BYTES] {
        let mut secret = [0; TICKET_KEY_BYTES];
        rand::fill(&mut secret).expect("the kernel gives random bytes");
        secret
    }

    fn seal(&self, context: &[u8], plain: &[u8], now: u64) -> Option<Vec<u8>> {
        self.turn(now);
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.list.front()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let bytes = KEY_NAME_BYTES + NONCE_LEN + ISSUED_BYTES + plain.len() + AES_256_GCM.tag_len();
        let mut ticket = Vec::with_capacity(bytes);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(&now.to_be_bytes());
        ticket.extend_from_slice(plain);
        let body = ticket.get_mut(KEY_NAME_BYTES + NONCE_LEN..)?;
        let tag =
            key.key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), body).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, context: &[u8], ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(KEY_NAME_BYTES)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        self.turn(now);
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.list.iter().find(|key| key.name == name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let length = key.key.open_in_place(nonce, Aad::from(context), &mut sealed).ok()?.len();
        sealed.truncate(length);
        let issued = u64::from_be_bytes(*sealed.first_chunk()?);
        // Clocks of machines that share keys differ: what is from the future is new.
        if now.saturating_sub(issued) >= u64::from(self.lifetime_seconds) {
            return None;
        }
        sealed.drain(..ISSUED_BYTES);
        Some(sealed)
    }
}

/// Seconds since 1970.
fn unix_seconds() -> u64 {
    UnixTime::now().as_secs()
}

/// Sessions of clients without tickets, by their id: the oldest goes when there are too many.
#[derive(Debug)]
pub struct SessionCache {
    sessions: Mutex<Sessions>,
    sessions_max: usize,
    lifetime: Duration,
}

#[derive(Debug, Default)]
struct Sessions {
    by_key: HashMap<Vec<u8>, Kept>,
    /// Keys by age; some may have gone from the map.
    order: VecDeque<Vec<u8>>,
    /// Bytes of all values.
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    value: Vec<u8>,
    since: Instant,
}

impl Sessions {
    fn remove(&mut self, key: &[u8]) -> Option<Kept> {
        let kept = self.by_key.remove(key)?;
        self.bytes -= kept.value.len();
        Some(kept)
    }
}

impl SessionCache {
    /// For this number of sessions. They take 1 KB each on average at most.
    pub fn new(sessions_max: usize) -> Self {
        let lifetime = Duration::from_secs(LIFETIME_SECONDS.into());
        Self { sessions: Mutex::default(), sessions_max: sessions_max.max(1), lifetime }
    }

    /// `ssl_session_cache shared:NAME:SIZE`: as many sessions as nginx has room for in this number of bytes, 4000 a megabyte.
    pub fn of_size(bytes: usize) -> Self {
        Self::new((bytes >> 10).saturating_mul(SESSIONS_PER_MEGABYTE) >> 10)
    }

    /// `ssl_session_timeout`: how long a session can be resumed.
    pub fn lifetime_seconds(mut self, seconds: u32) -> Self {
        self.lifetime = Duration::from_secs(seconds.into());
        self
    }

    /// Sessions that can be resumed.
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>, now: Instant) {
        let mut sessions = self.lock();
        sessions.bytes += value.len();
        match sessions.by_key.insert(key.clone(), Kept { value, since: now }) {
            Some(old) => sessions.bytes -= old.value.len(),
            None => sessions.order.push_back(key),
        }
        loop {
            let is_old = |key: &Vec<u8>| sessions.by_key.get(key).is_none_or(|kept| self.is_expired(kept, now));
            let many = sessions.by_key.len() > self.sessions_max || sessions.order.len() > 2 * self.sessions_max;
            let large = sessions.bytes > self.sessions_max.saturating_mul(SESSION_BYTES);
            if !many && !large && !sessions.order.front().is_some_and(is_old) {
                return;
            }
            let Some(oldest) = sessions.order.pop_front() else { return };
            sessions.remove(&oldest);
        }
    }

    fn is_expired(&self, kept: &Kept, now: Instant) -> bool {
        now.saturating_duration_since(kept.since) >= self.lifetime
    }

    fn get(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let sessions = self.lock();
        sessions.by_key.get(key).filter(|kept| !self.is_expired(kept, now)).map(|kept| kept.value.clone())
    }

    fn take(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.lock().remove(key).filter(|kept| !self.is_expired(kept, now)).map(|kept| kept.value)
    }
}

/// What binds sessions to a server.
type Bond = [u8; SHA256_OUTPUT_LEN];

/// The tickets or the cache of one server.
#[derive(Debug)]
pub(crate) struct Resumption<S> {
    store: Arc<S>,
    bond: Bond,
}

impl Resumption<()> {
    /// The bond of a server: its name, and what it demands of client certificates.
    pub(crate) fn context(name: &str, check: Option<&ClientCheck>) -> Bond {
        let demands = check.map_or_else(|| vec![0], ClientCheck::identity);
        let mut context = Context::new(&SHA256);
        context.update(digest(&SHA256, name.as_bytes()).as_ref());
        context.update(&demands);
        let mut bond = [0; SHA256_OUTPUT_LEN];
        bond.copy_from_slice(context.finish().as_ref());
        bond
    }

    pub(crate) fn of_cache(store: Arc<SessionCache>, bond: Bond) -> Resumption<SessionCache> {
        Resumption { store, bond }
    }

    pub(crate) fn of_tickets(store: Arc<TicketKeys>, bond: Bond) -> Resumption<TicketKeys> {
        Resumption { store, bond }
    }
}

impl ProducesTickets for Resumption<TicketKeys> {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.store.lifetime_seconds
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.store.seal(&self.bond, &notes::with_group(plain), unix_seconds())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        notes::without_group(self.store.open(&self.bond, cipher, unix_seconds())?)
    }
}

impl Resumption<SessionCache> {
    fn bound(&self, key: &[u8]) -> Vec<u8> {
        [&self.bond, key].concat()
    }
}

impl StoresServerSessions for Resumption<SessionCache> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.store.put(self.bound(&key), notes::with_group(&value), Instant::now());
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        notes::without_group(self.store.get(&self.bound(key), Instant::now())?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        notes::without_group(self.store.take(&self.bound(key), Instant::now())?)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Tickets of TLS 1.3 that only name a session of the cache. Each is used once, as rustls does with cached sessions of TLS 1.3.
impl ProducesTickets for Resumption<SessionCache> {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.store.lifetime.as_secs())
            .map_or(LIFETIME_SECONDS_MAX, |seconds| seconds.min(LIFETIME_SECONDS_MAX))
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut name = vec![0; SESSION_NAME_BYTES];
        rand::fill(&mut name).ok()?;
        self.put(name.clone(), plain.to_vec());
        Some(name)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.take(cipher)
    }
}

/// No session is kept.
#[derive(Debug)]
pub(crate) struct NoSessions;

impl StoresServerSessions for NoSessions {
    fn put(&self, _key: Vec<u8>, _value: Vec<u8>) -> bool {
        false
    }

    fn get(&self, _key: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _key: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn further_keys_open_old_tickets() {
        let (first, second) = (TicketKeys::random_secret(), TicketKeys::random_secret());
        let old = TicketKeys::new([first.as_slice()]).seal(b"a", b"session", NOW).unwrap();
        let keys = TicketKeys::new([second.as_slice(), &first]);
        assert_eq!(keys.open(b"a", &old, NOW).unwrap(), b"session");
        let elsewhere = TicketKeys::new([second.as_slice()]);
        let new = keys.seal(b"a", b"session", NOW).unwrap();
        assert_eq!(elsewhere.open(b"a", &new, NOW).unwrap(), b"session");
        assert!(elsewhere.open(b"a", &old, NOW).is_none());
    }

    #[test]
    fn keys_rotate_and_open_unexpired_tickets() {
        let keys = TicketKeys::random().lifetime_seconds(300);
        let state = keys.state().unwrap();
        let now = unix_seconds() / 300 * 300 + 299;
        let ticket = keys.seal(b"a", b"session", now).unwrap();
        let other = TicketKeys::of_state(state);
        for later in [0, 1, 150, 299] {
            assert!(keys.open(b"a", &ticket, now + later).is_some(), "{later} s");
        }
        assert_eq!(keys.keys.read().unwrap().list.len(), 2);
        let new = keys.seal(b"a", b"session", now + 299).unwrap();
        assert_ne!(new[..KEY_NAME_BYTES], ticket[..KEY_NAME_BYTES], "another key");
        assert!(other.open(b"a", &new, now + 299).is_some(), "another process has it, too");
        assert!(keys.open(b"a", &ticket, now + 700).is_none());
        assert!(TicketKeys::new([&[1; 80][..]]).state().is_none());
    }

    #[test]
    fn a_ticket_of_another_server_is_not_opened() {
        let keys = TicketKeys::random();
        let ticket = keys.seal(b"a", b"session", NOW).unwrap();
        assert!(keys.open(b"b", &ticket, NOW).is_none());
        for end in 0..ticket.len() {
            assert!(keys.open(b"a", &ticket[..end], NOW).is_none());
        }
    }

    #[test]
    fn the_cache_forgets_the_oldest_and_keeps_servers_apart() {
        let cache = Arc::new(SessionCache::new(2));
        let (one, other) = (Resumption::of_cache(Arc::clone(&cache), [1; 32]), Resumption::of_cache(cache, [2; 32]));
        for id in 0..3_u8 {
            one.put(vec![id], vec![id]);
        }
        assert_eq!((one.get(&[0]), one.get(&[2])), (None, Some(vec![2])));
        assert_eq!(other.get(&[2]), None);
        assert_eq!((one.take(&[2]), one.get(&[2])), (Some(vec![2]), None));
        // Sessions that were taken leave their keys behind for a while only.
        for round in 0..100_u8 {
            one.put(vec![9, round], vec![]);
            one.take(&[9, round]);
        }
        assert!(one.store.lock().order.len() <= 4);
    }

    #[test]
    fn ticket_opens_until_its_timeout_of_at_most_a_week() {
        for (asked, seconds) in [(60, 60), (u32::MAX, 7 * 86_400)] {
            let keys = TicketKeys::random().lifetime_seconds(asked);
            let ticket = keys.seal(b"a", b"session", NOW).unwrap();
            assert!(keys.open(b"a", &ticket, NOW - 5).is_some(), "the clock of another machine");
            assert_eq!(keys.open(b"a", &ticket, NOW + seconds - 1).unwrap(), b"session");
            assert!(keys.open(b"a", &ticket, NOW + seconds).is_none());
        }
    }

    #[test]
    fn cached_sessions_expire_and_make_room() {
        let (cache, begun) = (SessionCache::new(100).lifetime_seconds(60), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        cache.put(vec![1], vec![1], at(0));
        cache.put(vec![2], vec![2], at(30));
        assert_eq!((cache.get(&[1], at(59)), cache.get(&[1], at(60))), (Some(vec![1]), None));
        assert_eq!((cache.take(&[2], at(90)), cache.len()), (None, 1), "taken, and too old");
        cache.put(vec![3], vec![3], at(61));
        assert_eq!((cache.len(), cache.lock().bytes), (1, 1), "the first one has gone");
    }

    #[test]
    fn cache_holds_as_many_sessions_as_nginx_within_a_byte_limit() {
        assert_eq!(SessionCache::of_size(1 << 20).sessions_max, 4000);
        assert_eq!(SessionCache::of_size(10 << 20).sessions_max, 40_000);
        assert_eq!(SessionCache::of_size(32 << 10).sessions_max, 125);
        let (cache, now) = (SessionCache::new(10), Instant::now());
        for id in 0..10 {
            cache.put(vec![id], vec![0; 3000], now);
        }
        assert_eq!((cache.len(), cache.lock().bytes), (3, 9000));
    }
}
