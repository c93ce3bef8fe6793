//! The sockets towards the targets while a load runs: a thread that asks the kernel at the beat of the intervals. What it sees
//! is counted in `account`; the words for it are the reports'.

pub(crate) mod account;

use crate::worker::thread_cpu_ns;
use account::{Account, Gathering, Look, Looks};
use sockdiag::{Census, DestroyEvents, Question, Source};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two times that events of dying sockets are taken, and that the end is looked for: the kernel's queue holds five
/// times what comes meanwhile at 50,000 closes a second.
const EVENTS_REST: Duration = Duration::from_millis(50);
/// After a look there is none for this many times the processor time that it took: a census of a hundred thousand sockets takes
/// a tenth of a second, and the load needs the processor.
const REST_FACTOR: u32 = 20;

/// After this many sockets a worker of the load may run that has to share this processor: some fifty microseconds, where a thread that
/// runs would be left its slice of milliseconds.
const SOCKETS_IN_A_ROW: u64 = 64;

/// What is known of the sockets so far.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    pub(crate) looks: Looks,
    /// Where it comes from.
    pub(crate) source: String,
    /// Most processor time that a look took.
    pub(crate) took_max: Duration,
    /// What limits it, in words.
    pub(crate) notes: Vec<String>,
}

/// The same, shared between the thread that looks and those that show.
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

    /// Everything, when the looks have ended.
    pub(crate) fn into_inner(self) -> Sockets {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks from `begun` on until the run is over, and once more then.
pub(crate) fn look_on(
    shared: &Shared,
    closes: Closes,
    targets: &[SocketAddr],
    begun: Instant,
    interval: Duration,
    over: &AtomicBool,
) {
    let mut observer = match Observer::open(closes, targets) {
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
    let looked = look_until_the_end(&mut observer, shared, begun, interval, over);
    let mut sockets = shared.lock();
    if let Err(problem) = looked {
        sockets.notes.push(problem);
    }
    if observer.overruns > 0 {
        sockets.notes.push(format!("events of dying sockets were lost, {} times", observer.overruns));
    }
}

fn look_until_the_end(
    observer: &mut Observer,
    shared: &Shared,
    begun: Instant,
    interval: Duration,
    over: &AtomicBool,
) -> Result<(), String> {
    let mut due = begun;
    loop {
        let is_over = over.load(Ordering::Acquire);
        observer.drain()?;
        let now = Instant::now();
        if is_over || now >= due {
            let spent_ns = thread_cpu_ns();
            let look = observer.look(begun)?;
            // Not the time that passed: on a busy machine most of it is others'.
            let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(spent_ns));
            let mut sockets = shared.lock();
            sockets.took_max = sockets.took_max.max(took);
            if is_over {
                sockets.looks.end(look);
                return Ok(());
            }
            sockets.looks.add(look);
            due = (due + interval).max(now + took * REST_FACTOR);
        }
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()).min(EVENTS_REST));
    }
}

/// What the kernel tells of sockets that close: from now on, whenever it is read.
pub(crate) struct Closes(Result<DestroyEvents, String>);

impl Closes {
    /// Where the kernel does not tell, the report says so.
    pub(crate) fn open() -> Self {
        Self(DestroyEvents::open().map_err(|error| error.to_string()))
    }
}

struct Observer {
    census: Census,
    /// None where the kernel does not tell, with the reason.
    events: Result<DestroyEvents, String>,
    account: Account,
    filter: Option<sockdiag::Filter>,
    looked: Option<Instant>,
    overruns: u64,
}

impl Observer {
    fn open(Closes(events): Closes, targets: &[SocketAddr]) -> Result<Self, String> {
        let census = Census::open().map_err(|error| error.to_string())?;
        let account = Account::new(targets.iter().copied(), events.is_ok());
        // From /proc everything comes in any case.
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

    fn look(&mut self, begun: Instant) -> Result<Look, String> {
        let now = Instant::now();
        let elapsed = self.looked.replace(now).map_or(Duration::ZERO, |before| now.duration_since(before));
        let (filter, families) = (self.filter.as_ref(), self.account.families());
        let question = Question { filter, families, memory: false, ..Question::default() };
        // A dump that was interrupted may have told a socket twice, or not at all; the next one is a second away.
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
