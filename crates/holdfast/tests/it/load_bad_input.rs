//! `holdfast load` with failing targets and bad input: each failure is counted by its cause, the summary is always
//! printed, and the exit code shows which side failed.

use crate::support::holdfast;
use crate::support::load::{answering, load, server, start, text};
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use testkit::{Ended, Refusing};

/// Sends three requests that fail. Expects the cause in the summary and the exit code for no answer.
#[track_caller]
fn expect_cause(url: &str, words: &str) {
    expect_cause_within("20s", url, words);
}

/// The same with a timeout for an answer.
#[track_caller]
fn expect_cause_within(timeout: &str, url: &str, words: &str) {
    let output = load(&["-q", "-n", "3", "-c", "1", "--timeout", timeout, "--connect-timeout", "20s", url]);
    let said = text(&output.stdout);
    assert!(said.contains(&format!("failed      3: {words}")), "no `{words}` in {said}{}", text(&output.stderr));
    assert!(said.contains("3 begun, 0 answered, 3 failed"), "{said}");
    assert!(text(&output.stderr).contains("no request was answered"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn a_target_that_is_not_there() {
    let refusing = Refusing::new();
    expect_cause(&format!("http://{}/", refusing.address()), "connection refused: nothing listens there");
}

#[test]
fn a_target_that_no_way_leads_to() {
    // A connection to a multicast group is impossible: the kernel refuses it regardless of the routes.
    expect_cause("http://224.0.0.1:9/", "network or host unreachable");
}

#[test]
fn a_name_that_does_not_exist() {
    let output = load(&["-q", "-n", "3", "http://nothing.invalid/"]);
    let said = text(&output.stderr);
    assert!(said.contains("the name `nothing.invalid` cannot be resolved"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn garbage_for_a_response() {
    expect_cause(&answering("http", b"\x00\xff\x00\xff garbage"), "the answer is no HTTP");
    expect_cause(&answering("http", b"HTTP/1.1 200 OK\r\nno field\r\n\r\n"), "malformed response head");
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
    expect_cause(&answering("http", chunked), "malformed chunked body");
}

#[test]
fn a_response_that_ends_too_early() {
    expect_cause(&answering("http", b""), "closed by the target without a response");
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    expect_cause(&answering("http", cut), "closed by the target in the middle of a response");
}

#[test]
fn a_reset() {
    let url = server("http", |stream| {
        let _ = (&stream).read(&mut [0; 4096]);
        let socket = socket2::SockRef::from(&stream);
        let _ = socket.set_linger(Some(std::time::Duration::ZERO));
    });
    expect_cause(&url, "reset by the target without a response");
}

#[test]
fn a_port_that_speaks_tls() {
    expect_cause(&answering("http", b"\x15\x03\x01\x00\x02\x02\x46"), "plain HTTP sent to a port that speaks TLS");
}

#[test]
fn a_target_that_accepts_and_stays_silent() {
    let held = std::sync::Mutex::new(Vec::new());
    let url = server("http", move |stream| held.lock().expect("one thread").push(stream));
    expect_cause_within("200ms", &url, "timeout waiting: the target took the request and stayed silent");
}

#[test]
fn a_full_disk_takes_no_report_away_but_shows_in_the_exit_code() {
    let url = answering("http", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    for file in ["--json", "--csv", "--hgrm", "--html", "--prometheus"] {
        let output = load(&["-q", "-n", "3", "-c", "1", file, "/dev/full", "--allow-lag", &url]);
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        assert!(said.contains("3 answered"), "{file}: {said}");
        assert!(complained.contains("/dev/full: No space left on device"), "{file}: {complained}");
        assert_eq!(output.status.code(), Some(1), "{file}");
    }
    // The device is still a device: no file was renamed over it.
    let kind = std::fs::symlink_metadata("/dev/full").expect("it is there").file_type();
    assert!(!kind.is_file(), "{kind:?}");
}

#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let url = answering("http", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let mut command = holdfast();
    command.args(["load", "-q", "-n", "3", "-c", "1", "--allow-lag", &url]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn interrupt_works_at_start_during_run_and_drain() {
    let held = std::sync::Mutex::new(Vec::new());
    let url = server("http", move |stream| held.lock().expect("one thread").push(stream));
    let moments: [(&[&str], &str); 3] = [
        // At the start, with any number of connections open.
        (&["-d", "1h", "--timeout", "1h", &url], "plan "),
        (&["-d", "1h", "--timeout", "1h", "--interval", "100ms", &url], "responses/s"),
        // Nothing new starts, and the load waits for open requests.
        (&["-n", "2", "-c", "2", "--timeout", "1h", "--drain", "1h", "--interval", "100ms", &url], "responses/s"),
    ];
    for (words, moment) in moments {
        let load = start(words);
        load.wait_for_error(moment);
        load.signal(Signal::SIGINT);
        let Ended { status, stdout, stderr, .. } = load.end();
        let stopped_before = status.code() == Some(1) && stderr.contains("stopped before the first request");
        let is_stopped = stopped_before && moment == "plan " || stdout.contains("stopped by hand");
        assert!(is_stopped, "{words:?}: {stdout}{stderr}");
    }
}

#[test]
fn an_interrupt_while_the_report_is_written() {
    let url = answering("http", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = folder.path().join("endless.lua");
    // A `done` function that never returns.
    let source = "function done() io.stderr:write('done begins\\n') while true do end end\n";
    std::fs::write(&script, source).expect("written");
    let load = start(&["-q", "-n", "2", "-c", "1", "-s", &script.to_string_lossy(), &url]);
    load.wait_for_error("done begins");
    load.signal(Signal::SIGINT);
    load.wait_for_error("once more ends that as well");
    assert!(!load.has_ended(), "one that came a moment late takes no report away");
    load.signal(Signal::SIGINT);
    let ended = load.end();
    assert_eq!(ended.status.signal(), Some(Signal::SIGINT as i32));
    assert!(ended.stdout.contains("2 answered"), "what was written stays: {}", ended.stdout);
}

/// Writes a script to a file.
fn script(folder: &tempfile::TempDir, source: &str) -> String {
    let path = folder.path().join("script.lua");
    std::fs::write(&path, source).expect("written");
    path.to_string_lossy().into_owned()
}

#[test]
fn failing_script_keeps_earlier_results() {
    let url = answering("http", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let folder = tempfile::tempdir().expect("a temporary directory");
    // The first call is made before the load.
    let source = "local n = 0\nfunction request()\n  n = n + 1\n  if n > 3 then error('no more') end\n  return wrk.format()\nend\n\
                  function done() print('done was called') end\n";
    let script = script(&folder, source);
    let json = folder.path().join("figures.json").to_string_lossy().into_owned();
    let output = load(&["-q", "-n", "9", "-c", "1", "-t", "1", "-s", &script, "--json", &json, &url]);
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("2 answered") && said.contains("VOID        it ended before its time"), "{said}{complained}");
    assert!(complained.contains("the run could not go on: ") && complained.contains("no more"), "{complained}");
    assert!(!said.contains("done was called"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(std::fs::read_to_string(&json).expect("written").contains("no more"));
}

#[test]
fn second_interrupt_ends_an_endless_script() {
    let url = answering("http", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let source = "local n = 0\nfunction request()\n  n = n + 1\n  if n > 2 then io.stderr:write('endless\\n') while true do end end\n  \
                  return wrk.format()\nend\n";
    let load = start(&["-q", "-n", "9", "-c", "1", "-t", "1", "-s", &script(&folder, source), &url]);
    for words in ["endless", "another signal ends all"] {
        load.wait_for_error(words);
        load.signal(Signal::SIGINT);
    }
    assert_eq!(load.end().status.signal(), Some(Signal::SIGINT as i32));
}

#[test]
fn other_tools_words_have_the_causes_beside_them() {
    let refusing = Refusing::new();
    let silent_held = std::sync::Mutex::new(Vec::new());
    let silent = server("http", move |stream| silent_held.lock().expect("one thread").push(stream));
    let reset = server("http", |stream| {
        let _ = (&stream).read(&mut [0; 4096]);
        let _ = socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO));
    });
    let cases = [
        (format!("http://{}/", refusing.address()), "3 failed: connection refused: nothing listens there"),
        (answering("http", b"\x15\x03\x01\x00\x02\x02\x46"), "3 failed: plain HTTP sent to a port that speaks TLS"),
        (answering("http", b"SSH-2.0-x\r\n"), "3 failed: the answer is no HTTP"),
        (reset, "3 failed: reset by the target without a response"),
        (silent, "3 failed: timeout waiting: the target took the request and stayed silent"),
    ];
    for (url, cause) in &cases {
        for (words, summary) in [
            (&["ab", "-q", "-n", "3", "-c", "1", "-s", "1"][..], "Complete requests:      3"),
            (&["-q", "-n", "3", "-c", "1", "--timeout", "1s", "--style", "wrk"], "Socket errors:"),
        ] {
            let output = load(&[words, &[url]].concat());
            let (said, complained) = (text(&output.stdout), text(&output.stderr));
            assert!(said.contains(summary), "{words:?} {url}: {said}{complained}");
            assert!(complained.contains(cause) && complained.contains("no request was answered"), "{complained}");
            assert_eq!(output.status.code(), Some(1), "{words:?} {url}");
        }
    }
    let nameless = load(&["ab", "-q", "-n", "3", "http://nothing.invalid/"]);
    assert!(text(&nameless.stderr).contains("the name `nothing.invalid` cannot be resolved"));
    assert_eq!(nameless.status.code(), Some(1));
}

#[test]
fn interrupt_prints_summaries_of_scripts_and_ab() {
    let held = std::sync::Mutex::new(Vec::new());
    let url = server("http", move |stream| held.lock().expect("one thread").push(stream));
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = script(&folder, "function request() io.stderr:write('asked\\n') return wrk.format() end\n");
    let cases: [(&[&str], &str, &str); 2] = [
        (&["ab", "-t", "3600", "-n", "9", "-s", "3600", &url], "plan ", "Concurrency Level:"),
        (&["-d", "1h", "--timeout", "1h", "-c", "1", "-t", "1", "-s", &script, &url], "asked", "stopped by hand"),
    ];
    for (words, moment, summary) in cases {
        let load = start(words);
        load.wait_for_error(moment);
        // In the first moment nothing has started yet, so there is no summary.
        load.signal(Signal::SIGINT);
        let Ended { status, stdout, stderr, .. } = load.end();
        let stopped_before = status.code() == Some(1) && stderr.contains("stopped before the first request");
        assert!(stopped_before || stdout.contains(summary), "{words:?}: {stdout}{stderr}");
    }
}

#[test]
fn a_file_without_an_end_is_no_body_no_script_and_no_run() {
    let endless = load(&["-q", "-s", "/dev/zero", "http://127.0.0.1:9/"]);
    assert!(text(&endless.stderr).contains("/dev/zero has more than 16777216 bytes"), "{}", text(&endless.stderr));
    assert_eq!(endless.status.code(), Some(2));
}

/// The generator is delayed, here by a signal that stops it.
#[test]
fn lateness_voids_a_threshold_only_where_it_decides_it() {
    let url = server("http", |mut stream| {
        std::thread::spawn(move || {
            while stream.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        });
    });
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (json, html) = (folder.path().join("run.json"), folder.path().join("run.html"));
    let files = ["--json", json.to_str().expect("text"), "--html", html.to_str().expect("text")];
    // The freeze of 900 ms shows in the latencies: up to 900 ms counted from the due time, some ms from sending.
    for (flags, code, said) in [
        (&[][..], 0, "the latencies include this lag"),
        (&["--expect", "p99<10s"], 0, "it does not matter here"),
        (&["--expect", "p99<300ms"], 4, "VOID    p99<300ms: measured "),
        (&["--expect", "p99<300ms", "--expect", "p99<1us"], 3, "FAILED  p99<1us: measured "),
        (&["--expect", "p99<300ms", "--allow-lag"], 3, "VOID    p99<300ms: measured "),
    ] {
        let words = ["-R", "200/s", "-d", "1500ms", "-c", "5", "-t", "1", "--interval", "100ms", &url];
        let load = start(&[words.as_slice(), flags, files.as_slice()].concat());
        load.wait_for_error("responses/s");
        load.signal(Signal::SIGSTOP);
        // The freeze: half of the requests fall due during it.
        std::thread::park_timeout(std::time::Duration::from_millis(900));
        load.signal(Signal::SIGCONT);
        let Ended { status, stdout: report, .. } = load.end();
        assert_eq!(status.code(), Some(code), "{flags:?}: {report}");
        assert!(report.contains("late        p") && report.contains(said), "{report}");
        assert!(report.contains("ms of it, and for the rest it was not run"), "{report}");
        // The file and the page have the same content.
        let file: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
        let page = std::fs::read_to_string(&html).expect("written");
        let is_void = report.contains("VOID");
        assert!(file["late"].is_string() && (file["void"] != serde_json::json!([])) == is_void, "{file}");
        assert!(page.contains(&file["late"].as_str().expect("text").replace('\'', "&#39;")), "{page}");
        assert_eq!(page.contains("without the generator"), is_void, "{page}");
    }
}

#[test]
fn a_termination_ends_it_like_an_interrupt() {
    let url = answering("http", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let load = start(&["-d", "1h", "-c", "1", "--interval", "100ms", &url]);
    load.wait_for_error("responses/s");
    load.signal(Signal::SIGTERM);
    let stdout = load.end().stdout;
    assert!(stdout.contains("stopped by hand"), "{stdout}");
}

#[test]
fn exit_codes_distinguish_target_and_generator() {
    let url = answering("http", b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let code = |words: &[&str]| load(words).status.code();
    assert_eq!(code(&["-q", "-n", "3", "-c", "1", "--allow-lag", &url]), Some(0), "errors alone are no verdict");
    assert_eq!(code(&["-q", "-n", "3", "-c", "1", "--allow-lag", "--expect", "errors=0", &url]), Some(3), "the target");
    // Without a descriptor for a socket the generator fails, not the target.
    let mut starved = std::process::Command::new("sh");
    let script = "ulimit -n 12; exec \"$0\" load -q --no-plan --processes 1 -n 40 -c 20 -t 1 --no-sockets \"$1\"";
    starved.args(["-c", script, env!("CARGO_BIN_EXE_holdfast"), &url]).stdin(Stdio::null());
    let output = starved.output().expect("sh starts");
    let said = text(&output.stdout);
    assert!(said.contains("no free descriptor (too many open files)"), "{said}{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "the generator: {said}");
    let refused = load(&["-q", "-c", "5000000", &url]);
    assert!(text(&refused.stderr).contains("are needed"), "{}", text(&refused.stderr));
    assert_eq!(refused.status.code(), Some(1), "it could not run");
}
