//! A run that is ready to start: its record, the order of the arms, and the programs' paths. The commands `lab run` and
//! `demo` decide what to show and what to do with the record.

use super::began::Began;
use ::lab::record::VERSION;
use ::lab::schedule::{self, Turn};
use ::lab::stage::{self, Event, Programs, Request, StageError, Stop};
use ::lab::{Experiment, Places, Record};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

/// The choices of a command.
pub(crate) struct WantedRun {
    /// The experiment to run.
    pub(crate) experiment: Experiment,
    /// Where the programs and files are.
    pub(crate) places: Places,
    /// Whether the experiment was shortened.
    pub(crate) quick: bool,
    /// Whether each arm is compared with itself.
    pub(crate) control: bool,
    /// The seed; `None` draws one.
    pub(crate) seed: Option<u64>,
    /// Whether to use loopback instead of network namespaces.
    pub(crate) loopback: bool,
}

/// A run with everything except an observer.
pub(crate) struct PreparedRun {
    /// The record that the run fills.
    pub(crate) record: Record,
    places: Places,
    turns: Vec<Turn>,
    programs: Programs,
    loopback: bool,
}

impl PreparedRun {
    /// Draws the seed if none is given, and looks for the programs.
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

    /// Runs it, and writes the record to a file if one is given. An error is the reason why the run ended early.
    pub(crate) fn perform(
        &mut self,
        file: Option<&Path>,
        stop: &Stop,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), StageError> {
        // One folder for all runs, so that each run finds and ends what a killed run left behind.
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

/// A plain user is root in a user namespace, where network namespaces can be made: this starts the same command line
/// again in one. Returns if that is impossible or not needed.
pub(crate) fn again_as_root() -> Result<(), String> {
    match stage::namespace::again_as_root() {
        Some(mut again) => Err(format!("cannot start again as root of a namespace: {}", again.exec())),
        None => Ok(()),
    }
}

/// The command line in shell syntax.
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

/// Folder of programs built from Go, which later runs use again.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("holdfast")
}
