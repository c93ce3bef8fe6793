//! Access logs with variables in their names: each line determines its file. The serving process opens the files with
//! its own rights, and keeps them open as `open_log_file_cache` allows. Used only by the log writer.

use super::log_output::{LogOutput, Trouble, open_log};
use crate::report::errno;
use gateway::{NamedFiles, Record};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The files of all logs that share one `open_log_file_cache`.
pub(super) struct NamedLogs {
    cache: NamedFiles,
    known: HashMap<PathBuf, Known>,
}

/// A recently used file.
struct Known {
    /// `None` until it is used often enough to stay open.
    output: Option<LogOutput>,
    uses: u32,
    used_at: Instant,
    /// When its name was last checked.
    checked_at: Instant,
}

impl NamedLogs {
    /// Starts with no open file.
    pub(super) fn new(cache: NamedFiles) -> Self {
        Self { cache, known: HashMap::new() }
    }

    /// Closes all files: after a rotation the names belong to other files.
    pub(super) fn close(&mut self) {
        self.known.clear();
    }

    /// Writes each line to the file that it names.
    pub(super) fn write<'a>(&mut self, records: impl Iterator<Item = Record<'a>>, now: Instant, trouble: &mut Trouble) {
        self.known.retain(|_, known| now.saturating_duration_since(known.used_at) < self.cache.inactive);
        let mut batches: Vec<(&Path, &[u8], Vec<u8>)> = Vec::new();
        let mut places: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
        for Record { path, root, line } in records {
            let at = *places.entry((path, root)).or_insert_with(|| {
                batches.push((Path::new(OsStr::from_bytes(path)), root, Vec::new()));
                batches.len() - 1
            });
            batches[at].2.extend_from_slice(line);
            batches[at].2.push(b'\n');
        }
        let mut roots: HashMap<&[u8], bool> = HashMap::new();
        for (path, root, lines) in &batches {
            // As in nginx, no file is made if the request's root does not exist: a Host header cannot create files at
            // will.
            let exists = *roots.entry(root).or_insert_with(|| Path::new(OsStr::from_bytes(root)).is_dir());
            if !exists {
                continue;
            }
            if let Err(error) = self.write_batch(path, lines, now, trouble) {
                trouble.note(line_count(lines).into(), || {
                    format!("open() \"{}\" failed {}", path.display(), errno(&error))
                });
            }
        }
    }

    fn write_batch(&mut self, path: &Path, lines: &[u8], now: Instant, trouble: &mut Trouble) -> io::Result<()> {
        if self.cache.open_max == 0 {
            LogOutput::new(open_log(path)?).write(lines, None, path, trouble);
            return Ok(());
        }
        let Some(known) = self.known.get_mut(path) else {
            // The file is opened first, so that a failure does not close another file.
            let mut output = LogOutput::new(open_log(path)?);
            output.write(lines, None, path, trouble);
            self.make_room();
            let output = Some(output).filter(|_| line_count(lines) >= self.cache.uses_min);
            let known = Known { output, uses: line_count(lines), used_at: now, checked_at: now };
            self.known.insert(path.to_path_buf(), known);
            return Ok(());
        };
        known.used_at = now;
        known.uses = known.uses.saturating_add(line_count(lines));
        if now.saturating_duration_since(known.checked_at) >= self.cache.valid {
            known.output = known.output.take().filter(|output| has_name(output, path));
            known.checked_at = now;
        }
        let mut output = match known.output.take() {
            Some(output) => output,
            None => LogOutput::new(open_log(path)?),
        };
        output.write(lines, None, path, trouble);
        known.output = Some(output).filter(|_| known.uses >= self.cache.uses_min);
        Ok(())
    }

    /// Closes the least recently used file if the limit is reached.
    fn make_room(&mut self) {
        if self.known.len() < self.cache.open_max {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.used_at).map(|(path, _)| path.clone());
        if let Some(oldest) = oldest {
            self.known.remove(&oldest);
        }
    }
}

