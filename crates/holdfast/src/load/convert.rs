//! The command line of `holdfast load convert`; the conversion is in the crate `load`.

use crate::{exit, report};
use load::results::read_at_most;
use load::{CONVERTED_BYTES_MAX, convert};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Convert recorded or described requests into a scenario for --scenario
///
/// Reads curl's command lines (as browsers copy them), a HAR file, or OpenAPI 3 in JSON. Reports on standard error what the
/// scenario leaves out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; - reads the standard input
    file: PathBuf,
    /// Write the scenario into this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> u8 {
    match converted(args) {
        Ok(()) => exit::OK,
        Err(message) => {
            report::say(&format!("holdfast load convert: {message}"));
            exit::FAILED
        }
    }
}

fn converted(args: &Args) -> Result<(), String> {
    let is_stdin = args.file == Path::new("-");
    let bytes = if is_stdin {
        let mut bytes = Vec::new();
        let read = std::io::stdin().take(CONVERTED_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("the standard input: {error}"))?;
        if bytes.len() as u64 > CONVERTED_BYTES_MAX {
            return Err(format!("the standard input has more than {CONVERTED_BYTES_MAX} bytes"));
        }
        bytes
    } else {
        read_at_most(&args.file, CONVERTED_BYTES_MAX)?
    };
    let shown = if is_stdin { "the standard input".to_owned() } else { args.file.display().to_string() };
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is no text"))?;
    let name = args.file.file_stem().filter(|_| !is_stdin).map_or("converted".into(), |stem| stem.to_string_lossy());
    let converted = convert(&name, &text).map_err(|error| format!("{shown}: {error}"))?;
    for note in &converted.notes {
        report::say(&format!("holdfast load convert: {note}"));
    }
    if let Some(path) = &args.output {
        return fs::write(path, converted.toml).map_err(|error| format!("{}: {error}", path.display()));
    }
    report::print(converted.toml.as_bytes());
    Ok(())
}
