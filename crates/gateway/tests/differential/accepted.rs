//! The differences that are meant: `accepted.txt`, read and applied. Each line must still be needed.

use std::cell::Cell;

/// One line: which difference of which cases is meant.
pub(crate) struct Accepted {
    suite: &'static str,
    case: &'static str,
    difference: &'static str,
    is_used: Cell<bool>,
}

/// Reads the list: a reason begins at the margin, and `suite/case :: difference` patterns are indented below it.
pub(crate) fn read(list: &'static str) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    let mut has_reason = false;
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            has_reason = true;
            continue;
        }
        assert!(has_reason, "{line:?} stands below no reason");
        let (case, difference) = line.trim().split_once(" :: ").unwrap_or_else(|| panic!("{line:?} has no ` :: `"));
        let (suite, case) = case.split_once('/').unwrap_or_else(|| panic!("{line:?} names no suite"));
        accepted.push(Accepted { suite, case, difference, is_used: Cell::new(false) });
    }
    accepted
}

impl Accepted {
    /// Whether this difference is meant by this line.
    pub(crate) fn covers(&self, suite: &str, case: &str, difference: &str) -> bool {
        let covers = self.suite == suite && matches(self.case, case) && matches(self.difference, difference);
        if covers {
            self.is_used.set(true);
        }
        covers
    }

    /// The line, when it belongs to this suite and nothing needed it.
    pub(crate) fn unused(&self, suite: &str) -> Option<String> {
        let is_unused = self.suite == suite && !self.is_used.get();
        is_unused.then(|| format!("{}/{} :: {}", self.suite, self.case, self.difference))
    }
}

/// `*` stands for any text, everything else for itself.
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
fn a_star_stands_for_any_text_and_nothing_else_does() {
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
    let list = read("# note\nR1: a reason\n    heads/x :: status 200 -> *\n");
    assert_eq!(list[0].unused("heads").as_deref(), Some("heads/x :: status 200 -> *"));
    assert_eq!(list[0].unused("bodies"), None);
    assert!(!list[0].covers("bodies", "x", "status 200 -> 400"));
    assert!(list[0].covers("heads", "x", "status 200 -> 400"));
    assert_eq!(list[0].unused("heads"), None);
}
