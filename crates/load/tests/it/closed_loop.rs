//! The closed loop against the built-in origin: every request is counted once, on the configured connections.

use crate::scene::{origin, requests, run, target};
use load::{Cause, Options, Pace};
use origin::Closing;
use std::time::Duration;

#[test]
fn requests_go_over_kept_connections_and_are_all_counted() {
    let origin = origin(origin::Options::default());
    let summary = run(Options { threads: 2, ..requests(target(origin.address(), "/"), 1000, 8) });
    let whole = summary.record.whole();
    assert_eq!((whole.begun, whole.responses, whole.errors()), (1000, 1000, 0), "{:?}", whole.failures);
    assert_eq!(whole.statuses, [(200, 1000)]);
    assert_eq!((whole.latency.count(), whole.bytes_body), (1000, 612_000));
    assert_eq!((summary.record.opened, summary.record.connect.count(), whole.reused), (8, 8, 992));
    assert_eq!((summary.threads, origin.counts().requests, origin.counts().connections_accepted), (2, 1000, 8));
    assert!(whole.latency.min_ns() > 0 && !summary.elapsed.is_zero() && summary.record.generator.spent.cpu_ns > 0);
}

#[test]
fn without_keepalive_each_request_opens_a_connection() {
    let origin = origin(origin::Options::default());
    let options = Options { keepalive: false, ..requests(target(origin.address(), "/"), 50, 3) };
    let summary = run(options);
    let whole = summary.record.whole();
    assert_eq!((whole.responses, whole.errors(), whole.reused), (50, 0, 0), "{:?}", whole.failures);
    assert_eq!((summary.record.opened, summary.record.closed_by_load), (50, 0));
    assert_eq!(origin.counts().connections_accepted, 50);
}

#[test]
fn a_close_that_is_announced_is_no_failure() {
    let closing = Closing { after_requests: Some(10), ..Closing::default() };
    let origin = origin(origin::Options { closing, ..origin::Options::default() });
    let summary = run(requests(target(origin.address(), "/"), 100, 2));
    let whole = summary.record.whole();
    assert_eq!((whole.responses, whole.errors()), (100, 0), "{:?}", whole.failures);
    // The split of the requests between the two is random, so either may end with a full ten or not.
    assert!((10..=11).contains(&summary.record.opened), "{}", summary.record.opened);
    assert_eq!(whole.reused, 100 - summary.record.opened);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_counted_each() {
    let origin = origin(origin::Options::default());
    let summary = run(Options { pipeline: 8, ..requests(target(origin.address(), "/bytes/1000"), 400, 2) });
    let whole = summary.record.whole();
    assert_eq!((whole.begun, whole.responses, whole.errors()), (400, 400, 0), "{:?}", whole.failures);
    assert_eq!((whole.bytes_body, summary.record.opened), (400_000, 2));
}

#[test]
fn requests_pipelined_behind_a_close_are_resent() {
    let closing = Closing { after_requests: Some(5), ..Closing::default() };
    let origin = origin(origin::Options { closing, ..origin::Options::default() });
    let summary = run(Options { pipeline: 4, ..requests(target(origin.address(), "/"), 60, 1) });
    let whole = summary.record.whole();
    assert_eq!((whole.begun, whole.responses, whole.errors()), (60, 60, 0), "{:?}", whole.failures);
}

#[test]
fn reads_bodies_of_every_framing_and_size() {
    let origin = origin(origin::Options::default());
    for (path, bytes) in [
        ("/bytes/3000000", 3_000_000),
        ("/chunked/100000?chunk=7", 100_000),
        ("/close-delimited/50000", 50_000),
        ("/status/204", 0),
        ("/status/200?interim=103&interims=3", 0),
    ] {
        let whole = run(requests(target(origin.address(), path), 4, 2)).record.whole();
        assert_eq!((whole.responses, whole.errors()), (4, 0), "{path}: {:?}", whole.failures);
        assert!(whole.bytes_body >= 4 * bytes, "{path}: {} bytes", whole.bytes_body);
    }
}

#[test]
fn shares_of_several_targets_are_kept_and_counted_apart() {
    let origin = origin(origin::Options::default());
    let mut often = target(origin.address(), "/?id=often");
    often.weight = 3;
    let mut options = requests(often, 400, 4);
    options.targets.push(target(origin.address(), "/status/404"));
    let summary = run(options);
    let [often, seldom] = summary.record.targets.as_slice() else { panic!("two targets") };
    assert_eq!((often.responses, seldom.responses), (300, 100));
    assert_eq!((seldom.statuses.as_slice(), seldom.errors()), ([(404, 100)].as_slice(), 100));
    assert_eq!(origin.executed("often"), 300);
}

#[test]
fn targets_at_several_addresses_have_connections_of_their_own() {
    let (one, other) = (origin(origin::Options::default()), origin(origin::Options::default()));
    let mut options = requests(target(one.address(), "/"), 200, 4);
    options.targets.push(target(other.address(), "/"));
    let summary = run(options);
    assert_eq!(summary.record.whole().responses, 200);
    assert_eq!((one.counts().connections_accepted, other.counts().connections_accepted), (2, 2));
    assert_eq!(summary.addresses, [one.address(), other.address()]);
}

#[test]
fn templated_body_larger_than_the_socket_is_sent_whole() {
    let origin = origin(origin::Options::default());
    let mut target = target(origin.address(), "/echo?id={{counter}}");
    target.method = "POST".to_owned();
    target.body = [b"{{uuid}}".as_slice(), &vec![b'x'; 8_000_000]].concat();
    let summary = run(requests(target, 3, 1));
    let whole = summary.record.whole();
    assert_eq!((whole.responses, whole.errors()), (3, 0), "{:?}", whole.failures);
    assert!(whole.bytes_sent > 3 * 8_000_036, "{}", whole.bytes_sent);
    assert_eq!(["0", "1", "2", "3"].map(|id| origin.executed(id)), [1, 1, 1, 0]);
}

#[test]
fn think_time_lies_between_an_answer_and_the_next_request() {
    let origin = origin(origin::Options::default());
    let pause = Duration::from_millis(30);
    let summary =
        run(Options { pace: Pace::Closed { think: (pause, pause) }, ..requests(target(origin.address(), "/"), 5, 1) });
    assert_eq!((summary.record.whole().responses, summary.record.opened), (5, 1));
    // Four pauses. The timer wheel counts whole milliseconds, so each may be one short.
    assert!(summary.elapsed >= Duration::from_millis(4 * 29), "{:?}", summary.elapsed);
}

#[test]
fn timed_run_ends_in_time_with_its_intervals() {
    let origin = origin(origin::Options::default());
    let options = Options {
        duration: Some(Duration::from_millis(600)),
        interval: Duration::from_millis(100),
        connections: 2,
        threads: 2,
        ..Options::new(target(origin.address(), "/"))
    };
    let (mut numbers, mut responses) = (Vec::new(), 0);
    let running = load::start(options).unwrap();
    let summary = running
        .watch(|interval| {
            numbers.push(interval.number);
            responses += interval.record.whole().responses;
        })
        .unwrap();
    assert_eq!(responses, summary.record.whole().responses);
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]) && numbers.contains(&0), "{numbers:?}");
    assert!(summary.elapsed >= Duration::from_millis(600), "{:?}", summary.elapsed);
}

