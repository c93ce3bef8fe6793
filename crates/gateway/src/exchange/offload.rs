//! How an exchange waits for a disk: the work is done by the process's offload pool, and other exchanges go on meanwhile.

use crate::exchange::Exchange;
use crate::registry::process::Message;
use crate::thread::executor;
use reactor::Offload;
use std::io;

impl Exchange {
    /// Runs a job that may block on another thread. The error: too much waits already, or the job panicked.
    pub(crate) async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.offload_to(&self.thread.shared.offload, job).await
    }

    /// The same in another pool.
    pub(crate) async fn offload_to<T: Send + 'static>(
        &self,
        pool: &Offload,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (shared, worker, task) = (self.thread.shared, usize::from(self.thread.index), self.task());
        let pending = pool.submit(job, move || shared.send(worker, Message::Wake(task)))?;
        // The job ends by itself: no deadline of an earlier wait may be taken for its end.
        self.thread.reactor.set_deadline(task, None);
        loop {
            if let Some(result) = pending.take() {
                return result;
            }
            executor::suspend().await;
        }
    }
}
