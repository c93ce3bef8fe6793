//! Log files as descriptors: opened by the process with the privileges, written by the log writer.

use super::log_output::open_log;
use super::syslog::Syslog;
use crate::report::errno;
use crate::verdict::{Prepared, local_offset_minutes};
use gateway::{ErrorLog, ErrorTarget, Level, LogPlace};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The directory of the built-in paths of logs and pid file.
const BUILT_IN: &str = "logs";

/// Open logs by path.
#[derive(Debug, Default)]
pub(crate) struct LogFiles {
    /// Each file is opened for appending.
    pub(crate) files: HashMap<PathBuf, File>,
}

impl LogFiles {
    /// Opens every log of a configuration; an error is nginx's message.
    pub(crate) fn open(prepared: &Prepared) -> Result<Self, String> {
        let built_in = prepared.loaded.prefix.join(BUILT_IN);
        let paths = paths(prepared);
        let pid = prepared.process.iter().map(|process| &process.pid_path);
        if paths.iter().chain(pid).any(|path| path.parent() == Some(&built_in)) {
            // As in nginx, we create the built-in directory, but not one that the operator named. If this fails,
            // opening the file gives the reason.
            let _ = std::fs::create_dir_all(&built_in);
        }
        let mut files = HashMap::new();
        for path in paths {
            files.insert(path.clone(), open(&path)?);
        }
        Ok(Self { files })
    }
}

/// The error log of a process without workers: it writes at once.
pub(super) struct Journal {
    log: ErrorLog,
    destinations: Vec<(Destination, Level)>,
}

enum Destination {
    File(File),
    Stderr,
    Syslog(RefCell<Syslog>),
}

impl Journal {
    /// Writes to the error logs of a configuration, whose files are among `files`.
    pub(super) fn new(targets: &[ErrorTarget], files: &LogFiles) -> Self {
        let offset = local_offset_minutes();
        let destination = |target: &ErrorTarget| {
            let destination = match &target.place {
                LogPlace::Stderr => Destination::Stderr,
                LogPlace::File(path) => Destination::File(files.files.get(path)?.try_clone().ok()?),
                LogPlace::Syslog(place) => Destination::Syslog(RefCell::new(Syslog::new(place.clone(), offset))),
                LogPlace::Named(_) => return None,
            };
            Some((destination, target.level))
        };
        let destinations = targets.iter().filter_map(destination).collect();
        Self { log: ErrorLog::new(Level::Debug, offset), destinations }
    }

    /// Writes a line.
    pub(super) fn log(&self, level: Level, message: &str) {
        self.log.log(level, message);
        self.log.flush(|line, _| {
            for (destination, threshold) in &self.destinations {
                if level < *threshold {
                    continue;
                }
                // A log that cannot be written must not stop the master.
                match destination {
                    Destination::File(file) => _ = (&*file).write_all(line),
                    Destination::Stderr => _ = io::stderr().write_all(line),
                    Destination::Syslog(syslog) => {
                        let line = line.strip_suffix(b"\n").unwrap_or(line);
                        let _ = syslog.borrow_mut().send_all(std::iter::once((level, line)));
                    }
                }
            }
        });
    }

    /// The file that gets the standard error of a child, such as a panic; `None` keeps the stream.
    pub(super) fn for_stderr(&self) -> Option<File> {
        let file = |(destination, _): &(Destination, Level)| match destination {
            Destination::File(file) => file.try_clone().ok(),
            Destination::Stderr | Destination::Syslog(_) => None,
        };
        self.destinations.iter().find_map(file)
    }
}

/// The log files of a configuration, without repetition.
fn paths(prepared: &Prepared) -> Vec<PathBuf> {
    let process = prepared.process.iter().flat_map(|process| &process.error_logs);
    let requests = prepared.plan.iter().flat_map(|plan| &plan.error_logs).flat_map(|log| &log.targets);
    let errors = process.chain(requests).map(|target| &target.place);
    let accesses = prepared.plan.iter().flat_map(|plan| &plan.logs).map(|log| log.sink.place());
    let file = |place: &LogPlace| match place {
        LogPlace::File(path) => Some(path.clone()),
        LogPlace::Stderr | LogPlace::Syslog(_) | LogPlace::Named(_) => None,
    };
    let mut paths: Vec<PathBuf> = errors.chain(accesses).filter_map(file).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn open(path: &Path) -> Result<File, String> {
    open_log(path).map_err(|error| format!("open() \"{}\" failed {}", path.display(), errno(&error)))
}
