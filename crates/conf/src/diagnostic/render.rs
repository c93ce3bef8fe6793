//! Diagnostics for people and for programs: the text of style.md (`file:line:column: message`, the line with a marker, the
//! hint), and the same as plain data for `--json`. Called by the binary and by tests.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{Diagnostic, Severity};
use crate::source::{Source, SourceMap, Span};

/// Most characters shown of a line. A line may be a megabyte long; the part around the marker is enough.
const LINE_CHARS_MAX: usize = 160;

/// Characters that stay visible before the marker when a long line is cut.
const BEFORE_MARKER: usize = 60;

/// A diagnostic as data. Lines and columns count from one, columns in bytes; the end is exclusive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// What is wrong.
    pub message: String,
    /// The file as opened, or `command line`.
    pub file: String,
    /// Line of the first byte; 0 where the file could not be read at all.
    pub line: u32,
    /// Column of the first byte; 0 where the file could not be read at all.
    pub column: u32,
    /// Line of the first byte behind the place.
    pub end_line: u32,
    /// Column of the first byte behind the place.
    pub end_column: u32,
    /// The first line of the place, as far as it is text.
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Further places.
    pub related: Vec<RelatedRecord>,
}

/// A further place as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelatedRecord {
    /// What the place is.
    pub message: String,
    /// The file as opened.
    pub file: String,
    /// Line, from one.
    pub line: u32,
    /// Column in bytes, from one.
    pub column: u32,
}

impl Severity {
    /// `error`, `warning` or `note`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }

    fn style(self) -> Style {
        let colour = match self {
            Self::Error => AnsiColor::Red,
            Self::Warning => AnsiColor::Yellow,
            Self::Note => AnsiColor::Cyan,
        };
        colour.on_default().bold()
    }
}

impl Diagnostic {
    /// Renders the diagnostic as several lines of text, each with a newline; with terminal colours if `colour` is set.
    pub fn render(&self, sources: &SourceMap, colour: bool) -> String {
        let paint = |style: Style| if colour { style } else { Style::new() };
        let bold = paint(Style::new().bold());
        let severity = paint(self.severity.style());
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = write!(out, "{bold}{}:{bold:#} ", place(sources, self.span));
        if self.severity != Severity::Error {
            let _ = write!(out, "{severity}{}:{severity:#} ", self.severity.name());
        }
        let _ = writeln!(out, "{bold}{}{bold:#}", printable(&self.message));
        snippet(&mut out, sources, self.span, severity);
        for related in &self.related {
            let _ = writeln!(out, "{}: {}", place(sources, related.span), printable(&related.message));
            snippet(&mut out, sources, related.span, paint(Severity::Note.style()));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "{severity}hint:{severity:#} {}", printable(hint));
        }
        out
    }

    /// The diagnostic as data.
    pub fn record(&self, sources: &SourceMap) -> Record {
        let source = sources.source(self.span.file);
        let (line, column) = position(source, self.span.start);
        let (end_line, end_column) = position(source, self.span.end);
        let related = self.related.iter().map(|related| {
            let source = sources.source(related.span.file);
            let (line, column) = position(source, related.span.start);
            RelatedRecord { message: related.message.clone(), file: source.name.clone(), line, column }
        });
        Record {
            severity: self.severity.name(),
            message: self.message.clone(),
            file: source.name.clone(),
            line,
            column,
            end_line,
            end_column,
            text: String::from_utf8_lossy(source.line(line)).into_owned(),
            hint: self.hint.clone(),
            related: related.collect(),
        }
    }
}

fn position(source: &Source, offset: u32) -> (u32, u32) {
    if source.is_unread() { (0, 0) } else { source.line_column(offset) }
}

fn place(sources: &SourceMap, span: Span) -> String {
    let source = sources.source(span.file);
    let (line, column) = position(source, span.start);
    let name = printable(&source.name);
    if line == 0 { name } else { format!("{name}:{line}:{column}") }
}

