//! The flags that compare a run with an earlier one.

use load::results::Baseline;
use std::path::PathBuf;

/// A figure may be this much worse by default: less is hardly ever a difference of the target.
const TOLERANCE_PERCENT: &str = "5%";

#[derive(Debug, Clone, Default, clap::Args)]
pub(in crate::load) struct BaselineFlags {
    /// Fail with exit code 3 if the run is worse than this one, the --json file of an earlier run
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// How much worse a figure may be than that of --baseline
    #[arg(long, value_name = "PERCENT", requires = "baseline", default_value = TOLERANCE_PERCENT, value_parser = parse_tolerance)]
    tolerance: f64,
}

/// `5%` or `5`, as a share.
fn parse_tolerance(text: &str) -> Result<f64, String> {
    let percent = report::typed::number(text.strip_suffix('%').unwrap_or(text));
    let share = percent.map(|percent| percent / 100.0).filter(|share| (0.0..=10.0).contains(share));
    share.ok_or_else(|| "a share from 0% to 1000%".to_owned())
}

impl BaselineFlags {
    /// The earlier run, read before the load begins.
    pub(in crate::load) fn read(&self) -> Result<Option<Baseline>, String> {
        let Some(path) = &self.baseline else { return Ok(None) };
        Baseline::read(path, self.tolerance).map(Some).map_err(|message| format!("--baseline: {message}"))
    }
}
