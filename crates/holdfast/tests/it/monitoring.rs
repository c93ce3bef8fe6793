//! The files for Prometheus and Grafana in `packaging/`: the rules are valid and each alert fires in its situation. A
//! real Prometheus that reads a gateway, `watch` and `load` answers every query of the dashboards and of the rules.

use crate::support::{Instance, holdfast, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use testkit::{Peer, Running, free_port, peer_program};

/// Metrics that are absent without a problem: an expression over them has no result then.
const ABSENT_WHILE_WELL: [&str; 1] = ["holdfast_ports_exhausted_in_seconds"];

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

fn promtool(words: &[&str]) -> Output {
    Command::new(peer_program("promtool"))
        .current_dir(packaging("prometheus"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("promtool starts")
}

/// The values of `key` at the beginning of lines in the rules.
fn rules(key: &str) -> Vec<String> {
    let text = fs::read_to_string(packaging("prometheus/holdfast.rules.yml")).expect("readable");
    let values = text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key));
    values.map(|value| value.trim().to_owned()).collect()
}

#[test]
fn each_alert_fires_in_its_situation_and_has_a_page() {
    for words in [["check", "rules", "holdfast.rules.yml"], ["test", "rules", "holdfast.test.yml"]] {
        let output = promtool(&words);
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
    let tests = fs::read_to_string(packaging("prometheus/holdfast.test.yml")).expect("readable");
    let alerts = rules("alert:");
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in &alerts {
        let situation = tests.split("  - name: ").find(|part| part.lines().next() == Some(alert));
        let situation = situation.unwrap_or_else(|| panic!("no situation fires {alert}"));
        assert!(situation.contains("exp_labels"), "{alert} is not expected to fire in its own situation");
    }
    let pages = rules("runbook:");
    assert_eq!(pages.len(), alerts.len());
    for page in pages {
        assert!(packaging("../docs/guide").join(&page).is_file(), "{page} is not there");
    }
}

/// Prometheus' answer to an instant query: the vector, or the error.
pub(crate) fn ask(prometheus: u16, query: &str) -> Result<Vec<Value>, String> {
    let mut body = String::from("query=");
    for byte in query.bytes() {
        let _ = write!(body, "%{byte:02X}");
    }
    let request = format!(
        "POST /api/v1/query HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let response = testkit::fetch(("127.0.0.1", prometheus), request).map_err(|error| error.to_string())?;
    let body = response.text();
    let value: Value = serde_json::from_str(&body).map_err(|error| format!("{error}: {}", response.whole_text()))?;
    match value["data"]["result"].as_array() {
        Some(result) if value["status"] == "success" => Ok(result.clone()),
        _ => Err(body),
    }
}

/// All queries of the dashboards with their position, in the form that Grafana sends.
fn queries() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(packaging("grafana")).expect("readable") {
        let path = entry.expect("readable").path();
        let dashboard: Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("readable")).expect("a dashboard is JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            for target in panel["targets"].as_array().expect("targets") {
                let query = target["expr"].as_str().expect("a query");
                let query = ["instance", "group"]
                    .iter()
                    .fold(query.to_owned(), |query, name| query.replace(&format!("${name}"), ".*"));
                let query = query.replace("$__rate_interval", "15s");
                assert!(!query.contains('$'), "{query}");
                found.push((format!("{}: {}", path.display(), panel["title"]), query));
            }
        }
    }
    assert!(found.len() > 50, "{} queries", found.len());
    found
}

/// Metrics that a query names and Prometheus does not have.
fn unknown_metrics(prometheus: u16, query: &str) -> Vec<String> {
    let words = query.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    let metrics: BTreeSet<&str> = words.filter(|word| word.starts_with("holdfast_")).collect();
    let unknown = metrics.into_iter().filter(|name| !ABSENT_WHILE_WELL.contains(name));
    unknown.filter(|name| ask(prometheus, name).is_ok_and(|found| found.is_empty())).map(str::to_owned).collect()
}

