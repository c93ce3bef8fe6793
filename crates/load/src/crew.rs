//! The workers of a load of any protocol: those of a process until they begin ([`Crew`]), and all of a run until they have ended
//! ([`Workers`]), in this process or in several. What they do is given by the protocol's own module.

use crate::collect::{Collected, Recorded};
use crate::processors::Processors;
use crate::run::Interval;
use crate::setup::StartError;
use crate::worker::{Message, Together};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Which share of a load a process has. All workers of all processes are numbered through, and share requests, connections
/// and arrivals by that number alone: whether they live in one process or in several changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// From 0.
    pub(crate) index: usize,
    /// Processes in all.
    pub(crate) of: usize,
}

impl Part {
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// Workers of each process, of this many threads in all: one without a connection could not keep its share of the rate.
    pub(crate) fn workers(self, threads: usize, connections: usize) -> usize {
        threads.div_ceil(self.of).min(connections / self.of).max(1)
    }
}

/// The workers of this process, ready and waiting for the begin.
#[derive(Debug)]
pub(crate) struct Crew<R> {
    pub(crate) together: Arc<Together>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) messages: Receiver<Message<R>>,
}

/// What a worker's thread is given.
pub(crate) struct Place<R> {
    /// Its number among all workers of all processes.
    pub(crate) index: usize,
    /// How many those are.
    pub(crate) of: usize,
    pub(crate) together: Arc<Together>,
    pub(crate) messages: Sender<Message<R>>,
}

impl<R: Send + 'static> Crew<R> {
    /// Starts `workers` threads of this part; they are built, or have failed to be, when this returns. `work` makes what each does,
    /// which says [`Message::Ready`] once.
    pub(crate) fn start<W: FnOnce() + Send + 'static>(
        part: Part,
        workers: usize,
        stop: Arc<AtomicBool>,
        mut work: impl FnMut(Place<R>) -> W,
    ) -> Result<Self, StartError> {
        let together = Arc::new(Together { begun: OnceLock::new(), stop });
        let (sender, messages) = channel();
        let mut crew = Self { together, threads: Vec::new(), messages };
        let mut failure = None;
        for index in part.index * workers..(part.index + 1) * workers {
            let (together, messages) = (Arc::clone(&crew.together), sender.clone());
            let work = work(Place { index, of: part.of * workers, together, messages });
            match std::thread::Builder::new().name(format!("load-{index}")).spawn(work) {
                Ok(thread) => crew.threads.push(thread),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        for _ in 0..crew.threads.len() {
            // Each worker says so once; the channel cannot end before, as a sender is held here.
            let _ = crew.messages.recv();
        }
        drop(sender);
        if let Some(error) = failure {
            crew.together.stop.store(true, Ordering::Relaxed);
            // Those that were started run, if only to see that they are to stop.
            crew.together.begin(Instant::now());
            crew.threads.drain(..).for_each(|thread| drop(thread.join()));
            return Err(StartError::Worker(error));
        }
        Ok(crew)
    }

    /// All begin now, as the whole of a run. What they record comes to this.
    pub(crate) fn begin(self, collected: Collected<R>) -> Workers<R> {
        let begun = Instant::now();
        self.together.begin(begun);
        let Self { together, threads, messages } = self;
        let stop = Arc::clone(&together.stop);
        let collected = Some(collected);
        Workers { count: threads.len(), threads, stop, begun, messages, collected, processes: Vec::new() }
    }

    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        self.threads.len()
    }
}

/// The workers of a run that has begun. Dropping it stops them and waits for their threads and processes.
#[derive(Debug)]
pub(crate) struct Workers<R> {
    pub(crate) stop: Arc<AtomicBool>,
    /// The workers', or those that speak with the processes which have them.
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) begun: Instant,
    pub(crate) messages: Receiver<Message<R>>,
    /// Made before they began: its memory is a millisecond's work, which would be in the way of the first requests. Taken by `watch`.
    pub(crate) collected: Option<Collected<R>>,
    /// Of all processes.
    pub(crate) count: usize,
    /// The other processes that have them; none if it is this one.
    pub(crate) processes: Vec<u32>,
}

impl<R: Recorded> Workers<R> {
    /// Processes that load.
    pub(crate) fn process_count(&self) -> usize {
        self.processes.len().max(1)
    }

    /// Waits for the end, and shows each interval when all workers have finished it. An error is a panic; a worker that cannot go on
    /// ends the run, and what was recorded until then is there.
    pub(crate) fn watch(&mut self, length: Duration, show: &mut dyn FnMut(&Interval<R>)) -> io::Result<Collected<R>> {
        let mut collected = self.collected.take().ok_or_else(|| io::Error::other("the load was watched before"))?;
        let mut processors = Processors::new();
        while let Ok(message) = self.messages.recv() {
            if matches!(message, Message::Stopped | Message::Failed(_)) {
                self.stop.store(true, Ordering::Relaxed);
            }
            collected.take(message, give_way);
            while let Some((number, record)) = collected.finished() {
                let begun = length.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
                let ended = Duration::from_nanos(collected.ended_ns);
                let is_cut = collected.is_over() && ended < begun + length;
                let length = if is_cut { ended.saturating_sub(begun) } else { length };
                let passed = processors.lap();
                collected.processors += passed;
                give_way();
                let interval = Interval { number, begun, length, processors: passed, record };
                show(&interval);
                give_way();
                collected.take_back(interval.record);
            }
        }
        let joined: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        if joined.iter().any(Result::is_err) {
            return Err(io::Error::other("a worker of the load panicked"));
        }
        Ok(collected)
    }
}

/// Lets a worker run that has to share this processor. What is merged and shown at the end of an interval takes some hundred
/// microseconds, and a thread that runs keeps its slice of milliseconds, even if work is due in another one that has just woken up.
fn give_way() {
    std::thread::yield_now();
}

impl<R> Drop for Workers<R> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // There is no receiver left.
            let _ = thread.join();
        }
    }
}
