//! Runs a load with everything around it: signals, the thread that looks at its sockets, the live view or the progress
//! lines, and metrics during the run. It works for any protocol. `results` writes the reports afterwards. The program calls
//! it.

mod http;
mod live;
mod metrics;
mod protocol;
mod push;
pub(crate) mod sockets;
mod websocket;

pub use push::{Push, PushProtocol};
pub use sockets::Sockets;

use crate::collect::Recorded as _;
use crate::remote::Courier;
use crate::results::{Files, words};
use crate::run::{LoadKind, RunningLoad};
use crate::{Interval, Limits, Options, Row, Series, SeriesRow, Stopper, Summary, Ticks};
use live::Screen;
use metrics::Page;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::{Load, RecordOf};
use push::Pushes;
use sockets::{Closes, Shared};
use std::io::IsTerminal as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use terminal::Terminal;
use terminal::signals::{Ask, Signals};
use watch::{Bound, Exporter};

/// How often the signal thread checks whether the run is over.
const SIGNAL_LOOK_MS: u16 = 50;
/// Workers end within this time of a stop: they check every 50 ms, and merging all figures takes less than a second.
const PATIENCE: Duration = Duration::from_secs(3);
/// Descriptors besides the connections: epoll, timers, files, standard streams.
const DESCRIPTORS_BESIDE: u64 = 64;
/// Descriptors for another process: both pipes, its own descriptor, and those needed briefly at its start.
const DESCRIPTORS_PER_PROCESS: u64 = 4;

/// What is shown during the run.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Whether nothing is shown.
    pub quiet: bool,
    /// Whether the live view may take over the terminal.
    pub live: bool,
    /// Whether to query the kernel for the sockets.
    pub sockets: bool,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Driven<S, R: SeriesRow> {
    /// The summary of the run.
    pub summary: S,
    series: Series<R>,
    /// The kernel's figures for the sockets; `None` if they were not queried.
    pub sockets: Option<Sockets>,
    /// Whether the metrics file could be written each time.
    pub written: bool,
}

impl<S, R: SeriesRow> Driven<S, R> {
    /// The run over time.
    pub fn rows(&self) -> &[R] {
        self.series.rows()
    }
}

/// Creates the command of another process for a part of the load. That process calls [`crate::serve_part`].
pub type PartCommand = fn() -> Command;

/// Where the parts of a load run.
pub enum Parts {
    /// In processes of this machine, as many as the plan says.
    Here(PartCommand),
    /// On other machines with these limits.
    Farm(Box<dyn Courier>, Limits),
}

/// Runs a load over HTTP to its end, or until a signal stops it. The error is for the operator.
pub fn http(options: &Options, part: Parts, progress: Progress, files: &Files) -> Result<Driven<Summary, Row>, String> {
    drive(options, part, progress, files)
}

/// The same for a load of WebSockets.
pub fn websocket(
    options: &crate::websocket::WebSocketOptions,
    part: PartCommand,
    progress: Progress,
    files: &Files,
) -> Result<Driven<crate::websocket::WebSocketSummary, crate::websocket::WebSocketRow>, String> {
    drive(options, Parts::Here(part), progress, files)
}

fn drive<L: Load>(
    load: &L,
    part: Parts,
    progress: Progress,
    files: &Files,
) -> Result<Driven<<L::Kind as LoadKind>::Summary, L::Row>, String> {
    // Before the first thread starts, so that all threads leave signals to this descriptor.
    let signals = Signals::open().map_err(|error| error.to_string())?;
    let outlets = Outlets { exporter: exporter(files)?, pushes: Pushes::start(&files.push)? };
    let driven = drive_until_stopped(load, part, progress, files, &signals, outlets);
    // Writing the report can take long or block forever, so a second signal must still end the program.
    std::thread::spawn(move || end_on_second_signal(&signals));
    driven
}

