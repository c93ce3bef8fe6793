//! Log files as descriptors: opened by whoever has the right to, written by the log writer.

use crate::process::ErrorLogFile;
use crate::report::errno;
use crate::verdict::Prepared;
use gateway::{ErrorLog, Level};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The directory of the built-in paths of logs and pid file.
const BUILT_IN: &str = "logs";

/// Open logs by path.
#[derive(Debug, Default)]
pub(crate) struct LogFiles {
    /// Each opened to append.
    pub(crate) files: HashMap<PathBuf, File>,
}

impl LogFiles {
    /// Opens everything that a configuration writes; the error is nginx's message.
    pub(crate) fn open(prepared: &Prepared) -> Result<Self, String> {
        let built_in = prepared.loaded.prefix.join(BUILT_IN);
        let paths = paths(prepared);
        let pid = prepared.process.iter().map(|process| &process.pid_path);
        if paths.iter().chain(pid).any(|path| path.parent() == Some(&built_in)) {
            // The built-in place is ours to make; a directory that the operator named is not, as in nginx. Should this
            // fail, opening the file says why.
            let _ = std::fs::create_dir_all(&built_in);
        }
        let mut files = HashMap::new();
        for path in paths {
            files.insert(path.clone(), open(&path)?);
        }
        Ok(Self { files })
    }
}

/// The error log of a process that runs no workers: written at once.
pub(super) struct Journal {
    log: ErrorLog,
    destinations: Vec<(Option<File>, Level)>,
}

impl Journal {
    /// Writes to the error logs of a configuration, which are among `files`.
    pub(super) fn new(error_logs: &[ErrorLogFile], files: &LogFiles) -> Self {
        let destination = |log: &ErrorLogFile| match &log.path {
            None => Some((None, log.level)),
            Some(path) => Some((Some(files.files.get(path)?.try_clone().ok()?), log.level)),
        };
        Self { log: ErrorLog::new(Level::Debug, 0), destinations: error_logs.iter().filter_map(destination).collect() }
    }

    /// Writes a line.
    pub(super) fn log(&self, level: Level, message: &str) {
        self.log.log(level, message);
        self.log.flush(|line, _| {
            for (file, threshold) in &self.destinations {
                if level < *threshold {
                    continue;
                }
                // A log that cannot be written must not keep the master from its work.
                let _ = match file {
                    Some(file) => (&*file).write_all(line),
                    None => io::stderr().write_all(line),
                };
            }
        });
    }

    /// A file for what a child of ours writes to standard error, such as a panic; `None` keeps the stream.
    pub(super) fn for_stderr(&self) -> Option<File> {
        let files: Option<Vec<&File>> = self.destinations.iter().map(|(file, _)| file.as_ref()).collect();
        files?.first()?.try_clone().ok()
    }
}

/// The files that a configuration writes, each once.
fn paths(prepared: &Prepared) -> Vec<PathBuf> {
    let errors = prepared.process.iter().flat_map(|process| &process.error_logs);
    let accesses = prepared.lowered.iter().flat_map(|lowered| &lowered.logs);
    let mut paths: Vec<PathBuf> =
        errors.filter_map(|log| log.path.clone()).chain(accesses.map(|log| log.path().to_path_buf())).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn open(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| format!("open() \"{}\" failed {}", path.display(), errno(&error)))
}
