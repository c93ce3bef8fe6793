//! `holdfast load ws://…` in several processes against `holdfast origin` in several: one load and one target, a small
//! version of the guide's setup for a hundred thousand connections. Tests every form of the report, and that an
//! interrupt reaches all processes.

use crate::pseudoterminal::Live;
use crate::support;
use crate::support::load::{Origin, start, text};
use crate::support::{children, holdfast, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::fs;
use std::process::{Output, Stdio};
use testkit::Ended;

fn load(words: &[&str]) -> Output {
    holdfast().arg("load").args(words).arg("--allow-lag").stdin(Stdio::null()).output().expect("the program starts")
}

fn figures(words: &[&str]) -> Value {
    let output = load(&[words, &["-q", "--json", "-"]].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

#[test]
fn many_idle_connections_with_several_processes_on_both_ends() {
    let origin = Origin::start(&["--processes", "2"]);
    let url = origin.websocket_url("/websocket/echo");
    let words = ["-c", "400", "-t", "2", "--processes", "2", "--ramp", "2000", "--hold", "1s", "--heartbeat", "2s"];
    let more = ["--source", "127.0.0.2-127.0.0.9", "--interval", "100ms", "--drain", "20s", &url];
    let seen = figures(&[words.as_slice(), &more].concat());
    assert_eq!((&seen["processes"], &seen["threads"]), (&2.into(), &2.into()));
    assert_eq!((&seen["established"], &seen["open_max"], &seen["losses"]), (&400.into(), &400.into(), &0.into()));
    assert_eq!((&seen["endings"]["done"], &seen["handshake"]["count"]), (&400.into(), &400.into()));
    assert!(seen["pongs"].as_u64() > Some(0) && seen["pongs"] == seen["pong"]["count"], "{}", seen["pong"]);
    let opened: u64 = rows(&seen).map(|row| row["established"].as_u64().expect("a count")).sum();
    let open = rows(&seen).map(|row| row["open"].as_u64().expect("a count")).max();
    assert_eq!((opened, open), (400, Some(400)), "the intervals add up: {}", seen["intervals"]);
    assert_eq!(seen["sockets"]["most"]["ESTABLISHED"].as_u64(), Some(400), "{}", seen["sockets"]);
    // Both processes of the origin served connections, and they end with their parent.
    let parts = children(origin.running.id());
    assert_eq!(parts.len(), 2, "{parts:?}");
    drop(origin);
    until("its processes have ended", || parts.iter().all(|part| !lives(*part)));
}

fn rows(figures: &Value) -> impl Iterator<Item = &Value> {
    figures["intervals"].as_array().expect("intervals").iter()
}

#[test]
fn rooms_reach_over_processes_and_nothing_is_lost() {
    let origin = Origin::start(&[]);
    let url = origin.websocket_url("/websocket/room/{{room}}");
    // Every room has members in each process.
    let words = [
        "-c",
        "60",
        "-t",
        "3",
        "--processes",
        "3",
        "--rooms",
        "4",
        "-R",
        "100",
        "--hold",
        "1s",
        "--drain",
        "20s",
        &url,
    ];
    let seen = figures(&words);
    assert_eq!((&seen["processes"], &seen["established"]), (&3.into(), &60.into()));
    assert_eq!((&seen["lost"], &seen["surplus"], &seen["foreign"]), (&0.into(), &0.into(), &0.into()));
    // Each message goes to the fifteen members of its room, except those that a busy machine connected late.
    let count = |name: &str| seen[name].as_u64().expect("a count");
    assert_eq!(count("sent") + count("unsent"), 100);
    let (expected, delivered) = (count("expected"), count("delivered"));
    assert!((1..=1_500).contains(&expected) && (expected..=1_500).contains(&delivered), "{expected} {delivered}");
    assert_eq!(seen["delivery"]["count"], seen["delivered"]);
}

#[test]
fn every_form_of_the_report_is_there() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let [csv, hgrm, html, metrics] = ["a.csv", "a.hgrm", "a.html", "a.prom"].map(file);
    let url = origin.websocket_url("/websocket/echo");
    let words =
        ["-c", "30", "--ramp", "1000", "--hold", "800ms", "-R", "100", "--heartbeat", "1s", "--interval", "100ms"];
    let files = ["--csv", &csv, "--hgrm", &hgrm, "--html", &html, "--prometheus", &metrics, "--plain"];
    let wanted = ["--expect", "lost=0", "--expect", "delivered<1"];
    let output = load(&[words.as_slice(), &files, &wanted, &[&url]].concat());
    let (said, progress) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{said}{progress}");
    assert!(progress.contains("plan        first limit: ") && progress.contains(" open "), "{progress}");
    for words in [
        "met     lost=0",
        "FAILED  delivered<1",
        "tcp         at most ",
        "closed first by the target ",
        "generator   late by p50 ",
        "its own work was the cause of p50 ",
        "a turn of its loop took p50 ",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    let table = fs::read_to_string(&csv).expect("written");
    let columns = |line: &str| line.matches(',').count();
    let heading = table.lines().next().expect("a heading");
    assert!(heading.starts_with("begun_s,length_s,open,") && heading.ends_with(",window_zero,unread"), "{heading}");
    let of_generator = ",lag_p99_ms,lag_own_p99_ms,generator_waited_s,host_stolen_percent,generator_cpu_s,";
    assert!(heading.contains(of_generator), "{heading}");
    assert!(table.lines().count() > 3 && table.lines().all(|line| columns(line) == columns(heading)), "{table}");
    let page = fs::read_to_string(&metrics).expect("written");
    // All 80 messages, except those due before any connection was open.
    let delivered = page.lines().find_map(|line| line.strip_prefix("holdfast_load_messages_delivered_total "));
    let delivered: u64 = delivered.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{page}"));
    assert!((1..=80).contains(&delivered), "{delivered}");
    let spectrum = fs::read_to_string(&hgrm).expect("written");
    assert!(spectrum.contains(&format!("Total count    = {delivered:>12}")), "{delivered} deliveries: {spectrum}");
    testkit::assert_metrics_are_sound(&page);
    for sample in [
        "holdfast_load_websockets_established_total 30\n",
        "holdfast_load_pings_total ",
        "holdfast_load_lag_own_seconds_count ",
        "holdfast_load_closed_first_total{by=\"load\"} ",
    ] {
        assert!(page.contains(sample), "no {sample:?} in {page}");
    }
    assert!(fs::read_to_string(&html).expect("written").contains("by its own work"));
    // Open connections, connects and closes, times, messages, two spectra and bars, and three charts of TCP.
    testkit::assert_page_holds(html.as_ref(), 9);
}

#[test]
fn two_runs_are_compared_with_intervals() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let [few, more] = ["few.json", "more.json"].map(|name| folder.path().join(name).to_string_lossy().into_owned());
    let url = origin.websocket_url("/websocket/echo");
    for (file, rate) in [(&few, "50"), (&more, "500")] {
        let words = ["-q", "-c", "5", "--hold", "1200ms", "-R", rate, "--interval", "100ms", "--json", file, &url];
        assert_eq!(load(&words).status.code(), Some(0));
    }
    let compare = |one: &str, other: &str| {
        let words = ["load", "compare", one, other];
        text(&holdfast().args(words).stdin(Stdio::null()).output().expect("the program starts").stdout)
    };
    let said = compare(&few, &more);
    let row = said.lines().find(|line| line.starts_with("delivered/s")).expect("a row for deliveries");
    assert!(row.contains("B is higher") && said.contains("5 WebSockets"), "{said}");
    assert!(compare(&few, &few).contains("no difference shown"), "{said}");
    let http = folder.path().join("http.json").to_string_lossy().into_owned();
    assert!(load(&["-q", "-n", "5", "--json", &http, &url.replace("ws:", "http:")]).status.code().is_some());
    assert!(compare(&few, &http).contains("their figures are not the same quantities"), "{}", compare(&few, &http));
}

#[test]
fn a_run_is_seen_live_and_stopped_by_a_key() {
    let origin = Origin::start(&[]);
    let url = origin.websocket_url("/websocket/echo");
    let words = ["-c", "12", "--hold", "1h", "--interval", "100ms", "--processes", "2", "--allow-lag", &url];
    let mut live = Live::start("load", &words);
    live.wait_for("opened/s");
    live.wait_for("ESTABLISHED");
    live.press("q");
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(0), "{written:?}");
    let report = written.rsplit("\x1b[?1049l").next().expect("there is always a last part");
    assert!(report.contains("stopped by hand") && report.contains("in 2 processes"), "{written:?}");
    let plain = Live::start("load", &["-c", "2", "--hold", "200ms", "--plain", "--no-sockets", "--allow-lag", &url]);
    let (status, written) = plain.wait_for_the_end();
    assert!(status == Some(0) && !written.contains("\x1b[?1049h"), "{status:?} {written:?}");
    assert!(written.contains(" established ") && !written.contains("tcp  "), "{written:?}");
}

#[test]
fn interrupt_reaches_all_processes_and_a_death_voids_the_run() {
    let origin = Origin::start(&[]);
    let url = origin.websocket_url("/websocket/echo");
    for dies in [false, true] {
        let words = ["-c", "9", "-t", "3", "--processes", "3", "--hold", "1h", "--interval", "100ms", &url];
        // A busy machine makes a run void as well; here only the death of a process may do so.
        let allow = if dies { &[][..] } else { &["--allow-lag"] };
        let load = start(&[words.as_slice(), allow].concat());
        load.wait_for_error(" 9 open");
        let parts = children(load.id());
        assert_eq!(parts.len(), 3, "{parts:?}");
        if dies {
            kill(pid(parts[1]), Signal::SIGKILL).expect("it can be killed");
            until("it is gone", || !lives(parts[1]));
            load.wait_for_error(" 6 open");
        }
        load.signal(Signal::SIGINT);
        let Ended { status, stdout: said, .. } = load.end();
        assert!(said.contains("stopped by hand") && said.contains("open when the run was stopped by hand"), "{said}");
        assert_eq!(status.code(), Some(if dies { 4 } else { 0 }), "{said}");
        assert_eq!(said.contains("was killed by signal 9"), dies, "{said}");
        until("all have ended", || parts.iter().all(|part| !lives(*part)));
    }
}

#[test]
fn refuses_contradicting_options() {
    let refused = |words: &[&str], code: i32, expected: &str| {
        let output = load(words);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(expected), "{words:?}: {:?} {said}", output.status);
    };
    refused(&["-c", "2", "--processes", "3", "ws://127.0.0.1:9/"], 1, "3 processes need at least as many connections");
    let origin =
        |words: &[&str]| holdfast().arg("origin").args(words).stdin(Stdio::null()).output().expect("it starts");
    let unix = origin(&["--processes", "2", "--listen", "unix:/tmp/holdfast-never"]);
    assert!(text(&unix.stderr).contains("a Unix socket belongs to one process"), "{}", text(&unix.stderr));
    assert_eq!(unix.status.code(), Some(1));
    assert_eq!(origin(&["--processes", "0"]).status.code(), Some(2));
}

#[test]
fn an_origin_of_several_processes_says_what_only_one_could_do() {
    let origin = Origin::start(&["--processes", "2"]);
    let port = origin.address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for path in ["/counters", "/executed"] {
        let answer = support::fetch(port, path).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 501 ") && answer.contains("--processes 1"), "{path}: {answer}");
    }
    let seen = figures_of_a_failure(&origin.websocket_url("/websocket/room/a"));
    assert_eq!(seen["statuses"]["501"], 3, "{seen}");
    assert!(support::fetch(port, "/").expect("it answers").starts_with("HTTP/1.1 200 "));
}

/// The results of three connections that fail.
fn figures_of_a_failure(url: &str) -> Value {
    let output = load(&["-q", "-c", "3", "--hold", "100ms", "--json", "-", url]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}
