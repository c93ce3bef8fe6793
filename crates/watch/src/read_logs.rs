//! `watch report`: reads logs of `watch --log` for `model::account`.

use crate::model::account;
use crate::model::log_file::{Log, parse};
use report::Document;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use terminal::errno;

/// Largest log: a day of samples every two seconds, with 64 ports in all states, takes about 500 MB as CSV. An average over
/// a longer log means little.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// Logs in any of the formats, each an arm of the comparison.
#[derive(Debug)]
pub struct Logs {
    arms: Vec<(String, Log)>,
    reference: Option<(String, Log)>,
    skip: Duration,
}

impl Logs {
    /// Reads the logs. `reference` is a log of the same machine without the load. The samples of the first `skip` of each
    /// log are omitted from the output. The error names the file.
    pub fn read(logs: &[PathBuf], reference: Option<&Path>, skip: Duration) -> Result<Self, String> {
        let arms = logs.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        Ok(Self { arms, reference: reference.map(read).transpose()?, skip })
    }

    /// Tables and charts.
    pub fn document(&self) -> Document {
        account::document(&self.arms, self.reference.as_ref(), self.skip.as_secs_f64())
    }

    /// Text for people.
    pub fn text(&self) -> String {
        account::write(&self.arms, self.reference.as_ref(), self.skip.as_secs_f64())
    }
}

/// A log with its display name.
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
