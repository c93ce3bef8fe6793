//! Current ACME challenges: an authority connects by HTTP or TLS and expects an answer that only we know. The control
//! plane adds and removes the answers; workers look them up.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tls::ServerSide;

/// Answers to authorities. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Challenges(Arc<Answers>);

#[derive(Debug, Default)]
struct Answers {
    /// Number of answers: without any, requests take no lock.
    count: AtomicUsize,
    /// By token: the key authorization.
    http: RwLock<HashMap<String, Arc<str>>>,
    /// By the name in SNI.
    tls: RwLock<HashMap<String, Arc<ServerSide>>>,
}

/// A challenge that is answered while this value lives.
#[derive(Debug)]
#[must_use]
pub struct Challenge {
    answers: Arc<Answers>,
    key: String,
    by_tls: bool,
}

impl Challenges {
    /// The key authorization of a token (RFC 8555 § 8.3).
    pub fn http(&self, token: &str) -> Option<Arc<str>> {
        self.find(&self.0.http, token)
    }

    /// The settings for a handshake that offers `acme-tls/1` for a name (RFC 8737): in lower case, as in SNI.
    pub fn tls(&self, name: &str) -> Option<Arc<ServerSide>> {
        self.find(&self.0.tls, name)
    }

    /// Answers a token while the result lives.
    pub fn answer_http(&self, token: String, key_authorization: &str) -> Challenge {
        self.answer(&self.0.http, token, key_authorization.into(), false)
    }

    /// Answers handshakes for a name while the result lives.
    pub fn answer_tls(&self, name: String, side: Arc<ServerSide>) -> Challenge {
        self.answer(&self.0.tls, name, side, true)
    }

    fn find<T: Clone>(&self, answers: &RwLock<HashMap<String, T>>, key: &str) -> Option<T> {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        answers.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn answer<T>(&self, to: &RwLock<HashMap<String, T>>, key: String, answer: T, by_tls: bool) -> Challenge {
        put(to, key.clone(), answer);
        self.0.count.fetch_add(1, Ordering::Relaxed);
        Challenge { answers: Arc::clone(&self.0), key, by_tls }
    }
}

fn put<K: Eq + Hash, T>(to: &RwLock<HashMap<K, T>>, key: K, answer: T) {
    to.write().unwrap_or_else(PoisonError::into_inner).insert(key, answer);
}

impl Drop for Challenge {
    fn drop(&mut self) {
        if self.by_tls {
            self.answers.tls.write().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        } else {
            self.answers.http.write().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
        self.answers.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_only_known_challenges() {
        let challenges = Challenges::default();
        assert_eq!(challenges.http("t"), None);
        let held = challenges.answer_http("t".to_owned(), "t.thumb");
        let side = Arc::new(tls::challenge_side("a.example", &[1; 32]).unwrap());
        let by_tls = challenges.clone().answer_tls("a.example".to_owned(), side);
        assert_eq!(challenges.http("t").as_deref(), Some("t.thumb"));
        assert!(challenges.http("other").is_none() && challenges.tls("b.example").is_none());
        assert!(challenges.tls("a.example").is_some());
        drop(held);
        assert!(challenges.http("t").is_none() && challenges.tls("a.example").is_some());
        drop(by_tls);
        assert!(challenges.tls("a.example").is_none());
    }
}
