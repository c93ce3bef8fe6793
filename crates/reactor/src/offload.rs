//! Work that may wait for a disk, done by a few threads of its own: opening cold files, reading them, writing bodies to
//! temporary files. The queue is bounded. A finished job calls back, on the pool's thread; the receiver then takes the
//! result. Dropping the receiver is harmless: the job runs and its result is dropped.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A thread without work for this long ends; the next job starts another.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Stack of a thread: jobs open, read and write, they do not recurse.
const STACK_BYTES: usize = 256 * 1024;

type Job = Box<dyn FnOnce() + Send>;

/// A small pool of threads. Cloning gives another handle to the same pool.
#[derive(Clone)]
pub struct Offload(Arc<Pool>);

struct Pool {
    state: Mutex<State>,
    work: Condvar,
    threads_max: usize,
    waiting_max: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Every handle is gone.
    closed: bool,
}

/// A job that was accepted.
#[derive(Debug)]
pub struct Pending<T>(Arc<Mutex<Option<io::Result<T>>>>);

impl<T> Pending<T> {
    /// The result, once there is one. A job that panicked is an error.
    pub fn take(&self) -> Option<io::Result<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Offload {
    /// A pool of at most `threads_max` threads, which are started when there is work, and `waiting_max` jobs in its queue.
    pub fn new(threads_max: usize, waiting_max: usize) -> Self {
        let state = Mutex::default();
        Self(Arc::new(Pool { state, work: Condvar::new(), threads_max: threads_max.max(1), waiting_max }))
    }

    /// Queues a job; `done` is called when its result can be taken. An error means that the queue is full, or that not one
    /// thread could be started.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce() + Send + 'static,
    ) -> io::Result<Pending<T>> {
        let place = Arc::new(Mutex::new(None));
        let result = Arc::clone(&place);
        let whole = Box::new(move || {
            let outcome =
                catch_unwind(AssertUnwindSafe(job)).map_err(|_| io::Error::other("a job of the pool panicked"));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            done();
        });
        let mut state = self.0.lock();
        if state.jobs.len() >= self.0.waiting_max {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "too much work waits for the disk"));
        }
        if state.idle <= state.jobs.len() && state.threads < self.0.threads_max {
            let pool = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("offload".into()).stack_size(STACK_BYTES);
            match thread.spawn(move || pool.serve()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(error),
                // Those that run already will come to it.
                Err(_) => {}
            }
        }
        state.jobs.push_back(whole);
        drop(state);
        self.0.work.notify_one();
        Ok(Pending(place))
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let (woken, waited) = self.work.wait_timeout(state, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        // The threads hold the rest of the references.
        let mut state = self.0.lock();
        if Arc::strong_count(&self.0) <= state.threads + 1 {
            state.closed = true;
            drop(state);
            self.0.work.notify_all();
        }
    }
}

impl std::fmt::Debug for Offload {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        out.debug_struct("Offload").field("threads", &state.threads).field("waiting", &state.jobs.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    const SOON: Duration = Duration::from_secs(10);

    fn run<T: Send + 'static>(pool: &Offload, job: impl FnOnce() -> T + Send + 'static) -> (Pending<T>, Receiver<()>) {
        let (done, finished) = channel();
        (pool.submit(job, move || done.send(()).unwrap()).unwrap(), finished)
    }

    #[test]
    fn finished_result_is_taken_once() {
        let pool = Offload::new(2, 10);
        let (pending, finished) = run(&pool, || 6 * 7);
        finished.recv_timeout(SOON).unwrap();
        assert_eq!(pending.take().unwrap().unwrap(), 42);
        assert!(pending.take().is_none());
    }

    #[test]
    fn a_full_queue_refuses_and_a_panic_is_an_error() {
        let pool = Offload::new(1, 1);
        let (release, held) = channel::<()>();
        let (begun, running) = channel();
        let (_first, first_done) = run(&pool, move || {
            begun.send(()).unwrap();
            held.recv_timeout(SOON)
        });
        running.recv_timeout(SOON).unwrap();
        let (second, second_done) = run(&pool, || -> u32 { panic!("expected by this test") });
        let refused = pool.submit(|| (), || ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        release.send(()).unwrap();
        first_done.recv_timeout(SOON).unwrap();
        second_done.recv_timeout(SOON).unwrap();
        assert!(second.take().unwrap().is_err());
        // The thread has survived the panic.
        let (third, third_done) = run(&pool, || 3);
        third_done.recv_timeout(SOON).unwrap();
        assert_eq!(third.take().unwrap().unwrap(), 3);
    }
}
