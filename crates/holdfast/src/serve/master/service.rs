//! What the master tells its service manager. Two masters may run during a binary upgrade: the one with the children that
//! new connections get is the main process. It says so when it ends and leaves the work to its successor.

use super::{Ending, Master};
use crate::serve::channel::Kind;
use std::time::{Duration, Instant};

impl Master<'_> {
    /// The first child serves.
    pub(super) fn serves(&mut self) {
        // The service is already up if a predecessor still runs, and only its main process may speak.
        if !self.takeover.predecessor_lives() {
            self.service.ready();
        }
    }

    /// The instance begins to end. `drain`: how long that may take, as the configuration says.
    pub(super) fn announce_end(&mut self, drain: Option<Duration>) {
        match self.takeover.newcomer() {
            Some(successor) => self.service.hand_over(successor),
            None => self.service.stopping(drain),
        }
    }

    /// Periodic work.
    pub(super) fn look_at_service(&mut self) {
        let now = Instant::now();
        self.service.turn(now);
        if !self.service.wants_status(now) {
            return;
        }
        let speaking = self.seats.iter_mut().filter_map(|seat| seat.child.as_mut()).find(|child| child.speaks());
        match speaking {
            Some(child) => child.order(Kind::Counts),
            None if self.ending == Ending::Not => self.service.status("no worker process serves at this moment"),
            None => {}
        }
    }
}
