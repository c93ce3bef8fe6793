//! Results of benches that are code: medians and spread for readers, raw JSON for later analysis.

use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// For an even number of values, the mean of the two in the middle; for none, NaN.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (None, _) => f64::NAN,
        (Some(upper), 0) => (sorted[middle - 1] + upper) / 2.0,
        (Some(value), _) => *value,
    }
}

/// `median [min–max]` with that many decimals.
pub(super) fn spread(values: &[f64], decimals: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() {
        return "–".to_owned();
    }
    format!("{:.decimals$} [{least:.decimals$}–{most:.decimals$}]", median(values))
}

/// The current minute, for names and records.
pub(super) fn now_utc() -> String {
    let now = time::OffsetDateTime::now_utc();
    let (hour, minute) = (now.hour(), now.minute());
    format!("{}T{hour:02}:{minute:02}Z", now.date())
}

/// Stores the results of an experiment: in bench/results to keep them, otherwise in target/bench. Returns the path.
pub(super) fn store(
    workspace: &Workspace,
    keep: bool,
    (experiment, date): (&str, &str),
    results: &impl Serialize,
) -> Result<PathBuf> {
    let folder = if keep { workspace.root.join("bench/results") } else { workspace.target("bench") };
    write(path(&folder, experiment, date), results)
}

/// The file of an experiment's results.
fn path(folder: &Path, experiment: &str, date: &str) -> PathBuf {
    folder.join(format!("{}-{experiment}.json", date.replace(':', "")))
}

/// Writes raw results; returns the path.
fn write(file: PathBuf, results: &impl Serialize) -> Result<PathBuf> {
    fs::create_dir_all(file.parent().context("a result needs a folder")?)?;
    fs::write(&file, serde_json::to_string_pretty(results)? + "\n")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_even_counts_interpolates_and_of_none_is_none() {
        assert_eq!(spread(&[3.0, 1.0, 2.0], 1), "2.0 [1.0–3.0]");
        assert_eq!(spread(&[4.0, 1.0], 2), "2.50 [1.00–4.00]");
        assert_eq!(spread(&[], 2), "–");
        assert!(median(&[]).is_nan());
    }
}
