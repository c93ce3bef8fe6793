//! What a run leaves in files: JSON, a table of intervals, a percentile spectrum, a page, metrics while it runs. A file that cannot
//! be written is reported and does not take the summary away. What is in them is the protocol's module's business.

use super::units::NS_PER_MS;
use crate::Latencies;
use report::Document;
use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What a run can be written as.
pub trait Reports {
    /// All figures, with a line end.
    fn json(&self) -> String;
    /// A line per interval.
    fn csv(&self) -> String;
    /// A page with charts.
    fn page(&self) -> Document;
    /// The times whose spectrum is written. Its tools expect milliseconds.
    fn spectrum(&self) -> Latencies;
}

/// Where to.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// All figures; `-` is the standard output, in place of the report.
    pub json: Option<PathBuf>,
    /// A line of figures per interval.
    pub csv: Option<PathBuf>,
    /// The latencies as a percentile spectrum, as the tools of `HdrHistogram` read it.
    pub hgrm: Option<PathBuf>,
    /// One self-contained page with charts.
    pub html: Option<PathBuf>,
    /// Metrics during the run, for the textfile collector of Prometheus.
    pub prometheus: Option<PathBuf>,
    /// Where the same are served at /metrics during the run.
    pub listen: Option<SocketAddr>,
}

/// A file's content, if it has no more than this many bytes. What it says of its size is not believed: a device says none and does not
/// end.
pub fn read_at_most(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let name = path.display();
    let file = fs::File::open(path).map_err(|error| format!("{name}: {error}"))?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("{name} has more than {bytes_max} bytes"));
    }
    Ok(bytes)
}

impl Files {
    /// Whether the report's place on the standard output is taken.
    pub fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Creates the files, so that a wrong path is known before the load and not after it.
    pub fn check(&self) -> Result<(), String> {
        let json = self.json.as_ref().filter(|_| !self.json_on_stdout());
        for path in [json, self.csv.as_ref(), self.hgrm.as_ref(), self.html.as_ref(), self.prometheus.as_ref()]
            .into_iter()
            .flatten()
        {
            let opened = fs::File::options().create(true).append(true).open(path);
            opened.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Writes the metrics after an interval.
    pub(crate) fn during(&self, page: &str) -> Result<(), String> {
        let Some(path) = &self.prometheus else { return Ok(()) };
        // The collector must never read half a file; but a device, a pipe or a link keeps its place.
        let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        let written = if is_file {
            let mut beside = path.clone().into_os_string();
            beside.push(".part");
            let written = fs::write(&beside, page).and_then(|()| fs::rename(&beside, path));
            if written.is_err() {
                // Half a page is useless, least of all on a full disk.
                let _ = fs::remove_file(&beside);
            }
            written
        } else {
            fs::write(path, page)
        };
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes the rest; whether all went well.
    pub fn after(&self, reports: &impl Reports) -> bool {
        let mut ok = true;
        let mut write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| {
            let Some(path) = path else { return };
            if path == Path::new("-") {
                return terminal::print(text().as_bytes());
            }
            if let Err(error) = fs::write(path, text()) {
                terminal::say(&format!("holdfast load: {}: {error}", path.display()));
                ok = false;
            }
        };
        write(&self.json, &|| reports.json());
        write(&self.html, &|| report::html::render(&reports.page()));
        write(&self.csv, &|| reports.csv());
        write(&self.hgrm, &|| reports.spectrum().histogram().encode_hgrm(NS_PER_MS));
        ok
    }
}
