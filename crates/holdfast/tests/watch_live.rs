//! The live view of `holdfast watch` on a real terminal, with keys typed into it.

#[allow(dead_code, reason = "each test file uses its part of the support")]
mod support;

mod pseudoterminal;

use pseudoterminal::Live;
use std::net::TcpListener;

#[test]
fn pages_filters_and_the_end_answer_to_keys() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let mut live = Live::start("watch", &["--interval", "0.2", &format!("state listening sport = :{port}")]);
    live.wait_for("ESTABLISHED");
    live.press("2");
    live.wait_for(&format!("127.0.0.1:{port}"));
    live.press("/");
    live.wait_for("filter:");
    live.press(" or\r");
    live.wait_for("missing");
    live.press("\x1b");
    live.wait_for("help");
    live.press("?");
    live.wait_for("goes");
    live.press("?");
    live.press("q");
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(0));
    // The terminal is as it was: the other screen is left, and the cursor is back.
    assert!(written.contains("\x1b[?1049l") && written.contains("\x1b[?25h"), "{written:?}");
}

#[test]
fn a_count_ends_it_and_a_refusal_leaves_the_terminal_alone() {
    let live = Live::start("watch", &["--interval", "0.1", "--count", "2"]);
    let (status, written) = live.wait_for_the_end();
    assert!(status == Some(0) && written.contains("\x1b[?1049l"), "{status:?} {written:?}");
    let live = Live::start("watch", &["state", "asleep"]);
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(1));
    assert!(written.contains("`asleep` is no state") && !written.contains("\x1b["), "{written:?}");
}
