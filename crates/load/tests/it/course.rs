//! The course of a load: connections over time, and a warm-up that no result contains.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scenario::options;
use crate::scene::recorder::{Recorder, ok};
use crate::scene::{origin, run, target};
use load::{Options, Pace, Stage};
use std::time::Duration;

fn stage(ms: u64, from: f64, to: f64) -> Stage {
    Stage { duration: Duration::from_millis(ms), from, to }
}

#[test]
fn connections_come_and_go_with_their_stages() {
    let origin = origin(origin::Options::default());
    let ramp = vec![
        stage(200, 0.0, 6.0),
        stage(400, 6.0, 6.0),
        stage(100, 6.0, 0.0),
        stage(400, 0.0, 0.0),
        // It does not end before the run.
        stage(3000, 2.0, 2.0),
    ];
    let summary = run(Options {
        connections: 6,
        threads: 2,
        duration: Some(Duration::from_millis(1400)),
        interval: Duration::from_millis(100),
        pace: Pace::Closed { think: (Duration::from_millis(1), Duration::from_millis(1)) },
        ramp,
        ..Options::new(target(origin.address(), "/"))
    });
    let (record, whole) = (&summary.record, summary.record.whole());
    // Six connections until the end of the second stage; two of them come back.
    assert_eq!((record.opened, whole.errors()), (8, 0), "{:?}", whole.failures);
    assert_eq!(record.closed_by_load, 6);
    assert!(whole.responses > 20, "{}", whole.responses);
}

#[test]
fn users_of_a_scenario_come_one_after_the_other() {
    let server = Recorder::start(|_| ok("", ""));
    let folder = tempfile::tempdir().unwrap();
    let text = "think = '5ms'\n[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'a'\nurl = '/{{user}}'";
    let mut options = options(folder.path(), text, server.address);
    (options.connections, options.requests, options.threads) = (5, None, 1);
    (options.duration, options.ramp) = (Some(Duration::from_millis(500)), vec![stage(500, 0.0, 5.0)]);
    let summary = run(options);
    let mut order: Vec<String> = Vec::new();
    for request in server.received() {
        if !order.iter().any(|path| path == request.target()) {
            order.push(request.target().to_owned());
        }
    }
    assert_eq!(order, ["/0", "/1", "/2", "/3", "/4"], "each 100 ms after the one before");
    assert_eq!(summary.record.whole().begun as usize, server.received().len());
}

#[test]
fn a_warm_up_is_in_no_result() {
    let server = Recorder::start(|_| ok("", ""));
    let mut rows = Vec::new();
    let options = Options {
        pace: Pace::constant(200.0, Duration::from_secs(1)),
        connections: 4,
        interval: Duration::from_millis(100),
        warm_up: Duration::from_millis(350),
        ..Options::new(target(server.address, "/"))
    };
    let running = load::start(options).unwrap();
    let summary = running.watch(|interval| rows.push((interval.number, interval.record.whole().responses))).unwrap();
    let whole = summary.record.whole();
    assert_eq!(server.received().len(), 200, "all of them were sent");
    // Four intervals are left out: 80 requests, fewer if this machine stalls meanwhile.
    assert!((1..190).contains(&whole.responses), "{}", whole.responses);
    assert_eq!((rows[0].0, rows.iter().map(|(_, responses)| responses).sum::<u64>()), (4, whole.responses));
    assert!((Duration::from_millis(600)..Duration::from_secs(2)).contains(&summary.elapsed), "{:?}", summary.elapsed);
    let too_long = Options { warm_up: Duration::from_secs(1), ..summary.options };
    assert!(too_long.check().unwrap_err().to_string().contains("nothing would be measured"));
}
