//! The live view of `holdfast load` on a real terminal, and its replacement without one.

use crate::pseudoterminal::Live;
use crate::support::load::origin;

/// Stops a load once its sockets are shown, and expects its report.
fn stops_by_a_key(mut live: Live) {
    live.wait_for("ESTABLISHED");
    live.press("q");
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(0), "{written:?}");
    // The report follows after the alternate screen is left.
    let report = written.rsplit("\x1b[?1049l").next().expect("there is always a last part");
    assert!(written.contains("\x1b[?1049l") && report.contains("stopped by hand"), "{written:?}");
}

#[test]
fn a_key_stops_the_run_and_leaves_the_report_on_the_terminal() {
    let origin = origin();
    let url = format!("http://{}/delay/5", origin.address());
    let mut live = Live::start("load", &["-d", "1h", "-c", "3", "--interval", "100ms", &url]);
    live.wait_for("responses/s");
    stops_by_a_key(live);
}

#[test]
fn a_run_ends_its_view_by_itself() {
    let origin = origin();
    let url = format!("http://{}/", origin.address());
    let live = Live::start("load", &["-n", "50", "-c", "3", &url]);
    let (status, written) = live.wait_for_the_end();
    assert!(status == Some(0) && written.contains("50 answered"), "{status:?} {written:?}");
}

#[test]
fn plain_lines_and_silence_leave_the_screen_alone() {
    let origin = origin();
    let url = format!("http://{}/", origin.address());
    for (flag, has_lines) in [("--plain", true), ("--quiet", false)] {
        let live = Live::start("load", &["-n", "50", "-c", "3", flag, &url]);
        let (status, written) = live.wait_for_the_end();
        assert!(status == Some(0) && written.contains("50 answered"), "{flag}: {status:?} {written:?}");
        assert!(!written.contains("\x1b[?1049h"), "{flag}: {written:?}");
        assert_eq!(written.contains("errors 0"), has_lines, "{flag}: {written:?}");
    }
}

#[test]
fn held_connections_have_a_live_view_too() {
    let origin = origin();
    let address = origin.address();
    let loads = [
        (vec![format!("ws://{address}/websocket/echo"), "-R".to_owned(), "50/s".to_owned()], "delivered/s"),
        (vec![format!("http://{address}/events"), "--sse".to_owned()], "events/s"),
    ];
    for (words, line) in loads {
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(["--hold", "1h", "-c", "3", "--interval", "100ms"]).collect();
        let mut live = Live::start("load", &words);
        live.wait_for(line);
        stops_by_a_key(live);
    }
}
