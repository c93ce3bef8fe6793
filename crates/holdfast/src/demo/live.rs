//! The live view of a demo: the run in this thread, its screen in another, and keys that stop it. What is drawn is `screen`'s.

use super::Watch;
use super::screen::{Asks, Screen};
use crate::lab::prepared::PreparedRun;
use ::lab::stage::Stop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use terminal::Terminal;

/// Performs the run while it is shown. The terminal is given back before this returns, whatever happens.
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
                // No one reads a terminal that is gone.
                stop.say();
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

/// Ends the view when it is dropped: also where the run panics, which would otherwise wait for the view for ever.
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
                Asks::Stop => stop.say(),
                Asks::Nothing => {}
            }
        }
    }
    Ok(())
}
