//! An exchange as a caller of the connector.

use crate::base::logs::error::Level;
use crate::connector::Caller;
use crate::connector::h2::hub::Hub;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::Wants;
use crate::thread::WorkerThread;
use reactor::{Interest, TaskId, Woken};
use rules::template::Template;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use transport::Transport;

impl Caller for Exchange {
    fn thread(&self) -> &Rc<WorkerThread> {
        &self.thread
    }

    fn task(&self) -> TaskId {
        self.down.task()
    }

    fn hub(&self) -> &Rc<Hub> {
        &self.spares.hub
    }

    async fn wait_for(&self, stream: Option<(&Transport, Interest)>, at_most: Duration) -> Woken {
        let wants = stream.map_or(Wants::NOTHING, |(stream, interest)| Wants::of_socket(stream, interest));
        self.wait(wants, at_most).await
    }

    async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        Self::offload(self, job).await
    }

    async fn let_others_run(&self) {
        self.yield_now().await;
    }

    fn log_line(&self, level: Level, message: &str) {
        self.log_at(level, message);
    }

    fn value(&self, template: &Template) -> Vec<u8> {
        let mut value = Vec::new();
        template.write(&ExchangeView::of(self), &mut value);
        value
    }
}
