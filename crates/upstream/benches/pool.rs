//! The pool's own bookkeeping of a checkout and a check-in, system calls apart: uncontended (the goal is 200 ns for both),
//! and with 32 threads, each a worker (the goal is 1 µs at the 99th percentile). `cargo bench -p upstream`.
#![allow(missing_docs)] // criterion's macros write undocumented functions

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use upstream::shared::{Driver, GroupLimits, KeyId, Open, PeerAddress, Pool, PoolKey, Removed};
use upstream::{Millis, WorkerId};

/// Threads of the contended case, as many as workers on a large machine.
const THREADS: u16 = 32;
/// Timed operations of each thread: enough for a percentile, and over in seconds on two cores.
const OPERATIONS: usize = 20_000;

struct Nobody;

impl Driver<u32> for Nobody {
    fn wake(&self, _token: u64) {}

    fn close(&self, removed: Removed<u32>) {
        drop(removed);
    }
}

/// A pool in which each worker has this many idle connections of one key.
fn filled(workers: u16, idle_each: u32) -> (Pool<u32>, KeyId) {
    let pool = Pool::new(workers, Box::new(Nobody));
    let limits = GroupLimits { requests_max: u32::MAX, ..GroupLimits::keepalive(1024, false, workers) };
    let group = pool.intern_group("app", &limits).expect("the first group");
    let peer = PeerAddress::Ip(([127, 0, 0, 1], 80).into());
    let key = PoolKey { group, peer, tls: None, source: None, proxy_protocol: false, location: None };
    let key = pool.intern_key(&key).expect("the first key");
    for worker in 0..workers {
        let leases: Vec<_> = (0..idle_each)
            .map(|connection| match pool.open(WorkerId(worker), key) {
                Open::Connect { permit, .. } => permit.established(connection, Millis(0)),
                Open::Full { limit, .. } => panic!("no limit was set, but {limit:?}"),
            })
            .collect();
        for lease in leases {
            let _ = lease.check_in(Millis(0));
        }
    }
    (pool, key)
}

fn exchange(pool: &Pool<u32>, worker: WorkerId, key: KeyId) -> bool {
    match pool.checkout(worker, key, Millis(1)) {
        Some(checkout) => {
            let _ = black_box(checkout.lease.check_in(Millis(1)));
            true
        }
        None => false,
    }
}

/// Times of single operations, sorted, over all threads.
fn times_of(threads: u16, idle_each: u32) -> Vec<Duration> {
    let (pool, key) = filled(threads, idle_each);
    let start = Barrier::new(usize::from(threads));
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|worker| {
                let (pool, start) = (&pool, &start);
                scope.spawn(move || {
                    start.wait();
                    let mut times = Vec::with_capacity(OPERATIONS);
                    for _ in 0..OPERATIONS {
                        let began = Instant::now();
                        black_box(exchange(pool, WorkerId(worker), key));
                        times.push(began.elapsed());
                    }
                    times
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no operation panics")).collect()
    });
    times.sort_unstable();
    times
}

/// What criterion does not show: percentiles. They are also what a busy machine disturbs least, since an operation that
/// lost its processor is behind all others. The clock's own part is in them.
#[allow(clippy::print_stdout)] // it has no other way to be seen
fn percentiles(_criterion: &mut Criterion) {
    for (threads, idle_each) in [(1, 64), (1, 0), (THREADS, 2)] {
        let times = times_of(threads, idle_each);
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        let (half, most, nearly_all) = (at(0.5), at(0.99), at(0.999));
        let count = times.len();
        println!(
            "{threads} threads, {idle_each} idle each: p50 {half:?}, p99 {most:?}, p99.9 {nearly_all:?}, n {count}"
        );
    }
}

fn uncontended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checkout and check-in");
    for (what, workers, idle) in [("one worker", 1, 64), ("the first of 32 workers", 32, 2)] {
        let (pool, key) = filled(workers, idle);
        group.bench_function(what, |bencher| bencher.iter(|| assert!(exchange(&pool, WorkerId(0), key))));
    }
    let (pool, key) = filled(1, 0);
    group.bench_function("nothing idle", |bencher| {
        bencher.iter(|| assert!(pool.checkout(WorkerId(0), key, Millis(1)).is_none()));
    });
    group.finish();
}

criterion_group!(benches, uncontended, percentiles);
criterion_main!(benches);