/// Prometheus with the rules; it reads these ports every second.
fn prometheus_reading(jobs: &[(&str, u16)], folder: &Path, port: u16) -> Command {
    let rules = packaging("prometheus/holdfast.rules.yml");
    let mut text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n",
        rules.display()
    );
    for (name, port) in jobs {
        let _ = writeln!(text, "  - job_name: {name}\n    static_configs: [{{targets: ['127.0.0.1:{port}']}}]");
    }
    let configuration = folder.join("prometheus.yml");
    fs::write(&configuration, text).expect("written");
    let mut command = Command::new(peer_program("prometheus"));
    command.arg(format!("--config.file={}", configuration.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.args([&format!("--web.listen-address=127.0.0.1:{port}"), "--log.level=error"]);
    command
}

#[test]
fn the_status_page_has_the_last_errors_with_their_cause() {
    let dead = free_port();
    let mut gateway = Instance::new(
        "",
        &format!(
            "server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://127.0.0.1:{dead}; }} location /status {{ status_page; }} }}"
        ),
    );
    gateway.start();
    assert!(gateway.fetch("/lost").is_ok_and(|text| text.contains("502 Bad Gateway")));
    until("the error is listed", || {
        let Ok(text) = gateway.fetch("/status?format=json") else { return false };
        let json = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        let Ok(status) = serde_json::from_str::<Value>(&json) else { return false };
        let error = &status["errors"][0];
        let has = |field: &str, part: &str| error[field].as_str().is_some_and(|text| text.contains(part));
        has("line", "connect() failed (111: Connection refused)") && has("line", "GET /lost") && has("meaning", " ")
    });
}

#[test]
fn prometheus_scrapes_native_histograms() {
    let origin = Peer::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let mut gateway = Instance::new(
        "",
        &format!(
            "upstream app {{ server {}; }} server {{ listen 127.0.0.1:PORT; server_name shop; location / {{ proxy_pass http://app; }} \
             location /metrics {{ status_page; }} }}",
            origin.address()
        ),
    );
    gateway.start();
    let (prometheus, folder, mut running) = (free_port(), tempfile::tempdir().expect("a directory"), Vec::new());
    let jobs = [("holdfast", gateway.port)];
    running.push(Running::start(
        prometheus_reading(&jobs, folder.path(), prometheus).arg("--enable-feature=native-histograms"),
    ));
    for path in ["/a", "/b", "/c"] {
        assert!(gateway.fetch(path).is_ok_and(|text| text.contains("200 OK")));
    }
    let one = |query: &str| {
        let found = ask(prometheus, query).ok()?;
        found.first()?["value"][1].as_str()?.parse::<f64>().ok()
    };
    let count = "sum(histogram_count(holdfast_location_duration_seconds{server=\"shop\", location=\"/\"}))";
    until("three requests are counted", || one(count).is_some_and(|count| count >= 3.0));
    // The buckets of a native histogram come without series of their own.
    assert!(one("holdfast_location_duration_seconds_bucket").is_none());
    let median =
        one("histogram_quantile(0.5, holdfast_location_duration_seconds{location=\"/\"})").expect("a quantile");
    assert!((0.0..5.0).contains(&median), "{median}");
    assert_eq!(one("histogram_count(holdfast_peer_response_duration_seconds)"), Some(3.0));
    assert!(one("up").is_some_and(|up| up > 0.0));
}

#[test]
fn a_real_prometheus_answers_every_query() {
    let origin = Peer::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let dead = free_port();
    let mut gateway = Instance::new(
        "memory_budget 64m;",
        // Few requests per connection: closes and their reasons appear at once.
        &format!(
            "proxy_cache_path cache keys_zone=pages:1m;\n\
             upstream app {{ server {}; server 127.0.0.1:{dead}; keepalive 8; keepalive_requests 20; health_check interval=500ms uri=/; }}\n\
             server {{ listen 127.0.0.1:PORT; keepalive_requests 20; location / {{ proxy_pass http://app; }} location /metrics {{ status_page; }} }}",
            origin.address()
        ),
    );
    gateway.start();
    let (watch, load, prometheus) = (free_port(), free_port(), free_port());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut running = Vec::new();
    let port = gateway.port.to_string();
    running.push(Running::start(holdfast().args([
        "watch",
        "--plain",
        "--port",
        &port,
        "--listen",
        &format!("127.0.0.1:{watch}"),
    ])));
    running.push(Running::start(
        holdfast()
            .args(["load", "--quiet", "--allow-lag", "-c", "4", "-d", "120s", "-R", "200/s"])
            .args(["--listen", &format!("127.0.0.1:{load}")])
            .arg(format!("http://127.0.0.1:{port}/")),
    ));
    let jobs = [("holdfast", gateway.port), ("watch", watch), ("load", load)];
    running.push(Running::start(&mut prometheus_reading(&jobs, folder.path(), prometheus)));
    until("Prometheus has read all three twice", || {
        ask(prometheus, "min(count_over_time(up[1m]) and up == 1) >= 3 and count(up == 1) == 3")
            .is_ok_and(|found| found.len() == 1)
    });

    let mut unanswered = Vec::new();
    for (place, query) in queries() {
        // Rates need two samples of every metric; the slowest exporter has them last.
        let mut answer = ask(prometheus, &query);
        let begun = std::time::Instant::now();
        while answer.as_ref().is_ok_and(Vec::is_empty) && begun.elapsed() < Duration::from_secs(5) {
            std::thread::park_timeout(Duration::from_millis(200));
            answer = ask(prometheus, &query);
        }
        match answer {
            Ok(found) if found.is_empty() => unanswered.push(format!("{place}: nothing for {query}")),
            Ok(_) => {}
            Err(error) => unanswered.push(format!("{place}: {query}: {error}")),
        }
    }
    for query in rules("expr:") {
        match ask(prometheus, &query) {
            Ok(_) => unanswered
                .extend(unknown_metrics(prometheus, &query).iter().map(|name| format!("no metric {name} for {query}"))),
            Err(error) => unanswered.push(format!("{query}: {error}")),
        }
    }
    assert!(unanswered.is_empty(), "{}", unanswered.join("\n"));
}
