//! The seats of an installation: each has a process that serves, or waits for one. `worker_groups` says how many there are. A
//! process that dies leaves its seat to another one, and the other seats as they are.

use super::change::Change;
use super::offspring::{Offspring, Shares, Start};
use super::{Ending, Master};
use crate::process::Part;
use crate::report::errno;
use crate::serve::commons::Commons;
use crate::serve::figures::FiguresFile;
use crate::serve::log_files::LogFiles;
use gateway::Level;
use std::time::{Duration, Instant};

/// After this lifetime, a child's death has a new cause: the restart pause begins again at its shortest.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// The pause before a restart doubles from `PAUSE_MIN` to `PAUSE_MAX`. So a machine without memory does not get busier,
/// and after a repair an operator waits at most that long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The pid of no child.
pub(super) const NO_PID: u32 = 0;

/// The place of a process.
pub(super) struct Seat {
    /// The child that serves.
    pub(super) child: Option<Offspring>,
    /// A child that serves here when it is ready: the one before has died.
    pub(super) successor: Option<Offspring>,
    pause: Duration,
    pub(super) respawn_at: Option<Instant>,
}

impl Seat {
    /// With a child that serves.
    pub(super) fn of(child: Offspring) -> Self {
        Self { child: Some(child), successor: None, pause: PAUSE_MIN, respawn_at: None }
    }

    pub(super) fn everybody(&mut self) -> impl Iterator<Item = &mut Offspring> {
        self.child.iter_mut().chain(&mut self.successor)
    }

    /// Takes its children out.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Offspring> + use<> {
        self.respawn_at = None;
        self.child.take().into_iter().chain(self.successor.take())
    }

    /// Its child has died after this time: another one is started after the pause that this returns.
    fn plan_respawn(&mut self, lived: Duration) -> Duration {
        if lived >= STABLE_AFTER {
            self.pause = PAUSE_MIN;
        }
        let pause = self.pause;
        self.respawn_at = Some(Instant::now() + pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        pause
    }
}

impl Master<'_> {
    /// The children that serve.
    pub(super) fn serving(&self) -> impl Iterator<Item = &Offspring> {
        self.seats.iter().filter_map(|seat| seat.child.as_ref())
    }

    /// Whether any child serves.
    pub(super) fn has_child(&self) -> bool {
        self.serving().next().is_some()
    }

    /// All children, also those that finish.
    pub(super) fn everybody(&mut self) -> impl Iterator<Item = &mut Offspring> {
        let newcomers = self.change.iter_mut().flat_map(Change::newcomers_mut);
        self.seats.iter_mut().flat_map(Seat::everybody).chain(newcomers).chain(&mut self.retiring)
    }

    /// What the children send, except answers to a change.
    pub(super) fn read_seats(&mut self) {
        for at in 0..self.seats.len() {
            let heard = self.seats[at].child.as_mut().and_then(|child| Some((child.pid(), child.listen()?)));
            if let Some((pid, word)) = heard {
                self.handle_serving(pid, word);
            }
            if let Some(word) = self.seats[at].successor.as_mut().and_then(Offspring::listen) {
                self.handle_successor(at, word);
            }
        }
    }

    /// Checks which children of the seats have ended. `left` gets their figures.
    pub(super) fn reap_seats(&mut self, left: &mut Vec<FiguresFile>) {
        for at in 0..self.seats.len() {
            let seat = &mut self.seats[at];
            if let Some(lived) = seat.successor.as_mut().and_then(|one| one.ended(&self.journal)) {
                left.extend(seat.successor.take().and_then(|child| child.figures));
                self.commons.iter().for_each(|commons| commons.close(at));
                if self.seats[at].child.is_none() {
                    self.plan_respawn(at, lived);
                }
            }
            let seat = &mut self.seats[at];
            if let Some(lived) = seat.child.as_mut().and_then(|one| one.ended(&self.journal)) {
                let Some(child) = seat.child.take() else { continue };
                let replaced = seat.successor.is_some();
                self.commons.iter().for_each(|commons| commons.close(at));
                self.child_left(child.pid());
                if child.is_asked() {
                    self.change_failed("the worker process ended during the reload");
                }
                if !replaced {
                    self.plan_respawn(at, lived);
                }
                left.extend(child.figures);
            }
        }
    }

    pub(super) fn plan_respawn(&mut self, at: usize, lived: Duration) {
        if self.ending != Ending::Not {
            return;
        }
        let which = self.name_of(at);
        let Some(seat) = self.seats.get_mut(at) else { return };
        let pause = seat.plan_respawn(lived);
        let message = format!("the child{which} has died and is started again in {} ms", pause.as_millis());
        self.journal.log(Level::Alert, &message);
    }

    /// A seat for messages; empty if there is only one.
    pub(super) fn name_of(&self, at: usize) -> String {
        match self.seats.len() {
            0 | 1 => String::new(),
            seats => format!(" of worker group {} of {seats}", at + 1),
        }
    }

    /// Starts the children that are due.
    pub(super) fn respawn(&mut self, now: Instant) {
        // They get the configuration that holds when the change has ended.
        if self.change.is_some() {
            return;
        }
        for at in 0..self.seats.len() {
            if self.seats[at].respawn_at.is_some_and(|due| now >= due) {
                self.seats[at].respawn_at = None;
                self.start_child(at);
            }
        }
    }

    /// Starts a child with the current configuration.
    pub(super) fn start_child(&mut self, at: usize) {
        let started = LogFiles::open(&self.plan.prepared).and_then(|files| self.start_one(at, &files));
        match started {
            Ok(child) => self.seats[at].successor = Some(child),
            Err(message) => {
                self.share_figures();
                self.journal.log(Level::Alert, &message);
                self.plan_respawn(at, Duration::ZERO);
            }
        }
    }

    /// The children that finish keep what they share: the counts of those that follow must be their own.
    pub(super) fn renew_commons(&mut self) {
        match Commons::new(self.plan.process().child.groups) {
            Ok(commons) => self.commons = commons,
            Err(error) => self.journal.log(Level::Alert, &format!("socketpair() failed {}", errno(&error))),
        }
    }

    fn start_one(&self, at: usize, files: &LogFiles) -> Result<Offspring, String> {
        let of = self.plan.process().child.groups;
        let part = Part { index: u16::try_from(at).unwrap_or_default(), of };
        let figures = FiguresFile::new().map_err(|error| format!("memfd_create() failed {}", errno(&error)))?;
        self.share_figures_with(&[&figures]);
        let shares = self.commons.as_ref().map(|commons| {
            let others = self.other_files(NO_PID, &[]);
            Shares { commons, figures: &figures, others }
        });
        Offspring::start(&self.plan, part, &self.start_with(files, shares))
    }

    /// What every new child gets.
    pub(super) fn start_with<'s>(&'s self, files: &'s LogFiles, shares: Option<Shares<'s>>) -> Start<'s> {
        let meeting_place = self.meeting_place.as_ref();
        Start { instance: self.instance, journal: &self.journal, files, meeting_place, shares }
    }
}
