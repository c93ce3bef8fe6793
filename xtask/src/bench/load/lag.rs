//! How late our generator is in open loop: by its own figures, which `tests/rate.rs` of the crate `load` holds against the clock.

use super::super::results::spread;
use anyhow::{Context as _, Result};
use lab::stage::process::Started;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// One run at a rate.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    connections: usize,
    rate: u64,
    /// Responses per second that came.
    responses_per_second: f64,
    /// Share of the time (0 to 1) that the thread ran.
    busy_share: f64,
    lag_us_p50: f64,
    lag_us_p99: f64,
    lag_us_p999: f64,
}

/// Runs it once, for so many seconds.
pub(super) fn measure(
    command: &mut Command,
    home: &Path,
    connections: usize,
    rate: f64,
    seconds: u32,
    url: &str,
) -> Result<Sample> {
    let rate = rate as u64;
    let output = home.join("open-loop.json");
    // A lag beyond its bound is a result here, too.
    command.args(["load", "-q", "-t", "1", "--allow-lag", "--json", "-", "-c", &connections.to_string()]);
    command.args(["-R", &format!("{rate}/s"), "-d", &format!("{seconds}s"), url]);
    Started::new("holdfast at a rate", command, output.clone())?.wait()?;
    parse(&fs::read_to_string(&output)?, connections, rate)
}

fn parse(said: &str, connections: usize, rate: u64) -> Result<Sample> {
    let line = said.lines().find(|line| line.starts_with('{')).context("the run wrote no figures")?;
    let figures: serde_json::Value = serde_json::from_str(line)?;
    let figure = |pointer: &str| {
        figures.pointer(pointer).and_then(serde_json::Value::as_f64).with_context(|| format!("no {pointer}"))
    };
    Ok(Sample {
        connections,
        rate,
        responses_per_second: figure("/rate")?,
        busy_share: figure("/generator_busy_share")?,
        lag_us_p50: figure("/lag/quantiles_ns/p50")? / 1e3,
        lag_us_p99: figure("/lag/quantiles_ns/p99")? / 1e3,
        lag_us_p999: figure("/lag/quantiles_ns/p99.9")? / 1e3,
    })
}

/// A row for each rate, over all rounds.
pub(super) fn table(samples: &[Sample]) -> String {
    let mut text =
        "\n| rate | responses/s | CPU, % of a core | lag p50, µs | p99, µs | p99.9, µs |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let rates: BTreeSet<u64> = samples.iter().map(|sample| sample.rate).collect();
    for rate in rates {
        let of = |value: fn(&Sample) -> f64, decimals: usize| {
            let values: Vec<f64> = samples.iter().filter(|sample| sample.rate == rate).map(value).collect();
            spread(&values, decimals)
        };
        let _ = writeln!(
            text,
            "| {rate}/s | {} | {} | {} | {} | {} |",
            of(|sample| sample.responses_per_second, 0),
            of(|sample| sample.busy_share * 100.0, 0),
            of(|sample| sample.lag_us_p50, 1),
            of(|sample| sample.lag_us_p99, 1),
            of(|sample| sample.lag_us_p999, 1),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_s_figures_are_found() {
        let said = "noise\n{\"rate\":99.5,\"generator_busy_share\":0.25,\"lag\":{\"quantiles_ns\":{\"p50\":1000,\"p99\":2500,\"p99.9\":90000}}}\n";
        let sample = parse(said, 30, 100).unwrap();
        assert!((sample.lag_us_p999 - 90.0).abs() < 1e-9 && (sample.busy_share - 0.25).abs() < 1e-9, "{sample:?}");
        assert!(table(&[sample]).contains("| 100/s |"));
        assert!(parse("{}", 30, 100).is_err() && parse("", 30, 100).is_err());
    }
}
