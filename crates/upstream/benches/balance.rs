//! Cost of a pick with its seat, by method and number of peers, on one thread and with others at the same group; and of a
//! port's entry in the ledger. Results are in `docs/adr/0019` and `0020`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Criterion, criterion_group, criterion_main};
use upstream::Millis;
use upstream::balance::{Group, Inputs, Measure, Member, Method, PeerSpec, Pick, Selection};
use upstream::ports::{Ledger, Limits, Pair, PortEnding};

const NOW: Millis = Millis(1_000_000);

fn group(method: Method, peers: u8) -> Group {
    let member = |index: u8| Member {
        spec: PeerSpec { weight: 1 + u32::from(index % 3), ..PeerSpec::default() },
        server: format!("10.0.0.{index}:80").into(),
        sid: Arc::default(),
        health: Arc::default(),
    };
    Group::new(method, (0..peers).map(member).collect())
}

fn pick(group: &Group, request: u64) -> Pick {
    let key = request.to_ne_bytes();
    let inputs = Inputs { client: &key[..3], hash_key: &key, random: request, bound: &[] };
    group.pick(&mut Selection::default(), &inputs, NOW)
}

fn picks(criterion: &mut Criterion) {
    let methods = [
        ("round robin", Method::RoundRobin),
        ("least_conn", Method::LeastConn),
        ("least_time", Method::LeastTime { measure: Measure::Header, inflight: true }),
        ("ip_hash", Method::IpHash),
        ("hash", Method::Hash),
        ("hash consistent", Method::ConsistentHash),
        ("random two", Method::RandomTwoLeastConn),
    ];
    for peers in [2, 16] {
        let mut benches = criterion.benchmark_group(format!("pick of {peers}"));
        for (name, method) in methods {
            let group = group(method, peers);
            let mut request = 0;
            benches.bench_function(name, |bencher| {
                bencher.iter(|| {
                    request += 1;
                    drop(black_box(pick(&group, request)));
                });
            });
        }
    }
}

/// Another thread does nothing but pick from the same group: more than any worker could.
fn contended(criterion: &mut Criterion) {
    let group = group(Method::RoundRobin, 16);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                drop(black_box(pick(&group, 1)));
            }
        });
        criterion.bench_function("pick of 16/round robin, contended", |bencher| {
            bencher.iter(|| black_box(pick(&group, 1)));
        });
        done.store(true, Ordering::Relaxed);
    });
}

/// One connection after the other, each closed by us: the longest queue of waiting ports that there can be.
fn ports(criterion: &mut Criterion) {
    let mut ledger = Ledger::new(Limits::default());
    let pair = Pair { source: [10, 0, 0, 1].into(), peer: ([10, 0, 0, 2], 80).into() };
    let (mut now, mut port) = (NOW, 32_768);
    criterion.bench_function("ledger/open and close", |bencher| {
        bencher.iter(|| {
            now = now.plus(3);
            port = if port == 60_999 { 32_768 } else { port + 1 };
            let id = ledger.opened(pair, port, now).expect("one pair is not too many");
            ledger.closed(id, port, PortEnding::WeClosedFirst, now);
        });
    });
}

criterion_group!(benches, picks, contended, ports);
criterion_main!(benches);
