//! Compares the gateway with real nginx: the same configuration, the same client bytes, the same origin for both.
//! Status, fields, body, the request that the upstream received, and whether the connection continues must be equal.
//! `accepted.txt` lists intended differences with their reason; `compare` normalises before comparing.
//!
//! `DIFFERENTIAL=part of SUITE/NAME` runs only matching cases, and prints the answers of both sides.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end
#![allow(clippy::print_stdout)] // prints what was skipped and what was requested

mod accepted;
mod application;
mod cache_origin;
mod caching;
mod cases;
mod cgi_applications;
mod compare;
mod ends;
mod leaving;
mod log_lines;
mod memcached_peer;
mod open_files;
mod over_http2;
mod over_http2_upstream;
mod retries;
mod silence;
mod storing;
mod talk;
mod words;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use accepted::Accepted;
use cases::{Case, Suite};
use cgi_applications::Protocol;
use testkit::sides::{Nginx, Side, Sides};

/// Most differences that a failure prints.
const SHOWN_MAX: usize = 200;

#[test]
fn the_systems_nginx_and_the_gateway_answer_alike() {
    compare_with(Nginx::Old);
}

#[test]
fn the_newest_nginx_and_the_gateway_answer_alike() {
    compare_with(Nginx::New);
}

fn compare_with(generation: Nginx) {
    let Some(nginx) = testkit::sides::nginx_or_skip(generation) else { return };
    let origin = start_origin();
    let silent = origin::Options { silent: true, ..origin::Options::default() };
    let silent = origin::Origin::bind(silent).unwrap().start().unwrap();
    let dead = dead_port();
    let dead_address = dead.local_addr().unwrap().as_socket().unwrap();
    let application = application::start();
    let [fastcgi, scgi, uwsgi] = [Protocol::Fastcgi, Protocol::Scgi, Protocol::Uwsgi].map(cgi_applications::start);
    let memcached = memcached_peer::start();
    let upstreams =
        [origin.address(), dead_address, silent.address(), application.address(), fastcgi, scgi, uwsgi, memcached];

    let geo = cases::geo_folder();
    let accepted = accepted::read(include_str!("accepted.txt"), generation);
    let only = std::env::var("DIFFERENTIAL").ok();
    let outcomes = in_lanes(cases::suites(), |suite| {
        assert_distinct(suite);
        let is_wanted = |case: &Case| only.as_deref().is_none_or(|part| suite.path_of(case).contains(part));
        if !suite.cases.iter().any(is_wanted) {
            return Outcome::default();
        }
        if let Some(module) = testkit::sides::missing_module(&nginx, suite.text) {
            testkit::skip(&format!("{} is missing: `cargo xtask peers` unpacks it", module.display()));
            return Outcome::default();
        }
        let sides = Sides::start(&nginx, &suite.text_with(&geo), &upstreams, &suite.files);
        let wrong = compare_suite(suite, &sides, &accepted, &[], only.as_deref());
        let logs = if wrong.is_empty() { String::new() } else { sides.logs() };
        Outcome { run: suite.cases.len(), wrong, logs }
    });
    assert_no_differences(&outcomes, generation.program());
}

/// What a suite found.
#[derive(Default)]
struct Outcome {
    /// Cases.
    run: usize,
    wrong: Vec<String>,
    /// The error logs of both sides, where something is wrong.
    logs: String,
}

fn assert_no_differences(outcomes: &[Outcome], name: &str) {
    let mut report = String::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.wrong.is_empty()) {
        for line in outcome.wrong.iter().take(SHOWN_MAX) {
            let _ = writeln!(report, "    {line}");
        }
        let _ = writeln!(report, "{}", outcome.logs);
    }
    let run: usize = outcomes.iter().map(|outcome| outcome.run).sum();
    let differing: usize = outcomes.iter().map(|outcome| outcome.wrong.len()).sum();
    assert!(report.is_empty(), "{differing} differences in {run} cases ({name}'s -> ours):\n{report}");
}

/// Suites of a test that run at a time: each has servers of its own, and its conversations mostly wait for an answer.
const LANES: usize = 4;

/// Runs each suite once, several at a time. Those with the most cases come first, so that none runs alone at the end.
fn in_lanes(mut suites: Vec<Suite>, run: impl Fn(&Suite) -> Outcome + Sync) -> Vec<Outcome> {
    suites.sort_by_key(|suite| Reverse(suite.cases.len()));
    let next = AtomicUsize::new(0);
    let lane = || {
        let taken = std::iter::from_fn(|| suites.get(next.fetch_add(1, Ordering::Relaxed)));
        taken.map(&run).collect::<Vec<_>>()
    };
    // A skip names the thread.
    let test = std::thread::current().name().map_or_else(String::new, str::to_owned);
    std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().name(test.clone()).spawn_scoped(scope, lane).unwrap();
        let lanes: Vec<_> = (0..LANES).map(spawn).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn start_origin() -> origin::Running {
    // A response to HEAD has the length of an echo, which must not depend on how many connections there were.
    let options =
        origin::Options { server: "origin".to_owned(), first_connection: 1_000_000, ..origin::Options::default() };
    origin::Origin::bind(options).unwrap().start().unwrap()
}

/// Unaccepted differences, and accepted ones that no longer occur. Differences in `besides` are accepted too.
fn compare_suite(
    suite: &Suite,
    sides: &Sides,
    accepted: &[Accepted],
    besides: &[Accepted],
    only: Option<&str>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in &suite.cases {
        if only.is_some_and(|part| !suite.path_of(case).contains(part)) {
            continue;
        }
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| {
            let patience = accepted::patience(side, accepted, suite.name, &case.name);
            talk::run_within(patience, sides.address(side, case.listener), case)
        });
        let log = sides.our_log();
        if only.is_some() {
            println!("{}/{}\n  nginx: {theirs:?}\n  ours:  {ours:?}", suite.name, case.name);
        }
        assert!(!log.contains("bug in holdfast"), "{}/{}:\n{log}", suite.name, case.name);
        for difference in compare::differences(&theirs, &ours) {
            // All matching lines count as used, so that duplicates do not hide each other.
            let covers = |line: &&Accepted| line.covers(suite.name, &case.name, &difference);
            if accepted.iter().filter(covers).count() + besides.iter().filter(covers).count() == 0 {
                wrong.push(format!("{}/{} :: {difference}", suite.name, case.name));
            }
        }
    }
    if only.is_none() {
        let unused = accepted.iter().filter_map(|line| line.unused(suite.name));
        wrong.extend(unused.map(|line| format!("no difference any more, take it out of accepted.txt: {line}")));
    }
    wrong
}

fn assert_distinct(suite: &Suite) {
    let mut names = BTreeSet::new();
    for case in &suite.cases {
        assert!(names.insert(&case.name), "two cases of {} are called {}", suite.name, case.name);
    }
}

/// A port that is bound but has no listener: connections are refused.
fn dead_port() -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket
}
