//! What an index of a million keys needs: memory, and time from a snapshot. A program of its own, since it measures its process.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test
#![allow(clippy::print_stdout)] // prints what was measured

use cache::{Index, Key, Record, decode_snapshot, encode_snapshot};
use std::hash::RandomState;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const KEYS: u64 = 1_000_000;

/// One at a time: they share the process's memory.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes of memory that a key may need.
const KEY_BYTES_MAX: u64 = 200;

/// How long an index may take from its snapshot.
const READY_MAX: Duration = Duration::from_secs(5);

fn records() -> impl Iterator<Item = Record> {
    (0..KEYS).map(|number| {
        let key = Key::of(&number.to_le_bytes());
        Record { key, tag: key.tag(), bytes: 4096, expires_s: 2_000_000_000 }
    })
}

fn load(records: impl Iterator<Item = Record>) -> Index<RandomState> {
    let mut index = Index::new(KEYS as usize, 600, RandomState::new());
    index.reserve(KEYS as usize);
    for record in records {
        assert!(index.load(record));
    }
    index
}

/// How long this thread has run (proc(5), schedstat).
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_key_needs_less_than_200_bytes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident_bytes();
    let index = load(records());
    let each = (resident_bytes() - before) / KEYS;
    println!("{each} bytes a key");
    assert_eq!(index.sums().keys as u64, KEYS);
    assert!(each <= KEY_BYTES_MAX, "{each} bytes a key");
}

/// How long a purge may hold the lock that all workers take.
const PURGE_MAX: Duration = Duration::from_millis(1);

#[test]
#[ignore = "measures time: on a quiet machine, in release"]
fn purging_a_million_keys_holds_no_lock_for_long() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut index = load(records());
    let began = Instant::now();
    for number in 0..1000_u64 {
        assert_eq!(index.purge(Key::of(&number.to_le_bytes())).len(), 1);
    }
    let each = began.elapsed() / 1000;
    println!("{each:?} a purge among {KEYS} keys");
    assert!(each <= PURGE_MAX, "{each:?}");
}

#[test]
#[ignore = "measures time: on a quiet machine, in release"]
fn snapshot_of_a_million_keys_loads_in_five_seconds() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = encode_snapshot(records());
    let (began, used) = (Instant::now(), cpu_time());
    let index = load(decode_snapshot(&bytes).unwrap());
    let (took, used) = (began.elapsed(), cpu_time().saturating_sub(used));
    println!("{took:?}, {used:?} of it on the CPU, for {} keys from {} bytes", index.sums().keys, bytes.len());
    // On a quiet machine both are the same; the time of other programs is not the index's.
    assert!(used <= READY_MAX, "{used:?}");
}
