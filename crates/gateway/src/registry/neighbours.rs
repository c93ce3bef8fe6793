//! The other processes of the installation (`worker_groups`), as an accepting worker knows them: how many connections each
//! has, and a way to leave a connection to another process. The program implements it; with one process there is none.

use crate::registry::generation::ListenerId;
use crate::registry::process::{Message, Registry, Totals};
use reactor::{Accepted, Listener};
use std::sync::atomic::Ordering;

/// The other processes on the same listeners.
pub trait Neighbours: Send + Sync {
    /// Publishes the number of client connections of this process, and returns the process with the fewest and its number;
    /// `None` if no other process serves.
    fn compare(&self, own: usize) -> Option<(usize, usize)>;

    /// Leaves a connection to another process. The error gives it back: the other process cannot take it now.
    fn leave_to(&self, other: usize, accepted: Accepted, listener: &Listener) -> Result<(), Accepted>;

    /// Publishes the figures of this process for the others.
    fn publish(&self, totals: &Totals, figures: Vec<u8>);

    /// The figures that the other processes have published.
    fn figures(&self) -> OtherFigures;

    /// The totals of the other processes, and of those that have ended.
    fn totals(&self) -> Vec<Totals>;

    /// No descriptor is left here: the other processes accept what waits at the listeners. `false`: no other process can.
    fn call_for_help(&self) -> bool;
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
    /// Publishes figures of this process, and returns those of the others; `None` if there are none. What is shown is
    /// published first: it stays if this process is killed.
    pub(crate) fn exchange_figures(&self, own: impl FnOnce() -> Vec<u8>) -> Option<OtherFigures> {
        self.publish_figures(own);
        Some(self.neighbours.get()?.figures())
    }

    /// Publishes figures of this process, if there are others.
    pub(crate) fn publish_figures(&self, own: impl FnOnce() -> Vec<u8>) {
        if let Some(neighbours) = self.neighbours.get() {
            neighbours.publish(&self.totals(), own());
        }
    }

    /// The sums over all processes.
    pub fn totals_of_all(&self) -> Totals {
        let mut sums = self.totals();
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
