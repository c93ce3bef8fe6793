//! Limits what processes and loads may write. The kernel limits the size of each file, and regular checks limit the sum of
//! each folder. A server whose log goes wrong writes a gigabyte in a second, and a full disk would prevent writing the
//! record. Called by `processes`, which starts the programs, and by `sample`, which watches them.

use super::StageError;
use crate::limits::FILL_BYTES_MAX;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit of one file, including standard output and error: `RLIMIT_FSIZE`. It is twice the largest body of an experiment,
/// and enough for the access log of five million requests.
pub(super) const FILE_BYTES_MAX: u64 = 2 * FILL_BYTES_MAX;
/// Limit of a folder with everything in it.
const FOLDER_BYTES_MAX: u64 = 4 * FILL_BYTES_MAX;
/// Time between two checks: a disk takes a gigabyte in a second, and checking some ten files costs as many microseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Most files and folders in one check. No real folder has as many, and a check must not become a load.
const ENTRIES_MAX: usize = 4096;
/// The unit of `st_blocks` on every file system (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// A program and the folder that it writes into.
pub(super) struct Writer<'a> {
    pub(super) name: &'a str,
    pub(super) place: &'a str,
    pub(super) folder: &'a Path,
}

/// Checks the folders from time to time.
#[derive(Debug, Default)]
pub(super) struct Written {
    last: Option<Instant>,
}

impl Written {
    /// An error about the first folder above its limit, if a check is due.
    pub(super) fn check<'a>(&mut self, writers: impl Iterator<Item = Writer<'a>>) -> Result<(), StageError> {
        if self.last.is_some_and(|last| last.elapsed() < LOOK_AGAIN) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        for Writer { name, place, folder } in writers {
            check_folder(name, folder, FOLDER_BYTES_MAX).map_err(|error| error.at(place))?;
        }
        Ok(())
    }

    /// Remarks on files at their limit: everything written after that is lost.
    pub(super) fn remarks<'a>(writers: impl Iterator<Item = Writer<'a>>) -> Vec<String> {
        let full = writers.filter_map(|Writer { name, folder, .. }| {
            let (_, full) = look(folder, FILE_BYTES_MAX);
            let file = full?;
            let file = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            Some(format!(
                "{name} has written all that it may into {file}, {}: the rest is lost",
                in_mib(FILE_BYTES_MAX)
            ))
        });
        full.collect()
    }
}

fn check_folder(name: &str, folder: &Path, most: u64) -> Result<(), StageError> {
    let (bytes, _) = look(folder, u64::MAX);
    if bytes <= most {
        return Ok(());
    }
    let (bytes, most) = (in_mib(bytes), in_mib(most));
    Err(StageError::new(format!(
        "{name} has written {bytes} into its folder, and a program of the lab may write {most}: it was ended before the disk \
         is full"
    )))
}

/// The bytes that a folder takes on disk, and the first file in it with at least `full` bytes.
fn look(folder: &Path, full: u64) -> (u64, Option<PathBuf>) {
    let (mut bytes, mut found, mut seen) = (0, None, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            // Metadata of the entry itself; a link would lead elsewhere.
            let Ok(about) = entry.metadata() else { continue };
            bytes += about.blocks() * BLOCK_BYTES;
            if about.is_dir() {
                folders.push(entry.path());
            } else if about.is_file() && about.len() >= full && found.is_none() {
                found = Some(entry.path());
            }
            if seen >= ENTRIES_MAX {
                return (bytes, found);
            }
        }
    }
    (bytes, found)
}

/// Formats bytes as `512 MiB`.
pub(super) fn in_mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_size_limit_covers_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        fs::write(folder.path().join("logs/access.log"), vec![b'x'; 3 << 20]).unwrap();
        check_folder("proxy", folder.path(), 16 << 20).unwrap();
        let error = check_folder("proxy", folder.path(), 2 << 20).unwrap_err().text;
        assert!(error.starts_with("proxy has written") && error.contains("may write 2 MiB"), "{error}");
    }

    #[test]
    fn full_file_is_named_and_outside_links_are_not_followed() {
        let (folder, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = fs::File::create(beside.path().join("large")).unwrap();
        // A sparse file: it has a length but takes no space.
        file.set_len(FILE_BYTES_MAX).unwrap();
        std::os::unix::fs::symlink(beside.path().join("large"), folder.path().join("link")).unwrap();
        let writer = || [Writer { name: "origin", place: "x.toml:1:1", folder: folder.path() }].into_iter();
        assert_eq!(Written::remarks(writer()), [""; 0]);
        fs::File::create(folder.path().join("output")).unwrap().set_len(FILE_BYTES_MAX).unwrap();
        let remarks = Written::remarks(writer());
        assert!(remarks[0].contains("into output, 512 MiB: the rest is lost"), "{remarks:?}");
        Written::default().check(writer()).unwrap();
    }
}
