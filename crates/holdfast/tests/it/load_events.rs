//! `holdfast load --sse` as a process: against the origin, through our gateway and through nginx; its output, its files and
//! its exit codes. No test here asserts a speed.

use crate::load_websocket::{figures, load, nginx};
use crate::support::Instance;
use crate::support::load::{Origin, text};
use serde_json::Value;
use std::fs;

/// Streams that end after five events and are opened again, without a lost or repeated event.
fn listen(address: &str) {
    let url = format!("http://{address}/events?every=10&count=5");
    let words = [
        "--sse",
        "-c",
        "10",
        "--hold",
        "3s",
        "--reconnect",
        "1ms..20ms",
        "--event-time",
        "/sent_us",
        "--event-sequence",
        "--drain",
        "20s",
        &url,
    ];
    let figures = figures(&words);
    assert_eq!((&figures["protocol"], &figures["lost"], &figures["surplus"]), (&"events".into(), &0.into(), &0.into()));
    assert!(figures["resumed"].as_u64() > Some(0) && figures["endings"]["complete"].as_u64() > Some(0), "{figures}");
    assert_eq!(figures["delivery"]["count"], figures["delivered"], "{figures}");
    assert!(figures["between"]["count"].as_u64() > Some(0) && figures["delivered"].as_u64() >= Some(50), "{figures}");
}

#[test]
fn events_come_through_a_gateway_of_ours() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let server = format!("server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://{address}; }} }}");
    let mut gateway = Instance::new("", &server);
    gateway.start();
    listen(&format!("127.0.0.1:{}", gateway.port));
}

#[test]
fn events_come_through_nginx() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let location = format!("proxy_http_version 1.1; proxy_buffering off; proxy_pass http://{address};");
    let (_nginx, port) = nginx(folder.path(), &location);
    listen(&format!("127.0.0.1:{port}"));
}

#[test]
fn the_report_has_events_and_thresholds() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let page = folder.path().join("page.html");
    let url = format!("http://{address}/events?every=1&count=5");
    let page_path = page.display().to_string();
    let words = ["--sse", "-c", "4", "--hold", "2s", "--html", &page_path, "--expect", "events=20", &url];
    let output = load(&words);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}{}", text(&output.stderr));
    for line in ["events      20 received", "ended       4: ended by the target: its response is complete", "between"] {
        assert!(report.contains(line), "{line}: {report}");
    }
    assert!(fs::read_to_string(&page).expect("written").contains("20 events"));
    let failed = load(&[&words[..7], &["--expect", "complete=0", &url]].concat());
    assert_eq!(failed.status.code(), Some(3), "{}", text(&failed.stdout));
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let url = "http://127.0.0.1:9/";
    for (words, message) in [
        (&["--sse", "-R", "5/s", url][..], "cannot be used with"),
        (&["--event-sequence", url][..], "--sse"),
        (&["--sse", "--event-time", "soon", url][..], "JSON pointer"),
        (&["--sse", "ws://127.0.0.1:9/"][..], "--sse is for http:// URLs"),
        (&["--sse", "-H", "Accept: text/html", url][..], "Accept"),
        (&["--sse", "--compress", "gzip", url][..], "--compress is not for"),
    ] {
        let output = load(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(message), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn processes_share_the_streams() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let url = format!("http://{address}/events?every=20");
    let figures: Value = figures(&["--sse", "-c", "8", "-t", "2", "--processes", "2", "--hold", "1s", &url]);
    assert_eq!((&figures["processes"], &figures["established"], &figures["losses"]), (&2.into(), &8.into(), &0.into()));
    assert!(figures["delivered"].as_u64() > Some(8), "{figures}");
}