fn drive_until_stopped<L: Load>(
    load: &L,
    part: Parts,
    progress: Progress,
    files: &Files,
    signals: &Signals,
    outlets: Outlets,
) -> Result<Driven<<L::Kind as LoadKind>::Summary, L::Row>, String> {
    let Begun { running, closes, told } = begin(load.clone(), part, progress, signals)?;
    let (stopper, addresses, at, threads) =
        (running.stopper(), running.addresses(), running.begun(), running.threads());
    if told.is_some() {
        stopper.stop();
    }
    let (record, processors) = (RecordOf::<L>::default(), Ticks::default());
    let nothing = Interval { number: 0, begun: Duration::ZERO, length: Duration::ZERO, processors, record };
    let screen = Mutex::new(Screen::new(load.head(), load.picture(&nothing, &nothing.record, threads)));
    let terminal = if progress.live { open_terminal() } else { None };
    let (over, connections, shared) = (AtomicBool::new(false), AtomicU64::new(0), Shared::default());
    let failure = Mutex::new(None);
    let fail = |problem: String| {
        stopper.stop();
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
    };
    let mut observer = Observer {
        load,
        threads,
        live: terminal.is_some(),
        lines: !progress.quiet && terminal.is_none(),
        series: Series::new(load.interval()),
        whole: RecordOf::<L>::default(),
        outlets,
        files,
        screen: &screen,
        sockets: progress.sockets.then_some(&shared),
        written: true,
        established: 0,
    };
    let summary = std::thread::scope(|scope| {
        scope.spawn(|| stop_on_signal(signals, &stopper, &over, told).unwrap_or_else(fail));
        if let Some(closes) = closes {
            let (targets, interval, connections) = (addresses.as_slice(), load.interval(), &connections);
            let run = sockets::ObservedRun { targets, begun: at, interval, over: &over, connections };
            let shared = &shared;
            scope.spawn(move || sockets::look_on(shared, closes, &run));
        }
        if let Some(terminal) = terminal {
            scope.spawn(|| live::show(terminal, &screen, &stopper, &over).unwrap_or_else(fail));
        }
        let summary = running.watch(|interval| observer.take(interval));
        connections.store(observer.established, Ordering::Relaxed);
        over.store(true, Ordering::Release);
        summary.map_err(|error| error.to_string())
    })?;
    let Observer { series, lines, mut written, outlets, .. } = observer;
    for problem in outlets.pushes.map(Pushes::finish).unwrap_or_default() {
        terminal::say(&format!("holdfast load: {problem}"));
        written = false;
    }
    if lines && std::io::stderr().is_terminal() {
        terminal::overwrite("");
    }
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(problem) => Err(problem),
        None => Ok(Driven { summary, series, sockets: progress.sockets.then(|| shared.into_inner()), written }),
    }
}

fn open_terminal() -> Option<Terminal> {
    let opened = Terminal::open();
    opened.map_err(|problem| terminal::say(&format!("holdfast load: {problem}"))).ok()
}

fn exporter(files: &Files) -> Result<Option<Exporter>, String> {
    let Some(address) = files.listen else { return Ok(None) };
    let bound = Bound::to(address)?;
    let address = bound.address().map_or_else(String::new, |address| address.to_string());
    terminal::say(&format!("holdfast load: metrics at http://{address}/metrics"));
    Ok(Some(bound.serve()))
}

/// Where metrics go during the run, besides a file.
struct Outlets {
    exporter: Option<Exporter>,
    pushes: Option<Pushes>,
}

/// Where the intervals of a run are shown.
struct Observer<'a, L: Load> {
    load: &'a L,
    threads: usize,
    /// Whether the live view is shown.
    live: bool,
    /// Whether progress lines go to standard error.
    lines: bool,
    series: Series<L::Row>,
    whole: RecordOf<L>,
    outlets: Outlets,
    files: &'a Files,
    screen: &'a Mutex<Screen>,
    sockets: Option<&'a Shared>,
    written: bool,
    /// Connections to the targets so far.
    established: u64,
}

