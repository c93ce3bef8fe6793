//! `holdfast load tcp://…` as a process: against `holdfast origin --tcp`, alone and through our gateway's `stream`. Tests its
//! output, its files and its exit code. No test here asserts a speed.

use crate::support::Instance;
use crate::support::load::{Origin, load, text};
use serde_json::Value;
use std::fs;
use testkit::free_port;

/// The figures of a run that succeeds.
fn figures(words: &[&str]) -> Value {
    let output = load(&[words, &["-q", "--allow-lag", "--json=-"]].concat());
    assert!(output.status.success(), "{words:?}: {}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Every mode once.
fn each_mode(address: &str) {
    let url = format!("tcp://{address}");
    let echo = figures(&["-c", "5", "-n", "200", "--size", "2000", &url]);
    assert_eq!((&echo["version"], &echo["responses"], &echo["failed"]), (&"TCP".into(), &200.into(), &0.into()));
    assert_eq!((&echo["bytes_sent"], &echo["bytes_received"]), (&400_000.into(), &400_000.into()));
    assert_eq!((&echo["reused"], &echo["targets"][0]["method"]), (&195.into(), &"echo".into()));
    let rated = figures(&["-c", "20", "-R", "100/s", "-d", "500ms", &url]);
    assert_eq!((&rated["loop"], &rated["responses"], &rated["failed"]), (&"open".into(), &50.into(), &0.into()));
    let once = figures(&["-c", "4", "-n", "60", "--no-keepalive", &url]);
    assert_eq!((&once["connections_opened"], &once["responses"]), (&60.into(), &60.into()));
    let connect = figures(&["-c", "20", "-R", "100/s", "-d", "300ms", "--no-keepalive", "--size", "0", &url]);
    assert_eq!((&connect["connections_established"], &connect["bytes_sent"]), (&30.into(), &0.into()));
    let held = figures(&["-c", "30", "--hold", "300ms", "--ramp", "1000/s", "--drain", "20s", &url]);
    assert_eq!((&held["protocol"], &held["open_max"], &held["losses"]), (&"tcp".into(), &30.into(), &0.into()));
    assert_eq!(held["endings"]["done"], 30, "{held}");
}

#[test]
fn every_mode_works_against_an_origin() {
    let Origin { address, running: _running } = Origin::start(&["--tcp", "echo"]);
    each_mode(&address);
}

#[test]
fn every_mode_works_through_a_stream_proxy_of_ours() {
    let Origin { address, running: _running } = Origin::start(&["--tcp", "echo"]);
    let port = free_port();
    let stream = format!("stream {{ server {{ listen 127.0.0.1:{port}; proxy_pass {address}; }} }}");
    let mut gateway = Instance::new(&stream, "server { listen 127.0.0.1:PORT; return 200 alive; }");
    gateway.start();
    each_mode(&format!("127.0.0.1:{port}"));
}

#[test]
fn two_processes_share_the_messages_and_tls_carries_them() {
    let Origin { address, running: _running } = Origin::start(&["--tcp", "echo", "--tls"]);
    let url = format!("tls://{address}");
    let figures = figures(&["-c", "4", "-n", "100", "--processes", "2", "--insecure", &url]);
    assert_eq!((&figures["responses"], &figures["failed"], &figures["processes"]), (&100.into(), &0.into(), &2.into()));
    assert!(figures["tls"]["full"].as_u64() > Some(0), "{figures}");
    let held = ["-c", "8", "--processes", "2", "--hold", "200ms", "--drain", "20s", "--insecure", &url];
    assert_eq!(self::figures(&held)["open_max"], 8);
}

#[test]
fn the_report_the_page_and_the_thresholds_speak_of_messages() {
    let Origin { address, running: _running } = Origin::start(&["--tcp", "echo"]);
    let url = format!("tcp://{address}");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (page, json) = (folder.path().join("a.html"), folder.path().join("a.json"));
    let (html, file) = (page.to_str().expect("text"), json.to_str().expect("text"));
    let words = ["-c", "2", "-d", "900ms", "--interval", "100ms", "--html", html, "--json", file, "-q", "--allow-lag"];
    let output = load(&[&words[..], &["--expect", "failed=0", "--expect", "reused>90%", &url]].concat());
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}{}", text(&output.stderr));
    for part in
        [&format!("target      echo {url}"), "messages    ", " complete, 0 failed", " messages/s; ", "met     failed=0"]
    {
        assert!(report.contains(part), "{part:?} is missing in {report}");
    }
    let page = fs::read_to_string(page).expect("written");
    assert!(page.contains("messages/s") && page.contains(&format!("Load of {url}")));
    let compared = load(&["compare", file, file]);
    assert!(text(&compared.stdout).contains("closed loop"), "{}", text(&compared.stdout));
    let missed = load(&["-c", "1", "-n", "5", "-q", "--expect", "mismatch>0", &url]);
    assert_eq!(missed.status.code(), Some(3), "{}", text(&missed.stdout));
    let held = load(&["-c", "5", "--hold", "200ms", "-q", "--allow-lag", "--expect", "open=100%", &url]);
    let report = text(&held.stdout);
    assert_eq!(held.status.code(), Some(0), "{report}{}", text(&held.stderr));
    assert!(report.contains("5 of 5 connections opened, none lost"), "{report}");
    assert!(report.contains(&format!("target      {url} at {address}")), "{report}");
}

#[test]
fn failures_are_named_and_nothing_complete_is_a_failure() {
    let refusing = testkit::Refusing::new();
    let url = format!("tcp://{}", refusing.address());
    let refused = load(&["-c", "1", "-n", "3", "-q", &url]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stdout).contains("connection refused"), "{}", text(&refused.stdout));
    assert!(text(&refused.stderr).contains("no message was complete"), "{}", text(&refused.stderr));
    let held = load(&["-c", "1", "--hold", "50ms", "-q", &url]);
    assert_eq!(held.status.code(), Some(1));
    assert!(text(&held.stderr).contains("no connection was opened"), "{}", text(&held.stderr));
    let Origin { address, running: _running } = Origin::start(&["--tcp", "sink"]);
    let silent = load(&["-c", "1", "-n", "2", "--timeout", "300ms", "-q", "--allow-lag", &format!("tcp://{address}")]);
    assert!(text(&silent.stdout).contains("stayed silent"), "{}", text(&silent.stdout));
}