/// Number of uses of a file, for `min_uses`.
fn line_count(lines: &[u8]) -> u32 {
    u32::try_from(lines.iter().filter(|&&byte| byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// Whether the path still names the open file.
fn has_name(output: &LogOutput, path: &Path) -> bool {
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let (open, named) = (output.file.metadata().map(identity), std::fs::metadata(path).map(identity));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn cache(open_max: usize, uses_min: u32) -> NamedFiles {
        let (inactive, valid) = (Duration::from_secs(10), Duration::from_mins(1));
        NamedFiles { open_max, inactive, uses_min, valid }
    }

    /// Writes one line to each of these files.
    fn write(logs: &mut NamedLogs, folder: &Path, names: &[&str], now: Instant) -> Trouble {
        let mut trouble = Trouble::default();
        let root = folder.as_os_str().as_bytes();
        let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        let record = |path: &'_ PathBuf| (path.as_os_str().as_bytes().to_vec(), b"line".to_vec());
        let owned: Vec<_> = paths.iter().map(record).collect();
        logs.write(owned.iter().map(|(path, line)| Record { path, root, line }), now, &mut trouble);
        trouble
    }

    fn open_files(logs: &NamedLogs) -> usize {
        logs.known.values().filter(|known| known.output.is_some()).count()
    }

    #[test]
    fn files_stay_open_as_the_cache_says() {
        let (folder, begun) = (tempfile::tempdir().unwrap(), Instant::now());
        let folder = folder.path();
        let mut closing = NamedLogs::new(cache(0, 1));
        write(&mut closing, folder, &["a", "a", "b"], begun);
        assert_eq!((fs::read_to_string(folder.join("a")).unwrap().as_str(), open_files(&closing)), ("line\nline\n", 0));
        let mut logs = NamedLogs::new(cache(2, 1));
        write(&mut logs, folder, &["a", "b", "c"], begun);
        assert_eq!(open_files(&logs), 2, "as many as permitted");
        write(&mut logs, folder, &["a"], begun + Duration::from_secs(11));
        assert_eq!(open_files(&logs), 1, "the others were not used for too long");
        let mut rarely = NamedLogs::new(cache(2, 2));
        write(&mut rarely, folder, &["a"], begun);
        assert_eq!(open_files(&rarely), 0, "once is not often enough");
        write(&mut rarely, folder, &["a"], begun);
        assert_eq!(open_files(&rarely), 1);
        write(&mut rarely, folder, &["b", "b"], begun);
        assert_eq!(open_files(&rarely), 2, "each line is a use");
    }

    #[test]
    fn a_file_that_cannot_be_opened_displaces_no_other() {
        let (folder, begun) = (tempfile::tempdir().unwrap(), Instant::now());
        let folder = folder.path();
        let mut logs = NamedLogs::new(cache(1, 1));
        write(&mut logs, folder, &["a"], begun);
        assert_eq!(write(&mut logs, folder, &["no/such/directory"], begun).lines, 1);
        assert_eq!((open_files(&logs), logs.known.contains_key(&folder.join("a"))), (1, true));
    }

    #[test]
    fn a_file_that_was_renamed_is_noticed_in_time() {
        let (folder, begun) = (tempfile::tempdir().unwrap(), Instant::now());
        let folder = folder.path();
        let mut logs = NamedLogs::new(NamedFiles { valid: Duration::from_secs(5), ..cache(2, 1) });
        write(&mut logs, folder, &["a"], begun);
        fs::rename(folder.join("a"), folder.join("old")).unwrap();
        write(&mut logs, folder, &["a"], begun + Duration::from_secs(1));
        assert!(!folder.join("a").exists(), "it is still taken for the same file");
        write(&mut logs, folder, &["a"], begun + Duration::from_secs(6));
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "line\n");
    }

    #[test]
    fn missing_root_makes_no_file_and_bad_names_drop_lines() {
        let folder = tempfile::tempdir().unwrap();
        let mut logs = NamedLogs::new(cache(0, 1));
        let mut trouble = Trouble::default();
        let (path, root) = (folder.path().join("x"), folder.path().join("nobody"));
        let (path, root) = (path.as_os_str().as_bytes(), root.as_os_str().as_bytes());
        logs.write([Record { path, root, line: b"line" }].into_iter(), Instant::now(), &mut trouble);
        assert_eq!((fs::read_dir(folder.path()).unwrap().count(), trouble.lines), (0, 0));
        let trouble = write(&mut logs, folder.path(), &["no/such/directory"], Instant::now());
        assert_eq!(trouble.lines, 1);
    }
}
