//! Brings together the two processes that a tunnel moves between: each gets one end of a socket pair. They may be
//! children of this master, or of this one and of the one before or after an upgrade. Masters send each other the ends
//! for their children; the tunnels themselves never go through a master.

use super::{Ending, Master};
use crate::report::errno;
use crate::serve::channel::{Channel, Kind};
use gateway::Level;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// Most ends that wait for a child that serves: the other master has few children that finish.
const ARRIVING_MAX: usize = 8;

impl Master<'_> {
    /// Lets a process that is about to finish hand its tunnels to this master's child.
    pub(super) fn move_tunnels_to_child(&self, from: &Channel) {
        if let Some(child) = &self.child {
            self.note(join(from, &child.channel));
        }
    }

    /// Lets the child, which is about to finish, hand its tunnels to the child of the other program.
    pub(super) fn move_tunnels_to_other_program(&self) {
        if let (Some(child), Some(other)) = (&self.child, &self.takeover.other) {
            self.note(join(&child.channel, other));
        }
    }

    fn note(&self, joined: io::Result<()>) {
        if let Err(error) = joined {
            self.journal.log(Level::Warn, &format!("open tunnels are not handed over {}", errno(&error)));
        }
    }

    /// Passes on what the other program's master sends for this one's child.
    pub(super) fn hear_other_program(&mut self) {
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
        if let Some(child) = &self.child {
            for end in self.takeover.arriving.drain(..) {
                // If sending fails, the child is about to end, which another place detects.
                let _ = child.channel.send_with(Kind::TakeTunnels, end.as_fd());
            }
        }
    }
}

/// Gives each of two processes an end.
fn join(from: &Channel, to: &Channel) -> io::Result<()> {
    let (giver, taker): (OwnedFd, OwnedFd) = Channel::ends()?;
    to.send_with(Kind::TakeTunnels, taker.as_fd())?;
    from.send_with(Kind::GiveTunnels, giver.as_fd())
}
