//! Writes samples into segments, and removes the oldest ones. A sample that cannot be written is dropped and counted: the next one is
//! tried again.

use crate::sample::{Head, Sample};
use crate::store::{CLOSED_ENDING, file_name, parse_name};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most time in one segment: what a reader has to read for a moment, and what is plain text.
const SEGMENT_TIME_MS: u64 = 10 * 60 * 1000;
/// Most bytes of a plain segment; a machine with many destinations reaches it before the time.
const SEGMENT_BYTES_MAX: u64 = 8 << 20;
/// The share of the folder's bytes that the plain segment may take, so that small folders hold several segments.
const SEGMENTS_MIN: u64 = 4;

/// Names that are tried for a new segment.
const NAMES_TRIED: u64 = 16;

/// How much a folder may hold.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Segments that end before this time are removed.
    pub keep: Duration,
    /// Most bytes of all segments together.
    pub bytes_max: u64,
}

/// Writes into a folder. One recorder at a time has a folder.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    bounds: Bounds,
    head: Head,
    /// Held as long as the recorder runs.
    _lock: File,
    open: Option<Open>,
}

/// The segment that is being written.
#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    begun_ms: u64,
    bytes: u64,
}

impl Writer {
    /// Opens the folder, makes it if it does not exist, and finishes segments that an earlier recorder left.
    pub fn open(folder: &Path, bounds: Bounds, head: Head) -> Result<Self, String> {
        let failed = |what: &str, path: &Path, error: &dyn std::fmt::Display| {
            format!("{what} \"{}\" failed: {error}", path.display())
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed("making", folder, &error))?;
        let path = folder.join("lock");
        let lock = create(&path).map_err(|error| failed("opening", &path, &error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(format!(
                "another recorder writes to \"{}\": end it, or choose another folder with --dir",
                folder.display()
            ));
        }
        let writer = Self { folder: folder.to_owned(), bounds, head, _lock: lock, open: None };
        for (path, _, is_closed) in writer.list() {
            if !is_closed {
                // A segment that cannot be compressed is still read as it is.
                let _ = compress(&path);
            }
        }
        Ok(writer)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the next segments begin with.
    pub fn set_head(&mut self, head: Head) {
        if head != self.head {
            self.head = head;
            self.finish();
        }
    }

    /// Writes a sample. After an error the sample is lost; the next one is tried anew.
    pub fn write(&mut self, sample: &Sample) -> io::Result<()> {
        let bytes_max = SEGMENT_BYTES_MAX.min(self.bounds.bytes_max / SEGMENTS_MIN);
        // A clock that was set back begins another segment, too.
        let is_over = |open: &Open| {
            !(open.begun_ms..open.begun_ms + SEGMENT_TIME_MS).contains(&sample.at_ms) || open.bytes >= bytes_max
        };
        if self.open.as_ref().is_some_and(is_over) {
            self.finish();
        }
        if self.open.is_none() {
            self.remove_old(sample.at_ms);
            self.open = Some(self.begin(sample.at_ms)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut line = serde_json::to_vec(sample)?;
        line.push(b'\n');
        open.append(&line)
    }

    fn begin(&self, at_ms: u64) -> io::Result<Open> {
        let mut options = OpenOptions::new();
        options.create_new(true).append(true).mode(0o600);
        // A clock that was set back may come to the same millisecond again.
        let names = (at_ms..at_ms + NAMES_TRIED).map(|at_ms| self.folder.join(file_name(at_ms)));
        let mut opened = Err(io::ErrorKind::AlreadyExists.into());
        for path in names {
            opened = options.open(&path).map(|file| (file, path));
            if !matches!(&opened, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        let (file, path) = opened?;
        let mut open = Open { file, path, begun_ms: at_ms, bytes: 0 };
        let mut line = serde_json::to_vec(&self.head)?;
        line.push(b'\n');
        if let Err(error) = open.append(&line) {
            // Without its head it is no segment.
            let _ = fs::remove_file(&open.path);
            return Err(error);
        }
        Ok(open)
    }

    /// Ends the segment. Compressing ten minutes takes some ten milliseconds of CPU.
    pub fn finish(&mut self) {
        if let Some(open) = self.open.take() {
            // If the disk is full, it stays as it is, and readers take it.
            let _ = compress(&open.path);
        }
    }

    /// All segments, the oldest first: path, beginning, and whether they are compressed.
    fn list(&self) -> Vec<(PathBuf, u64, bool)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let (begun_ms, is_closed) = parse_name(&path)?;
                Some((path, begun_ms, is_closed))
            })
            .collect();
        found.sort_by_key(|(_, begun_ms, _)| *begun_ms);
        found
    }

    /// Removes segments that are too old, and the oldest ones beyond the bytes that the folder may have.
    fn remove_old(&self, now_ms: u64) {
        let segments = self.list();
        let keep_ms = u64::try_from(self.bounds.keep.as_millis()).unwrap_or(u64::MAX);
        let oldest_ms = now_ms.saturating_sub(keep_ms);
        // There must be room for the segment that begins now.
        let bytes_max = self.bounds.bytes_max - self.bounds.bytes_max / SEGMENTS_MIN;
        let mut bytes: u64 = segments.iter().map(|(path, ..)| length(path)).sum();
        for (place, (path, ..)) in segments.iter().enumerate() {
            // A segment lasts until the next one begins.
            let ends_ms = segments.get(place + 1).map_or(now_ms, |(_, begun_ms, _)| *begun_ms);
            if ends_ms >= oldest_ms && bytes <= bytes_max {
                break;
            }
            bytes = bytes.saturating_sub(length(path));
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Open {
    /// Appends a whole line, or nothing.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(line);
        if written.is_ok() {
            self.bytes += line.len() as u64;
        } else {
            // A part of the line may be there.
            self.file.set_len(self.bytes)?;
        }
        written
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |data| data.len())
}

/// Replaces a plain segment by a compressed one. A reader finds one of them, or both with the same samples.
fn compress(path: &Path) -> io::Result<()> {
    let closed = path.with_extension("").with_extension(CLOSED_ENDING.trim_start_matches('.'));
    let unfinished = closed.with_extension("unfinished");
    let compressed = (|| {
        let from = BufReader::new(File::open(path)?);
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
        let mut into = GzEncoder::new(BufWriter::new(file), Compression::fast());
        io::copy(&mut { from }, &mut into)?;
        into.finish()?.flush()
    })();
    if let Err(error) = compressed {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    fs::rename(&unfinished, &closed)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::read;
    use std::os::unix::fs::PermissionsExt as _;

    const BOUNDS: Bounds = Bounds { keep: Duration::from_hours(72), bytes_max: 64 << 20 };

    fn sample(at_ms: u64) -> Sample {
        Sample { at_ms, ..Sample::default() }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.filter(|name| name != "lock").collect();
        names.sort();
        names
    }

    fn times(folder: &Path) -> Vec<u64> {
        read(folder, 0, u64::MAX).unwrap().samples.iter().map(|sample| sample.at_ms).collect()
    }

    #[test]
    fn segments_are_finished_private_and_read_back() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("a/recorder");
        let head = Head { format: crate::sample::FORMAT, interval_ms: 1000, ..Head::default() };
        let mut writer = Writer::open(&folder, BOUNDS, head.clone()).unwrap();
        let error = Writer::open(&folder, BOUNDS, head.clone()).unwrap_err();
        assert!(error.starts_with("another recorder writes to"), "{error}");
        for at_ms in [1_000_000, 1_001_000, 1_000_000 + SEGMENT_TIME_MS] {
            writer.write(&sample(at_ms)).unwrap();
        }
        assert_eq!(names(&folder), ["samples-000000001000000.jsonl.gz", "samples-000000001600000.jsonl"]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert!(names(&folder).iter().all(|name| mode(&folder.join(name)) == 0o600));
        assert_eq!(times(&folder), [1_000_000, 1_001_000, 1_600_000]);
        let of_one = read(&folder, 1_550_000, 1_700_000).unwrap();
        assert_eq!((of_one.samples.len(), of_one.heads.last().unwrap().1.clone()), (1, head.clone()));
        // After a kill the next recorder finishes the segment.
        let open = folder.join("samples-000000001600000.jsonl");
        let text = fs::read(&open).unwrap();
        drop(writer);
        fs::write(&open, [&text[..], b"{\"at_ms\": 17"].concat()).unwrap();
        fs::remove_file(folder.join("samples-000000001600000.jsonl.gz")).unwrap();
        let _writer = Writer::open(&folder, BOUNDS, head).unwrap();
        assert_eq!(names(&folder).last().unwrap(), "samples-000000001600000.jsonl.gz");
        let found = read(&folder, 0, u64::MAX).unwrap();
        assert_eq!((found.samples.len(), found.unread), (3, 1));
    }

    #[test]
    fn age_and_bytes_bound_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let bounds = Bounds { keep: Duration::from_hours(1), bytes_max: 40_000 };
        let mut writer =
            Writer::open(folder.path(), bounds, Head { format: crate::sample::FORMAT, ..Head::default() }).unwrap();
        for minute in 0..180 {
            writer.write(&sample(1_000_000_000 + minute * 60_000)).unwrap();
        }
        let kept = times(folder.path());
        assert!(kept.len() <= 81 && kept.len() >= 60, "{}", kept.len());
        let bulky = Sample {
            unanswered: Some((0..999).map(|at| char::from(b'a' + (at * at % 23) as u8)).collect()),
            ..sample(0)
        };
        for second in 0..2000 {
            writer.write(&Sample { at_ms: 2_000_000_000 + second, ..bulky.clone() }).unwrap();
            let bytes: u64 = names(folder.path()).iter().map(|name| length(&folder.path().join(name))).sum();
            assert!(bytes <= 40_000 + 2000, "{bytes}");
        }
        assert_eq!(times(folder.path()).last(), Some(&2_000_001_999));
    }
}
