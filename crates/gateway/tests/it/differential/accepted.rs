//! Reads and applies `accepted.txt`, the list of intended differences. Each line must still be needed.

use super::talk::PATIENCE;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::sides::{Nginx, Side};

/// One line: an intended difference of certain cases.
pub(crate) struct Accepted {
    suite: &'static str,
    case: &'static str,
    difference: &'static str,
    is_used: AtomicBool,
    /// nginx leaves the client without an answer or an end.
    nginx_is_silent: bool,
}

/// How long it waits for nginx if that is known to be silent: the time that nginx has to disprove it.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a client waits for nginx in this case.
pub(crate) fn patience(side: Side, accepted: &[Accepted], suite: &str, case: &str) -> Duration {
    let is_silent = |line: &Accepted| line.nginx_is_silent && line.suite == suite && matches(line.case, case);
    if side == Side::Nginx && accepted.iter().any(is_silent) { SILENCE } else { PATIENCE }
}

/// Reads the list: a reason begins at the margin, and `suite/case :: difference` patterns are indented below it. A
/// pattern after `[1.22]` or `[1.30]` applies only to that nginx generation. One after `[at times]` covers a difference
/// that depends on timing, and need not occur in each run. After `[silent]` nginx leaves the client waiting; the client
/// gives up after a second.
pub(crate) fn read(list: &'static str, nginx: Nginx) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    let mut has_reason = false;
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            has_reason = true;
            continue;
        }
        assert!(has_reason, "{line:?} is below no reason");
        let trimmed = line.trim();
        let (comes_at_times, line) = match trimmed.strip_prefix("[at times] ") {
            Some(rest) => (true, rest),
            None => (false, trimmed),
        };
        let (nginx_is_silent, line) = match line.strip_prefix("[silent] ") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (generation, line) = match line.trim().strip_prefix('[').and_then(|marked| marked.split_once("] ")) {
            Some((mark, line)) => (Some(Nginx::of_mark(mark)), line),
            None => (None, line.trim()),
        };
        if generation.is_some_and(|generation| generation != nginx) {
            continue;
        }
        let (case, difference) = line.split_once(" :: ").unwrap_or_else(|| panic!("{line:?} has no ` :: `"));
        let (suite, case) = case.split_once('/').unwrap_or_else(|| panic!("{line:?} names no suite"));
        let is_used = AtomicBool::new(comes_at_times);
        accepted.push(Accepted { suite, case, difference, is_used, nginx_is_silent });
    }
    accepted
}

impl Accepted {
    /// Whether this line accepts the difference.
    pub(crate) fn covers(&self, suite: &str, case: &str, difference: &str) -> bool {
        let covers = self.suite == suite && matches(self.case, case) && matches(self.difference, difference);
        if covers {
            self.is_used.store(true, Ordering::Relaxed);
        }
        covers
    }

    /// The line, if it belongs to this suite and was not needed.
    pub(crate) fn unused(&self, suite: &str) -> Option<String> {
        let is_unused = self.suite == suite && !self.is_used.load(Ordering::Relaxed);
        is_unused.then(|| format!("{}/{} :: {}", self.suite, self.case, self.difference))
    }
}

/// `*` matches any text; other characters match themselves.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => {
            let Some(text) = text.strip_prefix(start) else { return false };
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches(rest, &text[at..]))
        }
    }
}

#[test]
fn only_a_star_matches_any_text() {
    for (pattern, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*c", "abbc", true),
        ("a*c*", "acd", true),
        ("a*c", "abcd", false),
        ("?", "x", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn a_line_is_reported_until_a_difference_needs_it() {
    let list = read("# note\nR1: a reason\n    heads/x :: status 200 -> *\n", Nginx::Old);
    assert_eq!(list[0].unused("heads").as_deref(), Some("heads/x :: status 200 -> *"));
    assert_eq!(list[0].unused("bodies"), None);
    assert!(!list[0].covers("bodies", "x", "status 200 -> 400"));
    assert!(list[0].covers("heads", "x", "status 200 -> 400"));
    assert_eq!(list[0].unused("heads"), None);
}

#[test]
fn a_marked_line_is_for_one_nginx_only() {
    let text = "R1: a reason\n    [1.22] heads/x :: a\n    [1.30] heads/y :: b\n    heads/z :: c\n";
    for (nginx, cases) in [(Nginx::Old, ["x", "z"]), (Nginx::New, ["y", "z"])] {
        assert_eq!(read(text, nginx).iter().map(|line| line.case).collect::<Vec<_>>(), cases);
    }
}
