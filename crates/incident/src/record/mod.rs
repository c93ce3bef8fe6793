//! The flight recorder: takes a sample at each interval and writes it. It blocks nothing but its own loop, and limits its own cost: sockets
//! and the gateway are read less often if reading them takes more than their share of a processor.

mod asker;
mod error_log;
mod gateway;
mod machine;
mod process;
mod sockets;
mod url;

pub use asker::Ask;
pub(crate) use error_log::POOL_EXHAUSTED;
pub use url::StatusUrl;

use crate::sample::{Counts, FORMAT, Gateway, Head, Sample};
use crate::store::{Bounds, Writer};
use asker::Asker;
use error_log::{ErrorCounts, LogFollower};
use gateway::Differences;
use machine::{GroupFiles, MachineReader};
use process::ProcessReader;
use rustix::time::{ClockId, clock_gettime};
use sockdiag::Counters;
use sockets::SocketReader;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What to record, and where.
pub struct Recorder {
    /// The folder of the recording.
    pub folder: PathBuf,
    /// Time between two samples.
    pub interval: Duration,
    /// How much the folder may hold.
    pub bounds: Bounds,
    /// The share of one processor that the recorder may use.
    pub cpu_share: f64,
    /// Error logs to follow.
    pub error_logs: Vec<PathBuf>,
    /// Fetches the gateway's status.
    pub ask: Option<Ask>,
    /// The master process, if the status does not name it.
    pub pid: Option<u32>,
    /// A file with the pid of the master process, read at each sample.
    pub pid_file: Option<PathBuf>,
    /// End after this many samples.
    pub count: Option<u64>,
}

/// Parts of the CPU share that reading sockets and reading the status may use; the rest is for `/proc` and for writing.
const SOCKETS_PART: f64 = 0.5;
const STATUS_PART: f64 = 0.3;

/// The part of an interval for which the gateway's answer is awaited; a later one comes with the next sample.
const ANSWER_PART: f64 = 0.8;

/// Something costly that is done less often than each sample if it takes too much CPU.
#[derive(Debug)]
struct Paced {
    next: Instant,
}

impl Paced {
    fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// It was done at `now` and took that much CPU: when it is due again.
    fn done(&mut self, now: Instant, cpu: Duration, share: f64) {
        self.next = now + cpu.div_f64(share.max(1e-6));
    }
}

impl Recorder {
    /// Records until the count is reached or `wait` says so: it waits until a moment, and returns whether to end. `report` gets what an
    /// operator should know. Sockets and counters are those of this thread's network namespace.
    pub fn run(
        mut self,
        mut wait: impl FnMut(Instant) -> Result<bool, String>,
        mut report: impl FnMut(&str),
    ) -> Result<(), String> {
        let mut readers = Readers::open(&mut self)?;
        let mut writer = Writer::open(&self.folder, self.bounds, readers.head(&self))?;
        let interval_s = self.interval.as_secs_f64();
        report(&format!("recording to \"{}\", a sample each {interval_s} s", self.folder.display()));
        let (mut due, mut lost, mut number, mut is_failing) = (Instant::now(), 0, 0_u64, false);
        loop {
            let mut sample = readers.take(&self);
            sample.own.lost = lost;
            writer.set_head(readers.head(&self));
            match writer.write(&sample) {
                Ok(()) => (lost, is_failing) = (0, false),
                Err(error) => {
                    lost += 1;
                    if !std::mem::replace(&mut is_failing, true) {
                        report(&format!("samples are lost: writing to \"{}\" failed: {error}", self.folder.display()));
                    }
                }
            }
            number += 1;
            if self.count.is_some_and(|count| number >= count) {
                return Ok(());
            }
            due += self.interval;
            // Samples that should have been taken meanwhile are left out.
            let late = Instant::now().saturating_duration_since(due);
            let missed = (late.as_secs_f64() / interval_s) as u32;
            due += self.interval * missed;
            lost += u64::from(missed);
            if wait(due)? {
                return Ok(());
            }
        }
    }
}

