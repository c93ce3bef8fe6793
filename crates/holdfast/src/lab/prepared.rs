//! A run that is ready to begin, whichever command asked for it: the record that it fills, the order of the arms, and where the
//! programs are. What is shown of it, and what is made of its record, is the commands' business: `lab run` and `demo`.

use super::began::Began;
use ::lab::record::VERSION;
use ::lab::schedule::{self, Turn};
use ::lab::stage::{self, Event, Programs, Request, StageError, Stop};
use ::lab::{Experiment, Places, Record};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

/// What a command decides.
pub(crate) struct WantedRun {
    /// As it is to be run.
    pub(crate) experiment: Experiment,
    /// Where its parts are.
    pub(crate) places: Places,
    /// Whether it was shortened.
    pub(crate) quick: bool,
    /// Whether each arm is against itself.
    pub(crate) control: bool,
    /// Drawn if not given.
    pub(crate) seed: Option<u64>,
    /// Make no network namespaces.
    pub(crate) loopback: bool,
}

/// A run with everything but somebody to tell.
pub(crate) struct PreparedRun {
    /// What the run fills.
    pub(crate) record: Record,
    places: Places,
    turns: Vec<Turn>,
    programs: Programs,
    loopback: bool,
}

impl PreparedRun {
    /// Draws what is not given, and looks for the programs.
    pub(crate) fn new(wanted: WantedRun, began: &Began) -> Result<Self, String> {
        let WantedRun { experiment, places, quick, control, seed, loopback } = wanted;
        let seed = seed.unwrap_or_else(|| began.seed());
        let method = experiment.method;
        let record = Record {
            version: VERSION,
            command: command(),
            quick,
            control,
            seed,
            began: began.text.clone(),
            fingerprint: Vec::new(),
            absent: Vec::new(),
            partial: None,
            samples: Vec::new(),
            experiment,
        };
        let rounds = method.rounds.saturating_add(method.spare);
        let turns = schedule::turns(record.experiment.arms.len(), rounds, method.order, seed);
        Ok(Self { record, places, turns, programs: Programs::new(this_program()?, cache()), loopback })
    }

    /// `pool-throughput: 6 rounds of 5 arms, seed 7; …`.
    pub(crate) fn in_short(&self) -> String {
        let Experiment { name, arms, method, .. } = &self.record.experiment;
        let seed = self.record.seed;
        format!("{name}: {} rounds of {} arms, seed {seed}; ctrl-C keeps what was measured", method.rounds, arms.len())
    }

    /// Performs it, and keeps the record in a file if one is given. The error is what ended it early.
    pub(crate) fn perform(
        &mut self,
        file: Option<&Path>,
        stop: &Stop,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), StageError> {
        // One for all runs, so that each finds what a run that was killed has left, and ends it.
        let home = std::env::temp_dir();
        let request = Request {
            places: &self.places,
            turns: &self.turns,
            programs: &self.programs,
            home: &home,
            file,
            stop,
            namespaces: !self.loopback,
        };
        stage::run(&request, &mut self.record, tell)
    }
}

/// A plain user is root in a namespace of users, where networks can be made: the same command line begins again there. Returns
/// where that is not to be had, or not needed.
pub(crate) fn again_as_root() -> Result<(), String> {
    match stage::namespace::again_as_root() {
        Some(mut again) => Err(format!("cannot start again as root of a namespace: {}", again.exec())),
        None => Ok(()),
    }
}

/// As a shell takes it.
fn command() -> String {
    let quoted = |word: String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("holdfast".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))
}

/// What is built from Go is kept for the next run.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("holdfast")
}
