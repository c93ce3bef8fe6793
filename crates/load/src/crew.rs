//! The workers of a load of any protocol: those of one process until they begin ([`Crew`]), and all workers of a run until
//! they end ([`Workers`]), in this process or in several. The module of the protocol defines their work.

use crate::collect::{Collected, Recorded};
use crate::processors::{Processors, Ticks};
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

/// The share of a load that one process has. Workers are numbered across all processes and share requests, connections and
/// arrivals by that number. So the number of processes does not change the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Number of this process, from 0.
    pub(crate) index: usize,
    /// Processes in all.
    pub(crate) of: usize,
}

impl Part {
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// Workers of each process for this many threads in all. A worker needs at least one connection to keep its share of
    /// the rate.
    pub(crate) fn workers(self, threads: usize, connections: usize) -> usize {
        threads.div_ceil(self.of).min(connections / self.of).max(1)
    }
}

/// The workers of this process, ready to begin.
#[derive(Debug)]
pub(crate) struct Crew<R> {
    pub(crate) together: Arc<Together>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) messages: Receiver<Message<R>>,
}

/// Passed to the thread of each worker.
pub(crate) struct Place<R> {
    /// Number among all workers of all processes.
    pub(crate) index: usize,
    /// Number of all workers.
    pub(crate) of: usize,
    pub(crate) together: Arc<Together>,
    pub(crate) messages: Sender<Message<R>>,
}

impl<R: Send + 'static> Crew<R> {
    /// Starts `workers` threads of this part. When this returns, each worker is built or has failed. `work` creates the
    /// function of each thread, which must send [`Message::Ready`] once.
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
            // Each worker sends Ready once. The channel stays open because a sender is held here.
            let _ = crew.messages.recv();
        }
        drop(sender);
        if let Some(error) = failure {
            crew.together.stop.store(true, Ordering::Relaxed);
            // Let the workers that were started run, so that they see the stop flag and end.
            crew.together.begin(Instant::now());
            crew.threads.drain(..).for_each(|thread| drop(thread.join()));
            return Err(StartError::Worker(error));
        }
        Ok(crew)
    }

    /// Begins all workers as one complete run. Their records are merged into `collected`.
    pub(crate) fn begin(self, collected: Collected<R>) -> Workers<R> {
        let begun = Instant::now();
        self.together.begin(begun);
        let Self { together, threads, messages } = self;
        let stop = Arc::clone(&together.stop);
        let collected = Some(collected);
        Workers { count: threads.len(), threads, stop, begun, messages, collected, processes: Vec::new(), elsewhere: 0 }
    }

    /// Number of workers.
    pub(crate) fn count(&self) -> usize {
        self.threads.len()
    }
}

/// The workers of a run that has begun. Dropping it stops them and waits for their threads and processes.
#[derive(Debug)]
pub(crate) struct Workers<R> {
    pub(crate) stop: Arc<AtomicBool>,
    /// The threads of the workers, or the threads that read from the worker processes.
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) begun: Instant,
    pub(crate) messages: Receiver<Message<R>>,
    /// Allocated before the workers begin: that takes a millisecond, which would delay the first requests. `watch` takes
    /// it.
    pub(crate) collected: Option<Collected<R>>,
    /// Number of workers in all processes.
    pub(crate) count: usize,
    /// Process ids of the worker processes; empty if the workers run in this process or on other machines.
    pub(crate) processes: Vec<u32>,
    /// Number of parts on other machines.
    pub(crate) elsewhere: usize,
}

impl<R: Recorded> Workers<R> {
    /// Number of processes that generate load.
    pub(crate) fn process_count(&self) -> usize {
        self.processes.len().max(self.elsewhere).max(1)
    }

    /// Waits for the end and shows each interval once all workers have finished it. The error is a panic of a worker. If a
    /// worker fails otherwise, the run ends and keeps the records up to then.
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
                // The processors of this machine say nothing about those of others.
                let passed = if self.elsewhere > 0 { Ticks::default() } else { processors.lap() };
                let is_measured = number >= collected.skipped;
                if is_measured {
                    collected.processors += passed;
                }
                give_way();
                let interval = Interval { number, begun, length, processors: passed, record };
                if is_measured {
                    show(&interval);
                }
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

/// Yields to a worker that shares this processor. Merging and showing an interval takes some hundred microseconds, and the
/// kernel lets a running thread keep its slice of milliseconds although a worker has just woken up.
fn give_way() {
    std::thread::yield_now();
}

impl<R> Drop for Workers<R> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The receiver is gone.
            let _ = thread.join();
        }
    }
}
