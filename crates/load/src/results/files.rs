//! The files of a run: JSON, a table of intervals, a percentile spectrum, a page, and metrics during the run. If a file
//! cannot be written, that is reported and the summary is still printed. The module of the protocol supplies the contents.

use super::units::NS_PER_MS;
use crate::Latencies;
use crate::drive::Push;
use report::Document;
use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The reports of a run.
pub trait Reports {
    /// All figures, with a final line end.
    fn json(&self) -> String;
    /// A line per interval.
    fn csv(&self) -> String;
    /// A page with charts.
    fn page(&self) -> Document;
    /// What was to hold of the run, as JUnit XML.
    fn junit(&self) -> String;
    /// The latencies for the percentile spectrum, which is written in milliseconds.
    fn spectrum(&self) -> Latencies;
}

/// The paths of the files.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// All figures; `-` writes them to standard output in place of the report.
    pub json: Option<PathBuf>,
    /// A line of figures per interval.
    pub csv: Option<PathBuf>,
    /// The latencies as a percentile spectrum, as the tools of `HdrHistogram` read it.
    pub hgrm: Option<PathBuf>,
    /// One self-contained page with charts.
    pub html: Option<PathBuf>,
    /// What was to hold of the run, as JUnit XML.
    pub junit: Option<PathBuf>,
    /// Metrics during the run, for the textfile collector of Prometheus.
    pub prometheus: Option<PathBuf>,
    /// The address that serves the same metrics at /metrics during the run.
    pub listen: Option<SocketAddr>,
    /// Servers that get the same metrics during the run.
    pub push: Vec<Push>,
}

/// Reads a file of at most this many bytes. It does not trust the file's size: a device reports 0 and may never end.
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
    /// Whether JSON replaces the report on standard output.
    pub fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Creates the files, so that a wrong path is reported before the load and not after it.
    pub fn check(&self) -> Result<(), String> {
        let json = self.json.as_ref().filter(|_| !self.json_on_stdout());
        let others = [&self.csv, &self.hgrm, &self.html, &self.junit, &self.prometheus];
        for path in json.into_iter().chain(others.into_iter().flatten()) {
            let opened = fs::File::options().create(true).append(true).open(path);
            opened.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Writes the metrics page after an interval.
    pub(crate) fn during(&self, page: &str) -> Result<(), String> {
        let Some(path) = &self.prometheus else { return Ok(()) };
        // A rename keeps the collector from reading half a file. A device, a pipe or a link is written in place.
        let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        let written = if is_file {
            let mut beside = path.clone().into_os_string();
            beside.push(".part");
            let written = fs::write(&beside, page).and_then(|()| fs::rename(&beside, path));
            if written.is_err() {
                // Half a page is useless, and on a full disk it takes space.
                let _ = fs::remove_file(&beside);
            }
            written
        } else {
            fs::write(path, page)
        };
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes the other files; returns whether all were written.
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
        write(&self.junit, &|| reports.junit());
        write(&self.csv, &|| reports.csv());
        write(&self.hgrm, &|| reports.spectrum().histogram().encode_hgrm(NS_PER_MS));
        ok
    }
}
