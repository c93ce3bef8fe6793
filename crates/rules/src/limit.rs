//! The accounting of `limit_req` and `limit_conn`: leaky buckets in thousandths of a request, and counters of connections,
//! by key and in bounded memory. One shard of a zone; a caller that shares it between threads puts a lock around it (`gateway`).
//! It knows no clock: `now_ms` is milliseconds of any clock that does not go back.

use lru::LruCache;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Bytes that the state of a key costs besides the key: its node, its place in the hash table, the heads of the allocations.
/// With a short key it comes to the 128 bytes that nginx documents for a 64-bit platform.
const REQUEST_STATE_BYTES: u64 = 112;

/// The same of a counter of connections, which is in no list.
const CONNECTION_STATE_BYTES: u64 = 48;

/// A bucket that was not touched for this long, and is empty, has no effect: nginx drops it ahead of others.
const STALE_AFTER_MS: u64 = 60_000;

/// Stale buckets that one new key drops, so that a zone shrinks while it is used and no request pays for many.
const STALE_DROPPED_MAX: usize = 2;

/// What a `limit_req` permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRule {
    /// Thousandths of a request that leak out of a bucket each second; 0 counts as 1.
    pub rate_milli: u64,
    /// Requests above the rate that are let in.
    pub burst: u32,
    /// Of these, how many pass without delay; `u32::MAX`: all.
    pub delay: u32,
}

impl RequestRule {
    /// How long a request waits that is this much above the rate, in milliseconds.
    pub fn delay_ms(&self, excess_milli: u64) -> u64 {
        if self.delay == u32::MAX {
            return 0;
        }
        let late = excess_milli.saturating_sub(u64::from(self.delay) * 1000);
        let wait = u128::from(late) * 1000 / u128::from(self.rate_milli.max(1));
        u64::try_from(wait).unwrap_or(u64::MAX)
    }

    /// Whether a request is let in that is this much above the rate, in thousandths.
    pub fn admit(&self, excess_milli: u64) -> Result<u64, RequestRefusal> {
        within(excess_milli, self)
    }
}

/// A leaky bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Thousandths of a request above the rate.
    pub excess_milli: u64,
    /// When a request was counted last, in milliseconds.
    pub touched_ms: u64,
}

impl Bucket {
    /// What is in it now.
    fn left(self, rate_milli: u64, now_ms: u64) -> u64 {
        let passed = u128::from(now_ms.saturating_sub(self.touched_ms));
        let leaked = u128::from(rate_milli) * passed / 1000;
        self.excess_milli.saturating_sub(u64::try_from(leaked).unwrap_or(u64::MAX))
    }

    /// The level with one more request. As in nginx the first of a burst is free: the rate includes it.
    pub fn with_one_more(self, rate_milli: u64, now_ms: u64) -> u64 {
        let passed = u128::from(now_ms.saturating_sub(self.touched_ms));
        let leaked = u64::try_from(u128::from(rate_milli) * passed / 1000).unwrap_or(u64::MAX);
        self.excess_milli.saturating_add(1000).saturating_sub(leaked)
    }
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestRefusal {
    /// It would be this many thousandths of a request above the rate: more than the burst.
    TooMany {
        /// Thousandths of a request.
        excess_milli: u64,
    },
    /// There is no room for its key.
    Exhausted,
}

/// The buckets of a `limit_req_zone`, or of a shard of it.
#[derive(Debug)]
pub struct RequestStates<S: BuildHasher> {
    buckets: LruCache<Box<[u8]>, Bucket, S>,
    bytes: u64,
    bytes_max: u64,
}

impl<S: BuildHasher> RequestStates<S> {
    /// Room for this many bytes of states.
    pub fn new(bytes_max: u64, hasher: S) -> Self {
        Self { buckets: LruCache::unbounded_with_hasher(hasher), bytes: 0, bytes_max }
    }

    /// Keys that have a state.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether no key has one.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Whether one more request of a key would be let in, and how much above the rate it would be, in thousandths. Nothing
    /// is counted: where several limits hold, each must agree before any does.
    pub fn probe(&mut self, key: &[u8], rule: &RequestRule, now_ms: u64) -> Result<u64, RequestRefusal> {
        match self.buckets.get(key) {
            Some(bucket) => within(bucket.with_one_more(rule.rate_milli, now_ms), rule),
            None if cost(REQUEST_STATE_BYTES, key) > self.bytes_max => Err(RequestRefusal::Exhausted),
            None => Ok(0),
        }
    }

