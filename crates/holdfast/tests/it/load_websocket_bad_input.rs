//! `holdfast load ws://…` with failing targets and bad input. As for HTTP, each failure is counted by its cause, the
//! summary is always printed, and the exit code shows which side failed.

use crate::support::load::{answering, load, origin, server, start, text};
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::{Ended, Refusing};

/// A server that holds all connections and sends nothing.
fn silent() -> String {
    let held = std::sync::Mutex::new(Vec::new());
    server("ws", move |stream| held.lock().expect("one thread").push(stream))
}

/// A server that accepts each WebSocket and then calls the function.
fn opening(then: impl Fn(&mut TcpStream) + Send + 'static) -> String {
    server("ws", move |mut stream| {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            bytes.extend(byte);
        }
        let mut head = http1::RequestHead::default();
        http1::request::parse(&bytes, &http1::Limits::default(), &mut head).expect("a request");
        let key = websocket::handshake::check_request(&head, &bytes).expect("a handshake").key;
        let mut answer = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
        websocket::handshake::encode_response_fields(&key, None, &mut answer);
        let _ = stream.write_all(&[answer.as_slice(), b"\r\n"].concat());
        then(&mut stream);
    })
}

/// Opens three connections, none of which becomes a WebSocket. Expects the cause in the summary and the matching exit
/// code.
#[track_caller]
fn expect_cause(url: &str, words: &str) {
    expect_cause_within("20s", url, words);
}

