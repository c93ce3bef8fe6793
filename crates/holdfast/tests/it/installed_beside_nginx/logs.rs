//! The lines of both logs, and the log files themselves.

use super::files::differences;
use super::sides::{Side, Sides};
use crate::support::comes_true;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Error logs of the configuration.
const ERROR_LOGS: [&str; 2] = ["error", "own-errors"];

/// Lines that only one side has, with the reason; `docs/guide/differences.md` has them, too.
const ONLY_ONE: [&str; 4] = [
    // Holdfast does not write a response to disk because its client is slow.
    "[warn] an upstream response is buffered to a temporary file",
    // A response that cannot be saved: nginx names the last call that failed, Holdfast the first cause.
    "[crit] mkdir() \"{home}/closed/",
    "[crit] \"{home}/closed/",
    // Another thread of Holdfast writes logs: its line has no request.
    "[crit] open() \"{logs}/named.log\" failed (13: Permission denied) while logging request",
];

/// The lines since the last rotation: those of the access log in any order, and of the error logs by request.
pub(super) fn compare(sides: &Sides) -> Vec<String> {
    let access = |side: Side| access_lines(&sides.machine.text(&format!("{}/access.log", side.logs())));
    let mut wrong = Vec::new();
    if !comes_true(|| access(Side::Ours).len() >= access(Side::Nginx).len()) {
        wrong.push("lines of the access log are missing".to_owned());
    }
    let (mut theirs, mut ours) = (access(Side::Nginx), access(Side::Ours));
    // The line of a request is written when its exchange ends, which may be after the next connection's.
    theirs.sort_unstable();
    ours.sort_unstable();
    assert!(theirs.len() > 100, "nginx logged {} requests", theirs.len());
    let pairs = theirs.iter().zip(&ours).filter(|(theirs, ours)| theirs != ours);
    wrong.extend(pairs.map(|(theirs, ours)| format!("access log: {theirs} -> {ours}")));
    for log in ERROR_LOGS {
        let errors = |side: Side| errors(side, &sides.machine.text(&format!("{}/{log}.log", side.logs())));
        // The error log is written behind the requests.
        comes_true(|| differences(log, &errors(Side::Nginx), &errors(Side::Ours)).is_empty());
        assert!(errors(Side::Nginx).len() > 5, "nginx has few errors in {log}");
        wrong.extend(differences(&format!("{log} log,"), &errors(Side::Nginx), &errors(Side::Ours)));
    }
    wrong
}

/// The lines of an access log, without lengths that differ: the server's name is in pages of errors, the name of a file
/// in what the origin echoes, and chunks are cut differently.
fn access_lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.contains(" /mark/"));
    lines
        .map(|line| {
            let mut words: Vec<&str> = line.split(' ').collect();
            if words[1].contains("/chunked/") || words[1].contains("/echo") || words[2] >= "400" {
                words[3] = "(length)";
            }
            if words[1].contains("/echo") {
                words[7] = "(length)";
            }
            words.join(" ")
        })
        .collect()
}

/// Level and message of the lines that requests cause, by request.
fn errors(side: Side, text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::<String, String>::new();
    for line in text.lines() {
        let Some((before, request)) = line.split_once(", request: \"") else { continue };
        let Some((_, level)) = before.split_once(" [") else { continue };
        let (level, rest) = level.split_once("] ").unwrap_or((level, ""));
        let message = rest.split_once(": *").and_then(|(_, rest)| rest.split_once(' ')).map_or(rest, |(_, rest)| rest);
        let message = message.split(", client: ").next().unwrap_or_default();
        let message = match message.split_once("temporary file ") {
            Some((words, path)) => format!("{words}temporary file {}", side.neutral_path(path)),
            None => side.neutral(message),
        };
        let line = format!("[{level}] {message}");
        if ONLY_ONE.iter().any(|known| line.starts_with(known)) {
            continue;
        }
        let all = found.entry(request.split('"').next().unwrap_or_default().to_owned()).or_default();
        all.push_str(&line);
        all.push_str("; ");
    }
    found
}

/// Permissions and number of lines of all log files. Their owner differs: nginx gives them to its user when it opens
/// them again, because its workers open them then.
pub(super) fn compare_files(sides: &Sides) -> Vec<String> {
    let of = |side: Side| -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for folder in [side.logs().to_owned(), format!("{}/own", side.home())] {
            for entry in fs::read_dir(sides.machine.path(&folder)).expect("a folder").flatten() {
                let name = format!("{}/{}", side.neutral(&folder), entry.file_name().to_string_lossy());
                let mode = entry.metadata().expect("a file").mode() & 0o7777;
                let lines = access_count(&fs::read_to_string(entry.path()).unwrap_or_default());
                let lines = if name.contains("error") { String::new() } else { format!(" {lines} lines") };
                found.insert(name, format!("{mode:o}{lines}"));
            }
        }
        found
    };
    let found = of(Side::Nginx);
    let names: BTreeSet<_> = found.keys().map(String::as_str).collect();
    assert!(names.contains("{home}/own/own.log") && names.contains("{logs}/access.log.1"), "{names:?}");
    let logged = sides.machine.text(&format!("{}/error.log.1", Side::Ours.logs()));
    assert!(logged.contains("named.log\" failed (13: Permission denied)"), "{logged}");
    differences("log", &found, &of(Side::Ours))
}

fn access_count(text: &str) -> usize {
    text.lines().filter(|line| !line.contains(" /mark/")).count()
}
