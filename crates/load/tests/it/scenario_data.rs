//! Rows of data files: which iteration sends which row, over several threads and in both loops.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scenario::options;
use crate::scene::recorder::{Recorder, ok};
use crate::scene::run;
use load::{Options, Pace, Summary};
use std::collections::BTreeSet;
use std::time::Duration;

fn file(order: &str, per: &str) -> String {
    format!(
        "[[data]]\nname = 'd'\nfile = 'd.csv'\norder = '{order}'\nper = '{per}'\n[[scenario]]\nname = 's'\n\
         [[scenario.step]]\nname = 'a'\nurl = '/{{{{d.id}}}}'\n[[scenario.step]]\nname = 'b'\nurl = '/{{{{d.id}}}}/b'"
    )
}

/// Plays a scenario with this many rows; returns the ids of the first steps, sorted.
fn play(order: &str, per: &str, rows: usize, change: impl FnOnce(&mut Options)) -> (Vec<usize>, Summary) {
    let server = Recorder::start(|_| ok("", ""));
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..rows).map(|row| format!("{row}\n")).collect();
    let lines = lines.concat();
    std::fs::write(folder.path().join("d.csv"), format!("id\n{lines}")).unwrap();
    let mut options = options(folder.path(), &file(order, per), server.address);
    (options.threads, options.connections) = (3, 7);
    change(&mut options);
    let summary = run(options);
    let received = server.received();
    let first = received.iter().filter(|request| !request.target().ends_with("/b"));
    let mut ids: Vec<usize> = first.map(|request| request.target()[1..].parse().unwrap()).collect();
    // Both steps of an iteration use the same row.
    let mut second: Vec<usize> =
        received.iter().filter_map(|request| request.target()[1..].strip_suffix("/b")?.parse().ok()).collect();
    ids.sort_unstable();
    second.sort_unstable();
    assert_eq!(ids, second);
    (ids, summary)
}

#[test]
fn unique_rows_are_used_once_and_end_the_load() {
    let (ids, summary) = play("unique", "iteration", 100, |options| options.requests = None);
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
    assert!(summary.elapsed < Duration::from_secs(10), "{:?}", summary.elapsed);
    assert_eq!((summary.record.flows[0].completed, summary.record.whole().errors()), (100, 0));
    let (ids, _) = play("unique", "iteration", 100, |options| options.requests = Some(40));
    assert_eq!(ids, (0..40).collect::<Vec<_>>(), "the first rows, whichever thread is faster");
}

#[test]
fn unique_rows_are_used_once_in_an_open_loop() {
    let (ids, summary) = play("unique", "user", 30, |options| {
        options.requests = None;
        options.pace = Pace::constant(200.0, Duration::from_millis(500));
    });
    assert_eq!(ids, (0..30).collect::<Vec<_>>());
    assert_eq!(summary.record.flows[0].begun, 30);
}

#[test]
fn sequential_rows_repeat_and_random_rows_scatter() {
    let (ids, _) = play("sequential", "iteration", 10, |options| options.requests = Some(30));
    assert_eq!(ids, (0..10).flat_map(|id| [id; 3]).collect::<Vec<_>>());
    let (ids, _) = play("random", "iteration", 1000, |options| options.requests = Some(60));
    assert!(ids.iter().collect::<BTreeSet<_>>().len() > 40, "{ids:?}");
}

#[test]
fn each_user_keeps_its_row() {
    let (ids, _) = play("unique", "user", 7, |options| options.requests = Some(63));
    let counts: Vec<usize> = (0..7).map(|id| ids.iter().filter(|known| **known == id).count()).collect();
    assert!(counts.iter().sum::<usize>() == 63 && counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn more_users_than_rows_are_refused_before_the_load() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("d.csv"), "id\n1\n2\n").unwrap();
    let options = options(folder.path(), &file("unique", "user"), "127.0.0.1:9".parse().unwrap());
    let error = load::start(options).unwrap_err().to_string();
    assert_eq!(error, "data `d` has 2 rows, too few for 4 users with one each");
}
