//! Prints to the terminal: nginx's lines for programs, diagnostics with the line and a hint for people, and the same as
//! data. Every other module prints through this one; `terminal` has the plain streams.
#![allow(clippy::print_stdout, clippy::print_stderr)] // speaking to the terminal is this module's purpose

use crate::process::Process;
use crate::verdict::Prepared;
use conf::diagnostic::{Diagnostic, Record, Severity};
use conf::verdict::log_line;
use gateway::{Level, LogPlace};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write as _};
pub(crate) use terminal::{colours, errno, overwrite, print, say};

/// Prints `nginx: …` on standard error, as nginx does.
pub(crate) fn complain(message: &str) {
    // A closed stream is not an error: no one reads it.
    let _ = writeln!(io::stderr(), "nginx: {message}");
}

/// Prints a warning of a start, unless the error log already goes to standard error.
pub(crate) fn warn_at_start(process: &Process, message: &str) {
    if process.error_logs.iter().all(|log| log.place != LogPlace::Stderr) {
        complain(&format!("[warn] {message}"));
    }
}

/// Prints all findings for people, and then, for programs, nginx's lines of the warnings and of the first error.
pub(crate) fn diagnostics(prepared: &Prepared) {
    let colour = colours(io::stderr().is_terminal());
    let sources = &prepared.loaded.sources;
    for found in &prepared.diagnostics {
        let _ = write!(io::stderr(), "{}", found.render(sources, colour));
    }
    for found in prepared.diagnostics.iter().filter(|found| found.severity == Severity::Warning) {
        say(&log_line(found, sources));
    }
    if let Some(first) = prepared.diagnostics.iter().find(|found| found.severity == Severity::Error) {
        say(&log_line(first, sources));
    }
}

/// Prints the findings of a start with a valid configuration: warnings in nginx's form, and the number of notes.
pub(crate) fn at_start(prepared: &Prepared) {
    if !prepared.is_ok() {
        return diagnostics(prepared);
    }
    for found in prepared.diagnostics.iter().filter(|found| found.severity == Severity::Warning) {
        say(&log_line(found, &prepared.loaded.sources));
    }
    match prepared.diagnostics.iter().filter(|found| found.severity == Severity::Note).count() {
        0 => {}
        1 => complain("[notice] there is 1 note on this configuration; -t shows it"),
        notes => complain(&format!("[notice] there are {notes} notes on this configuration; -t shows them")),
    }
}

/// The same as lines for the error log.
pub(crate) fn log_lines(prepared: &Prepared) -> Vec<(Level, String)> {
    let line = |found: &Diagnostic| {
        let level = match found.severity {
            Severity::Error => Level::Emerg,
            Severity::Warning => Level::Warn,
            Severity::Note => return None,
        };
        // The log adds the process and the level itself.
        let line = log_line(found, &prepared.loaded.sources);
        Some((level, line.split_once("] ").map_or(line.as_str(), |(_, rest)| rest).to_owned()))
    };
    prepared.diagnostics.iter().filter_map(line).collect()
}

/// The verdict of `-t --json`.
#[derive(Debug, Serialize)]
struct Verdict<'a> {
    /// Whether a start would succeed.
    ok: bool,
    /// The main file.
    file: &'a str,
    /// All findings.
    diagnostics: Vec<Record>,
}

/// The verdict as one line of JSON on the standard output stream.
pub(crate) fn verdict_json(prepared: &Prepared) {
    let sources = &prepared.loaded.sources;
    let diagnostics = prepared.diagnostics.iter().map(|found| found.record(sources)).collect();
    let file = prepared.loaded.main.to_string_lossy();
    let verdict = Verdict { ok: prepared.is_ok(), file: &file, diagnostics };
    let mut text = serde_json::to_vec(&verdict).expect("strings and numbers are always JSON");
    text.push(b'\n');
    print(&text);
}
