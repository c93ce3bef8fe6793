//! `holdfast load` as a process, against `holdfast origin`: its output, its files, and its exit codes. No test here
//! asserts a speed.

use crate::support::load::{Origin, load, start, text};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};

#[test]
fn a_report_names_everything_and_files_hold_the_figures() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let url = origin.url("/?n={{counter}}");
    let html = file("a.html");
    let (json, csv, hgrm, metrics) = (file("a.json"), file("a.csv"), file("a.hgrm"), file("a.prom"));
    let output = load(&[
        "-n",
        "500",
        "-c",
        "4",
        "-H",
        "X-A: b",
        &url,
        "--json",
        &json,
        "--csv",
        &csv,
        "--hgrm",
        &hgrm,
        "--prometheus",
        &metrics,
        "--expect",
        "responses=500",
        "--expect",
        "errors<0.1%",
        "--html",
        &html,
    ]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for words in ["closed loop", "500 begun, 500 answered, 0 failed", "raw    corrected", "met     responses=500"] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    assert!(text(&output.stderr).contains("responses/s"), "progress as plain lines: {}", text(&output.stderr));
    let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
    assert_eq!((results["responses"].as_u64(), results["statuses"]["200"].as_u64()), (Some(500), Some(500)));
    let histogram = results["latency"]["histogram"].as_array().expect("a histogram");
    let count: u64 = histogram.iter().map(|pair| pair[1].as_u64().expect("a count")).sum();
    assert_eq!(count, 500, "the histogram is complete");
    let page = fs::read_to_string(&html).expect("written");
    assert!(
        page.starts_with("<!doctype html>") && page.contains("Percentile spectrum") && page.contains("responses=500")
    );
    assert!(fs::read_to_string(&csv).expect("written").lines().count() >= 2);
    assert!(fs::read_to_string(&hgrm).expect("written").contains("Total count    =          500"));
    assert!(fs::read_to_string(&metrics).expect("written").contains("responses_total{status=\"200\"} 500"));
}

