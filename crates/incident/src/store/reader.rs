//! Reads recordings. Files are foreign bytes: a line that cannot be read is counted and skipped, and so is the torn end of a file.

use crate::sample::{FORMAT, Head, Sample};
use crate::store::parse_name;
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line: the writer's limits on rows make samples of at most some 100 KB.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Most samples of an answer: a day and a half of one each second, in a gigabyte.
const SAMPLES_MAX: usize = 130_000;

/// The samples of a time span.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// In their order.
    pub samples: Vec<Sample>,
    /// Each head, with the time from which it holds.
    pub heads: Vec<(u64, Head)>,
    /// Lines that could not be read.
    pub unread: u64,
    /// Whether there were more samples than are read at once.
    pub cut: bool,
}

/// A segment on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its file.
    pub path: PathBuf,
    /// Time of its first sample.
    pub begun_ms: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// The segments of a folder, the oldest first.
pub fn segments(folder: &Path) -> Result<Vec<SegmentInfo>, String> {
    let failed = |error: std::io::Error| format!("\"{}\" cannot be read: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)?.flatten() {
        let path = entry.path();
        if let Some((begun_ms, _)) = parse_name(&path) {
            let bytes = entry.metadata().map_or(0, |data| data.len());
            found.push(SegmentInfo { path, begun_ms, bytes });
        }
    }
    found.sort_by(|a, b| (a.begun_ms, &a.path).cmp(&(b.begun_ms, &b.path)));
    Ok(found)
}

/// Reads the samples from one moment to another, both included.
pub fn read(folder: &Path, from_ms: u64, until_ms: u64) -> Result<Recording, String> {
    let segments = segments(folder)?;
    // The last segment that began before the first moment may reach into it.
    let first = segments.iter().rposition(|segment| segment.begun_ms <= from_ms).unwrap_or(0);
    let mut recording = Recording::default();
    for segment in segments.iter().skip(first).filter(|segment| segment.begun_ms <= until_ms) {
        let file = match File::open(&segment.path) {
            Ok(file) => file,
            // The recorder has compressed or removed it meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("\"{}\" cannot be read: {error}", segment.path.display())),
        };
        let is_closed = parse_name(&segment.path).is_some_and(|(_, is_closed)| is_closed);
        let bytes: Box<dyn Read> = if is_closed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        recording.add(bytes, segment.begun_ms, from_ms, until_ms);
    }
    recording.samples.sort_by_key(|sample| sample.at_ms);
    // A segment that was compressed while it was read is there twice.
    recording.samples.dedup_by_key(|sample| sample.at_ms);
    Ok(recording)
}

impl Recording {
    /// What holds for all samples: the last head.
    pub fn head(&self) -> Head {
        self.heads.last().map(|(_, head)| head.clone()).unwrap_or_default()
    }

    fn add(&mut self, bytes: impl Read, begun_ms: u64, from_ms: u64, until_ms: u64) {
        let mut lines = BufReader::new(bytes);
        let mut line = Vec::new();
        let mut is_first = true;
        loop {
            line.clear();
            match lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => {}
                // The end of a compressed file is missing.
                Err(_) => {
                    self.unread += 1;
                    return;
                }
            }
            if std::mem::take(&mut is_first) {
                match serde_json::from_slice::<Head>(&line) {
                    Ok(head) if head.format == FORMAT => self.heads.push((begun_ms, head)),
                    _ => {
                        self.unread += 1;
                        return;
                    }
                }
                continue;
            }
            match serde_json::from_slice::<Sample>(&line) {
                Ok(sample) if (from_ms..=until_ms).contains(&sample.at_ms) => {
                    if self.samples.len() >= SAMPLES_MAX {
                        self.cut = true;
                        return;
                    }
                    self.samples.push(sample);
                }
                Ok(_) => {}
                Err(_) => self.unread += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_files_and_formats_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "x").unwrap();
        fs::write(folder.path().join("samples-000000000000007.jsonl"), "{\"format\": 99}\n{\"at_ms\": 8}\n").unwrap();
        let found = read(folder.path(), 0, u64::MAX).unwrap();
        assert_eq!((found.samples.len(), found.unread), (0, 1));
        assert!(read(&folder.path().join("none"), 0, 1).unwrap_err().contains("cannot be read"));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..500), is_closed in any::<bool>()) {
            let folder = tempfile::tempdir().unwrap();
            let name = if is_closed { "samples-000000000000007.jsonl.gz" } else { "samples-000000000000007.jsonl" };
            let head = serde_json::to_vec(&Head { format: FORMAT, ..Head::default() }).unwrap();
            fs::write(folder.path().join(name), if is_closed { bytes } else { [&head[..], b"\n", &bytes].concat() }).unwrap();
            let _ = read(folder.path(), 0, u64::MAX).unwrap();
        }
    }
}
