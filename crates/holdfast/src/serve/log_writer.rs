//! The thread that may block on a disk: it collects the lines that workers have rendered and writes them. It writes at
//! once after a pause, ten times a second under load, and at the end. If the disk accepts no lines, those lines are
//! lost, with one alert a minute.

use super::log_files::LogFiles;
use super::log_named::NamedLogs;
use super::log_output::{LogOutput, Trouble};
use super::syslog::Syslog;
use gateway::{
    AccessOutput, BoundPlan, ErrorOutput, ErrorTarget, Level, LogPlace, NamedFiles, Registry, SyslogPlace, Urgency,
    records,
};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two collections under load: short enough for `tail -f`, long enough for many lines in one write.
const PERIOD: Duration = Duration::from_millis(100);
/// The same while connections wait for their log line before they close. At 20,000 of them a second a collection holds
/// four, and a client that reads to the end waits no longer than a slow round trip of a local network.
const CLOSE_PERIOD: Duration = Duration::from_micros(200);
/// The same without a wake-up: it reports suppressed lines and closes logs of earlier configurations.
const IDLE_PERIOD: Duration = Duration::from_secs(1);

/// The running thread.
pub(super) struct LogWriter {
    inner: Arc<Inner>,
    thread: JoinHandle<()>,
}

struct Inner {
    registry: &'static Registry,
    state: Mutex<State>,
}

/// The logs and their destinations.
struct State {
    accesses: Vec<Access>,
    /// The process's error logs.
    targets: Vec<ErrorTarget>,
    /// Error logs of servers and locations, and whether the current configuration has them.
    errors: Vec<(ErrorOutput, bool)>,
    places: Places,
    ending: bool,
}

/// References to a log without writers: the registry, and this thread.
const HOLDERS_WHEN_IDLE: usize = 2;

/// An access log.
struct Access {
    output: AccessOutput,
    /// Whether the current configuration has it.
    current: bool,
    /// Lines held back by `buffer=`, and since when.
    pending: Vec<u8>,
    since: Option<Instant>,
}

/// Everything that is open.
struct Places {
    files: HashMap<PathBuf, LogOutput>,
    syslogs: HashMap<SyslogPlace, Syslog>,
    named: HashMap<NamedFiles, NamedLogs>,
    trouble: Trouble,
    utc_offset_minutes: i16,
}

impl LogWriter {
    /// Starts the thread.
    pub(super) fn start(
        registry: &'static Registry,
        plan: &BoundPlan,
        targets: Vec<ErrorTarget>,
        files: LogFiles,
    ) -> io::Result<Self> {
        registry.recent_errors().explain_by(doctor::log::cause);
        let utc_offset_minutes = registry.error_log().utc_offset_minutes();
        let places = Places {
            files: HashMap::new(),
            syslogs: HashMap::new(),
            named: HashMap::new(),
            trouble: Trouble::default(),
            utc_offset_minutes,
        };
        let mut state = State { accesses: Vec::new(), targets, errors: Vec::new(), places, ending: false };
        state.take_on(plan, files);
        let inner = Arc::new(Inner { registry, state: Mutex::new(state) });
        let thread = std::thread::Builder::new().name("log writer".to_owned()).spawn({
            let inner = Arc::clone(&inner);
            move || inner.work()
        })?;
        registry.log_bell().set_writer(thread.thread().clone());
        Ok(Self { inner, thread })
    }

    /// Switches to another configuration with its logs. Exchanges of the old one still write to theirs.
    pub(super) fn reload(&self, plan: &BoundPlan, targets: Vec<ErrorTarget>, files: LogFiles) {
        let mut state = self.inner.lock();
        state.targets = targets;
        state.take_on(plan, files);
    }

    /// Continues in these files, after all waiting lines were written to the old ones.
    pub(super) fn reopen(&self, files: LogFiles) {
        let mut state = self.inner.lock();
        state.collect(self.inner.registry, true);
        state.places.files.extend(outputs(files));
        state.places.named.values_mut().for_each(NamedLogs::close);
        state.places.syslogs.clear();
    }

    /// Writes the rest, and ends the thread.
    pub(super) fn end(self) {
        self.inner.lock().ending = true;
        self.thread.thread().unpark();
        // The thread ends by itself; the runtime has reported its panic, if any.
        let _ = self.thread.join();
    }
}

