//! A log file that is open for writing, and the count of lines lost for it. Used only by the log writer.

use crate::report::errno;
use flate2::Compression;
use flate2::write::GzEncoder;
use gateway::{Level, Registry};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two alerts about the same trouble.
const ALERT_PERIOD: Duration = Duration::from_mins(1);

/// Opens a log for appending.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// An open file.
pub(super) struct LogOutput {
    pub(super) file: File,
    /// Whether the last write ended within a line. The next write ends that line first.
    torn: bool,
}

impl LogOutput {
    /// A file that is assumed to end in a complete line.
    pub(super) fn new(file: File) -> Self {
        Self { file, torn: false }
    }

    /// Writes lines, compressed if a level is given.
    pub(super) fn write(&mut self, lines: &[u8], gzip: Option<u8>, path: &Path, trouble: &mut Trouble) {
        let (written, outcome) = match gzip {
            None => self.write_lines(lines),
            Some(level) => self.write_compressed(lines, level),
        };
        if let Err(error) = outcome {
            let lost = lines.get(written..).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count() as u64;
            trouble.note(lost, || format!("write() to \"{}\" failed {}", path.display(), errno(&error)));
        }
    }

    /// Returns how many bytes of the lines were written.
    fn write_lines(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        if self.torn {
            match self.file.write_all(b"\n") {
                Ok(()) => self.torn = false,
                Err(error) => return (0, Err(error)),
            }
        }
        let mut written = 0;
        while let Some(rest) = lines.get(written..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    written += count;
                    self.torn = rest.get(count.wrapping_sub(1)) != Some(&b'\n');
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Each batch is a gzip member of its own, and several members form one gzip file (RFC 1952 section 2.2). A partly
    /// written member is truncated, because what follows it could not be read.
    fn write_compressed(&mut self, lines: &[u8], level: u8) -> (usize, io::Result<()>) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level.into()));
        let packed = encoder.write_all(lines).and_then(|()| encoder.finish());
        let outcome = packed.and_then(|packed| {
            let length = self.file.metadata()?.len();
            self.file.write_all(&packed).inspect_err(|_| _ = self.file.set_len(length))
        });
        (0, outcome)
    }
}

/// Lines that were lost and not reported yet.
#[derive(Default)]
pub(super) struct Trouble {
    pub(super) lines: u64,
    pub(super) reason: String,
    told: Option<Instant>,
}

impl Trouble {
    /// Counts lost lines.
    pub(super) fn note(&mut self, lines: u64, reason: impl FnOnce() -> String) {
        self.lines += lines;
        self.reason = reason();
    }

    /// Reports lost lines in the error log, unless it did so a moment ago.
    pub(super) fn report(&mut self, registry: &'static Registry) {
        if self.lines == 0 || self.told.is_some_and(|told| told.elapsed() < ALERT_PERIOD) {
            return;
        }
        self.told = Some(Instant::now());
        registry.error_log().log(Level::Alert, &format!("{}; {} log lines were lost", self.reason, self.lines));
        self.lines = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::MultiGzDecoder;
    use std::io::Read as _;

    #[test]
    fn full_disk_drops_lines_and_is_reported_once() {
        let mut output = LogOutput::new(File::options().append(true).open("/dev/full").expect("Linux has it"));
        let mut trouble = Trouble::default();
        output.write(b"one\ntwo\n", None, Path::new("/dev/full"), &mut trouble);
        assert_eq!(trouble.lines, 2);
        assert_eq!(trouble.reason, "write() to \"/dev/full\" failed (28: No space left on device)");
        output.write(b"three\n", Some(1), Path::new("/dev/full"), &mut trouble);
        assert_eq!(trouble.lines, 3);
    }

    #[test]
    fn compressed_batches_are_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log.gz");
        let (mut output, mut trouble) = (LogOutput::new(open_log(&path).unwrap()), Trouble::default());
        output.write(b"one\ntwo\n", Some(1), &path, &mut trouble);
        output.write(b"three\n", Some(9), &path, &mut trouble);
        let mut text = String::new();
        MultiGzDecoder::new(File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), trouble.lines), ("one\ntwo\nthree\n", 0));
    }
}
