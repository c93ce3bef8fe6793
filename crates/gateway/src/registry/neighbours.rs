//! The other processes of the installation (`worker_groups`), as an accepting worker knows them: how many connections each
//! has, and a way to leave a connection to another process. The program implements it; with one process there is none.

use crate::registry::generation::ListenerId;
use crate::registry::process::{Message, Registry, Totals};
use reactor::{Accepted, Listener};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// The other processes on the same listeners.
pub trait Neighbours: Send + Sync {
    /// Publishes the number of client connections of this process, and returns the process with the fewest and its number;
    /// `None` if no other process serves.
    fn compare(&self, own: usize) -> Option<(usize, usize)>;

    /// Leaves a connection to another process. The error gives it back: the other process cannot take it now.
    fn leave_to(&self, other: usize, accepted: Accepted, listener: &Listener) -> Result<(), Accepted>;

    /// Publishes the figures of this process for the others. Never called by two threads at once.
    fn publish(&self, figures: &[u8]);

    /// Publishes the totals of this process for the others. Never called by two threads at once.
    fn publish_totals(&self, totals: &Totals);

    /// The figures that the other processes have published.
    fn figures(&self) -> OtherFigures;

    /// The totals of the other processes, and of those that have ended.
    fn totals(&self) -> Vec<Totals>;

    /// No descriptor is left here: the other processes accept what waits at the listeners. `false`: no other process can.
    fn request_accepts(&self) -> bool;
}

/// Figures of other processes, as `figures` made them.
#[derive(Debug, Default)]
pub struct OtherFigures {
    /// Of each process that lives.
    pub living: Vec<Vec<u8>>,
    /// Of all that have ended, together.
    pub ended: Option<Vec<u8>>,
}

impl Registry {
    /// Takes figures of this process, and publishes them if there are other processes. What is shown is published first: it
    /// stays if this process is killed, and no other process shows less afterwards.
    ///
    /// One thread at a time takes and publishes: otherwise older figures could replace newer ones.
    pub(crate) fn publish_figures<F>(&self, take: impl FnOnce() -> F, encode: impl FnOnce(&mut F) -> Vec<u8>) -> F {
        let Some(neighbours) = self.neighbours.get() else { return take() };
        self.publish_totals();
        let _turn = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut figures = take();
        neighbours.publish(&encode(&mut figures));
        figures
    }

    /// The same for the totals. They have a lock of their own, because workers call this and must not wait for a status.
    fn publish_totals(&self) -> Totals {
        let Some(neighbours) = self.neighbours.get() else { return self.totals() };
        let _turn = self.publishing_totals.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = self.totals();
        neighbours.publish_totals(&totals);
        totals
    }

    /// The figures that the other processes have published; `None` if there are none.
    pub(crate) fn figures_of_others(&self) -> Option<OtherFigures> {
        Some(self.neighbours.get()?.figures())
    }

    /// The sums over all processes. Its own part is published first, as figures are.
    pub fn totals_of_all(&self) -> Totals {
        let mut sums = self.publish_totals();
        for other in self.neighbours.get().iter().flat_map(|neighbours| neighbours.totals()) {
            sums.add(&other);
        }
        sums
    }

    /// Sets the other processes, before the workers start. The first call counts.
    pub fn set_neighbours(&self, neighbours: Box<dyn Neighbours>) {
        let _ = self.neighbours.set(neighbours);
    }

    /// Client connections of this process.
    pub fn open_connections(&self) -> usize {
        self.workers.iter().filter(|link| !link.has_ended()).map(|link| link.connections.load(Ordering::Relaxed)).sum()
    }

    /// Takes over a connection that another process accepted. The error gives it back: all workers have ended.
    pub fn take_in(&self, accepted: Accepted, listener: ListenerId) -> Result<(), Accepted> {
        let least = self.workers.iter().min_by_key(|link| link.connections.load(Ordering::Relaxed));
        match least {
            Some(link) if link.expects_one_more() => {
                link.mailbox.send(Message::Adopt(accepted, listener));
                Ok(())
            }
            _ => Err(accepted),
        }
    }

    /// Lets the workers accept what waits at their listeners.
    pub fn accept_now(&self) {
        for worker in 0..self.workers() {
            self.send(worker, Message::AcceptNow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::error::{ErrorLog, Level};
    use std::sync::atomic::AtomicU64;

    /// Checks that what is published grows.
    #[derive(Default)]
    struct Growing {
        figures: AtomicU64,
        totals: AtomicU64,
    }

    impl Neighbours for &'static Growing {
        fn publish(&self, figures: &[u8]) {
            let number = u64::from_le_bytes(figures.try_into().unwrap());
            let before = self.figures.swap(number, Ordering::SeqCst);
            assert!(before < number, "{number} replaces {before}");
        }

        fn publish_totals(&self, totals: &Totals) {
            let before = self.totals.swap(totals.requests, Ordering::SeqCst);
            assert!(before <= totals.requests, "{totals:?} replaces {before}");
        }

        fn compare(&self, _own: usize) -> Option<(usize, usize)> {
            None
        }

        fn leave_to(&self, _other: usize, accepted: Accepted, _listener: &Listener) -> Result<(), Accepted> {
            Err(accepted)
        }

        fn figures(&self) -> OtherFigures {
            OtherFigures::default()
        }

        fn totals(&self) -> Vec<Totals> {
            Vec::new()
        }

        fn request_accepts(&self) -> bool {
            false
        }
    }

    #[test]
    fn newer_figures_survive_concurrent_publishing() {
        let registry = Registry::leak(1, ErrorLog::new(Level::Notice, 0)).unwrap();
        let growing: &'static Growing = Box::leak(Box::default());
        registry.set_neighbours(Box::new(growing));
        let counter = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        registry.workers[0].counters.requests.fetch_add(1, Ordering::SeqCst);
                        registry.totals_of_all();
                        let take = || counter.fetch_add(1, Ordering::SeqCst) + 1;
                        registry.publish_figures(take, |number| {
                            std::thread::yield_now();
                            number.to_le_bytes().into()
                        });
                    }
                });
            }
        });
        assert_eq!(growing.figures.load(Ordering::SeqCst), 4000);
        assert_eq!(growing.totals.load(Ordering::SeqCst), 4000);
    }
}
