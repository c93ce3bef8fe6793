//! The live view of a demo: this thread runs it, another draws the screen, and keys stop it. `screen` decides what is
//! drawn.

use super::Watch;
use super::screen::{Asks, Screen};
use crate::lab::prepared::PreparedRun;
use ::lab::stage::Stop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use terminal::Terminal;

/// Runs the experiment while the screen shows it. Restores the terminal before it returns, even after an error.
pub(super) fn perform(
    terminal: Terminal,
    screen: Screen,
    prepared: &mut PreparedRun,
    watch: &mut Watch<'_>,
    stop: &Stop,
) -> Result<(), String> {
    let (screen, over, begun) = (Mutex::new(screen), AtomicBool::new(false), watch.begun);
    std::thread::scope(|scope| {
        let shown = scope.spawn(|| {
            let shown = show(terminal, &screen, stop, &over, begun);
            if shown.is_err() {
                // The terminal is gone, so no one can see the view.
                stop.request_end();
            }
            shown
        });
        let ending = Ending(&over);
        let ran = prepared.perform(None, stop, &mut |event| {
            screen.lock().unwrap_or_else(PoisonError::into_inner).take(&event);
            watch.see(&event);
        });
        drop(ending);
        let shown = shown.join().unwrap_or_else(|_| Err("the live view panicked".to_owned()));
        shown.and(ran.map_err(|error| error.to_string()))
    })
}

/// Ends the view when dropped, also on a panic of the run. Otherwise the panic would wait for the view forever.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn show(
    mut terminal: Terminal,
    screen: &Mutex<Screen>,
    stop: &Stop,
    over: &AtomicBool,
    begun: Instant,
) -> Result<(), String> {
    let locked = || screen.lock().unwrap_or_else(PoisonError::into_inner);
    while !over.load(Ordering::Acquire) {
        terminal.draw(|frame| locked().draw(frame, begun.elapsed()))?;
        if let Some((key, modifiers)) = terminal.key()? {
            match locked().press(key, modifiers) {
                Asks::Stop => stop.request_end(),
                Asks::Nothing => {}
            }
        }
    }
    Ok(())
}
