//! A change of the configuration, for all seats together. Either the running children prepare it, and apply it when all have;
//! or new children take over all seats when all serve. If one fails, all stay as they are.

use super::offspring::{Offspring, Shares, Word};
use super::seats::{NO_PID, Seat};
use super::{Ending, Master, Plan};
use crate::process::Part;
use crate::report::errno;
use crate::serve::channel::Kind;
use crate::serve::commons::Commons;
use crate::serve::figures::FiguresFile;
use crate::serve::log_files::LogFiles;
use gateway::Level;
use std::io;
use std::ptr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the children may take for a change: they look up names, and nothing else takes as long.
const PATIENCE: Duration = Duration::from_mins(1);

/// A change in progress.
pub(super) struct Change {
    plan: Rc<Plan>,
    stage: Stage,
    since: Instant,
    /// Why it fails. It ends when no child owes an answer.
    failed: Option<String>,
}

enum Stage {
    /// The running children prepare the configuration.
    Preparing,
    /// They apply it.
    Applying,
    /// These children are to take over the seats, with what they share.
    Replacing(Vec<Newcomer>, Option<Commons>),
}

/// A child that takes over a seat.
struct Newcomer {
    /// `None`: it has died.
    child: Option<Offspring>,
    serves: bool,
}

impl Change {
    /// The configuration that it brings.
    pub(super) fn plan(&self) -> &Rc<Plan> {
        &self.plan
    }

    pub(super) fn newcomers_mut(&mut self) -> impl Iterator<Item = &mut Offspring> {
        let newcomers = match &mut self.stage {
            Stage::Replacing(newcomers, _) => newcomers.as_mut_slice(),
            _ => &mut [],
        };
        newcomers.iter_mut().filter_map(|newcomer| newcomer.child.as_mut())
    }

    /// The children that are to take over the seats.
    pub(super) fn newcomers(&self) -> impl Iterator<Item = &Offspring> {
        let newcomers = match &self.stage {
            Stage::Replacing(newcomers, _) => newcomers.as_slice(),
            _ => &[],
        };
        newcomers.iter().filter_map(|newcomer| newcomer.child.as_ref())
    }
}

