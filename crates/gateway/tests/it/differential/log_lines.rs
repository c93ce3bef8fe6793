//! The upstream log lines of both sides: sends the same requests, one at a time, and compares the lines. Times are
//! compared by shape, since they depend on the clock.

use std::net::SocketAddr;
use std::path::Path;

use super::cases::{Case, pattern};
use super::talk;
use testkit::sides::{Nginx, Side, Sides};

const TEXT: &str = include_str!("cases/log_lines.conf");

/// Targets that are asked for by GET.
const GETS: &[&str] = &[
    "/status/200",
    "/status/404",
    "/status/503",
    "/status/304",
    "/status/200?header=X-A:1",
    "/status/200?header=Set-Cookie:other%3D1&header=Set-Cookie:id%3Dabc%3B%20Path%3D/",
    "/status/200?header=Set-Cookie:ID%3Dupper",
    "/bytes/0",
    "/bytes/5",
    "/bytes/100000",
    "/chunked/1000",
    "/chunked/100000",
    "/unbuffered/bytes/100000",
    "/unbuffered/chunked/1000",
    "/direct/bytes/10",
    "/again/bytes/10",
    "/again/status/503",
    "/refused/x",
    "/down/x",
    "/page/status/404",
    "/page/status/503",
    "/page/bytes/10",
    "/page-refused/x",
    "/page-refused-twice/x",
    "/page-ours/status/404",
    "/listed/status/404",
    "/ours",
    "/close",
];

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = GETS.iter().map(|target| Case::simple("GET", "test", target)).collect();
    cases.push(Case::simple("HEAD", "test", "/bytes/10"));
    for target in ["/status/200", "/again/status/200", "/no-body/status/200", "/refused/status/200"] {
        let body = pattern(3000);
        let head = format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
        cases.push(Case::raw(format!("POST {target}"), [head.as_bytes(), &body].concat()));
    }
    cases
}

/// A line with every time replaced by its shape.
fn without_times(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let (name, value) = word.split_once('=').unwrap_or(("", word));
        let bare = value.trim_end_matches(',');
        let is_time = bare.split_once('.').is_some_and(|(seconds, fraction)| {
            fraction.len() == 3 && [seconds, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
        });
        if is_time { format!("{name}=T{}", &value[bare.len()..]) } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The last request to each side: its line ends the log.
const LAST: &str = "/ours?last";

fn differences(nginx: &Path, upstreams: &[SocketAddr]) -> Vec<String> {
    let sides = Sides::start(nginx, TEXT, upstreams, &[]);
    let mut cases = cases();
    cases.push(Case::simple("GET", "test", LAST));
    for case in &cases {
        for side in [Side::Nginx, Side::Ours] {
            talk::run(sides.address(side, case.listener), case);
        }
    }
    let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| sides.log_lines(side, LAST));
    assert!(theirs.len() >= cases.len(), "{} lines of {} cases", theirs.len(), cases.len());
    let pairs = theirs.iter().zip(&ours).map(|(theirs, ours)| (without_times(theirs), without_times(ours)));
    let differing = pairs.filter(|(theirs, ours)| theirs != ours);
    let mut wrong: Vec<String> =
        differing.map(|(theirs, ours)| format!("nginx: {theirs}\n    ours:  {ours}")).collect();
    if theirs.len() != ours.len() {
        wrong.push(format!("nginx has {} lines, we have {}", theirs.len(), ours.len()));
    }
    wrong
}

#[test]
fn upstream_log_lines_match_nginx() {
    for generation in [Nginx::Old, Nginx::New] {
        compare_logs_with(generation);
    }
}

fn compare_logs_with(generation: Nginx) {
    let Some(nginx) = testkit::sides::nginx_or_skip(generation) else { return };
    let (origin, dead) = (super::start_origin(), super::dead_port());
    let upstreams = [origin.address(), dead.local_addr().unwrap().as_socket().unwrap()];
    let wrong = differences(&nginx, &upstreams);
    assert!(wrong.is_empty(), "{generation:?}: {} lines differ:\n    {}", wrong.len(), wrong.join("\n    "));
}

#[test]
fn times_are_recognized_by_format() {
    assert_eq!(without_times("a=0.001, 12.345 b=- c=1.2 d=127.0.0.1:80"), "a=T, =T b=- c=1.2 d=127.0.0.1:80");
}
