//! `holdfast load` and the kernel's view of its sockets: states, the side that closed first, closed windows. In every
//! form of the report and during the run.

use crate::support::load::{load, start, text};
use crate::support::until;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn origin(options: origin::Options) -> origin::Running {
    origin::Origin::bind(options).and_then(origin::Origin::start).expect("it starts")
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_string_lossy().into_owned()
}

fn json(file: &str) -> Value {
    serde_json::from_slice(&fs::read(file).expect("written")).expect("it is JSON")
}

#[test]
fn every_form_of_the_report_has_the_sockets() {
    let origin = origin(origin::Options::default());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let [csv, html, figures] = ["a.csv", "a.html", "a.json"].map(|name| path(folder.path(), name));
    let url = format!("http://{}/delay/5", origin.address());
    let words =
        ["-q", "-d", "700ms", "-c", "5", "--interval", "100ms", "--csv", &csv, "--html", &html, "--json", &figures];
    let output = load(&[words.as_slice(), &["--allow-lag", &url]].concat());
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("tcp         at most ") && said.contains("ESTABLISHED 5"), "{said}");
    let sockets = &json(&figures)["sockets"];
    assert_eq!(sockets["most"]["ESTABLISHED"].as_u64(), Some(5), "{sockets}");
    // The load closed its kept connections at its end, and no peer closed before.
    assert_eq!(sockets["end"]["closed_first_by_load"].as_u64(), Some(5), "{sockets}");
    assert_eq!(sockets["end"]["states"]["ESTABLISHED"].as_u64(), None, "{sockets}");
    // The number of readings depends on the machine; a busy one has few.
    assert!(sockets["over_time"].as_array().is_some_and(|looks| !looks.is_empty()), "{sockets}");
    let table = fs::read_to_string(&csv).expect("written");
    let (heading, row) = (table.lines().next().expect("a heading"), table.lines().nth(2).expect("a row"));
    assert!(heading.ends_with(",window_zero,unread"), "{heading}");
    assert_eq!(heading.matches(',').count(), row.matches(',').count(), "{table}");
    let page = fs::read_to_string(&html).expect("written");
    for words in ["Sockets by state", "Who closed first", "Segments sent again", "Percentile spectrum"] {
        assert!(page.contains(words), "no `{words}`");
    }
    let without = load(&["-q", "-n", "5", "--no-sockets", "--csv", &csv, &url]);
    assert!(without.status.success() && !text(&without.stdout).contains("tcp  "), "{}", text(&without.stdout));
    assert!(fs::read_to_string(&csv).expect("written").lines().next().is_some_and(|line| line.ends_with("cpu_s")));
}

#[test]
fn distinguishes_targets_that_close_first() {
    let origin = origin(origin::Options::default());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let figures = path(folder.path(), "a.json");
    let url = format!("http://{}/", origin.address());
    let output = load(&["-q", "-n", "60", "-c", "3", "--no-keepalive", "--json", &figures, "--allow-lag", &url]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let sockets = &json(&figures)["sockets"];
    let of = |side: &str| sockets["end"][format!("closed_first_by_{side}")].as_u64().expect("a count");
    // The last connection of each of the three may still be open at the final reading. A load that has read the last
    // byte before the target's FIN arrives closes at the same time, or first.
    let all = of("target") + of("unknown") + of("load");
    assert!((57..=60).contains(&all) && of("target") > all * 3 / 4, "{sockets}");
}

#[test]
fn a_target_that_does_not_read_shows_its_window() {
    let origin = origin(origin::Options { silent: true, ..origin::Options::default() });
    let folder = tempfile::tempdir().expect("a temporary directory");
    let [figures, body] = ["a.json", "body"].map(|name| path(folder.path(), name));
    fs::write(&body, vec![b'x'; 30_000_000]).expect("written");
    let url = format!("http://{}/", origin.address());
    let words = ["-q", "-n", "2", "-c", "2", "--body-file", &body, "--timeout", "1500ms", "--interval", "100ms"];
    let output = load(&[words.as_slice(), &["--json", &figures, &url]].concat());
    assert_eq!(output.status.code(), Some(1), "no request was answered: {}", text(&output.stdout));
    assert!(text(&output.stdout).contains("the target accepts and does not read"), "{}", text(&output.stdout));
    let sockets = &json(&figures)["sockets"];
    assert_eq!(sockets["window_zero_most"].as_u64(), Some(2), "{sockets}");
}

#[test]
fn metrics_can_be_scraped_while_it_runs() {
    let origin = origin(origin::Options::default());
    let url = format!("http://{}/delay/5", origin.address());
    let load = start(&["-q", "-d", "1h", "-c", "4", "--interval", "100ms", "--listen", "127.0.0.1:0", &url]);
    let line = load.wait_for_error("");
    let address = line.strip_prefix("holdfast load: metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    let ask = || testkit::fetch(&address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the page has the sockets of an interval", || {
        ask().is_ok_and(|response| {
            let page = response.text();
            page.contains("holdfast_load_sockets{state=\"ESTABLISHED\"} 4\n")
                && page.contains("holdfast_load_responses_total{status=\"200\"} ")
                && page.contains("holdfast_load_latency_seconds{quantile=\"0.99\"} ")
        })
    });
}