/// Everything that is read, with what it was before.
#[derive(Debug)]
struct Readers {
    sockets: SocketReader,
    machine: MachineReader,
    processes: ProcessReader,
    logs: Vec<LogFollower>,
    asker: Option<Asker>,
    differences: Differences,
    group: Option<(u32, GroupFiles)>,
    master: Option<u32>,
    counters: Option<Counters>,
    before: Option<Instant>,
    cpu_before: Duration,
    sockets_pace: Paced,
    status_pace: Paced,
}

impl Readers {
    fn open(recorder: &mut Recorder) -> Result<Self, String> {
        let now = Instant::now();
        Ok(Self {
            sockets: SocketReader::open()?,
            machine: MachineReader::default(),
            processes: ProcessReader::default(),
            logs: recorder.error_logs.iter().cloned().map(LogFollower::open).collect(),
            asker: recorder.ask.take().map(Asker::start).transpose()?,
            differences: Differences::default(),
            group: None,
            master: recorder.pid,
            counters: None,
            before: None,
            cpu_before: own_cpu(),
            sockets_pace: Paced { next: now },
            status_pace: Paced { next: now },
        })
    }

    fn head(&self, recorder: &Recorder) -> Head {
        let settings = self.sockets.settings();
        Head {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interval_ms: millis(recorder.interval),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            ports_usable: settings.ports_usable(),
            somaxconn: settings.somaxconn,
            missing: self.missing(recorder),
        }
    }

    /// What this recorder cannot see.
    fn missing(&self, recorder: &Recorder) -> Vec<String> {
        let mut missing: Vec<String> = self.sockets.missing().into_iter().collect();
        if self.asker.is_none() {
            missing.push("the gateway's own figures: no gateway and no status was named".to_owned());
        }
        if self.asker.is_none() && recorder.error_logs.is_empty() {
            missing.push("reasons of errors: no error log was named".to_owned());
        }
        missing
    }

    /// Takes a sample.
    fn take(&mut self, recorder: &Recorder) -> Sample {
        let begun = Instant::now();
        let at_ms = wall_clock_ms();
        let cpu_begun = own_cpu();
        let asks = self.status_pace.is_due(begun);
        if let Some(asker) = self.asker.as_mut().filter(|_| asks) {
            asker.ask();
        }
        let mut sample = Sample {
            at_ms,
            up_ms: millis(clock(ClockId::Boottime)),
            over_ms: self.before.map_or(0, |before| millis(begun.duration_since(before))),
            kernel: self.read_counters(),
            ..Sample::default()
        };
        if self.sockets_pace.is_due(begun) {
            let cpu = own_cpu();
            sample.sockets = self.sockets.read().ok();
            self.sockets_pace.done(begun, own_cpu().saturating_sub(cpu), recorder.cpu_share * SOCKETS_PART);
        }
        let mut errors = ErrorCounts::default();
        for log in &mut self.logs {
            sample.own.lines_lost += log.read(&mut errors) / BYTES_PER_LINE;
        }
        let cpu = own_cpu();
        if asks {
            self.take_gateway(&mut sample, begun + recorder.interval.mul_f64(ANSWER_PART), &mut errors);
            self.status_pace.done(begun, own_cpu().saturating_sub(cpu), recorder.cpu_share * STATUS_PART);
        }
        sample.errors = errors.into_rows();
        self.read_processes(recorder, &mut sample);
        sample.own.cpu_us = u64::try_from(cpu_begun.saturating_sub(self.cpu_before).as_micros()).unwrap_or_default();
        (self.before, self.cpu_before) = (Some(begun), cpu_begun);
        sample
    }

    fn read_counters(&mut self) -> Counts {
        let Ok(now) = Counters::read() else { return Counts::new() };
        let Some(before) = self.counters.replace(now) else { return Counts::new() };
        let grown = now.since(&before);
        let counts = grown.each().filter(|(name, _)| *name != "CurrEstab");
        counts.filter_map(|(name, count)| Some((name.to_owned(), count.filter(|count| *count > 0)?))).collect()
    }

