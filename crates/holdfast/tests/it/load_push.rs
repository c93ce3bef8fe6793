//! Metrics of a load in servers that store them: Prometheus by remote write, `VictoriaMetrics` by the line protocol
//! of `InfluxDB`, OpenTelemetry's collector by OTLP. The servers are real.

use crate::monitoring::ask;
use crate::support::load::{origin, text};
use crate::support::{holdfast, until};
use serde_json::Value;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::{Peer, Running, free_port, peer_program};

/// A load of a hundred requests with these flags.
fn load(target: &str, flags: &[&str]) -> Output {
    let words = ["load", "-n", "100", "-c", "2", "--interval", "100ms", "-q", "--allow-lag", "--label", "run=a b"];
    holdfast().args(words).args(flags).arg(target).stdin(Stdio::null()).output().expect("it starts")
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// The single value of a query.
fn value(port: u16, query: &str) -> Option<f64> {
    let found = ask(port, query).ok()?;
    let [one] = found.as_slice() else { return None };
    one["value"][1].as_str()?.parse().ok()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn prometheus_takes_remote_writes() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    let configuration = folder.path().join("prometheus.yml");
    std::fs::write(&configuration, "global: {}\n").expect("written");
    let mut command = Command::new(peer_program("prometheus"));
    command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .args(["--web.enable-remote-write-receiver", "--log.level=error"]);
    let _prometheus = Running::start(&mut command);
    until("Prometheus listens", || listens(port));
    let origin = origin();
    let url = format!("http://127.0.0.1:{port}");
    // It answers before it is ready to store.
    until("Prometheus is ready", || ask(port, "vector(1)").is_ok());
    succeeded(&load(&format!("http://{}/", origin.address()), &["--remote-write", &url]));
    let requests = r#"holdfast_load_requests_total{run="a b",job="holdfast_load"}"#;
    until("the last sample is stored", || value(port, requests) == Some(100.0));
    assert_eq!(value(port, r#"holdfast_load_responses_total{status="200"}"#), Some(100.0));
    assert_eq!(value(port, "holdfast_load_latency_seconds_count"), Some(100.0));
    assert!(value(port, r#"holdfast_load_latency_seconds{quantile="0.99"}"#).is_some());
}

#[test]
fn victoria_metrics_takes_lines_of_influxdb() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    let mut command = Command::new(peer_program("victoria-metrics"));
    command
        .arg(format!("-storageDataPath={}", folder.path().display()))
        .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
        .args(["-search.latencyOffset=0s", "-loggerLevel=ERROR"]);
    let _metrics = Running::listening(&mut command, ([127, 0, 0, 1], port));
    let origin = origin();
    let url = format!("http://127.0.0.1:{port}/write?db=tests");
    succeeded(&load(&format!("http://{}/", origin.address()), &["--influx", &url]));
    // It names a series after its measurement and its field, and shows new samples after a second or two.
    let requests = r#"holdfast_load_requests_total_value{run="a b",db="tests"}"#;
    until("the last sample is stored", || value(port, requests) == Some(100.0));
    until("the fields of a summary are stored", || value(port, "holdfast_load_latency_seconds_count") == Some(100.0));
    assert!(value(port, r#"{__name__="holdfast_load_latency_seconds_p99"}"#).is_some());
}

/// The metrics that the collector has passed on to the sink, by name.
fn passed_on(sink: &Peer, name: &str) -> Vec<(Value, Value)> {
    let mut found = Vec::new();
    for (_, request) in sink.requests() {
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else { continue };
        for of_resource in body["resourceMetrics"].as_array().into_iter().flatten() {
            for scope in of_resource["scopeMetrics"].as_array().into_iter().flatten() {
                let metrics = scope["metrics"].as_array().into_iter().flatten();
                let named = metrics.filter(|metric| metric["name"] == name);
                found.extend(named.map(|metric| (of_resource["resource"].clone(), metric.clone())));
            }
        }
    }
    found
}

fn collector(folder: &Path, sink: &Peer) -> (Running, u16) {
    let port = free_port();
    let configuration = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: \"127.0.0.1:{port}\"}}}}}}}}\n\
         exporters: {{otlp_http: {{endpoint: \"http://{}\", encoding: json, compression: none}}}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}\n  \
         pipelines: {{metrics: {{receivers: [otlp], exporters: [otlp_http]}}}}\n",
        sink.address()
    );
    let file = folder.join("collector.yaml");
    std::fs::write(&file, configuration).expect("written");
    let mut command = Command::new(peer_program("otelcol"));
    (Running::listening(command.arg("--config").arg(&file), ([127, 0, 0, 1], port)), port)
}

#[test]
fn the_collector_takes_otlp() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let sink = Peer::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".to_vec()
    });
    let (_collector, port) = collector(folder.path(), &sink);
    let origin = origin();
    let url = format!("http://127.0.0.1:{port}");
    succeeded(&load(&format!("http://{}/", origin.address()), &["--otlp", &url]));
    let last = |name: &str| passed_on(&sink, name).pop();
    until("the requests come", || {
        last("holdfast_load_requests_total")
            .is_some_and(|(_, metric)| metric["sum"]["dataPoints"][0]["asDouble"] == 100.0)
    });
    let (resource, requests) = last("holdfast_load_requests_total").expect("it came");
    assert_eq!(
        (&requests["sum"]["isMonotonic"], &requests["sum"]["aggregationTemporality"]),
        (&true.into(), &2.into())
    );
    let attributes = resource["attributes"].as_array().expect("a list");
    let attribute =
        |name: &str| attributes.iter().find(|one| one["key"] == name).map(|one| &one["value"]["stringValue"]);
    assert_eq!((attribute("service.name"), attribute("run")), (Some(&"holdfast-load".into()), Some(&"a b".into())));
    let (_, latency) = last("holdfast_load_latency_seconds").expect("it came");
    let point = &latency["summary"]["dataPoints"][0];
    assert_eq!((&point["count"], &latency["unit"]), (&"100".into(), &"s".into()), "{latency}");
    assert_eq!(point["quantileValues"].as_array().map(Vec::len), Some(4), "{latency}");
}

#[test]
fn a_server_that_does_not_accept_metrics_is_named() {
    let origin = origin();
    let target = format!("http://{}/", origin.address());
    let refusing = Peer::saying("HTTP/1.1 400 Bad\r\nContent-Length: 13\r\n\r\nout of bounds");
    let url = format!("http://{}/api/v1/write", refusing.address());
    let output = load(&target, &["--remote-write", &url, "--push-header", "Authorization: Bearer t"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains(&format!("remote write to {url}: ")) && error.contains("status 400: out of bounds"),
        "{error}"
    );
    assert!(text(&output.stdout).contains("100 answered"), "the report comes all the same");
    let (_, request) = refusing.requests().pop().expect("a request came");
    assert_eq!((request.value("Authorization"), request.value("Content-Encoding")), (Some("Bearer t"), Some("snappy")));
    let closed = format!("http://127.0.0.1:{}/v1/metrics", free_port());
    let output = load(&target, &["--otlp", &closed]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("OTLP to") && error.contains("connecting to 127.0.0.1"), "{error}");
}

#[test]
fn flags_of_servers_are_checked() {
    for (flag, word) in [
        ("--remote-write", "127.0.0.1:9090"),
        ("--label", "a-b=c"),
        ("--label", "a="),
        ("--push-header", "no colon"),
        ("--otlp", "https://user@host/"),
    ] {
        let output = load("http://127.0.0.1:9/", &[flag, word]);
        assert_eq!(output.status.code(), Some(2), "{flag} {word}: {}", text(&output.stderr));
    }
}
