//! The live view of `holdfast watch` on a real terminal, with keys typed into it.

use crate::pseudoterminal::Live;
use std::net::{TcpListener, TcpStream};

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
    // The terminal is restored: the alternate screen is left, and the cursor is visible.
    assert!(written.contains("\x1b[?1049l") && written.contains("\x1b[?25h"), "{written:?}");
}

#[test]
fn every_page_is_readable_on_80_columns_and_24_lines() {
    const TABS: &str = "1 states  2 listeners  3 destinations  4 queues  5 closed first  6 kernel";
    const KEYS: &str = "? help  / filter  s sort  r reverse  p pause  q quit";
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let _waiting: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let filter = format!("port = :{}", address.port());
    let mut live = Live::start("watch", &["--interval", "0.2", &filter]);
    let has = |text: String| move |lines: &[String]| lines.iter().any(|line| line.contains(&text));
    live.wait_until("the states", |lines| {
        lines[0].contains(" 6 connections, 1 listener, look ")
            && lines[1] == TABS
            && lines.iter().any(|line| line.starts_with("ESTABLISHED          6  "))
            && lines[23] == format!("only {filter}  {KEYS}")
    });
    for (key, expected) in [
        ("2", format!("{address}     3")),
        ("3", format!("{address} 127.0.0.1    3")),
        ("4", "no bytes wait in any queue".to_owned()),
        ("5", "no connection was closed since the watch began".to_owned()),
        ("6", "segments sent again".to_owned()),
    ] {
        live.press(key);
        live.wait_until(key, has(expected));
        // The frame keeps its position and a complete last line on every page.
        live.wait_until("the frame", |lines| lines[1] == TABS && lines[23].ends_with(KEYS));
    }
    live.press("2");
    live.press("s");
    live.wait_until("sorted by the first column", |lines| lines[23].starts_with("by listener  only "));
    live.press("s");
    live.wait_until("sorted by the second", |lines| lines[23].starts_with("by queue  only "));
    live.press("r");
    live.press("p");
    live.wait_until("held", |lines| lines[0].starts_with("PAUSED  "));
    live.press("p");
    live.wait_until("not held", |lines| !lines[0].starts_with("PAUSED  "));
    live.press("?");
    live.wait_until("the help", |lines| {
        lines.iter().any(|line| line.starts_with("1 to 6, Tab"))
            && lines.iter().any(|line| line == "Any key goes back.")
    });
    live.press("x");
    live.wait_until("the page again", has(format!("{address}     3")));
    live.press("q");
    let (status, written) = live.wait_for_the_end();
    assert!(status == Some(0) && written.contains("\x1b[?1049l"), "{status:?}");
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

#[test]
fn a_view_ends_with_its_terminal() {
    let mut live = Live::start("watch", &["--interval", "0.2"]);
    live.wait_for("ESTAB");
    live.hang_up();
}
