//! Tests that cannot run everywhere: for want of root, a program, a kernel.

use std::io::Write as _;
use std::panic::Location;

/// Reports that the test of this thread was skipped. The harness prints nothing of a test that passes, so the line goes past it;
/// `cargo xtask test` collects such lines and repeats them at its end.
///
/// # Panics
/// Under `CI`, where everything must be there.
#[track_caller]
pub fn skip(why: &str) {
    let is_ci = std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    assert!(!is_ci, "this test must not be skipped under CI: {why}");
    let thread = std::thread::current();
    let line = format!("SKIPPED {} ({}): {why}\n", thread.name().unwrap_or("a test"), Location::caller().file());
    let _ = std::io::stderr().write_all(line.as_bytes());
}