impl Master<'_> {
    /// Offers a configuration to the children. If running children cannot apply it, this starts children that can.
    pub(super) fn begin_change(&mut self, plan: Rc<Plan>, files: &LogFiles) -> Result<(), String> {
        let same = plan.process().child == self.plan.process().child;
        if same && self.has_child() {
            let (instance, mut failed) = (self.instance, None);
            let serving = self.seats.iter_mut().filter_map(|seat| seat.child.as_mut());
            for child in serving.filter(|child| child.speaks()) {
                failed = failed.or(child.offer(&plan, instance, files, self.commons.as_ref()).err());
            }
            self.change = Some(Change { plan, stage: Stage::Preparing, since: Instant::now(), failed });
            return Ok(());
        }
        let of = plan.process().child.groups;
        let commons = Commons::new(of).map_err(|error| format!("socketpair() failed {}", errno(&error)))?;
        let figures: io::Result<Vec<FiguresFile>> = (0..of).map(|_| FiguresFile::new()).collect();
        let figures = figures.map_err(|error| format!("memfd_create() failed {}", errno(&error)))?;
        if commons.is_some() {
            self.share_figures_with(&figures.iter().collect::<Vec<_>>());
        }
        let mut newcomers: Vec<Newcomer> = Vec::new();
        for (index, own) in (0..of).zip(&figures) {
            let shares = commons.as_ref().map(|commons| {
                let newcomers: Vec<&FiguresFile> = figures.iter().filter(|file| !ptr::eq(*file, own)).collect();
                Shares { commons, figures: own, others: self.other_files(NO_PID, &newcomers) }
            });
            match Offspring::start(&plan, Part { index, of }, &self.start_with(files, shares)) {
                Ok(child) => newcomers.push(Newcomer { child: Some(child), serves: false }),
                Err(message) => {
                    self.dismiss(newcomers);
                    self.share_figures();
                    return Err(message);
                }
            }
        }
        self.change =
            Some(Change { plan, stage: Stage::Replacing(newcomers, commons), since: Instant::now(), failed: None });
        Ok(())
    }

    /// Whether a change or the start of a child is in progress.
    pub(super) fn is_reloading(&self) -> bool {
        self.change.is_some() || self.seats.iter().any(|seat| seat.successor.is_some())
    }

    /// What a child that serves has sent.
    pub(super) fn handle_serving(&mut self, pid: u32, word: Word) {
        match word {
            // `Offspring` has noted it.
            Word::Ready => {}
            Word::Refused(message) => self.change_failed(&message),
            Word::Answered(id, answer) => self.answered(pid, id, answer),
            Word::Counted(text) => self.service.status(&text),
        }
    }

    /// What a child has sent that is started in the place of a dead one.
    pub(super) fn handle_successor(&mut self, at: usize, word: Word) {
        let seat = &mut self.seats[at];
        match word {
            Word::Ready => {
                seat.child = seat.successor.take();
                if let Some(child) = &self.seats[at].child {
                    self.repeat_changes(child);
                }
                self.share_figures();
                self.relieve_adopted();
                self.take_on(Rc::clone(&self.plan));
            }
            Word::Refused(message) => {
                self.journal.log(Level::Emerg, &message);
                self.retiring.extend(seat.successor.take());
                self.plan_respawn(at, Duration::ZERO);
            }
            Word::Answered(..) | Word::Counted(_) => {}
        }
    }

    /// What the children have sent that are to take over.
    pub(super) fn read_newcomers(&mut self) {
        if let Some(Change { stage: Stage::Replacing(newcomers, _), failed, .. }) = &mut self.change {
            for newcomer in newcomers {
                let Some(child) = &mut newcomer.child else { continue };
                match child.listen() {
                    Some(Word::Ready) => newcomer.serves = true,
                    Some(Word::Refused(message)) => *failed = failed.take().or(Some(message)),
                    // They were asked for nothing else.
                    Some(_) | None => {}
                }
            }
        }
    }

    /// A step of the change has failed: all stay as they are.
    pub(super) fn change_failed(&mut self, message: &str) {
        if let Some(change) = &mut self.change {
            change.failed.get_or_insert_with(|| message.to_owned());
        }
    }

    /// Checks which of the children that are to take over have ended. `left` gets their figures.
    pub(super) fn reap_newcomers(&mut self, left: &mut Vec<FiguresFile>) {
        let Some(Change { stage: Stage::Replacing(newcomers, _), failed, .. }) = &mut self.change else { return };
        for newcomer in newcomers {
            if newcomer.child.as_mut().is_some_and(|child| child.ended(&self.journal).is_some()) {
                left.extend(newcomer.child.take().and_then(|child| child.figures));
                let message = "the new worker process ended before it served; the error log may say why";
                failed.get_or_insert_with(|| message.to_owned());
            }
        }
    }

    /// Takes the next step of a change when every child has answered. `starting`: no child has served yet, and a failure is the
    /// end.
    pub(super) fn advance_change(&mut self, starting: bool) -> Result<(), String> {
        self.stop_waiting();
        let owes = self.serving().any(Offspring::owes_answer);
        let Some(change) = &mut self.change else { return Ok(()) };
        match &mut change.stage {
            Stage::Preparing | Stage::Applying if owes => return Ok(()),
            Stage::Replacing(newcomers, _) if change.failed.is_none() && newcomers.iter().any(|it| !it.serves) => {
                return Ok(());
            }
            _ => {}
        }
        let Some(Change { plan, stage, since, failed }) = self.change.take() else { return Ok(()) };
        match (stage, failed) {
            // Children that finish must not open other listeners.
            (Stage::Preparing, None) if self.ending != Ending::Not => {
                self.withdraw();
                self.forget(&plan, "the instance is shutting down");
            }
            (Stage::Preparing, None) => {
                let serving = self.seats.iter_mut().filter_map(|seat| seat.child.as_mut());
                serving.for_each(Offspring::apply);
                self.change = Some(Change { plan, stage: Stage::Applying, since, failed: None });
            }
            (Stage::Preparing, Some(message)) => {
                self.withdraw();
                self.forget(&plan, &message);
            }
            // A child that has died meanwhile gets the new configuration when it is started again.
            (Stage::Applying, _) => self.take_on(plan),
            (Stage::Replacing(newcomers, commons), None) => {
                if commons.is_none() {
                    self.forget_figures();
                }
                self.commons = commons;
                self.replace_all(plan, newcomers);
            }
            (Stage::Replacing(newcomers, _), Some(message)) => {
                if starting && self.ending == Ending::Not {
                    self.dismiss(newcomers);
                    self.sockets.discard(&plan.bound.borrow());
                    return Err(message);
                }
                self.dismiss(newcomers);
                self.forget(&plan, &message);
                for at in 0..self.seats.len() {
                    let seat = &self.seats[at];
                    if seat.child.is_none() && seat.successor.is_none() && seat.respawn_at.is_none() {
                        self.plan_respawn(at, Duration::ZERO);
                    }
                }
            }
        }
        Ok(())
    }

    /// A child that is stopped or stuck must not keep the others from a change for ever. A single child has no others.
    fn stop_waiting(&mut self) {
        let is_over = |change: &Change| change.since.elapsed() >= PATIENCE;
        if self.seats.len() < 2 || !self.change.as_ref().is_some_and(is_over) {
            return;
        }
        let mut silent = Vec::new();
        for child in self.seats.iter_mut().filter_map(|seat| seat.child.as_mut()).filter(|child| child.owes_answer()) {
            child.stop_waiting();
            silent.push(child.pid().to_string());
        }
        let seconds = PATIENCE.as_secs();
        let message = match silent.as_slice() {
            [] => format!("the new worker processes do not serve after {seconds} s"),
            silent => format!("worker processes have not answered for {seconds} s: {}", silent.join(", ")),
        };
        self.journal.log(Level::Alert, &message);
        self.change_failed(&message);
    }

    /// The new children take over all seats; the old ones finish.
    fn replace_all(&mut self, plan: Rc<Plan>, newcomers: Vec<Newcomer>) {
        let old: Vec<Offspring> = self.seats.iter_mut().flat_map(Seat::clear).collect();
        self.seats = newcomers.into_iter().filter_map(|newcomer| newcomer.child).map(Seat::of).collect();
        for (number, mut child) in old.into_iter().enumerate() {
            self.move_tunnels_to_child(&child.channel, number);
            // The new children already accept on the same sockets.
            child.order(Kind::Drain);
            self.child_left(child.pid());
            self.retiring.push(child);
        }
        self.forget_changes();
        self.share_figures();
        self.take_on(plan);
        self.relieve_adopted();
    }

    /// The children that have prepared a configuration forget it.
    fn withdraw(&mut self) {
        self.seats.iter_mut().filter_map(|seat| seat.child.as_mut()).for_each(Offspring::withdraw);
    }

    /// Children that were to take over finish instead.
    fn dismiss(&mut self, newcomers: Vec<Newcomer>) {
        for (number, newcomer) in newcomers.into_iter().enumerate() {
            let Some(mut child) = newcomer.child else { continue };
            if newcomer.serves {
                self.move_tunnels_to_child(&child.channel, number);
            }
            child.order(Kind::Drain);
            self.retiring.push(child);
        }
    }

    /// The workers are told to rest: nothing takes over.
    pub(super) fn drop_change(&mut self) -> Vec<Offspring> {
        let Some(Change { plan, stage, .. }) = self.change.take() else { return Vec::new() };
        if !Rc::ptr_eq(&plan, &self.plan) {
            self.forget(&plan, "the workers were told to finish");
        }
        match stage {
            Stage::Replacing(newcomers, _) => newcomers.into_iter().filter_map(|newcomer| newcomer.child).collect(),
            Stage::Preparing | Stage::Applying => Vec::new(),
        }
    }
}
