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
mod storing;
mod talk;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;

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
    let mut report = String::new();
    let (mut run, mut differing) = (0, 0);
    for suite in cases::suites() {
        assert_distinct(&suite);
        let is_wanted = |case: &Case| only.as_deref().is_none_or(|part| suite.path_of(case).contains(part));
        if !suite.cases.iter().any(is_wanted) {
            continue;
        }
        if let Some(module) = testkit::sides::missing_module(&nginx, suite.text) {
            testkit::skip(&format!("{} is missing: `cargo xtask peers` unpacks it", module.display()));
            continue;
        }
        let sides = Sides::start(&nginx, &suite.text_with(&geo), &upstreams, &suite.files);
        let wrong = compare_suite(&suite, &sides, &accepted, &[], only.as_deref());
        run += suite.cases.len();
        differing += wrong.len();
        for line in wrong.iter().take(SHOWN_MAX) {
            let _ = writeln!(report, "    {line}");
        }
        if !wrong.is_empty() {
            let _ = writeln!(report, "{}", sides.logs());
        }
    }
    let name = generation.program();
    assert!(report.is_empty(), "{differing} differences in {run} cases ({name}'s -> ours):\n{report}");
}

fn start_origin() -> origin::Running {
    let options = origin::Options { server: "origin".to_owned(), ..origin::Options::default() };
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
