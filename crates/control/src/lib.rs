//! The control plane: rare and slow work on one tokio runtime, in a thread of its own beside the workers. It resolves
//! names, checks peers, gets certificates, asks OCSP responders, and sends spans to a collector. It serves no request. It
//! stores its results in the gateway's registry, where the workers find them. The binary starts it in the process that has
//! the workers, and stops it with them.

mod acme;
mod ask;
mod bell;
mod checks;
mod dial;
mod dns;
mod names;
mod ocsp;
mod otel;
mod probe;
mod wire;

pub use acme::{AcmeAnswer, AcmeCertificate, AcmeClient, AcmeFailure, AcmeSettings};

use gateway::Registry;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::Notify;

/// A running control plane. Dropping it ends it and abandons lookups and checks in progress.
#[derive(Debug)]
pub struct Control {
    end: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the thread. A process has one control plane, because it has one registry.
    pub fn start(registry: &'static Registry) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let end = Arc::new(Notify::new());
        let ended = Arc::clone(&end);
        // A worker may need a name before the thread has started.
        let bell = names::attach(registry);
        let check_bell = checks::attach(registry);
        let acme_bell = acme::attach(registry);
        let (staple_bell, standing_bell) = ocsp::attach(registry);
        let mut spans = otel::Sender::new(registry, otel::attach(registry));
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = names::run(registry, bell) => {}
                    () = checks::run(registry, check_bell) => {}
                    () = acme::run(registry, acme_bell) => {}
                    () = ocsp::staples::run(registry, staple_bell) => {}
                    () = ocsp::client_statuses::run(registry, standing_bell) => {}
                    () = spans.run() => {}
                    () = ended.notified() => {}
                }
                spans.flush().await;
            });
            // A lookup by the system's resolver cannot be cancelled, and its result is no longer needed.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(work)?;
        Ok(Self { end, thread: Some(thread) })
    }

    /// Whether its thread has ended; without a request to end, only a panic does that.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.end.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread returns no result; a panic has printed its message.
            let _ = thread.join();
        }
    }
}
