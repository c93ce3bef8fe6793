//! A terminal that is taken over for a live view, and given back as it was: drawing, and keys within a tick. What is drawn is
//! the views' business; what keys mean, too.

use crate::errno;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// Keys are answered within this time, and so are signals.
pub const TICK: Duration = Duration::from_millis(50);

/// The terminal of this process; dropping it gives it back.
#[derive(Debug)]
pub struct Terminal(DefaultTerminal);

impl Terminal {
    /// Whether there is one to take over: to be written to and to be read from.
    pub fn is_there() -> bool {
        io::stdout().is_terminal() && io::stdin().is_terminal()
    }

    /// Takes it over.
    pub fn open() -> Result<Self, String> {
        ratatui::try_init().map(Self).map_err(|error| format!("the terminal cannot be used {}", errno(&error)))
    }

    /// Draws the whole of it.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), String> {
        let drawn = self.0.draw(draw);
        drawn.map(|_| ()).map_err(|error| format!("the terminal cannot be drawn on {}", errno(&error)))
    }

    /// Waits for a key, no longer than a tick.
    #[allow(clippy::unused_self, reason = "keys come one by one only while the terminal is taken over")]
    pub fn key(&self) -> Result<Option<(KeyCode, KeyModifiers)>, String> {
        let failed = |error: io::Error| format!("the terminal cannot be read {}", errno(&error));
        if !event::poll(TICK).map_err(failed)? {
            return Ok(None);
        }
        match event::read().map_err(failed)? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Ok(Some((key.code, key.modifiers))),
            _ => Ok(None),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
