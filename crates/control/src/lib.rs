//! The control plane: what happens seldom and may wait, on one tokio runtime in a thread of its own beside the workers.
//! It looks names up, checks peers, gets certificates, and asks responders of OCSP. It serves no request; what it finds out it tells the gateway's registry, and the workers find
//! it there. The binary starts it in the process that has the workers, and stops it with them.

mod acme;
mod ask;
mod checks;
mod dial;
mod dns;
mod names;
mod ocsp;
mod probe;
mod wire;

use gateway::Registry;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::Notify;

/// A running control plane. Dropping it ends it: lookups and checks under way are given up.
#[derive(Debug)]
pub struct Control {
    end: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the thread. A process has one control plane, as it has one shared state.
    pub fn start(shared: &'static Registry) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let end = Arc::new(Notify::new());
        let ended = Arc::clone(&end);
        // Before the thread has begun a worker may need a name.
        let bell = names::attach(shared);
        let check_bell = checks::attach(shared);
        let acme_bell = acme::attach(shared);
        let (staple_bell, standing_bell) = ocsp::attach(shared);
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = names::run(shared, bell) => {}
                    () = checks::run(shared, check_bell) => {}
                    () = acme::run(shared, acme_bell) => {}
                    () = ocsp::staples::run(shared, staple_bell) => {}
                    () = ocsp::standings::run(shared, standing_bell) => {}
                    () = ended.notified() => {}
                }
            });
            // A lookup by the system's resolver cannot be cancelled, and its result is no longer needed.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(work)?;
        Ok(Self { end, thread: Some(thread) })
    }

    /// Whether its thread has ended, which it does by itself only by a panic.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.end.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say; a panic has printed itself.
            let _ = thread.join();
        }
    }
}