#[test]
fn exit_codes_distinguish_errors() {
    let origin = Origin::start(&[]);
    let url = origin.url("/status/503");
    let missed = load(&["-q", "-n", "5", "-c", "1", &url, "--allow-lag", "--expect", "5xx=0"]);
    assert_eq!(missed.status.code(), Some(3), "{}", text(&missed.stdout));
    assert!(text(&missed.stdout).contains("FAILED  5xx=0: measured 5 of 5"), "{}", text(&missed.stdout));
    let unmeant = load(&["-q", "-n", "5", &url, "--expect", "p99<fast"]);
    assert_eq!(unmeant.status.code(), Some(2), "{}", text(&unmeant.stderr));
    let insecure = load(&["-q", "--insecure", &url]);
    assert_eq!(insecure.status.code(), Some(2), "{}", text(&insecure.stderr));
    assert!(text(&insecure.stderr).contains("--insecure is for https://"), "{}", text(&insecure.stderr));
    let refusing = testkit::Refusing::new();
    let nobody = load(&["-q", "-n", "3", &format!("http://{}/", refusing.address())]);
    assert_eq!(nobody.status.code(), Some(1), "{}", text(&nobody.stdout));
    assert!(text(&nobody.stdout).contains("connection refused"), "the summary comes all the same");
    let nameless = load(&["-q", "-n", "3", "http://nothing.invalid/"]);
    assert_eq!(nameless.status.code(), Some(1));
    assert!(text(&nameless.stderr).contains("`nothing.invalid` cannot be resolved"), "{}", text(&nameless.stderr));
    let full = load(&["-q", "-n", "3", &url, "--json", "/dev/full", "--allow-lag"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(text(&full.stdout).contains("503: 3"), "a full disk does not take the report away");
    let nowhere = load(&["-q", "-n", "3", &url, "--json", "/nowhere/a.json"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stdout).is_empty(), "a wrong path is known before the load");
}

#[test]
fn an_interrupt_ends_the_run_with_its_summary() {
    let origin = Origin::start(&[]);
    let load = start(&["-d", "1h", "-c", "2", "--interval", "100ms", &origin.url("/delay/20")]);
    // The plan, then the first interval.
    load.wait_for_error("responses/s");
    load.signal(Signal::SIGINT);
    let ended = load.end();
    ended.assert_code(0);
    let said = ended.stdout;
    assert!(said.contains("stopped by hand") && said.contains("cut off"), "{said}");
}

#[test]
fn other_tools_words_are_spoken() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    let wrk = text(&load(&["-q", "-n", "100", "-c", "2", "--style", "wrk", &url]).stdout);
    assert!(wrk.contains("Latency Distribution") && wrk.contains("100 requests in"), "{wrk}");
    let siege = text(&load(&["-q", "-n", "100", "-c", "2", "--style", "siege", &url]).stdout);
    assert!(siege.contains("Availability:") && siege.contains("100.00 %"), "{siege}");
    let k6 = text(&load(&["-q", "-n", "100", "-c", "2", "--style", "k6", &url]).stdout);
    assert!(k6.contains("http_req_failed....................: 0.00% ") && k6.contains("0 out of 100"), "{k6}");
}

#[test]
fn abs_command_line_gives_abs_report() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let body = folder.path().join("body");
    fs::write(&body, "a=b").expect("written");
    let body = body.to_string_lossy();
    let url = origin.url("/?id=ab");
    let output =
        load(&["ab", "-n", "60", "-c", "3", "-k", "-p", &body, "-T", "text/x", "-H", "X-A: b", "-l", "-q", &url]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for words in [
        "Server Software:        holdfast-origin",
        "Document Path:          /?id=ab",
        "Document Length:        Variable",
        "Concurrency Level:      3",
        "Complete requests:      60",
        "Failed requests:        0",
        "Keep-Alive requests:    60",
        "Connection Times (ms)",
    ] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

#[test]
fn two_runs_are_compared_with_intervals() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let files = ["a.json", "b.json"].map(|name| folder.path().join(name).to_string_lossy().into_owned());
    for (file, path) in files.iter().zip(["/", "/delay/20"]) {
        let words = ["-q", "-d", "1200ms", "-c", "2", "--interval", "100ms", "--json", file, &origin.url(path)];
        assert_eq!(load(&words).status.code(), Some(0));
    }
    let [a, b] = &files;
    let said = text(&load(&["compare", a, b]).stdout);
    let row = said.lines().find(|line| line.starts_with("p50")).expect("a row for p50");
    assert!(row.contains("B is higher"), "{said}");
    let same = text(&load(&["compare", a, a]).stdout);
    assert!(same.lines().filter(|line| line.contains("no difference shown")).count() >= 4, "{same}");
    let wrong = load(&["compare", a, "/dev/null"]);
    assert_eq!(wrong.status.code(), Some(1));
}

#[test]
fn compares_runs_with_exit_codes_for_ci() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (before, junit) = (file("before.json"), file("junit.xml"));
    let words = ["-q", "-d", "1200ms", "-c", "2", "--interval", "100ms"];
    let run = |path: &str, more: &[&str]| load(&[&words[..], more, &[&origin.url(path)]].concat());
    assert_eq!(run("/delay/10", &["--json", &before]).status.code(), Some(0));
    // Far worse, far better, and about the same within a wide tolerance.
    let slow = run("/delay/40", &["--baseline", &before, "--junit", &junit]);
    let said = text(&slow.stdout);
    assert_eq!(slow.status.code(), Some(3), "{said}{}", text(&slow.stderr));
    assert!(said.contains("p50 \u{2264} 1.05 \u{d7} baseline"), "{said}");
    let verdicts = fs::read_to_string(&junit).expect("written");
    assert!(
        verdicts.contains("<failure message=\"") && verdicts.contains("p50 \u{2264} 1.05 \u{d7} baseline"),
        "{verdicts}"
    );
    assert!(verdicts.contains("name=\"the load ran to its end\" time=\"0\"/>"), "{verdicts}");
    assert_eq!(run("/", &["--baseline", &before, "--tolerance", "0%", "--allow-lag"]).status.code(), Some(0));
    assert_eq!(run("/delay/10", &["--baseline", &before, "--tolerance", "900%"]).status.code(), Some(0));
    // A run that is too short decides nothing.
    let short = load(&["-q", "-n", "20", "-c", "2", "--baseline", &before, &origin.url("/delay/10")]);
    assert_eq!(short.status.code(), Some(4), "{}", text(&short.stdout));
    let missing = load(&["-q", "-n", "1", "--baseline", &file("none.json"), &origin.url("/")]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("--baseline: "), "{}", text(&missing.stderr));
}

#[test]
fn forms_are_uploaded_with_their_files() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("cat.png");
    fs::write(&file, [0x89, b'P', 0, 255]).expect("written");
    let picture = format!("picture=@{};type=image/png", file.display());
    let words =
        ["-q", "-n", "5", "-c", "1", "-F", "who=me", "-F", &picture, "--expect", "errors<0.1%", &origin.url("/echo")];
    let output = load(&words);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let missing = load(&["-q", "-n", "1", "-F", "a=@none", &origin.url("/echo")]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
}

