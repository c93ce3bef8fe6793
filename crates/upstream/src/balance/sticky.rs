//! `sticky learn`: the bindings of sessions to peers, learned from responses. A session is identified by a digest of
//! its name and refers to a peer by its `sid`, so that both survive reloads and changes of peers.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use rustc_hash::FxBuildHasher;

use crate::Millis;
use crate::sync::{PlainMutex, lock_plain};

/// A digest of a session's name, by a function that distributes well and that clients cannot use to provoke collisions.
pub type SessionKey = u128;

/// Bytes of a zone that one session takes: nginx documents about 4,000 sessions for a megabyte.
pub const SESSION_BYTES: u64 = 256;

/// Most sessions of one zone: a gigabyte by nginx's count.
const SESSIONS_MAX: u64 = 1 << 22;

/// The sessions of one zone, shared by all workers and generations. Each look takes the zone's lock for one step in a
/// hash map.
#[derive(Debug)]
pub struct Sessions(PlainMutex<Zone>);

#[derive(Debug)]
struct Zone {
    sessions: LruCache<SessionKey, Session, FxBuildHasher>,
    timeout_ms: u64,
}

#[derive(Debug)]
struct Session {
    sid: Arc<[u8]>,
    used: Millis,
}

impl Sessions {
    /// A zone of this many bytes, whose sessions expire when they are unused for a time.
    pub fn new(zone_bytes: u64, timeout_ms: u64) -> Self {
        let sessions = LruCache::with_hasher(capacity(zone_bytes), FxBuildHasher);
        Self(PlainMutex::new(Zone { sessions, timeout_ms }))
    }

    /// The same zone under another configuration: it keeps the sessions that still fit.
    pub fn reconfigure(&self, zone_bytes: u64, timeout_ms: u64) {
        let mut zone = lock_plain(&self.0);
        zone.sessions.resize(capacity(zone_bytes));
        zone.timeout_ms = timeout_ms;
    }

    /// The `sid` that a session is bound to.
    pub fn lookup(&self, key: SessionKey, now: Millis) -> Option<Arc<[u8]>> {
        let mut zone = lock_plain(&self.0);
        let Zone { sessions, timeout_ms } = &mut *zone;
        let session = sessions.peek(&key)?;
        if now.since(session.used) < *timeout_ms {
            return Some(Arc::clone(&session.sid));
        }
        sessions.pop(&key);
        None
    }

    /// Binds the session to the peer that answered. An unknown session is created only if `create` says so. A full zone
    /// drops the least recently used session.
    pub fn learn(&self, key: SessionKey, sid: &[u8], create: bool, now: Millis) {
        let mut zone = lock_plain(&self.0);
        zone.expire(now);
        if let Some(session) = zone.sessions.get_mut(&key) {
            session.used = now;
            if *session.sid != *sid {
                session.sid = sid.into();
            }
        } else if create {
            zone.sessions.push(key, Session { sid: sid.into(), used: now });
        }
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        lock_plain(&self.0).sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Expired sessions dropped for each one learned: more than are added, so that they never accumulate.
const EXPIRED_PER_STEP: usize = 2;

impl Zone {
    fn expire(&mut self, now: Millis) {
        for _ in 0..EXPIRED_PER_STEP {
            match self.sessions.peek_lru() {
                Some((_, session)) if now.since(session.used) >= self.timeout_ms => self.sessions.pop_lru(),
                _ => return,
            };
        }
    }
}

fn capacity(zone_bytes: u64) -> NonZeroUsize {
    let sessions = (zone_bytes / SESSION_BYTES).clamp(1, SESSIONS_MAX);
    usize::try_from(sessions).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Millis = Millis(1_000_000);

    fn sid(sessions: &Sessions, key: SessionKey, now: Millis) -> Option<Vec<u8>> {
        sessions.lookup(key, now).map(|sid| sid.to_vec())
    }

    #[test]
    fn a_session_is_created_bound_anew_and_forgotten() {
        let sessions = Sessions::new(1 << 20, 1000);
        sessions.learn(1, b"a", false, START);
        assert_eq!(sid(&sessions, 1, START), None, "its creation was not requested");
        sessions.learn(1, b"a", true, START);
        assert_eq!(sid(&sessions, 1, START.plus(999)).as_deref(), Some(&b"a"[..]));
        sessions.learn(1, b"b", false, START.plus(999));
        assert_eq!(sid(&sessions, 1, START.plus(1998)).as_deref(), Some(&b"b"[..]));
        assert_eq!(sid(&sessions, 1, START.plus(1999)), None);
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_full_zone_forgets_the_session_unused_for_longest() {
        let sessions = Sessions::new(3 * SESSION_BYTES, 1000);
        for key in 1..=3 {
            sessions.learn(key, b"a", true, START.plus(key as u64));
        }
        sessions.learn(1, b"a", false, START.plus(10));
        sessions.learn(4, b"a", true, START.plus(11));
        let kept: Vec<_> = (1..=4).filter(|key| sid(&sessions, *key, START.plus(12)).is_some()).collect();
        assert_eq!(kept, [1, 3, 4]);
    }

    #[test]
    fn expired_sessions_make_room_and_smaller_zones_keep_newest() {
        let sessions = Sessions::new(1 << 20, 1000);
        for key in 0..100 {
            sessions.learn(key, b"a", true, START);
        }
        for key in 100..160 {
            sessions.learn(key, b"a", true, START.plus(1000));
        }
        assert_eq!(sessions.len(), 60);
        sessions.reconfigure(5 * SESSION_BYTES, 1000);
        assert_eq!(sessions.len(), 5);
        assert!(sid(&sessions, 159, START.plus(1001)).is_some());
    }
}
