//! Follows an error log and reduces its new lines to causes and peers. Lines themselves are not kept: they have paths and queries of
//! requests in them. A log that was rotated, by rename or by truncation, is opened again.

use crate::sample::Errors;
use doctor::log::reason;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Most bytes that are read at a time: 10,000 lines. What came beyond is skipped and counted, so that a flood of errors costs no CPU.
const READ_BYTES_MAX: u64 = 2 << 20;
/// Most rows of a sample.
const ROWS_MAX: usize = 64;
/// Most bytes of a subject: a host name has at most 253.
const SUBJECT_BYTES_MAX: usize = 280;
/// The beginning of a line that is kept until its end is written; nginx writes lines of at most 2 KB.
const LINE_BYTES_MAX: usize = 8192;

/// The cause of lines about `max_connections`, which only Holdfast has.
pub(crate) const POOL_EXHAUSTED: &str = "log-pool-exhausted";
/// The phrases of these lines.
const POOL_PHRASES: [&str; 2] = ["upstream connection limit reached (", "no upstream connection became free ("];

/// Lines by cause and subject.
#[derive(Debug, Default)]
pub(super) struct ErrorCounts(BTreeMap<(&'static str, String), u64>);

impl ErrorCounts {
    /// Counts a line.
    pub(super) fn add(&mut self, line: &str) {
        let (cause, subject) = match reason(line) {
            Some(found) => (found.cause, found.subject),
            None if POOL_PHRASES.iter().any(|words| line.contains(words)) => (POOL_EXHAUSTED, upstream_of(line)),
            None if is_problem(line) => ("other", ""),
            None => return,
        };
        let subject: String = subject.chars().filter(|c| !c.is_control()).take(SUBJECT_BYTES_MAX).collect();
        let key = (cause, subject);
        if self.0.len() < ROWS_MAX || self.0.contains_key(&key) {
            *self.0.entry(key).or_default() += 1;
        } else {
            *self.0.entry(("other", String::new())).or_default() += 1;
        }
    }

    pub(super) fn into_rows(self) -> Vec<Errors> {
        let row = |((cause, subject), count): ((&str, String), u64)| Errors { cause: cause.to_owned(), subject, count };
        self.0.into_iter().map(row).collect()
    }
}

/// Scheme and address of the upstream that a line names.
fn upstream_of(line: &str) -> &str {
    let url = line.split_once("upstream: \"").map_or("", |(_, rest)| rest.split('"').next().unwrap_or_default());
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(start..).and_then(|rest| rest.find(['/', '?'])).map_or(url.len(), |at| start + at);
    url.get(..end).unwrap_or_default()
}

/// Whether a line without a known cause is a problem: its level is error or worse.
fn is_problem(line: &str) -> bool {
    ["[error]", "[crit]", "[alert]", "[emerg]"].iter().any(|level| line.contains(level))
}

/// Follows a log.
#[derive(Debug)]
pub(super) struct LogFollower {
    path: PathBuf,
    file: Option<(File, u64)>,
    at: u64,
    rest: Vec<u8>,
}

impl LogFollower {
    /// Begins at the end of the log; a log that does not exist yet is read from its beginning.
    pub(super) fn open(path: PathBuf) -> Self {
        let mut follower = Self { path, file: None, at: 0, rest: Vec::new() };
        if follower.reopen().is_ok() {
            follower.at = follower.length();
        }
        follower
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = File::open(&self.path)?;
        let inode = file.metadata()?.ino();
        self.file = Some((file, inode));
        self.at = 0;
        self.rest.clear();
        Ok(())
    }

    fn length(&self) -> u64 {
        self.file.as_ref().and_then(|(file, _)| file.metadata().ok()).map_or(0, |data| data.len())
    }

    /// Counts the lines since the last time; returns how many bytes were skipped.
    pub(super) fn read(&mut self, counts: &mut ErrorCounts) -> u64 {
        let mut skipped = self.read_file(counts);
        let other = std::fs::metadata(&self.path)
            .is_ok_and(|found| self.file.as_ref().is_none_or(|(_, inode)| found.ino() != *inode));
        if other && self.reopen().is_ok() {
            skipped += self.read_file(counts);
        }
        skipped
    }

    fn read_file(&mut self, counts: &mut ErrorCounts) -> u64 {
        let length = self.length();
        if length < self.at {
            (self.at, self.rest) = (0, Vec::new());
        }
        let skipped = (length - self.at).saturating_sub(READ_BYTES_MAX);
        if skipped > 0 {
            self.at += skipped;
            self.rest.clear();
        }
        let Some((file, _)) = &mut self.file else { return 0 };
        let mut bytes = std::mem::take(&mut self.rest);
        let begun = bytes.len();
        if file.seek(SeekFrom::Start(self.at)).is_err() || file.take(READ_BYTES_MAX).read_to_end(&mut bytes).is_err() {
            return skipped;
        }
        self.at += (bytes.len() - begun) as u64;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (whole, rest) = bytes.split_at(end);
        for line in whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            counts.add(&String::from_utf8_lossy(line.get(..LINE_BYTES_MAX).unwrap_or(line)));
        }
        self.rest = rest.get(..LINE_BYTES_MAX).unwrap_or(rest).to_vec();
        skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{OpenOptions, rename, write};
    use std::io::Write as _;

    fn refused(port: u16) -> String {
        format!(
            "2026/11/21 23:40:22 [error] 7#7: *4 connect() failed (111: Connection refused) while connecting to upstream, client: 10.0.0.9, \
             server: api, request: \"GET /a?password=hunter2 HTTP/1.1\", upstream: \"http://127.0.0.1:{port}/a?password=hunter2\", host: \"api\"\n"
        )
    }

    fn counted(follower: &mut LogFollower) -> Vec<(String, String, u64)> {
        let mut counts = ErrorCounts::default();
        follower.read(&mut counts);
        counts.into_rows().into_iter().map(|row| (row.cause, row.subject, row.count)).collect()
    }

    #[test]
    fn new_lines_are_counted_over_rotations_and_without_requests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.log");
        write(&path, refused(1)).unwrap();
        let mut follower = LogFollower::open(path.clone());
        assert_eq!(counted(&mut follower), []);
        let row = |port: u16, count| ("log-upstream-refused".to_owned(), format!("http://127.0.0.1:{port}"), count);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        let line = refused(2);
        file.write_all(line.repeat(2).as_bytes()).unwrap();
        // The end of a line comes later.
        file.write_all(&line.as_bytes()[..100]).unwrap();
        assert_eq!(counted(&mut follower), [row(2, 2)]);
        file.write_all(&line.as_bytes()[100..]).unwrap();
        // A rename, with a line in the old file that was not read yet.
        rename(&path, folder.path().join("error.log.1")).unwrap();
        write(&path, refused(3)).unwrap();
        assert_eq!(counted(&mut follower), [row(2, 1), row(3, 1)]);
        // A truncation.
        write(&path, "2026/11/21 23:40:22 [crit] 7#7: x\n").unwrap();
        assert_eq!(counted(&mut follower), [("other".to_owned(), String::new(), 1)]);
    }

    #[test]
    fn a_flood_is_skipped_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.log");
        let mut follower = LogFollower::open(path.clone());
        let lines: String = (0..20_000).map(|at| refused(1 + at % 500)).collect();
        write(&path, &lines).unwrap();
        let mut counts = ErrorCounts::default();
        let skipped = follower.read(&mut counts);
        assert_eq!(skipped, lines.len() as u64 - READ_BYTES_MAX);
        assert!(counts.into_rows().len() <= ROWS_MAX + 1);
    }
}