/// Writes the line with its number, and below it a marker under the part that the span covers.
fn snippet(out: &mut String, sources: &SourceMap, span: Span, style: Style) {
    let source = sources.source(span.file);
    if source.is_unread() {
        return;
    }
    let (line, column) = source.line_column(span.start);
    let bytes = source.line(line);
    let start = (column as usize - 1).min(bytes.len());
    let len = (span.end - span.start) as usize;
    let marked = &bytes[start..bytes.len().min(start + len)];
    // Each of the three parts is made printable by itself, so the marker has the right width for any bytes.
    let mut before = printable(&String::from_utf8_lossy(&bytes[..start]));
    let mut middle = printable(&String::from_utf8_lossy(marked));
    let mut after = printable(&String::from_utf8_lossy(&bytes[start + marked.len()..]));
    let before_chars = before.chars().count();
    if before_chars + middle.chars().count() + after.chars().count() > LINE_CHARS_MAX {
        if before_chars > BEFORE_MARKER {
            before = std::iter::once('…').chain(before.chars().skip(before_chars - BEFORE_MARKER)).collect();
        }
        let room = LINE_CHARS_MAX - before.chars().count();
        middle = cut(middle, room);
        after = cut(after, room - middle.chars().count().min(room));
    }
    let padding: String = before.chars().map(|letter| if letter == '\t' { '\t' } else { ' ' }).collect();
    let marker = "^".repeat(middle.chars().count().max(1));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{line:5} | {before}{middle}{after}");
    let _ = writeln!(out, "      | {padding}{style}{marker}{style:#}");
}

fn cut(text: String, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text;
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// Replaces characters that could control the operator's terminal, reorder the text, or be invisible.
fn printable(text: &str) -> String {
    let is_invisible = |letter: char| matches!(letter, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}');
    let is_shown = |letter: char| letter == '\t' || !(letter.is_control() || is_invisible(letter));
    text.chars().map(|letter| if is_shown(letter) { letter } else { '\u{FFFD}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileId;

    fn sources(text: &[u8]) -> (SourceMap, FileId) {
        let mut sources = SourceMap::default();
        let file = sources.add("site.conf", text.to_vec());
        (sources, file)
    }

    #[test]
    fn shows_the_line_with_number_marker_and_hint() {
        let (sources, file) = sources(b"a;\n\tproxy_reed_timeout 30s;\n");
        let error = Diagnostic::error(Span { file, start: 4, end: 22 }, "unknown directive \"proxy_reed_timeout\"")
            .with_related(Span { file, start: 0, end: 1 }, "seen here")
            .with_hint("did you mean `proxy_read_timeout`?");
        let expected = "site.conf:2:2: unknown directive \"proxy_reed_timeout\"\n    \
                        2 | \tproxy_reed_timeout 30s;\n      | \t^^^^^^^^^^^^^^^^^^\n\
                        site.conf:1:1: seen here\n    1 | a;\n      | ^\n\
                        hint: did you mean `proxy_read_timeout`?\n";
        assert_eq!(error.render(&sources, false), expected);
        assert!(error.render(&sources, true).contains("\x1b[1m\x1b[31m^^^^"));
    }

    #[test]
    fn long_lines_are_cut_around_the_marker() {
        let mut text = vec![b'x'; 5_000];
        text[3_000..3_003].copy_from_slice(b"bad");
        let (sources, file) = sources(&text);
        let shown = Diagnostic::error(Span { file, start: 3_000, end: 3_003 }, "m").render(&sources, false);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[1].chars().count() <= LINE_CHARS_MAX + 8, "{shown}");
        let column = lines[1].chars().position(|letter| letter == 'b').expect("the marked word is shown");
        assert_eq!(lines[2].chars().position(|letter| letter == '^'), Some(column));
    }

    #[test]
    fn bytes_that_could_steer_a_terminal_are_replaced() {
        let (sources, file) = sources(b"\x1b[31m\xff;");
        let shown = Diagnostic::error(Span { file, start: 5, end: 6 }, "bad \x1b[0m").render(&sources, false);
        assert!(!shown.contains('\x1b'), "{shown:?}");
        assert_eq!(shown.lines().nth(2), Some("      |      ^"));
    }

    #[test]
    fn json_matches_the_text() {
        let (sources, file) = sources(b"a;\nb c;\n");
        let record = Diagnostic::warning(Span { file, start: 3, end: 6 }, "m").with_hint("h").record(&sources);
        assert_eq!((record.line, record.column, record.end_line, record.end_column), (2, 1, 2, 4));
        assert_eq!((record.severity, record.text.as_str(), record.hint.as_deref()), ("warning", "b c;", Some("h")));
    }
}
