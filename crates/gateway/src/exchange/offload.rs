//! Blocking work of an exchange: the process's offload pool does it while other exchanges go on.

use crate::exchange::Exchange;
use crate::registry::process::Message;
use crate::thread::executor;
use reactor::Offload;
use std::io;

impl Exchange {
    /// Runs a job that may block on another thread. The error: too many jobs wait already, or the job panicked.
    pub(crate) async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.offload_to(&self.thread.registry.offload, job).await
    }

    /// The same in another pool.
    pub(crate) async fn offload_to<T: Send + 'static>(
        &self,
        pool: &Offload,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (registry, worker, task) = (self.thread.registry, usize::from(self.thread.index), self.task());
        let pending = pool.submit(job, move || registry.send(worker, Message::Wake(task)))?;
        // The job ends by itself: a deadline of an earlier wait must not look like its end.
        self.thread.reactor.set_deadline(task, None);
        loop {
            if let Some(result) = pending.take() {
                return result;
            }
            executor::suspend().await;
        }
    }
}
