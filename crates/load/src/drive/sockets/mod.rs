//! Looks at the sockets towards the targets while a load runs: a thread queries the kernel once per interval. `account`
//! evaluates the sockets; the reports describe them.

pub(crate) mod account;

use crate::worker::thread_cpu_ns;
use account::{Account, Gathering, Look, Looks};
use sockdiag::{Census, DestroyEvents, Question, Source};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often destroy events are read and the end is checked. The kernel's queue holds five times the events of this period
/// at 50,000 closes a second.
const EVENTS_REST: Duration = Duration::from_millis(50);
/// After a look, wait this many times the processor time it took. A census of a hundred thousand sockets takes a tenth of a
/// second, and the load needs the processor.
const REST_FACTOR: u32 = 20;

/// The kernel reports a dead socket from a work queue, which a busy machine delays. After the end of the load, wait this long
/// for the reports that are missing, far longer than such delays, and look again this often.
const REPORTS_MAX: Duration = Duration::from_millis(500);
const REPORTS_REST: Duration = Duration::from_millis(10);

/// Yield after this many sockets, some fifty microseconds, to a worker that shares this processor. The kernel would let
/// this thread keep its slice of milliseconds.
const SOCKETS_IN_A_ROW: u64 = 64;

/// What is known about the sockets so far.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    pub(crate) looks: Looks,
    /// Where the data comes from.
    pub(crate) source: String,
    /// The most processor time that a look took.
    pub(crate) took_max: Duration,
    /// Limitations of the data, in words.
    pub(crate) notes: Vec<String>,
}

/// The same, shared between the thread that looks and the threads that show.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Sockets>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Sockets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest look.
    pub(crate) fn latest(&self) -> Option<Look> {
        self.lock().looks.last().copied()
    }

    /// The complete data, after the last look.
    pub(crate) fn into_inner(self) -> Sockets {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run that is observed.
pub(crate) struct ObservedRun<'a> {
    pub(crate) targets: &'a [SocketAddr],
    pub(crate) begun: Instant,
    pub(crate) interval: Duration,
    pub(crate) over: &'a AtomicBool,
    /// Connections that the load has had; set before it is over.
    pub(crate) connections: &'a AtomicU64,
}

/// Looks at the sockets until the run is over, and once more after that.
pub(crate) fn look_on(shared: &Shared, closes: Closes, run: &ObservedRun<'_>) {
    let mut observer = match SocketObserver::open(closes, run.targets) {
        Ok(observer) => observer,
        Err(problem) => return shared.lock().notes.push(format!("the sockets cannot be observed: {problem}")),
    };
    {
        let mut sockets = shared.lock();
        sockets.source = observer.census.source().to_string();
        if let Err(reason) = &observer.events {
            sockets.notes.push(format!("closes between two looks are missed: {reason}"));
        }
    }
    let looked = look_until_the_end(&mut observer, shared, run);
    let mut sockets = shared.lock();
    if let Err(problem) = looked {
        sockets.notes.push(problem);
    }
    if observer.overruns > 0 {
        sockets.notes.push(format!("events of dying sockets were lost, {} times", observer.overruns));
    }
}

fn look_until_the_end(observer: &mut SocketObserver, shared: &Shared, run: &ObservedRun<'_>) -> Result<(), String> {
    let mut due = run.begun;
    loop {
        let is_over = run.over.load(Ordering::Acquire);
        observer.drain()?;
        let now = Instant::now();
        if is_over || now >= due {
            let spent_ns = thread_cpu_ns();
            let look = if is_over { observer.last_look(run)? } else { observer.look(run.begun)? };
            // Processor time, not elapsed time: on a busy machine most of the elapsed time belongs to other threads.
            let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(spent_ns));
            let mut sockets = shared.lock();
            sockets.took_max = sockets.took_max.max(took);
            if is_over {
                sockets.looks.end(look);
                return Ok(());
            }
            sockets.looks.add(look);
            due = (due + run.interval).max(now + took * REST_FACTOR);
        }
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()).min(EVENTS_REST));
    }
}

/// The kernel's events of sockets that close. It collects them from its creation on.
pub(crate) struct Closes(Result<DestroyEvents, String>);

impl Closes {
    /// Opens the event source. If the kernel does not offer it, the report says so.
    pub(crate) fn open() -> Self {
        Self(DestroyEvents::open().map_err(|error| error.to_string()))
    }
}

struct SocketObserver {
    census: Census,
    /// The error says why the kernel does not report events.
    events: Result<DestroyEvents, String>,
    account: Account,
    filter: Option<sockdiag::Filter>,
    looked: Option<Instant>,
    overruns: u64,
}

impl SocketObserver {
    fn open(Closes(events): Closes, targets: &[SocketAddr]) -> Result<Self, String> {
        let census = Census::open().map_err(|error| error.to_string())?;
        let account = Account::new(targets.iter().copied(), events.is_ok());
        // /proc always returns all sockets.
        let filter = account.filter().filter(|_| census.source() == &Source::Netlink);
        Ok(Self { census, events, account, filter, looked: None, overruns: 0 })
    }

    fn drain(&mut self) -> Result<(), String> {
        let Ok(events) = &mut self.events else { return Ok(()) };
        let account = &mut self.account;
        let drained = events.drain(|socket| account.died(socket));
        let drained = drained.map_err(|error| format!("the kernel's events cannot be read: {error}"))?;
        self.overruns += u64::from(drained.overruns);
        Ok(())
    }

    /// The look after the end, with the reports of the sockets that were closed there.
    fn last_look(&mut self, run: &ObservedRun<'_>) -> Result<Look, String> {
        let deadline = Instant::now() + REPORTS_MAX;
        loop {
            let look = self.look(run.begun)?;
            let is_complete = look.accounted() >= run.connections.load(Ordering::Relaxed);
            // Without reports, a second look would count the remnants again.
            if self.events.is_err() || is_complete || Instant::now() >= deadline {
                return Ok(look);
            }
            std::thread::park_timeout(REPORTS_REST);
            self.drain()?;
        }
    }

    fn look(&mut self, begun: Instant) -> Result<Look, String> {
        let now = Instant::now();
        let elapsed = self.looked.replace(now).map_or(Duration::ZERO, |before| now.duration_since(before));
        let (filter, families) = (self.filter.as_ref(), self.account.families());
        let question = Question { filter, families, memory: false, ..Question::default() };
        // An interrupted dump may count a socket twice or not at all; the next look comes within a second.
        let mut gathering: Gathering<'_> = self.account.look(now.saturating_duration_since(begun), elapsed);
        let mut sockets = 0u64;
        let add = |socket: &sockdiag::Socket| {
            gathering.add(socket);
            sockets += 1;
            if sockets.is_multiple_of(SOCKETS_IN_A_ROW) {
                std::thread::yield_now();
            }
        };
        self.census.for_each(&question, add).map_err(|error| format!("the sockets cannot be read: {error}"))?;
        Ok(gathering.finish())
    }
}
