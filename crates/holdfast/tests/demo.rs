//! `holdfast demo` as a process: a short one has every row without an error and shows what a pool is for; one that is ended
//! early leaves nothing behind. Nothing here says anything about speed.

#[allow(dead_code, reason = "each test file uses its part of the support")]
mod support;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::process::{Command, Stdio};
use support::{children, holdfast, lives, pid, until};

/// The shortest demo, over few connections.
fn demo() -> Command {
    let mut command = holdfast();
    command.args(["demo", "--seconds", "2", "--connections", "8"]).stdin(Stdio::null());
    command
}

fn number(row: &Value, pointer: &str) -> f64 {
    row.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {row:#}"))
}

fn count(row: &Value, pointer: &str) -> u64 {
    row.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {row:#}"))
}

#[test]
fn a_short_demo_shows_what_a_pool_is_for() {
    let output = demo().arg("--json").output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*errors), (Some(0), ""));
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = report["rows"].as_array().expect("it has rows");
    let names: Vec<_> = rows.iter().map(|row| (row["arm"].as_str(), row["client_keepalive"].as_bool())).collect();
    let arms = [Some("direct"), Some("unpooled"), Some("pooled")];
    let expected = [false, true].into_iter().flat_map(|keeps| arms.map(|arm| (arm, Some(keeps))));
    assert_eq!(names, expected.collect::<Vec<_>>());
    for row in rows {
        is_complete(row);
        connections_are_as_the_arm_says(row);
    }
}

/// Every number of a row is there, with its rounds.
fn is_complete(row: &Value) {
    for quantity in ["requests_per_second", "percent_of_direct", "latency_ms_mean", "latency_ms_p99"] {
        let [median, min, max] = ["median", "min", "max"].map(|of| number(row, &format!("/{quantity}/{of}")));
        assert!(0.0 < min && min <= median && median <= max, "{quantity} of {row:#}");
        assert_eq!(count(row, &format!("/{quantity}/n")), 3, "{quantity} of {row:#}");
    }
    let sides: &[&str] = if row["arm"] == "direct" { &["client", "origin"] } else { &["client", "gateway", "origin"] };
    for side in sides {
        assert!(number(row, &format!("/{side}/cpu_us_per_request/median")) > 0.0, "{side} of {row:#}");
        assert!(number(row, &format!("/{side}/busiest_running_percent/median")) > 0.0, "{side} of {row:#}");
    }
    let faults = row["faults"].as_object().expect("faults by reason");
    assert!(faults.values().all(|count| count == 0), "{row:#}");
    let named = row.pointer("/bottleneck/side").and_then(Value::as_str);
    assert!(named.is_some_and(|side| ["none", "cores"].contains(&side) || sides.contains(&side)), "{row:#}");
    assert_eq!(count(row, "/requests"), count(row, "/requests_at_origin"), "{row:#}");
}

fn connections_are_as_the_arm_says(row: &Value) {
    let requests = count(row, "/requests");
    let opened = count(row, "/connections_opened_by_client");
    let accepted = count(row, "/connections_accepted_by_origin");
    // Eight at a time in three rounds, and one more for each thousand requests, which is where keepalive ends.
    let few = 8 * 3 + requests / 1000;
    let keeps = row["client_keepalive"] == true;
    assert!(if keeps { opened <= few } else { opened == requests }, "{row:#}");
    match row["arm"].as_str() {
        Some("direct") => assert_eq!(opened, accepted, "{row:#}"),
        Some("unpooled") => assert_eq!(accepted, requests, "{row:#}"),
        _ => assert!(accepted <= few && accepted > 0, "{row:#}"),
    }
    // Where there is a connection for each request, they are seen in TIME_WAIT; those of a pool are established.
    let time_wait = row.pointer("/sockets/origin_port/at_end/TIME_WAIT");
    let time_wait = time_wait.map_or(0, |ends| count(ends, "/opener") + count(ends, "/acceptor"));
    if accepted == requests {
        assert!(time_wait >= few, "{row:#}");
    } else {
        assert!(accepted < requests / 2 && time_wait <= few, "{row:#}");
    }
    if row["arm"] == "pooled" {
        // Nobody has looked only if the first looks took all the time there is for that.
        let established = row.pointer("/sockets/origin_port/established").expect("it is said");
        assert!(established.is_null() || number(established, "/min") >= 2.0, "{row:#}");
    }
}

#[test]
fn the_table_is_for_people() {
    let output = demo().output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for (start, count) in [("direct ", 5), ("unpooled ", 5), ("pooled ", 5), ("per request ", 5), ("keeps ", 5)] {
        assert_eq!(text.lines().filter(|line| line.starts_with(start)).count(), count, "{start}\n{text}");
    }
    for words in
        ["requests/s", "of direct", "CPU us/request", "bottleneck", "TIME_WAIT", "tcp_tw_reuse", "keepalive 0;"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn a_signal_ends_everything() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let mut command = holdfast();
    command.args(["demo", "--seconds", "60"]).env("TMPDIR", temporary.path()).stdin(Stdio::null());
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    // An origin and a gateway for each of the four rows that have one.
    until("the servers run", || children(running.id()).len() == 5);
    let servers = children(running.id());
    kill(pid(running.id()), Signal::SIGINT).expect("it runs");
    let status = running.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    until("no server is left", || !servers.iter().any(|server| lives(*server)));
    let left = std::fs::read_dir(temporary.path()).expect("it is there").count();
    assert_eq!(left, 0, "files are left");
}

#[test]
fn servers_do_not_outlive_a_demo_that_is_killed() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let mut command = holdfast();
    command.args(["demo", "--seconds", "60"]).env("TMPDIR", temporary.path()).stdin(Stdio::null());
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    until("the servers run", || children(running.id()).len() == 5);
    let servers = children(running.id());
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    until("no server is left", || !servers.iter().any(|server| lives(*server)));
}

#[test]
fn nonsense_is_refused() {
    for flags in [["--seconds", "0"], ["--seconds", "601"], ["--connections", "0"], ["--connections", "1001"]] {
        let output = holdfast().arg("demo").args(flags).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}