#[test]
fn targets_are_found_where_the_command_line_says() {
    let origin = Origin::start(&[]);
    let port = origin.url("/").trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
    let url = format!("http://shop.invalid:{port}/");
    let resolved = load(&["-q", "-n", "50", "-c", "2", "--resolve", &format!("Shop.Invalid:{port}:127.0.0.1"), &url]);
    assert_eq!(resolved.status.code(), Some(0), "{}", text(&resolved.stderr));
    assert_eq!(load(&["-q", "-n", "1", &url]).status.code(), Some(1), "there is no such name");
    assert_eq!(load(&["-q", "-n", "1", "--resolve", "a:b", &url]).status.code(), Some(2));

    let folder = tempfile::tempdir().expect("a temporary directory");
    let socket = folder.path().join("web.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let server = std::thread::spawn(move || {
        use std::io::Write as _;
        let (stream, _) = listener.accept().expect("a connection");
        let mut lines = BufReader::new(stream.try_clone().expect("duplicated"));
        let (mut hosts, mut line) = (Vec::new(), String::new());
        while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
            if line.to_ascii_lowercase().starts_with("host:") {
                hosts.push(line.trim().to_owned());
            }
            if line == "\r\n" {
                (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("sent");
            }
            line.clear();
        }
        hosts
    });
    let path = socket.to_string_lossy().into_owned();
    let output = load(&["-q", "-n", "30", "-c", "1", "-t", "1", "--unix", &path, "http://shop.invalid/"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains(&format!("(unix:{path})")) && said.contains("30 answered"), "{said}");
    let hosts = server.join().expect("it ends with its client");
    assert_eq!((hosts.len(), hosts[0].as_str()), (30, "Host: shop.invalid"));
}

#[test]
fn a_script_of_wrks_runs_unchanged_and_prints_at_the_end() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = folder.path().join("post.lua");
    let source = "wrk.method = \"POST\"\nwrk.body = \"foo=bar\"\nwrk.headers[\"Content-Type\"] = \"text/plain\"\n\
                  function done(summary, latency, requests) io.write(string.format(\"done %d\\n\", summary.requests)) end\n";
    fs::write(&script, source).expect("written");
    let script = script.to_string_lossy();
    let output = load(&["-q", "-s", &script, "-c", "4", "-t", "1", "-n", "40", "--style", "wrk", &origin.url("/echo")]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    let report = said.find("Requests/sec").expect("wrk's report");
    assert!(said.find("done 40").is_some_and(|done| done > report), "first the report, then `done`: {said}");
}

#[test]
fn a_self_test_needs_no_target() {
    let output = load(&["-q", "--self-test", "-n", "200", "-c", "2"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("200 answered") && said.contains("self-test   on a core of its own"), "{said}");
    assert_eq!(load(&["--self-test", "http://127.0.0.1/"]).status.code(), Some(2), "it has its own target");
    assert_eq!(load(&["-q"]).status.code(), Some(2), "anything else needs one");
}

#[test]
fn streams_of_http2_are_in_every_form_of_the_report() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (json, html) = (file("a.json"), file("a.html"));
    let output = load(&[
        "-q",
        "--http2",
        "--streams",
        "5",
        "-n",
        "200",
        "-c",
        "2",
        "--json",
        &json,
        "--html",
        &html,
        &origin.url("/"),
    ]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for words in [
        "2 connections (kept, 5 streams on each over HTTP/2)",
        "200 opened, at most 5 at one time on a connection; the target allows 128 at once",
    ] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
    assert_eq!((results["version"].as_str(), results["streams"].as_u64()), (Some("HTTP/2"), Some(5)));
    let http2 = &results["http2"];
    assert_eq!((http2["opened"].as_u64(), http2["allowed"].as_u64()), (Some(200), Some(128)));
    assert_eq!((http2["bound_by_target"].as_bool(), http2["unprocessed"].as_u64()), (Some(false), Some(0)));
    let page = fs::read_to_string(&html).expect("written");
    assert!(page.contains("2 of 5 streams each") && page.contains("HTTP/2"), "{page}");
}

#[test]
fn calls_of_grpc_are_reported_by_their_status() {
    let origin = Origin::start(&[]);
    let url = origin.url("/test.Echo/Say");
    let output = load(&["-q", "--grpc", "-b", "a message", "-n", "20", "-c", "1", &url]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("grpc-status 0 OK: 20"), "{said}");
    let words = ["-q", "--grpc", "--grpc-size", "100", "-H", "x-grpc-status: 5", "-n", "9", "-c", "1", &url];
    let said = text(&load(&words).stdout);
    assert!(said.contains("grpc-status 5 NOT_FOUND: 9") && said.contains("failed      9: the call ended"), "{said}");
}

#[test]
fn what_http2_does_not_have_is_refused_with_a_sentence() {
    for (words, sentence) in [
        (&["--streams", "5"][..], "several streams on a connection are for HTTP/2"),
        (&["--http2", "--no-keepalive"], "over HTTP/2 connections are kept"),
        (&["--http2", "-H", "Connection: close"], "`Connection` concerns one connection of HTTP/1"),
    ] {
        let output = load(&[&["-q", "-n", "1", "http://127.0.0.1:1/"][..], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(sentence), "{}", text(&output.stderr));
    }
    assert_eq!(load(&["-q", "--http2", "ws://127.0.0.1:1/"]).status.code(), Some(2), "nor for WebSockets");
}
