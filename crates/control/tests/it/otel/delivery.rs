//! How spans reach the collector: batches, failures, TLS, OTLP over HTTP, the end of the process.

use super::Site;
use super::collector::Collector;
use std::time::Instant;
use testkit::{Authority, Refusing, assert_metrics_are_sound, until};

const OK: &str = "location / { return 200 OK; } location /status { otel_trace off; status_page; }";

/// A counter of spans.
fn counted(site: &Site, result: &str) -> u64 {
    let metrics = site.ask("/status?format=prometheus", "").text();
    let start = format!("holdfast_otel_spans_total{{result=\"{result}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

#[test]
fn sends_full_batches_and_drops_spans_above_the_limit() {
    let Some(collector) = Collector::start() else { return };
    let site = Site::start(collector, "interval 1h; batch_size 3; batch_count 2;", "otel_trace on;", OK, &[]);
    for number in 0..6 {
        site.ask(&format!("/{number}"), "");
    }
    let targets = |spans: Vec<serde_json::Value>| {
        spans.iter().map(|span| span["attributes"]["http.target"].to_string()).collect::<Vec<_>>()
    };
    let both = [targets(site.spans()), targets(site.spans())].concat();
    assert_eq!(both, (0..6).map(|number| format!("\"/{number}\"")).collect::<Vec<_>>());
    until("all are counted", || (counted(&site, "exported") == 6).then_some(()));
    // Asked earlier, it would be above the limit if the sender was slow to take the first batch.
    site.ask("/6", "");
    // A control plane that does not work: everything waits.
    let Site { control, gateway, collector } = site;
    // The response comes before the exchange has settled.
    until("the span waits", || gateway.shared().spans().waiting().map(drop));
    drop(control);
    assert_eq!(collector.call()["spans"].as_array().unwrap().len(), 1, "the rest is sent at the end");
    let site = Site { control: None, gateway, collector };
    for number in 0..8 {
        site.ask(&format!("/{number}"), "");
    }
    assert_eq!(counted(&site, "dropped"), 2);
    site.gateway.logged("otel: a span was dropped, too many wait for the collector");
    assert_metrics_are_sound(&site.ask("/status?format=prometheus", "").text());
}

#[test]
fn a_collector_that_is_busy_gets_the_spans_later() {
    let Some(collector) = Collector::refusing("UNAVAILABLE,RESOURCE_EXHAUSTED") else { return };
    let site = Site::quick(collector, OK, &[]);
    site.ask("/a", "");
    assert_eq!(site.span()["attributes"]["http.target"], "/a");
    until("it is counted", || (counted(&site, "exported") == 1).then_some(()));
    assert_eq!((counted(&site, "failed"), counted(&site, "dropped")), (0, 0));
}

#[test]
fn spans_that_the_collector_refuses_are_lost_and_reported() {
    let Some(collector) = Collector::refusing("INVALID_ARGUMENT,PARTIAL") else { return };
    let site = Site::quick(collector, OK, &[]);
    site.ask("/a", "");
    let line = site.gateway.logged("otel: 1 spans are lost");
    assert!(line.contains("the collector answers grpc-status 3: not now, %C3%BC, collector: 127.0.0.1:"), "{line}");
    site.ask("/b", "");
    until("the second is counted", || (counted(&site, "failed") == 2).then_some(()));
    site.ask("/c", "");
    assert_eq!(site.span()["attributes"]["http.target"], "/c");
}

#[test]
fn requests_do_not_notice_that_there_is_no_collector() {
    let Some(mut collector) = Collector::start() else { return };
    let refusing = Refusing::new();
    collector.endpoint = refusing.address().to_string();
    let site = Site::quick(collector, OK, &[]);
    for number in 0..20 {
        assert_eq!(site.ask(&format!("/{number}"), "").status(), 200);
    }
    let began = Instant::now();
    let Site { control, gateway, .. } = site;
    drop(control);
    assert!(began.elapsed().as_secs() < 10, "the end waits no longer than it may");
    gateway.logged("spans were not sent before the end");
}

#[test]
fn queued_spans_are_sent_at_exit() {
    let Some(collector) = Collector::start() else { return };
    let site = Site::start(collector, "interval 1h;", "otel_trace on;", OK, &[]);
    site.ask("/last", "");
    let Site { control, gateway, collector } = site;
    // The response comes before the exchange has settled.
    until("the span waits", || gateway.shared().spans().waiting().map(drop));
    drop(control);
    assert_eq!(collector.call()["spans"][0]["attributes"]["http.target"], "/last");
    drop(gateway);
}

#[test]
fn verifies_the_collector_and_sends_configured_fields() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("Test");
    authority.issue(&["localhost"]).write(folder.path(), "pair");
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, authority.pem()).unwrap();
    let pair = ["pair.key", "pair.crt"].map(|name| folder.path().join(name));
    let endpoint = |port| format!("https://localhost:{port}");
    let Some(collector) = Collector::with("grpc", "", &pair, endpoint) else { return };
    let exporter = format!("interval 20ms; header X-API-Token t0ken; trusted_certificate {};", file.display());
    let site = Site::start(collector, &exporter, "otel_trace on;", OK, &[]);
    site.ask("/a", "");
    let call = site.collector.call();
    assert_eq!((&call["fields"]["x-api-token"], &call["spans"][0]["name"]), (&"t0ken".into(), &"/".into()));
    assert!(call["fields"]["user-agent"].as_str().unwrap().starts_with("holdfast/"));

    let Some(collector) = Collector::with("grpc", "", &pair, endpoint) else { return };
    let other = Authority::new("Other");
    std::fs::write(&file, other.pem()).unwrap();
    let site = Site::start(collector, &exporter, "otel_trace on;", OK, &[]);
    site.ask("/a", "");
    let Site { control, gateway, collector } = site;
    drop(control);
    assert!(!collector.has_more(), "its certificate is not of that authority");
    drop(gateway);
}

