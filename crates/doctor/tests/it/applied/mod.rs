//! Applies the doctor's output. A fix is a unified diff of a configuration, lines of a sysctl file, or both, with
//! comments; an undo reverses it. Strict: any other line fails the test, and so does a diff that does not match.

use doctor::{Dialect, Expected, Facts, Setting, System, rules};
use report::Finding;
use std::collections::BTreeMap;

/// A configuration and settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) conf: String,
    pub(crate) sysctls: BTreeMap<String, String>,
}

impl Files {
    /// An example of the rules: a whole file, the inside of `http {}`, or a sysctl file.
    pub(crate) fn of_example(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let is_sysctl = lines.clone().all(|line| setting(line).is_some());
        if is_sysctl {
            let sysctls = lines.filter_map(setting).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            return Self { conf: "events {}\nhttp {\n}\n".to_owned(), sysctls };
        }
        let body = lines.fold(String::new(), |body, line| body + line + "\n");
        let conf = if body.contains("http {") { body } else { format!("events {{}}\nhttp {{\n{body}}}\n") };
        Self { conf, sysctls: BTreeMap::new() }
    }

    /// Applies the fix as a user who pastes it.
    pub(crate) fn fixed(&self, fix: &str) -> Self {
        let mut files = self.clone();
        let diff = files.settings(fix);
        files.conf = patched(&files.conf, &diff, false);
        files
    }

    /// Applies the undo of a fix.
    pub(crate) fn undone(&self, undo: &str, fix: &str) -> Self {
        let mut files = self.clone();
        let is_reversed = undo.contains("patch -R");
        files.settings(&undo.lines().filter(|line| !line.contains("patch -R")).collect::<Vec<_>>().join("\n"));
        if is_reversed {
            let diff = self.clone().settings(fix);
            files.conf = patched(&files.conf, &diff, true);
        }
        files
    }

    /// Applies the settings of a text; returns the rest, which is the diff.
    fn settings(&mut self, text: &str) -> Vec<String> {
        let mut diff = Vec::new();
        let mut left = 0_usize;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("--- ") {
                assert_eq!(line, "--- /etc/nginx/nginx.conf");
                assert_eq!(lines.next(), Some("+++ /etc/nginx/nginx.conf"));
            } else if left > 0 || line.starts_with("@@ ") || line.starts_with('\\') {
                left = if let Some((_, old, _, new)) = header(line) { old + new } else { left - weight(line) };
                diff.push(line.to_owned());
            } else if let Some(name) = line.strip_prefix("# delete ") {
                self.sysctls.remove(name).expect("it is there");
            } else if let Some((name, value)) = setting(line.strip_prefix("sysctl -w ").unwrap_or(line)) {
                self.sysctls.insert(name.to_owned(), value.trim_matches('"').to_owned());
            } else {
                assert!(line.starts_with('#') || line.is_empty(), "nothing that can be applied: {line}");
            }
        }
        assert_eq!(left, 0, "a hunk ends early: {text}");
        diff
    }
}

fn weight(line: &str) -> usize {
    match line.as_bytes().first() {
        Some(b' ') => 2,
        Some(b'+' | b'-') => 1,
        _ => 0,
    }
}

fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = name.contains('.') && name.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c));
    is_name.then_some((name, value.trim()))
}

/// `@@ -4,2 +4,3 @@`
fn header(line: &str) -> Option<(usize, usize, usize, usize)> {
    let rest = line.strip_prefix("@@ -")?.strip_suffix(" @@")?;
    let (old, new) = rest.split_once(" +")?;
    let pair = |text: &str| text.split_once(',').map(|(line, count)| (line.parse().ok(), count.parse().ok()));
    let ((a, b), (c, d)) = (pair(old)?, pair(new)?);
    Some((a?, b?, c?, d?))
}

fn patched(text: &str, diff: &[String], reverse: bool) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (mut at, mut out) = (0, Vec::new());
    for line in diff {
        if let Some((old, old_count, new, new_count)) = header(line) {
            let (line, count) = if reverse { (new, new_count) } else { (old, old_count) };
            let start = if count == 0 { line } else { line - 1 };
            assert!(start >= at, "hunks are in order: {diff:?}");
            out.extend(lines[at..start].iter().map(|line| (*line).to_owned()));
            at = start;
            continue;
        }
        let Some(mark) = line.chars().next().filter(|mark| *mark != '\\') else { continue };
        let (mark, body) = (if reverse { flipped(mark) } else { mark }, &line[1..]);
        if mark != '+' {
            assert_eq!(lines[at], body, "the diff does not fit: {diff:?}");
            at += 1;
        }
        if mark != '-' {
            out.push(body.to_owned());
        }
    }
    out.extend(lines[at..].iter().map(|line| (*line).to_owned()));
    let end = if text.ends_with('\n') { "\n" } else { "" };
    out.join("\n") + end
}

fn flipped(mark: char) -> char {
    match mark {
        '+' => '-',
        '-' => '+',
        other => other,
    }
}

/// A host with sufficient settings for the examples.
pub(crate) fn host() -> System {
    let sysctls = [
        ("net.core.somaxconn", "4096"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.ip_local_port_range", "32768 60999"),
        ("net.ipv4.tcp_tw_reuse", "2"),
        ("fs.nr_open", "1048576"),
    ];
    let sysctls = sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    System { sysctls, memory_bytes: Some(8 << 30), cpus: Some(4), descriptors: Some(4096), ..System::default() }
}

/// `# holdfast doctor --concurrency 200` above an example.
pub(crate) fn expected(example: &str) -> Expected {
    let mut expected = Expected::default();
    let Some(words) = example.lines().next().and_then(|line| line.strip_prefix("# holdfast doctor ")) else {
        return expected;
    };
    let words: Vec<&str> = words.split(' ').collect();
    for pair in words.chunks(2) {
        let number = pair[1].parse().ok();
        match pair[0] {
            "--concurrency" => expected.concurrency = number,
            "--connections" => expected.connections = number,
            "--peer-idle" => expected.peer_idle_seconds = number,
            "--peer-connections" => expected.peer_connections_max = number,
            "--heartbeat" => expected.heartbeat_seconds = number,
            other => panic!("an option that no test knows: {other}"),
        }
    }
    expected
}

/// The doctor's findings.
pub(crate) fn found(files: &Files, dialect: Dialect, expected: Expected) -> Vec<Finding> {
    found_on(files, dialect, expected, host())
}

pub(crate) fn found_on(files: &Files, dialect: Dialect, expected: Expected, mut system: System) -> Vec<Finding> {
    // Settings in files also count as current values, so that a fix's settings replace both.
    system.sysctls.extend(files.sysctls.clone());
    let setting = |(name, value): (&String, &String)| Setting {
        name: name.clone(),
        value: value.clone(),
        file: "/etc/sysctl.conf".to_owned(),
        line: 1,
    };
    let settings = files.sysctls.iter().map(setting).collect();
    let configuration = Some(crate::disk::parsed(&files.conf));
    rules::examine(&Facts { dialect, configuration, system, settings, expected, ..Facts::default() })
}