#[test]
fn stopped_run_reports_its_results() {
    let origin = origin(origin::Options::default());
    let options = Options {
        duration: None,
        requests: Some(u64::MAX),
        ..requests(target(origin.address(), "/delay/60000"), 1, 4)
    };
    let running = load::start(options).unwrap();
    let stopper = running.stopper();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while origin.counts().requests < 4 {
        assert!(std::time::Instant::now() < deadline, "{:?}", origin.counts());
        std::thread::yield_now();
    }
    stopper.stop();
    let summary = running.wait().unwrap();
    let whole = summary.record.whole();
    assert_eq!((summary.stopped, summary.record.cut_off, whole.responses, whole.failed()), (true, 4, 0, 0));
}

#[test]
fn source_addresses_are_taken_in_turn() {
    let origin = origin(origin::Options::default());
    let sources = ["127.0.0.2", "127.0.0.3"].map(|source| source.parse().unwrap()).to_vec();
    let summary = run(Options { sources, ..requests(target(origin.address(), "/"), 20, 4) });
    assert_eq!((summary.record.whole().responses, summary.record.opened), (20, 4));
    let foreign =
        Options { sources: vec!["192.0.2.1".parse().unwrap()], ..requests(target(origin.address(), "/"), 1, 1) };
    let error = load::start(foreign).unwrap_err().to_string();
    assert!(error.starts_with("the source address 192.0.2.1 cannot be used"), "{error}");
}

#[test]
fn unanswered_requests_count_with_their_waiting_time() {
    let origin = origin(origin::Options::default());
    let options = Options {
        duration: Some(Duration::from_millis(600)),
        drain: Duration::from_millis(300),
        connections: 2,
        ..Options::new(target(origin.address(), "/delay/60000"))
    };
    let whole = run(options).record.whole();
    assert_eq!((whole.responses, whole.failed_by(Cause::Unanswered), whole.latency.count()), (0, 2, 2));
    // At least the drain time, even if a busy machine began it late.
    assert!(whole.latency.min_ns() >= 295_000_000, "{}", whole.latency.min_ns());
}