#[test]
fn url_with_a_path_selects_otlp_over_http() {
    let endpoint = |port| format!("http://127.0.0.1:{port}/v1/traces");
    let Some(collector) = Collector::with("http", "503", &[], endpoint) else { return };
    let site = Site::start(collector, "interval 20ms; header X-Key k;", "otel_trace on;", OK, &[]);
    site.ask("/a", "");
    let call = site.collector.call();
    assert_eq!((&call["fields"]["path"], &call["fields"]["x-key"]), (&"/v1/traces".into(), &"k".into()));
    assert_eq!(call["fields"]["content-type"], "application/x-protobuf");
    assert_eq!(call["spans"][0]["attributes"]["http.target"], "/a");
}

#[test]
fn a_reload_changes_the_collector_and_turns_tracing_off() {
    let (Some(first), Some(second)) = (Collector::start(), Collector::start()) else { return };
    let text = |exporter: &str, trace: &str| {
        format!(
            "events {{}} http {{ access_log off; {exporter} otel_trace {trace}; server {{ listen {{listen}}; {OK} }} }}"
        )
    };
    let exporter =
        |collector: &Collector| format!("otel_exporter {{ endpoint {}; interval 20ms; }}", collector.endpoint);
    let mut site = Site::quick(first, OK, &[]);
    site.ask("/a", "");
    assert_eq!(site.span()["attributes"]["http.target"], "/a");
    site.gateway.reload(&text(&exporter(&second), "on"));
    until("the second gets one", || {
        site.ask("/b", "");
        second.has_more().then_some(())
    });
    site.gateway.reload(&text("", "on"));
    let before = counted(&site, "exported");
    until("none is recorded", || {
        let before = counted(&site, "exported");
        site.ask("/c", "");
        std::thread::yield_now();
        (counted(&site, "exported") == before).then_some(())
    });
    assert!(counted(&site, "exported") >= before);
    assert!(!site.collector.has_more());
}