fn outputs(files: LogFiles) -> impl Iterator<Item = (PathBuf, LogOutput)> {
    files.files.into_iter().map(|(path, file)| (path, LogOutput::new(file)))
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let bell = self.registry.log_bell();
        let mut last = Instant::now();
        loop {
            let mut state = self.wait(last);
            last = Instant::now();
            bell.begin();
            let ending = state.ending;
            state.collect(self.registry, ending);
            drop(state);
            self.registry.lines_written();
            if ending {
                return;
            }
        }
    }

    /// Waits until the next collection is due or the writer ends.
    fn wait(&self, last: Instant) -> MutexGuard<'_, State> {
        loop {
            let state = self.lock();
            let period = match self.registry.log_bell().urgency() {
                Urgency::Close => CLOSE_PERIOD,
                Urgency::Lines => PERIOD,
                Urgency::None if state.holds_back() => PERIOD,
                Urgency::None => IDLE_PERIOD,
            };
            let left = (last + period).saturating_duration_since(Instant::now());
            if left.is_zero() || state.ending {
                return state;
            }
            drop(state);
            // A wake-up in between has left a token, with which this call returns at once.
            std::thread::park_timeout(left);
        }
    }
}

impl State {
    fn take_on(&mut self, plan: &BoundPlan, files: LogFiles) {
        for access in &mut self.accesses {
            // A log that only exchanges of an old configuration write is no longer buffered.
            access.output.buffering = None;
            access.current = false;
        }
        for output in &plan.logs {
            let known = self.accesses.iter_mut().find(|access| Arc::ptr_eq(&access.output.sink, &output.sink));
            let output = output.clone();
            if let Some(known) = known {
                (known.output, known.current) = (output, true);
            } else {
                self.accesses.push(Access { output, current: true, pending: Vec::new(), since: None });
            }
        }
        self.errors.iter_mut().for_each(|(_, current)| *current = false);
        for output in &plan.error_logs {
            match self.errors.iter_mut().find(|(known, _)| Arc::ptr_eq(&known.log, &output.log)) {
                Some((_, current)) => *current = true,
                None => self.errors.push((output.clone(), true)),
            }
        }
        self.places.files.extend(outputs(files));
    }

    /// Whether lines wait because of `buffer=` or `flush=`.
    fn holds_back(&self) -> bool {
        self.accesses.iter().any(|access| !access.pending.is_empty())
    }

    /// Writes the waiting lines; with `all` also those held back by `buffer=`.
    fn collect(&mut self, registry: &'static Registry, all: bool) {
        let Self { accesses, targets, errors, places, .. } = self;
        let (mut lines, now) = (Vec::new(), Instant::now());
        for access in accesses {
            lines.clear();
            let dropped = access.output.sink.take(&mut lines);
            if dropped > 0 {
                places
                    .trouble
                    .note(dropped, || format!("\"{}\" is not written fast enough", access.output.sink.place()));
            }
            access.write(&lines, now, all, places);
        }
        places.trouble.report(registry);
        let own = errors.iter().map(|(output, _)| (&*output.log, &output.targets[..]));
        for (log, targets) in std::iter::once((registry.error_log(), &targets[..])).chain(own) {
            log.flush(|lines, dropped| {
                if dropped > 0 {
                    places.trouble.note(dropped, || "the error log is not written fast enough".to_owned());
                }
                let all = lines.split_inclusive(|&byte| byte == b'\n');
                registry.recent_errors().keep(all.filter(|line| level_of(line) >= Some(Level::Warn)));
                places.write_errors(lines, targets, registry.log_level());
            });
        }
        self.forget();
    }

