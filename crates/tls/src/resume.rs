//! Sessions that are resumed: keys for tickets, which can be rotated and shared, and a cache. Both serve several servers, and each
//! session is bound to one of them with its demands on client certificates: it enters no other (CVE-2025-23419).

use crate::peer::ClientCheck;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use aws_lc_rs::rand;
use rustls::server::{ProducesTickets, StoresServerSessions};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Bytes of a ticket key as it is shared.
pub const TICKET_KEY_BYTES: usize = 80;
/// Keys that still open tickets, beside the one that seals them: nginx's files are rarely more than three.
const OLD_KEYS_MAX: usize = 15;
/// Bytes in front of a ticket that name its key.
const KEY_NAME_BYTES: usize = 16;
/// How long a client may keep a ticket (`ssl_session_timeout`, 5 minutes by default, in seconds).
const TICKET_SECONDS: u32 = 300;

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
    keys: RwLock<VecDeque<TicketKey>>,
    lifetime_seconds: u32,
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TicketKeys").field("lifetime_seconds", &self.lifetime_seconds).finish_non_exhaustive()
    }
}

impl TicketKeys {
    /// A key that nobody else has.
    pub fn random() -> Self {
        Self::new([Self::random_secret().as_slice()])
    }

    /// From secrets, such as the contents of `ssl_session_ticket_key` files: the first one seals.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let keys = secrets.into_iter().take(1 + OLD_KEYS_MAX).map(TicketKey::new).collect();
        Self { keys: RwLock::new(keys), lifetime_seconds: TICKET_SECONDS }
    }

    /// `ssl_session_timeout`.
    pub fn lifetime_seconds(mut self, seconds: u32) -> Self {
        self.lifetime_seconds = seconds;
        self
    }

    /// Bytes for a new key, to be shared with everybody who is to open its tickets.
    pub fn random_secret() -> [u8; TICKET_KEY_BYTES] {
        let mut secret = [0; TICKET_KEY_BYTES];
        rand::fill(&mut secret).expect("the kernel gives random bytes");
        secret
    }

    /// Seals with a new key from now on. The others still open their tickets, until they are the oldest of many.
    pub fn rotate(&self, secret: &[u8]) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        keys.push_front(TicketKey::new(secret));
        keys.truncate(1 + OLD_KEYS_MAX);
    }

    fn seal(&self, context: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.front()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(KEY_NAME_BYTES + NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let body = ticket.get_mut(KEY_NAME_BYTES + NONCE_LEN..)?;
        let tag =
            key.key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), body).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, context: &[u8], ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(KEY_NAME_BYTES)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.iter().find(|key| key.name == name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let length = key.key.open_in_place(nonce, Aad::from(context), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

/// Sessions of clients without tickets, by their id: the oldest goes when there are too many.
#[derive(Debug)]
pub struct SessionCache {
    sessions: Mutex<Sessions>,
    sessions_max: usize,
}

#[derive(Debug, Default)]
struct Sessions {
    by_key: HashMap<Vec<u8>, Vec<u8>>,
    /// Keys by age; some may have gone from the map.
    order: VecDeque<Vec<u8>>,
}

impl SessionCache {
    /// For so many sessions. nginx counts some 4,000 a megabyte.
    pub fn new(sessions_max: usize) -> Self {
        Self { sessions: Mutex::default(), sessions_max: sessions_max.max(1) }
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

    fn put(&self, key: Vec<u8>, value: Vec<u8>) {
        let mut sessions = self.lock();
        if sessions.by_key.insert(key.clone(), value).is_none() {
            sessions.order.push_back(key);
        }
        while sessions.by_key.len() > self.sessions_max || sessions.order.len() > 2 * self.sessions_max {
            let Some(oldest) = sessions.order.pop_front() else { return };
            sessions.by_key.remove(&oldest);
        }
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
        self.store.seal(&self.bond, plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.store.open(&self.bond, cipher)
    }
}

impl Resumption<SessionCache> {
    fn bound(&self, key: &[u8]) -> Vec<u8> {
        [&self.bond, key].concat()
    }
}

impl StoresServerSessions for Resumption<SessionCache> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.store.put(self.bound(&key), value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.store.lock().by_key.get(&self.bound(key)).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.store.lock().by_key.remove(&self.bound(key))
    }

    fn can_cache(&self) -> bool {
        true
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

    #[test]
    fn rotated_keys_still_open_old_tickets_and_share_with_equals() {
        let (first, second) = (TicketKeys::random_secret(), TicketKeys::random_secret());
        let keys = TicketKeys::new([first.as_slice()]);
        let old = keys.seal(b"a", b"session").unwrap();
        keys.rotate(&second);
        assert_eq!(keys.open(b"a", &old).unwrap(), b"session");
        let elsewhere = TicketKeys::new([second.as_slice()]);
        let new = keys.seal(b"a", b"session").unwrap();
        assert_eq!(elsewhere.open(b"a", &new).unwrap(), b"session");
        assert!(elsewhere.open(b"a", &old).is_none());
    }

    #[test]
    fn a_ticket_of_another_server_is_not_opened() {
        let keys = TicketKeys::random();
        let ticket = keys.seal(b"a", b"session").unwrap();
        assert!(keys.open(b"b", &ticket).is_none());
        for end in 0..ticket.len() {
            assert!(keys.open(b"a", &ticket[..end]).is_none());
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
}
