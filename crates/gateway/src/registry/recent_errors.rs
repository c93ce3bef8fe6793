//! The last lines of the error logs, for the status page. The thread that writes the logs hands them over, so requests do no more
//! work for it.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Lines that are kept.
const LINES_MAX: usize = 100;

/// Bytes of a line that are kept: the message, the client, and most of the request.
const LINE_BYTES_MAX: usize = 1000;

/// A line of an error log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentError {
    /// Counted from 1 since the process began, over the lines that were kept. With several processes: when the line was kept, in
    /// microseconds since 1970, so that the lines of all processes have one order.
    pub number: u64,
    /// As it was written.
    pub line: Box<str>,
    /// What it means, if that is known.
    pub meaning: Option<Cow<'static, str>>,
}

/// Lines, and how many there ever were.
#[derive(Debug, Default)]
struct Numbered {
    lines: VecDeque<(u64, Box<str>)>,
    last: u64,
    /// Numbers are moments.
    by_time: bool,
}

/// Finds the meaning of a line.
type Explain = fn(&str) -> Option<&'static str>;

/// The last lines, the oldest first.
#[derive(Debug, Default)]
pub struct RecentErrors {
    lines: Mutex<Numbered>,
    explain: OnceLock<Explain>,
}

impl RecentErrors {
    /// Sets what finds the meaning of a line. The first call counts.
    pub fn explain_by(&self, explain: Explain) {
        let _ = self.explain.set(explain);
    }

    /// Numbers the lines by their time, because other processes have lines, too.
    pub(crate) fn number_by_time(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).by_time = true;
    }

    /// Keeps lines in their order.
    pub fn keep<'a>(&self, lines: impl DoubleEndedIterator<Item = &'a [u8]>) {
        let mut last: Vec<&[u8]> = lines.rev().take(LINES_MAX).collect();
        if last.is_empty() {
            return;
        }
        let mut kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(line) = last.pop() {
            let line = String::from_utf8_lossy(line.get(..LINE_BYTES_MAX).unwrap_or(line));
            if kept.lines.len() == LINES_MAX {
                kept.lines.pop_front();
            }
            let earliest = if kept.by_time { reactor::wall_clock().as_micros() as u64 } else { 0 };
            kept.last = earliest.max(kept.last + 1);
            let number = kept.last;
            kept.lines.push_back((number, line.trim_end().into()));
        }
    }

    /// The lines with their meanings, the newest first.
    pub(crate) fn list(&self) -> Vec<RecentError> {
        let lines: Vec<(u64, Box<str>)> = {
            let kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            kept.lines.iter().rev().cloned().collect()
        };
        let explain = self.explain.get();
        let with_meaning = |(number, line): (u64, Box<str>)| {
            let meaning = explain.and_then(|explain| explain(&line)).map(Cow::Borrowed);
            RecentError { number, line, meaning }
        };
        lines.into_iter().map(with_meaning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundred_lines_are_kept_and_explained() {
        let errors = RecentErrors::default();
        errors.explain_by(|line| line.contains('7').then_some("a seven"));
        let lines: Vec<String> = (0..250).map(|number| format!("line {number}\n")).collect();
        errors.keep(lines[..120].iter().map(String::as_bytes));
        errors.keep(lines[120..].iter().map(String::as_bytes));
        let list = errors.list();
        assert_eq!(list.len(), LINES_MAX);
        assert_eq!((&*list[0].line, list[0].meaning.as_deref(), list[0].number), ("line 249", None, 200));
        assert_eq!((&*list[2].line, list[2].meaning.as_deref()), ("line 247", Some("a seven")));
        assert_eq!((&*list[99].line, list[99].number), ("line 150", 101));
        let timed = RecentErrors::default();
        timed.number_by_time();
        timed.keep(lines[..2].iter().map(String::as_bytes));
        let numbers: Vec<u64> = timed.list().iter().map(|line| line.number).collect();
        assert!(numbers[0] > numbers[1] && numbers[1] > 1_700_000_000_000_000, "{numbers:?}");
        errors.keep([&vec![b'x'; 5000][..], b"\xff"].into_iter());
        assert_eq!((errors.list()[1].line.len(), &*errors.list()[0].line), (LINE_BYTES_MAX, "\u{fffd}"));
    }
}
