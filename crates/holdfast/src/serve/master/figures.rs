//! Keeps the figures of children: the files of those that live, for the others, and the counters of those that have ended.

use super::Master;
use super::change::Change;
use super::offspring::{Offspring, OtherFiles};
use crate::serve::figures::{FiguresFile, Round};
use gateway::{Level, Totals};
use std::cell::Cell;
use std::io;
use std::os::fd::AsFd as _;

/// The counters of children that have ended.
#[derive(Default)]
pub(super) struct Ended {
    totals: Totals,
    /// The status, as `gateway` encodes it; empty before the first.
    status: Vec<u8>,
    /// For the children. A new file for each sum: no child may count a process twice, in its own file and in this one.
    file: Option<FiguresFile>,
    /// The number of the last set of files that the children were sent.
    round: Cell<u64>,
}

impl Ended {
    /// Adds the last figures of a child.
    fn add(&mut self, left: &FiguresFile) -> Result<(), String> {
        if let Some(last) = left.totals() {
            self.totals.add(&last.counters());
        }
        let mut understood = true;
        if let Some(last) = left.status() {
            let before = Some(self.status.as_slice()).filter(|status| !status.is_empty());
            match gateway::figures_of_ended(before, &last) {
                Some(status) => self.status = status,
                None => understood = false,
            }
        }
        let failed = |error: io::Error| error.to_string();
        let mut file = FiguresFile::new().map_err(failed)?;
        file.share().and_then(|mut of_totals| of_totals.write_totals(&self.totals)).map_err(failed)?;
        if !self.status.is_empty() {
            file.write_status(&self.status).map_err(failed)?;
        }
        self.file = Some(file);
        if understood { Ok(()) } else { Err("they are not understood".to_owned()) }
    }
}

impl Master<'_> {
    /// Children have ended: their counters stay. The others are told once about all of them, because no set of files may lack
    /// one.
    pub(super) fn keep_figures(&mut self, left: impl IntoIterator<Item = FiguresFile>) {
        let mut has_some = false;
        for file in left {
            has_some = true;
            if let Err(error) = self.ended.add(&file) {
                self.journal.log(Level::Warn, &format!("the figures of an ended worker process are lost: {error}"));
            }
        }
        if has_some {
            self.share_figures();
        }
    }

    /// Lets each child know the figures of the others.
    pub(super) fn share_figures(&self) {
        self.share_figures_with(&[]);
    }

    /// The same, and those of children that are about to be started. They serve when the others know of them.
    pub(super) fn share_figures_with(&self, newcomers: &[&FiguresFile]) {
        self.ended.round.update(|round| round + 1);
        for file in newcomers {
            // They get this set with their first order. If it cannot be noted, others wait for them, for a limited time.
            let _ = file.set_known(self.ended.round.get());
        }
        if self.commons.is_none() {
            return;
        }
        for child in self.living().filter(|child| child.figures.is_some() && child.speaks()) {
            // If sending fails, the child is about to end, which another place detects.
            let _ = child.share_figures(&self.other_files(child.pid(), newcomers));
        }
    }

    /// The files of all children except one, of some that are about to be started, and of those that have ended.
    pub(super) fn other_files<'f>(&'f self, pid: u32, newcomers: &[&'f FiguresFile]) -> OtherFiles<'f> {
        let round = Round { number: self.ended.round.get(), has_ended: self.ended.file.is_some() };
        let others = self.living().filter(|other| other.pid() != pid).filter_map(|other| other.figures.as_ref());
        let files = self.ended.file.iter().chain(others).chain(newcomers.iter().copied());
        OtherFiles { round, files: files.map(|file| file.file().as_fd()).collect() }
    }

    fn living(&self) -> impl Iterator<Item = &Offspring> {
        let of_seats = self.seats.iter().flat_map(|seat| seat.child.iter().chain(&seat.successor));
        of_seats.chain(self.change.iter().flat_map(Change::newcomers)).chain(&self.retiring)
    }

    /// The children do not share figures any more.
    pub(super) fn forget_figures(&mut self) {
        self.ended = Ended { round: self.ended.round.clone(), ..Ended::default() };
    }
}