    fn take_gateway(&mut self, sample: &mut Sample, until: Instant, errors: &mut ErrorCounts) {
        let Some(asker) = &mut self.asker else { return };
        let Some(answer) = asker.answer(until) else { return };
        match answer.and_then(|bytes| gateway::parse(&bytes)) {
            Ok((status, pid)) => {
                // Lines of a log that is followed are not counted twice.
                let mut ignored = ErrorCounts::default();
                let into = if self.logs.is_empty() { errors } else { &mut ignored };
                let (gateway, lines_lost): (Gateway, u64) = self.differences.take(status, into);
                sample.gateway = Some(gateway);
                if self.logs.is_empty() {
                    sample.own.lines_lost += lines_lost;
                }
                self.master = pid.or(self.master);
            }
            Err(problem) => sample.unanswered = Some(problem),
        }
    }

    fn read_processes(&mut self, recorder: &Recorder, sample: &mut Sample) {
        if let Some(file) = &recorder.pid_file {
            self.master = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        }
        if let Some(master) = self.master {
            if self.group.as_ref().is_none_or(|(pid, _)| *pid != master) {
                self.group = Some((master, GroupFiles::of_process(master)));
            }
            sample.processes = self.processes.read(master);
        }
        sample.machine = self.machine.read(self.group.as_ref().map(|(_, files)| files));
    }
}

/// A line of an error log, for an estimate of how many were skipped.
const BYTES_PER_LINE: u64 = 250;

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

/// CPU time of this process so far.
fn own_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Unix time in milliseconds.
pub fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::read;

    fn recorder(folder: PathBuf, count: u64) -> Recorder {
        Recorder {
            folder,
            interval: Duration::from_millis(20),
            bounds: Bounds { keep: Duration::from_hours(1), bytes_max: 1 << 20 },
            cpu_share: 1.0,
            error_logs: Vec::new(),
            ask: None,
            pid: Some(std::process::id()),
            pid_file: None,
            count: Some(count),
        }
    }

    #[allow(clippy::unnecessary_wraps)] // what a recorder waits by may fail
    fn sleep_until(until: Instant) -> Result<bool, String> {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        Ok(false)
    }

    #[test]
    fn samples_of_this_machine_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // Listeners with a queue come first; a machine has many others.
        let _waiting = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut answers = 0;
        let ask = move || {
            answers += 1;
            if answers == 2 {
                Err("no instance listens there".to_owned())
            } else {
                Ok(b"{\"started_at_s\": 7}".to_vec())
            }
        };
        let mut recorder = recorder(folder.path().to_owned(), 5);
        recorder.ask = Some(Box::new(ask));
        recorder.run(sleep_until, |_| {}).unwrap();
        let found = read(folder.path(), 0, u64::MAX).unwrap();
        assert_eq!(found.samples.len(), 5);
        let head = found.head();
        assert!(head.interval_ms == 20 && head.ports_usable.is_some() && head.processors > 0, "{head:?}");
        let (first, second) = (&found.samples[0], &found.samples[1]);
        assert!(first.over_ms == 0 && first.kernel.is_empty() && second.over_ms >= 20, "{first:?} {second:?}");
        let address = listener.local_addr().unwrap().to_string();
        let sockets = first.sockets.as_ref().unwrap();
        assert!(sockets.listeners.iter().any(|listener| listener.address == address && listener.backlog.is_some()));
        assert!(first.gateway.is_some() && second.unanswered.as_deref() == Some("no instance listens there"));
        assert!(first.processes.iter().any(|process| process.pid == std::process::id()));
    }

    #[test]
    fn costly_readings_become_rarer() {
        let now = Instant::now();
        let mut pace = Paced { next: now };
        pace.done(now, Duration::from_millis(20), 0.01);
        assert!(!pace.is_due(now + Duration::from_millis(1900)) && pace.is_due(now + Duration::from_secs(2)));
    }
}
