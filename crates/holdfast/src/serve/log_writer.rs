//! The thread that may block on a disk: it collects what workers have rendered and writes it, about ten times a second and
//! at the end. A disk that does not take lines costs those lines, and one alert a minute.

use super::log_files::LogFiles;
use crate::process::ErrorLogFile;
use gateway::{Level, LogSink, Shared};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two collections: short enough that a tail is followed with the eye, long enough that a write holds many lines.
const PERIOD: Duration = Duration::from_millis(100);
/// Between two alerts about the same trouble.
const ALERT_PERIOD: Duration = Duration::from_mins(1);

/// The running thread.
pub(super) struct LogWriter {
    inner: Arc<Inner>,
    thread: JoinHandle<()>,
}

struct Inner {
    shared: &'static Shared,
    state: Mutex<State>,
    /// Rung when the state was changed by the control loop.
    changed: Condvar,
}

/// What is written where.
#[derive(Default)]
struct State {
    sinks: Vec<Arc<LogSink>>,
    error_logs: Vec<ErrorLogFile>,
    files: HashMap<PathBuf, Output>,
    trouble: Trouble,
    ending: bool,
}

/// An open file.
struct Output {
    file: File,
    /// The last write ended within a line, which the next one ends.
    torn: bool,
}

/// Lines that were lost and not yet spoken of.
#[derive(Default)]
struct Trouble {
    lines: u64,
    reason: String,
    told: Option<Instant>,
}

impl LogWriter {
    /// Starts the thread.
    pub(super) fn start(
        shared: &'static Shared,
        sinks: Vec<Arc<LogSink>>,
        error_logs: Vec<ErrorLogFile>,
        files: LogFiles,
    ) -> io::Result<Self> {
        let state = State { sinks, error_logs, files: outputs(files).collect(), ..State::default() };
        let inner = Arc::new(Inner { shared, state: Mutex::new(state), changed: Condvar::new() });
        let thread = std::thread::Builder::new().name("log writer".to_owned()).spawn({
            let inner = Arc::clone(&inner);
            move || inner.work()
        })?;
        Ok(Self { inner, thread })
    }

    /// Another configuration holds: its logs as well. Exchanges of the old one still write theirs.
    pub(super) fn reload(&self, sinks: &[Arc<LogSink>], error_logs: Vec<ErrorLogFile>, files: LogFiles) {
        let mut state = self.inner.lock();
        for sink in sinks {
            if !state.sinks.iter().any(|known| Arc::ptr_eq(known, sink)) {
                state.sinks.push(Arc::clone(sink));
            }
        }
        state.error_logs = error_logs;
        state.files.extend(outputs(files));
    }

    /// Goes on in these files, after everything that waits was written to those that were open.
    pub(super) fn reopen(&self, files: LogFiles) {
        let mut state = self.inner.lock();
        state.collect(self.inner.shared);
        state.files.extend(outputs(files));
    }

    /// Writes what is left, and ends the thread.
    pub(super) fn end(self) {
        self.inner.lock().ending = true;
        self.inner.changed.notify_all();
        // It ends by itself; a panic of it was reported by the runtime.
        let _ = self.thread.join();
    }
}

fn outputs(files: LogFiles) -> impl Iterator<Item = (PathBuf, Output)> {
    files.files.into_iter().map(|(path, file)| (path, Output { file, torn: false }))
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.ending {
            let waited = self.changed.wait_timeout(state, PERIOD).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.collect(self.shared);
        }
        state.collect(self.shared);
    }
}

