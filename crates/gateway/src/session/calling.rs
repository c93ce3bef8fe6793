//! A session as a caller of the connector, and its waits.

use crate::base::logs::error::Level;
use crate::base::memory::HeldFor;
use crate::connector::Caller;
use crate::connector::h2::hub::Hub;
use crate::registry::process::Message;
use crate::session::StreamSession;
use crate::thread::{WorkerThread, executor};
use reactor::{Awaited, Interest, Leaving, TaskId, Woken};
use rules::template::Template;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use transport::Transport;

/// Size of a session's future, without the bytes that it has read; `worker::sessions` tests it.
pub(crate) const SESSION_BYTES: usize = 4096;

impl Caller for StreamSession {
    fn thread(&self) -> &Rc<WorkerThread> {
        &self.thread
    }

    fn task(&self) -> TaskId {
        self.task
    }

    fn hub(&self) -> &Rc<Hub> {
        &self.hub
    }

    /// A client's reset ends a wait. Its FIN does not: the client may have sent everything that it has to send.
    async fn wait_for(&self, stream: Option<(&Transport, Interest)>, at_most: Duration) -> Woken {
        self.account();
        let reactor = &self.thread.reactor;
        let peer = self.connection.stream().map(|stream| (stream, Leaving::Reset));
        let awaited = Awaited { sockets: [stream, None], peer };
        reactor.begin_wait(self.task, &awaited, reactor.now().after(at_most));
        executor::suspend().await;
        reactor.end_wait(self.task, &awaited)
    }

    async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (registry, worker, task) = (self.thread.registry, usize::from(self.thread.index), self.task);
        let pending = registry.offload.submit(job, move || registry.send(worker, Message::Wake(task)))?;
        // The job ends by itself: a deadline of an earlier wait must not look like its end.
        self.thread.reactor.set_deadline(task, None);
        loop {
            if let Some(result) = pending.take() {
                return result;
            }
            executor::suspend().await;
        }
    }

    async fn let_others_run(&self) {
        self.account();
        self.thread.reactor.wake(self.task);
        executor::suspend().await;
    }

    fn log_line(&self, level: Level, message: &str) {
        self.log(level, message);
    }

    fn value(&self, template: &Template) -> Vec<u8> {
        let mut value = Vec::new();
        template.write(&self.view(), &mut value);
        value
    }
}

impl StreamSession {
    /// Reports the memory that the session holds.
    fn account(&self) {
        let held = SESSION_BYTES + self.pending.capacity() + self.connection.stream().map_or(0, Transport::held_bytes);
        self.thread.memory.hold(self.task, HeldFor::Exchange, held);
    }
}
