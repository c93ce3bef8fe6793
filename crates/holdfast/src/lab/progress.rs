//! Progress of a run on standard error: lines for logs and pipes, one line that is overwritten on a terminal. Used by
//! `lab run` and by `demo` without its live view.

use super::printable;
use crate::report;
use ::lab::Sample;
use ::lab::stage::Event;
use std::io::{self, IsTerminal as _};

/// Prints events on standard error: on a terminal a line that is overwritten, elsewhere a line for each sample.
pub(crate) struct Progress {
    on_terminal: bool,
    quiet: bool,
    /// Description of the current sample.
    sample: String,
}

impl Progress {
    /// `quiet`: prints nothing.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { on_terminal: io::stderr().is_terminal() && !quiet, quiet, sample: String::new() }
    }

    pub(crate) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Network(kind, words, None) => self.line(&format!("network: {kind:?}: {words}")),
            Event::Network(kind, words, Some(why)) => self.line(&format!("network: {kind:?}, since {why}: {words}")),
            Event::Absent(arm, why) => self.line(&format!("arm {arm} is absent: {why}")),
            Event::Sample(number, count, arm) => {
                self.sample = format!("[{}/{count}] {arm}", number + 1);
                self.passing("");
            }
            Event::Starting(process) => self.passing(&format!("starting {process}")),
            Event::Idling(seconds) => self.passing(&format!("idle for {seconds} s")),
            Event::WarmingUp(seconds) => self.passing(&format!("warming up for {seconds} s")),
            Event::Loading => self.passing("loading"),
            Event::Looked(seconds, _) => self.passing(&format!("loading for {seconds:.1} s")),
            Event::Taken(sample) => {
                let line = format!("{}: {}", self.sample, in_short(sample));
                self.line(&line);
            }
        }
    }

    /// Prints a line that stays.
    fn line(&self, text: &str) {
        if !self.quiet {
            self.clear();
            report::say(&printable(text));
        }
    }

    /// Prints a line that the next output overwrites.
    fn passing(&self, what: &str) {
        if self.on_terminal {
            report::overwrite(&format!("{} {what}", self.sample));
        }
    }

    /// Removes the line that would be overwritten.
    pub(crate) fn clear(&self) {
        if self.on_terminal {
            report::overwrite("");
        }
    }
}

/// The result of one sample in short.
fn in_short(sample: &Sample) -> String {
    let rate = sample.figures.get("requests_per_second").map(|rate| format!("{rate:.0} requests/s"));
    let failed =
        sample.figures.get("failed").filter(|failed| **failed > 0.0).map(|failed| format!("{failed:.0} failed"));
    let void = sample.void.as_ref().map(|why| format!("VOID: {why}"));
    let parts: Vec<String> = [rate, failed, void].into_iter().flatten().collect();
    if parts.is_empty() { "taken".to_owned() } else { parts.join(", ") }
}