impl State {
    fn collect(&mut self, shared: &'static Shared) {
        let mut lines = Vec::new();
        for sink in &self.sinks {
            lines.clear();
            let dropped = sink.take(&mut lines);
            if dropped > 0 {
                self.trouble.note(dropped, || format!("\"{}\" is not written fast enough", sink.path().display()));
            }
            if let Some(output) = self.files.get_mut(sink.path()).filter(|_| !lines.is_empty()) {
                output.write(&lines, sink.path(), &mut self.trouble);
            }
        }
        let Self { error_logs, files, trouble, .. } = self;
        trouble.tell(shared);
        shared.error_log().flush(|lines, dropped| {
            if dropped > 0 {
                trouble.note(dropped, || "the error log is not written fast enough".to_owned());
            }
            write_errors(lines, error_logs, files, trouble);
        });
    }
}

/// Gives each destination the lines of its level and above.
fn write_errors(
    lines: &[u8],
    error_logs: &[ErrorLogFile],
    files: &mut HashMap<PathBuf, Output>,
    trouble: &mut Trouble,
) {
    for log in error_logs {
        let mut chosen = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            if level_of(line).is_none_or(|level| level >= log.level) {
                chosen.extend_from_slice(line);
            }
        }
        match &log.path {
            // Nobody is left to tell if the terminal is gone.
            None => _ = io::stderr().write_all(&chosen),
            Some(path) => {
                if let Some(output) = files.get_mut(path) {
                    output.write(&chosen, path, trouble);
                }
            }
        }
    }
}

/// The level of a line `date time [level] …`.
pub(super) fn level_of(line: &[u8]) -> Option<Level> {
    const LEVELS: [(&[u8], Level); 8] = [
        (b"debug", Level::Debug),
        (b"info", Level::Info),
        (b"notice", Level::Notice),
        (b"warn", Level::Warn),
        (b"error", Level::Error),
        (b"crit", Level::Crit),
        (b"alert", Level::Alert),
        (b"emerg", Level::Emerg),
    ];
    let open = line.iter().position(|&byte| byte == b'[')?;
    let word = line.get(open + 1..)?.split(|&byte| byte == b']').next()?;
    LEVELS.iter().find(|(name, _)| *name == word).map(|&(_, level)| level)
}

impl Output {
    fn write(&mut self, mut lines: &[u8], path: &Path, trouble: &mut Trouble) {
        let ended = if self.torn { self.file.write_all(b"\n") } else { Ok(()) };
        let mut outcome = ended.inspect(|()| self.torn = false);
        while outcome.is_ok() && !lines.is_empty() {
            outcome = match self.file.write(lines) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.torn = lines.get(count.wrapping_sub(1)) != Some(&b'\n');
                    lines = lines.get(count..).unwrap_or_default();
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(error) => Err(error),
            };
        }
        if let Err(error) = outcome {
            let lost = lines.iter().filter(|&&byte| byte == b'\n').count() as u64;
            let reason = || format!("write() to \"{}\" failed {}", path.display(), crate::report::errno(&error));
            trouble.note(lost, reason);
        }
    }
}

impl Trouble {
    fn note(&mut self, lines: u64, reason: impl FnOnce() -> String) {
        self.lines += lines;
        self.reason = reason();
    }

    fn tell(&mut self, shared: &'static Shared) {
        if self.lines == 0 || self.told.is_some_and(|told| told.elapsed() < ALERT_PERIOD) {
            return;
        }
        self.told = Some(Instant::now());
        shared.error_log().log(Level::Alert, &format!("{}; {} log lines were lost", self.reason, self.lines));
        self.lines = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_its_level() {
        assert_eq!(level_of(b"2026/01/02 03:04:05 [warn] 1#1: x [error]\n"), Some(Level::Warn));
        assert_eq!(level_of(b"no level\n"), None);
    }

    #[test]
    fn a_full_disk_costs_lines_and_is_told_once() {
        let file = File::options().append(true).open("/dev/full").expect("Linux has it");
        let mut output = Output { file, torn: false };
        let mut trouble = Trouble::default();
        output.write(b"one\ntwo\n", Path::new("/dev/full"), &mut trouble);
        assert_eq!(trouble.lines, 2);
        assert_eq!(trouble.reason, "write() to \"/dev/full\" failed (28: No space left on device)");
    }
}
