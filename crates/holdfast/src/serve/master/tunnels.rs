//! Brings together the two processes that a tunnel moves between: each gets one end of a socket pair. They may be
//! children of this master, or of this one and of the one before or after an upgrade. Masters send each other the ends
//! for their children; the tunnels themselves never go through a master.

use super::offspring::Offspring;
use super::{Ending, Master};
use crate::report::errno;
use crate::serve::channel::{Channel, Kind};
use conf::model::WorkerGroups;
use gateway::Level;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// Most ends that wait for a child that serves: one for each child of the other master that finishes.
const ARRIVING_MAX: usize = 2 * WorkerGroups::MAX as usize;

impl Master<'_> {
    /// Lets a process that is about to finish hand its tunnels to a child of this master. `number` spreads such processes over
    /// the children.
    pub(super) fn move_tunnels_to_child(&self, from: &Channel, number: usize) {
        if let Some(child) = self.child_for(number) {
            self.note(join(from, &child.channel));
        }
    }

    /// Lets the children, which are about to finish, hand their tunnels to the children of the other program.
    pub(super) fn move_tunnels_to_other_program(&self) {
        for (child, other) in self.serving().zip(self.takeover.other.iter().cycle()) {
            self.note(join(&child.channel, other));
        }
    }

    fn child_for(&self, number: usize) -> Option<&Offspring> {
        self.serving().nth(number.checked_rem(self.serving().count())?)
    }

    fn note(&self, joined: io::Result<()>) {
        if let Err(error) = joined {
            self.journal.log(Level::Warn, &format!("open tunnels are not handed over {}", errno(&error)));
        }
    }

    /// Passes on what the other program's master sends for this one's child.
    pub(super) fn read_other_program(&mut self) {
        while let Some(other) = &mut self.takeover.other {
            match other.receive() {
                Ok(packet) if packet.kind == Kind::TakeTunnels => {
                    let room = ARRIVING_MAX.saturating_sub(self.takeover.arriving.len());
                    self.takeover.arriving.extend(packet.descriptors.into_iter().take(room));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // It has ended.
                    self.takeover.other = None;
                }
                Ok(_) | Err(_) => {}
            }
        }
        // A child that is about to finish takes none: the other side learns that when its end is dropped.
        if self.ending != Ending::Not || self.takeover.rests {
            self.takeover.arriving.clear();
        }
        if !self.has_child() {
            return;
        }
        for end in std::mem::take(&mut self.takeover.arriving) {
            if let Some(child) = self.child_for(self.takeover.arrived) {
                // If sending fails, the child is about to end, which another place detects.
                let _ = child.channel.send_with(Kind::TakeTunnels, end.as_fd());
            }
            self.takeover.arrived += 1;
        }
    }
}

/// Gives each of two processes an end.
fn join(from: &Channel, to: &Channel) -> io::Result<()> {
    let (giver, taker): (OwnedFd, OwnedFd) = Channel::ends()?;
    to.send_with(Kind::TakeTunnels, taker.as_fd())?;
    from.send_with(Kind::GiveTunnels, giver.as_fd())
}
