//! `watch report`: reads logs of `watch --log` and prints what `model::account` makes of them.

use super::model::account;
use super::model::log_file::{Log, parse};
use crate::exit;
use crate::report::{errno, print, say};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Average, least, most and trend of each state and port in logs of `watch --log`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Logs in any of the formats, each an arm of the comparison
    #[arg(required = true, value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// A log of the same machine without the load: shown beside, and subtracted
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Leave out the samples of the first seconds of each log
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_skip)]
    skip: Duration,
    /// Write a page with tables and charts into this file, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the document as JSON instead
    #[arg(long)]
    json: bool,
}

/// A day of samples every two seconds, with 64 ports in all states, takes about 500 MB as CSV; what is longer is no log that
/// a person reads an average of.
const LOG_BYTES_MAX: u64 = 1 << 30;

pub(super) fn run(args: &Args) -> u8 {
    let read_all = || -> Result<String, String> {
        let logs = args.logs.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        let reference = args.reference.as_deref().map(read).transpose()?;
        let (reference, skip_s) = (reference.as_ref(), args.skip.as_secs_f64());
        if let Some(path) = &args.html {
            let page = ::report::html::render(&account::document(&logs, reference, skip_s));
            std::fs::write(path, page)
                .map_err(|error| format!("{} cannot be written {}", path.display(), errno(&error)))?;
        }
        if args.json {
            return Ok(::report::json::render(&account::document(&logs, reference, skip_s)) + "\n");
        }
        Ok(account::write(&logs, reference, skip_s))
    };
    match read_all() {
        Ok(text) => {
            print(text.as_bytes());
            exit::OK
        }
        Err(problem) => {
            say(&format!("holdfast: {problem}"));
            exit::FAILED
        }
    }
}

/// A log with the name that it is shown under.
fn read(path: &Path) -> Result<(String, Log), String> {
    let mut text = String::new();
    let mut read = || File::open(path)?.take(LOG_BYTES_MAX).read_to_string(&mut text);
    read().map_err(|error| format!("{} cannot be read {}", path.display(), errno(&error)))?;
    let log = parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))?;
    if log.samples.is_empty() {
        return Err(format!("{} has no samples", path.display()));
    }
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    Ok((name, log))
}

fn parse_skip(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
