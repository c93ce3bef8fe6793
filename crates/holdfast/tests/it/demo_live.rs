//! The live view of `holdfast demo` on a real terminal.

use crate::pseudoterminal::Live;
use std::sync::{Mutex, PoisonError};

/// Runs one demo at a time: without namespaces, all demos share one loopback.
static ALONE: Mutex<()> = Mutex::new(());

/// The output after the alternate screen was left.
fn after_the_view(written: &str) -> &str {
    assert!(written.contains("\x1b[?1049l") && written.contains("\x1b[?25h"), "the terminal is as it was: {written:?}");
    written.rsplit("\x1b[?1049l").next().unwrap_or_default()
}

#[test]
fn ends_by_itself_and_leaves_its_report_on_the_terminal() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut live = Live::start("demo", &["--rounds", "1", "--requests", "500"]);
    live.wait_for("requests/s");
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(0), "{written:?}");
    let story = after_the_view(&written);
    assert!(story.contains("What it means") && story.contains("Without a pool holdfast opened"), "{story:?}");
    // The terminal has 80 columns, and no line is longer.
    let wide: Vec<&str> = story.lines().filter(|line| line.trim_end().chars().count() > 80).collect();
    assert_eq!(wide, [""; 0]);
}

#[test]
fn states_are_seen_while_it_runs_and_a_key_stops_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Enough requests for a reading before the end, even on a fast machine.
    let mut live = Live::start("demo", &["--rounds", "50", "--requests", "50000", "--seconds", "600"]);
    live.wait_for("ESTABLISHED");
    live.wait_until("it says who closed first", |lines| {
        lines.iter().any(|line| line.starts_with("  the port's own") && line.ends_with("which closed first"))
    });
    live.press("q");
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(1), "{written:?}");
    assert!(after_the_view(&written).contains("interrupted"), "{written:?}");
}

#[test]
fn a_demo_ends_with_its_terminal() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut live = Live::start("demo", &["--rounds", "50", "--requests", "50000", "--seconds", "600"]);
    live.wait_for("ESTABLISHED");
    live.hang_up();
}
