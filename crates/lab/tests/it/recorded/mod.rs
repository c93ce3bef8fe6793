//! Records as a run would write them, for tests of judging and reports.

use lab::record::VERSION;
use lab::{Experiment, Record, Sample};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static SMALL: LazyLock<Experiment> = LazyLock::new(|| {
    let mut beside = |_: &str| Ok(String::new());
    Experiment::parse(include_str!("../small.toml"), "small.toml", &mut beside).expect("whole").experiment
});

/// The small experiment, read once: simulations make thousands of records of it.
pub(crate) fn small() -> Experiment {
    SMALL.clone()
}

/// A record of a run of this experiment.
pub(crate) fn record(experiment: Experiment, samples: Vec<Sample>) -> Record {
    Record {
        version: VERSION,
        experiment,
        command: "holdfast lab run small".to_owned(),
        quick: false,
        control: false,
        seed: 7,
        began: "2026-11-22T07:00:00Z".to_owned(),
        fingerprint: vec![("kernel".to_owned(), "6.18".to_owned())],
        absent: Vec::new(),
        partial: None,
        samples,
    }
}

/// A sample of one arm in one round, with one figure.
pub(crate) fn sample(arm: &str, round: u32, figure: &str, value: f64) -> Sample {
    Sample {
        arm: arm.to_owned(),
        round,
        void: None,
        late: None,
        figures: BTreeMap::from([(figure.to_owned(), value)]),
        series: BTreeMap::new(),
        remarks: Vec::new(),
    }
}