    /// Counts a request of a key unless it exceeds the limit. Returns how far the key is above the rate, in thousandths of a
    /// request.
    pub fn take(&mut self, key: &[u8], rule: &RequestRule, now_ms: u64) -> Result<u64, RequestRefusal> {
        let Some(bucket) = self.buckets.get_mut(key) else { return self.begin(key, rule.rate_milli, now_ms) };
        let excess_milli = within(bucket.with_one_more(rule.rate_milli, now_ms), rule)?;
        *bucket = Bucket { excess_milli, touched_ms: bucket.touched_ms.max(now_ms) };
        Ok(excess_milli)
    }

    /// Counts a request that [`Self::probe`] admitted, even if other requests have used the burst since. Returns how far the key
    /// is above the rate, in thousandths of a request.
    pub fn charge(&mut self, key: &[u8], rule: &RequestRule, now_ms: u64) -> u64 {
        let Some(bucket) = self.buckets.get_mut(key) else {
            return self.begin(key, rule.rate_milli, now_ms).unwrap_or(0);
        };
        let excess_milli = bucket.with_one_more(rule.rate_milli, now_ms);
        *bucket = Bucket { excess_milli, touched_ms: bucket.touched_ms.max(now_ms) };
        excess_milli
    }

    /// The first request of a key.
    fn begin(&mut self, key: &[u8], rate_milli: u64, now_ms: u64) -> Result<u64, RequestRefusal> {
        let cost_of_key = cost(REQUEST_STATE_BYTES, key);
        if cost_of_key > self.bytes_max {
            return Err(RequestRefusal::Exhausted);
        }
        for _ in 0..STALE_DROPPED_MAX {
            let Some((_, oldest)) = self.buckets.peek_lru() else { break };
            let unused = now_ms.saturating_sub(oldest.touched_ms) >= STALE_AFTER_MS;
            if !unused || oldest.left(rate_milli, now_ms) > 0 {
                break;
            }
            self.drop_oldest();
        }
        while self.bytes + cost_of_key > self.bytes_max {
            self.drop_oldest();
        }
        self.bytes += cost_of_key;
        self.buckets.push(key.into(), Bucket { excess_milli: 0, touched_ms: now_ms });
        Ok(0)
    }

    fn drop_oldest(&mut self) {
        match self.buckets.pop_lru() {
            Some((key, _)) => self.bytes -= cost(REQUEST_STATE_BYTES, &key),
            // Without any state, no byte is in use.
            None => self.bytes = 0,
        }
    }
}

fn within(excess_milli: u64, rule: &RequestRule) -> Result<u64, RequestRefusal> {
    if excess_milli > u64::from(rule.burst) * 1000 {
        return Err(RequestRefusal::TooMany { excess_milli });
    }
    Ok(excess_milli)
}

/// Bytes of a state with its key, which the allocator gives in multiples of 16.
fn cost(state_bytes: u64, key: &[u8]) -> u64 {
    state_bytes + (key.len() as u64).next_multiple_of(16)
}

/// What `limit_conn` decides for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is counted until [`ConnectionStates::leave`].
    Admitted,
    /// The key already has the permitted number of connections.
    TooMany,
    /// There is no room for its key.
    Exhausted,
}

/// The counters of a `limit_conn_zone`, or of a shard of it. A key is known while it has a connection.
#[derive(Debug)]
pub struct ConnectionStates<S: BuildHasher> {
    counters: HashMap<Box<[u8]>, u32, S>,
    bytes: u64,
    bytes_max: u64,
}

impl<S: BuildHasher> ConnectionStates<S> {
    /// Room for this many bytes of states.
    pub fn new(bytes_max: u64, hasher: S) -> Self {
        Self { counters: HashMap::with_hasher(hasher), bytes: 0, bytes_max }
    }

    /// Counts a connection of a key, which may have `most` connections.
    pub fn admit(&mut self, key: &[u8], most: u32) -> Admission {
        if let Some(counter) = self.counters.get_mut(key) {
            if *counter >= most {
                return Admission::TooMany;
            }
            *counter += 1;
            return Admission::Admitted;
        }
        let cost = cost(CONNECTION_STATE_BYTES, key);
        if self.bytes + cost > self.bytes_max {
            return Admission::Exhausted;
        }
        self.bytes += cost;
        self.counters.insert(key.into(), 1);
        Admission::Admitted
    }

    /// Removes an admitted connection of a key.
    pub fn leave(&mut self, key: &[u8]) {
        let Some(counter) = self.counters.get_mut(key) else { return };
        *counter -= 1;
        if *counter == 0 {
            self.counters.remove(key);
            self.bytes -= cost(CONNECTION_STATE_BYTES, key);
        }
    }

    /// Connections of a key.
    pub fn count(&self, key: &[u8]) -> u32 {
        self.counters.get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
