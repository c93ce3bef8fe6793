//! The flags for the course of a load: stages of rates or connections, arrivals, warm-up.

use crate::load::typed::{Course, parse_stages};
use crate::typed::duration;
use load::{Spacing, Stage};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Stages that each change linearly from the one before: rates, as in 30s:100/s,1m:500/s,30s:0, or connections, as in
    /// 30s:10,1m:50
    #[arg(long, value_name = "STAGES", value_parser = parse_stages, conflicts_with_all = ["rate", "stage", "duration", "replay"])]
    pub(super) stages: Option<Course>,
    /// When requests of a rate begin: at even distances, or at random and independently
    #[arg(long, value_name = "MODEL", conflicts_with = "poisson")]
    arrivals: Option<Model>,
    /// Load this long before measuring begins, in whole intervals; it comes before --duration, and is a part of stages
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0")]
    pub(super) warm_up: Duration,
}

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Model {
    Constant,
    Poisson,
}

/// The connections of a closed loop over time.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) ramp: Vec<Stage>,
    pub(super) connections: Option<u64>,
    pub(super) duration: Option<Duration>,
}

impl Flags {
    pub(super) fn is_given(&self) -> bool {
        self.stages.is_some() || self.arrivals.is_some() || !self.warm_up.is_zero()
    }

    pub(super) fn spacing(&self) -> Spacing {
        if self.arrivals == Some(Model::Poisson) { Spacing::Poisson } else { Spacing::Constant }
    }

    /// The connections over time, if the stages are of connections.
    pub(super) fn read(&self, connections: Option<u64>) -> Result<Read, String> {
        let Some(Course::Connections(stages)) = &self.stages else { return Ok(Read::default()) };
        if connections.is_some() {
            return Err("--stages has the numbers of connections, so -c has no place; for rates write 100/s".to_owned());
        }
        let most = stages.iter().fold(0.0_f64, |most, stage| most.max(stage.to));
        Ok(Read {
            connections: Some(most.ceil() as u64),
            duration: Some(stages.iter().map(|stage| stage.duration).sum()),
            ramp: stages.clone(),
        })
    }
}