/// The same with a timeout for an answer.
#[track_caller]
fn expect_cause_within(timeout: &str, url: &str, words: &str) {
    let times = ["--hold", "1500ms", "--timeout", timeout, "--connect-timeout", "20s"];
    let output = load(&[&["-q", "-c", "3", "-t", "1"], times.as_slice(), &[url]].concat());
    let said = text(&output.stdout);
    assert!(said.contains(&format!("failed      3: {words}")), "no `{words}` in {said}{}", text(&output.stderr));
    assert!(said.contains("3 begun (0 of them again), 0 opened, 3 failed"), "{said}");
    assert!(text(&output.stderr).contains("no WebSocket was opened"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn a_target_that_is_not_there_or_that_no_way_leads_to() {
    let refusing = Refusing::new();
    expect_cause(&format!("ws://{}/", refusing.address()), "connection refused: nothing listens there");
    expect_cause("ws://224.0.0.1:9/", "network or host unreachable");
    let nameless = load(&["-q", "-c", "3", "ws://nothing.invalid/"]);
    let said = text(&nameless.stderr);
    assert!(said.contains("the name `nothing.invalid` cannot be resolved"), "{said}");
    assert_eq!(nameless.status.code(), Some(1));
}

#[test]
fn a_malformed_answer() {
    expect_cause(&answering("ws", b"\x00\xff\x00\xff garbage"), "the answer is no HTTP");
    expect_cause(&answering("ws", b"HTTP/1.1 101 \r\nno field\r\n\r\n"), "malformed response head");
    expect_cause(&answering("ws", b"\x15\x03\x01\x00\x02\x02\x46"), "plain HTTP sent to a port that speaks TLS");
    expect_cause(&answering("ws", b""), "closed by the target without a response");
    expect_cause(&answering("ws", b"HTTP/1.1 101 Switching"), "closed by the target in the middle of a response");
    let page = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    expect_cause(&answering("ws", page), "the handshake was answered with status 404");
    let bare = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    expect_cause(&answering("ws", bare), "101, but no answer to a WebSocket handshake");
}

#[test]
fn a_reset_and_silence() {
    let url = server("ws", |stream| {
        let _ = (&stream).read(&mut [0; 4096]);
        let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    });
    expect_cause(&url, "reset by the target without a response");
    expect_cause_within("1s", &silent(), "timeout waiting: the target took the request and stayed silent");
}

#[test]
fn an_open_one_that_is_lost() {
    let lost = |url: &str, words: &str| {
        let output = load(&["-q", "-c", "3", "-t", "1", "--hold", "1s", "--allow-lag", "--expect", "losses=0", url]);
        let said = text(&output.stdout);
        assert!(said.contains(&format!("ended       3: {words}")), "no `{words}` in {said}{}", text(&output.stderr));
        assert!(said.contains("FAILED  losses=0: measured 3 of 3"), "{said}");
        assert_eq!(output.status.code(), Some(3), "{said}");
    };
    let garbage = opening(|stream| {
        let _ = stream.write_all(b"\xc1\x00");
        let _ = stream.read(&mut [0; 64]);
    });
    lost(&garbage, "given up: the target sent what the protocol forbids");
    lost(&opening(|_| ()), "closed by the target, or something on the way, without a close frame");
}

#[test]
fn a_full_disk_takes_no_report_away_but_shows_in_the_exit_code() {
    let origin = origin();
    let url = format!("ws://{}/websocket/echo", origin.address());
    for file in ["--json", "--csv", "--hgrm", "--html", "--prometheus"] {
        let output = load(&["-q", "-c", "3", "--hold", "500ms", file, "/dev/full", "--allow-lag", &url]);
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        assert!(said.contains("3 opened"), "{file}: {said}");
        assert!(complained.contains("/dev/full: No space left on device"), "{file}: {complained}");
        assert_eq!(output.status.code(), Some(1), "{file}");
    }
    let nowhere = load(&["-q", "-c", "3", "--csv", "/nowhere/a.csv", &url]);
    assert!(nowhere.status.code() == Some(1) && nowhere.stdout.is_empty(), "a wrong path is known before the load");
}

#[test]
fn websocket_interrupt_works_at_start_hold_and_drain() {
    let origin = origin();
    let url = format!("ws://{}/websocket/echo", origin.address());
    // It reads messages and never forwards them, so deliveries stay outstanding.
    let deaf = opening(|stream| while stream.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {});
    let moments: [(&[&str], &str); 3] = [
        (&["-c", "2", "--hold", "1h", &url], "plan "),
        (&["-c", "2", "--hold", "1h", &url], " 2 open "),
        (&["-c", "1", "--hold", "1s", "-R", "50", "--drain", "1h", &deaf], " sent "),
    ];
    let seconds = |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    for (words, moment) in moments {
        let load = start(&[&["--interval", "100ms"], words].concat());
        load.wait_for_error(moment);
        // After the hold time the load drains.
        while moment == " sent " && seconds(&load.wait_for_error("")) < 1.2 {}
        load.signal(Signal::SIGINT);
        let Ended { status, stdout, stderr, .. } = load.end();
        let stopped_before = status.code() == Some(1) && stderr.contains("stopped before the first connection");
        let is_stopped = stopped_before && moment == "plan " || stdout.contains("stopped by hand");
        assert!(is_stopped, "{words:?}: {stdout}{stderr}");
    }
}

/// The generator is stopped for longer than two heartbeats. Messages that arrive meanwhile stay unread, which is not
/// the target's fault.
#[test]
fn idle_generator_says_so_and_keeps_connections() {
    let origin = origin();
    let url = format!("ws://{}/websocket/echo", origin.address());
    let words = ["-c", "4", "--hold", "5s", "--heartbeat", "1s", "-R", "100", "--drain", "20s", "--interval", "100ms"];
    let load = start(&[words.as_slice(), &["--expect", "losses=0", &url]].concat());
    // The first pings are sent within the first second, before the stop; some wait for their pong.
    while !load.wait_for_error("").trim_start().starts_with("1.") {}
    load.signal(Signal::SIGSTOP);
    // The freeze.
    std::thread::park_timeout(Duration::from_millis(2_500));
    load.signal(Signal::SIGCONT);
    let ended = load.end();
    ended.assert_code(0);
    let report = ended.stdout;
    assert!(report.contains("late        p") && report.contains("it does not matter here"), "{report}");
    assert!(report.contains("ms of it, and for the rest it was not run"), "{report}");
    assert!(report.contains("met     losses=0: measured 0 of 4"), "{report}");
}

#[test]
fn want_of_descriptors_is_the_generators_fault() {
    let origin = origin();
    let url = format!("ws://{}/websocket/echo", origin.address());
    let script =
        "ulimit -n 24; exec \"$0\" load -q --no-plan --processes 1 -c 40 -t 1 --hold 100ms --no-sockets \"$1\"";
    let mut starved = Command::new("sh");
    starved.args(["-c", script, env!("CARGO_BIN_EXE_holdfast"), &url]).stdin(Stdio::null());
    let output = starved.output().expect("sh starts");
    let said = text(&output.stdout);
    assert!(said.contains("no free descriptor (too many open files)"), "{said}{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{said}");
    let refused = load(&["-q", "-c", "5000000", &url]);
    assert!(text(&refused.stderr).contains("are needed"), "{}", text(&refused.stderr));
    assert_eq!(refused.status.code(), Some(1), "it could not run");
}