impl<L: Load> Observer<'_, L> {
    /// Handles a finished interval. It yields between the steps, because a worker may share this processor and the kernel
    /// lets a running thread keep its slice of milliseconds.
    fn take(&mut self, interval: &Interval<RecordOf<L>>) {
        self.series.add(interval);
        self.established += L::established(&interval.record);
        std::thread::yield_now();
        let look = self.sockets.and_then(Shared::latest);
        let Outlets { exporter, pushes } = &mut self.outlets;
        let has_metrics = exporter.is_some() || pushes.is_some() || self.files.prometheus.is_some();
        // The totals take a megabyte of histograms. Without a live view or metrics that memory would falsify a measurement
        // of memory per connection.
        if self.live || has_metrics {
            L::add(&mut self.whole, interval);
            std::thread::yield_now();
        }
        if self.live {
            let picture = self.load.picture(interval, &self.whole, self.threads);
            self.screen.lock().unwrap_or_else(PoisonError::into_inner).take(picture, look);
            std::thread::yield_now();
        }
        if has_metrics {
            let mut page = Page::new(pushes.is_some());
            L::metrics(interval, &self.whole, &mut page);
            page.generator(interval.record.generator(), self.whole.generator(), interval.processors);
            let (page, metrics) = page.finish(look.as_ref());
            if let Some(pushes) = pushes {
                pushes.take(metrics);
            }
            if let Err(problem) = self.files.during(&page)
                && self.written
            {
                // Report it once: a full disk usually stays full.
                terminal::say(&format!("holdfast load: {problem}"));
                self.written = false;
            }
            if let Some(exporter) = exporter {
                exporter.show(page);
            }
            std::thread::yield_now();
        }
        if self.lines {
            let line = L::progress(interval);
            if std::io::stderr().is_terminal() { terminal::overwrite(&line) } else { terminal::say(&line) }
        }
    }
}

/// A load that has started.
struct Begun<L: Load> {
    running: RunningLoad<L::Kind>,
    closes: Option<Closes>,
    /// When a signal asked for the end, if it came after the first worker had begun and before all of them had.
    told: Option<Instant>,
}

/// The start of a load: it begins or is called off, never both.
#[derive(Debug, Default)]
struct StartState(AtomicU8);

impl StartState {
    const BEGUN: u8 = 1;
    const CALLED_OFF: u8 = 2;

    /// Marks the start as begun; `false` if it was called off.
    fn begin(&self) -> bool {
        self.leave_preparing(Self::BEGUN)
    }

    /// Calls the start off; `false` if a worker may have begun.
    fn call_off(&self) -> bool {
        self.leave_preparing(Self::CALLED_OFF)
    }

