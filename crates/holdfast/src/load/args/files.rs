//! The flags that name the files of a run.

use super::push::PushFlags;
use load::results::Files;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What a run leaves in files.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FileArgs {
    /// Print all figures as JSON instead of the report, or write them into a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_parser = parse_file)]
    json: Option<PathBuf>,
    /// Write a line of figures per interval
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the latencies as a percentile spectrum, as the tools of `HdrHistogram` read it
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write one self-contained HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the thresholds and how the run ended as JUnit XML, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write metrics in Prometheus' text format during the run, for the textfile collector
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// Serve the same at /metrics during the run
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    push: PushFlags,
}

/// Refuses a URL after `--json`: the flag would take it as its file.
fn parse_file(text: &str) -> Result<PathBuf, String> {
    if text.contains("://") {
        return Err("a file; to print, write the URL first, or --json=-".to_owned());
    }
    Ok(text.into())
}

impl FileArgs {
    pub(in crate::load) fn files(&self) -> Files {
        let Self { json, csv, hgrm, html, junit, prometheus, listen, push } = self.clone();
        Files { json, csv, hgrm, html, junit, prometheus, listen, push: push.pushes() }
    }
}
