//! The live view of a load: the terminal, and the keys that stop the run or freeze the display. `screen` draws and knows
//! neither terminal nor load; `drive` supplies the intervals.

mod screen;

use crate::Stopper;
use screen::Asks;
pub(crate) use screen::{Cell, GeneratorFigures, Picture, Screen, quantiles};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use terminal::Terminal;

/// Shows the screen until the run is over. Restores the terminal at the end, also after an error.
pub(crate) fn show(
    mut terminal: Terminal,
    screen: &Mutex<Screen>,
    stopper: &Stopper,
    over: &AtomicBool,
) -> Result<(), String> {
    let locked = || screen.lock().unwrap_or_else(PoisonError::into_inner);
    while !over.load(Ordering::Acquire) {
        terminal.draw(|frame| locked().draw(frame))?;
        if let Some((key, modifiers)) = terminal.key()? {
            match locked().press(key, modifiers) {
                Asks::Stop => stopper.stop(),
                Asks::Nothing => {}
            }
        }
    }
    Ok(())
}