#[test]
fn flags_of_other_loads_are_refused() {
    for (words, why) in [
        (&["tcp://127.0.0.1"][..], "write tcp://HOST:PORT"),
        (&["tcp://127.0.0.1:1", "-H", "A: b"], "-H is not for tcp:// URLs"),
        (&["tcp://127.0.0.1:1", "--http2"], "--http2 is not for tcp:// URLs"),
        (&["tcp://127.0.0.1:1", "--style", "wrk"], "--style is not for tcp:// URLs"),
        (&["tcp://127.0.0.1:1", "--heartbeat", "1s"], "--heartbeat is for ws:// URLs"),
        (&["tcp://127.0.0.1:1", "--ramp", "5"], "--ramp of tcp:// URLs needs --hold"),
        (&["tcp://127.0.0.1:1", "--hold", "1s", "--size", "5"], "--size: with --hold nothing is sent"),
        (&["tcp://127.0.0.1:1", "--hold", "1s", "-n", "5"], "-n is not for tcp:// URLs with --hold"),
        (&["tcp://127.0.0.1:1", "tcp://127.0.0.1:2", "--hold", "1s"], "held connections has one URL"),
        (&["tcp://127.0.0.1:1", "http://127.0.0.1/"], "all of HTTP, or all of TCP"),
        (&["tcp://127.0.0.1:1", "--size", "0"], "used once"),
        (&["tcp://127.0.0.1:1", "--reply", "x"], "echo, none, or a number of bytes"),
        (&["http://127.0.0.1/", "--size", "5"], "--size is for tcp:// URLs"),
        (&["ws://127.0.0.1/", "--reply", "none"], "--reply is for tcp:// URLs"),
    ] {
        let refused = load(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(text(&refused.stderr).contains(why), "{words:?}: {why:?} is missing in {}", text(&refused.stderr));
    }
}