    fn leave_preparing(&self, state: u8) -> bool {
        self.0.compare_exchange(0, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Starts the load, unless a signal stops it first. The start resolves names, which can take long, so it runs in its own
/// thread while this one reads signals.
fn begin<L: Load>(load: L, part: Parts, progress: Progress, signals: &Signals) -> Result<Begun<L>, String> {
    let (sender, started) = channel();
    let (quiet, sockets) = (progress.quiet, progress.sockets);
    let state = Arc::new(StartState::default());
    let of_start = Arc::clone(&state);
    std::thread::spawn(move || {
        // The receiver is gone if the start was called off.
        let _ = sender.send(start(load, part, quiet, sockets, &of_start));
    });
    let mut told = None::<Instant>;
    loop {
        match started.recv_timeout(Duration::from_millis(u64::from(SIGNAL_LOOK_MS))) {
            Ok(begun) => return begun.map(|(running, closes)| Begun { running, closes, told }),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the start of the load panicked".to_owned()),
        }
        if let Some(ask) = end_requested(signals)? {
            if state.call_off() {
                return Err(stopped_before_first::<L>());
            }
            if told.is_some_and(|since| since.elapsed() >= PATIENCE) {
                Signals::end_by(ask);
            }
            told.get_or_insert_with(Instant::now);
        }
    }
}

fn stopped_before_first<L: Load>() -> String {
    format!("stopped before the first {}", L::FIRST)
}

/// Prints the plan and starts the load.
fn start<L: Load>(
    load: L,
    part: Parts,
    quiet: bool,
    sockets: bool,
    state: &StartState,
) -> Result<(RunningLoad<L::Kind>, Option<Closes>), String> {
    let connections = load.connections();
    let limits = match &part {
        Parts::Here(_) => Limits::read(),
        Parts::Farm(_, limits) => limits.clone(),
    };
    let prepared = load.prepare(&limits).map_err(|error| error.to_string())?;
    let plan = prepared.plan();
    if !quiet {
        terminal::say(&words::plan_line(plan));
    }
    // The plan has reported whether this is enough. Other processes raise their own limit.
    let wanted = match plan.processes {
        _ if matches!(part, Parts::Farm(..)) => 0,
        1 => connections,
        processes => processes as u64 * DESCRIPTORS_PER_PROCESS,
    };
    reactor::raise_descriptor_limit(wanted + DESCRIPTORS_BESIDE).map_err(|error| error.to_string())?;
    // Opened before the first connection, so that no close is missed.
    let closes = sockets.then(Closes::open);
    if !state.begin() {
        return Err(stopped_before_first::<L>());
    }
    let started = match part {
        Parts::Here(command) => prepared.start_with(command),
        Parts::Farm(courier, _) => prepared.start_on(courier),
    };
    Ok((started.map_err(|error| error.to_string())?, closes))
}

/// Ends the run on a signal. If a worker does not end in time, for example because of an endless script, another signal
/// ends the program. `told` is the time of a signal that came during the start.
fn stop_on_signal(
    signals: &Signals,
    stopper: &Stopper,
    over: &AtomicBool,
    mut told: Option<Instant>,
) -> Result<(), String> {
    let mut said = false;
    while !over.load(Ordering::Relaxed) {
        let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::from(SIGNAL_LOOK_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(format!("poll() failed: {error}")),
        }
        let is_stuck = told.is_some_and(|since| since.elapsed() >= PATIENCE);
        match end_requested(signals)? {
            Some(ask) if is_stuck => Signals::end_by(ask),
            Some(_) => {
                stopper.stop();
                told.get_or_insert_with(Instant::now);
            }
            None if is_stuck && !said => {
                said = true;
                terminal::say(
                    "holdfast load: a worker does not come to its end: another signal ends all, without a report",
                );
            }
            None => {}
        }
    }
    Ok(())
}

/// Handles signals after the run. A first signal may have been meant for the run, so the report is still written; the
/// second one ends the program.
fn end_on_second_signal(signals: &Signals) {
    let mut told = false;
    loop {
        match end_requested(signals) {
            Ok(Some(ask)) if told => Signals::end_by(ask),
            Ok(Some(_)) => {
                told = true;
                terminal::say(
                    "holdfast load: the run is over, and its report is being written: once more ends that as well",
                );
            }
            Ok(None) => {
                let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
                let _ = poll(&mut watched, PollTimeout::NONE);
            }
            // Without signals the report still finishes, and SIGKILL still works.
            Err(_) => return,
        }
    }
}

fn end_requested(signals: &Signals) -> Result<Option<Ask>, String> {
    while let Some(ask) = signals.next().map_err(|error| error.to_string())? {
        if matches!(ask, Ask::Interrupt | Ask::Terminate | Ask::Quit) {
            return Ok(Some(ask));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_begins_or_is_called_off_never_both() {
        let begun = StartState::default();
        assert!(begun.begin() && !begun.call_off());
        let called_off = StartState::default();
        assert!(called_off.call_off() && !called_off.begin());
    }
}
