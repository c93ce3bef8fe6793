//! Takes over a terminal for a live view and restores it: drawing, and keys within a tick. The views decide what to
//! draw and what keys mean.

use crate::errno;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

/// Longest delay of the reaction to keys and signals.
pub const TICK: Duration = Duration::from_millis(50);

/// The terminal of this process; dropping this restores it.
#[derive(Debug)]
pub struct Terminal(DefaultTerminal);

impl Terminal {
    /// Whether there is a terminal for both output and input.
    pub fn is_there() -> bool {
        io::stdout().is_terminal() && io::stdin().is_terminal()
    }

    /// Takes over the terminal.
    pub fn open() -> Result<Self, String> {
        ratatui::try_init().map(Self).map_err(|error| format!("the terminal cannot be used {}", errno(&error)))
    }

    /// Draws the whole screen.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), String> {
        let drawn = self.0.draw(draw);
        drawn.map(|_| ()).map_err(|error| format!("the terminal cannot be drawn on {}", errno(&error)))
    }

    /// Waits for a key, at most for one tick.
    #[allow(clippy::unused_self, reason = "keys come one by one only while the terminal is taken over")]
    pub fn key(&self) -> Result<Option<(KeyCode, KeyModifiers)>, String> {
        let failed = |error: io::Error| format!("the terminal cannot be read {}", errno(&error));
        // Events that were read with an earlier one come first.
        for wait in [Duration::ZERO, TICK] {
            wait_for_input(wait).map_err(failed)?;
            if event::poll(Duration::ZERO).map_err(failed)? {
                return match event::read().map_err(failed)? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => Ok(Some((key.code, key.modifiers))),
                    _ => Ok(None),
                };
            }
        }
        Ok(None)
    }
}

/// Waits until something can be read, or this long. The error: the terminal is gone. crossterm must not read then: it
/// takes the end of the file, and every error, as a reason to read again at once, and never returns.
fn wait_for_input(wait: Duration) -> io::Result<()> {
    let input = io::stdin();
    let mut watched = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO)) {
        // A change of the size comes as a signal.
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    if watched.iter().filter_map(PollFd::revents).any(|events| events.intersects(gone)) {
        return Err(Errno::EIO.into());
    }
    Ok(())
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
