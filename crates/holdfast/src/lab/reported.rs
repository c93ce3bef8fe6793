//! `holdfast lab report`: prints a record as text, JSON, Markdown or a page, and returns the matching exit code.

use super::named;
use crate::exit;
use crate::output::Output;
use ::lab::Record;
use ::lab::judge::{Conclusion, Judged, conclude, judge};
use std::fs;
use std::path::PathBuf;

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The record of a run
    #[arg(value_name = "RECORD.json")]
    record: PathBuf,
    /// Also write the report as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<u8, String> {
    let record = Record::read(&args.record).map_err(named)?;
    let judged = judge(&record);
    let document = ::lab::report::document(&record, &judged);
    if let Some(path) = &args.markdown {
        let text = ::report::markdown::render(&document);
        fs::write(path, text).map_err(|error| named(format_args!("cannot write {}: {error}", path.display())))?;
    }
    args.output.emit(&document).map_err(named)?;
    Ok(code(&record, &judged))
}

/// The exit code for a record. A partial record always fails.
pub(super) fn code(record: &Record, judged: &[Judged]) -> u8 {
    match conclude(judged) {
        _ if record.partial.is_some() => exit::FAILED,
        Conclusion::Holds => exit::OK,
        Conclusion::Fails => exit::NO,
        Conclusion::Open => exit::UNKNOWN,
    }
}