    /// Closes the logs of earlier configurations after the last exchange that could write to them has ended.
    fn forget(&mut self) {
        let Self { accesses, targets, errors, places, .. } = self;
        let before = accesses.len() + errors.len();
        accesses.retain(|access| {
            let writers = Arc::strong_count(&access.output.sink) > HOLDERS_WHEN_IDLE;
            access.current || writers || !access.pending.is_empty()
        });
        errors.retain(|(output, current)| *current || Arc::strong_count(&output.log) > HOLDERS_WHEN_IDLE);
        if accesses.len() + errors.len() == before {
            return;
        }
        let of_errors = targets.iter().chain(errors.iter().flat_map(|(output, _)| &output.targets));
        let used: Vec<&LogPlace> =
            of_errors.map(|target| &target.place).chain(accesses.iter().map(|one| one.output.sink.place())).collect();
        places.files.retain(|path, _| used.iter().any(|place| matches!(place, LogPlace::File(used) if used == path)));
        places
            .syslogs
            .retain(|syslog, _| used.iter().any(|place| matches!(place, LogPlace::Syslog(used) if used == syslog)));
        places
            .named
            .retain(|cache, _| used.iter().any(|place| matches!(place, LogPlace::Named(used) if used == cache)));
    }
}

impl Access {
    fn write(&mut self, lines: &[u8], now: Instant, all: bool, places: &mut Places) {
        let buffering = self.output.buffering;
        match self.output.sink.place() {
            LogPlace::Stderr => _ = io::stderr().write_all(lines),
            LogPlace::Syslog(place) => {
                let messages = records(lines).map(|record| (place.severity, record.line));
                places.send(place, messages);
            }
            LogPlace::Named(cache) => {
                let named = places.named.entry(*cache).or_insert_with(|| NamedLogs::new(*cache));
                named.write(records(lines), now, &mut places.trouble);
            }
            LogPlace::File(path) => {
                self.pending.extend_from_slice(lines);
                if self.pending.is_empty() {
                    return;
                }
                let since = *self.since.get_or_insert(now);
                let due = buffering.is_none_or(|buffering| {
                    self.pending.len() >= buffering.bytes
                        || buffering.flush.is_some_and(|flush| now.saturating_duration_since(since) >= flush)
                });
                if due || all {
                    let gzip = buffering.and_then(|buffering| buffering.gzip);
                    places.write_file(path, &self.pending, gzip);
                    self.pending.clear();
                    self.since = None;
                }
            }
        }
    }
}

impl Places {
    fn write_file(&mut self, path: &Path, lines: &[u8], gzip: Option<u8>) {
        if let Some(output) = self.files.get_mut(path).filter(|_| !lines.is_empty()) {
            output.write(lines, gzip, path, &mut self.trouble);
        }
    }

    fn send<'a>(&mut self, place: &SyslogPlace, messages: impl Iterator<Item = (Level, &'a [u8])>) {
        let offset = self.utc_offset_minutes;
        let syslog = self.syslogs.entry(place.clone()).or_insert_with(|| Syslog::new(place.clone(), offset));
        if let Some((lost, error)) = syslog.send_all(messages) {
            let reason = || format!("send() to syslog server {} failed {}", place.server, crate::report::errno(&error));
            self.trouble.note(lost, reason);
        }
    }

    /// Writes to each destination the lines of its level and above, or of the level that an operator has set for all.
    fn write_errors(&mut self, lines: &[u8], targets: &[ErrorTarget], set: Option<Level>) {
        for target in targets {
            let all = lines.split_inclusive(|&byte| byte == b'\n');
            let graded = all.map(|line| (level_of(line).unwrap_or(Level::Emerg), line));
            let least = set.unwrap_or(target.level);
            let chosen = graded.filter(|(level, _)| *level >= least);
            match &target.place {
                LogPlace::Syslog(place) => {
                    self.send(place, chosen.map(|(level, line)| (level, line.strip_suffix(b"\n").unwrap_or(line))));
                }
                LogPlace::File(path) => {
                    let chosen: Vec<u8> = chosen.flat_map(|(_, line)| line).copied().collect();
                    self.write_file(path, &chosen, None);
                }
                // If the terminal is gone, there is no reader.
                LogPlace::Stderr => {
                    let chosen: Vec<u8> = chosen.flat_map(|(_, line)| line).copied().collect();
                    let _ = io::stderr().write_all(&chosen);
                }
                // The name of an error log has no variables.
                LogPlace::Named(_) => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_its_level() {
        assert_eq!(level_of(b"2026/01/02 03:04:05 [warn] 1#1: x [error]\n"), Some(Level::Warn));
        assert_eq!(level_of(b"no level\n"), None);
    }
}
