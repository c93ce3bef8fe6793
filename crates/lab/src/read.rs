//! Reads the text of an experiment file: returns an [`Experiment`], or all faults at once, each with file, line, column and
//! a hint. Called by the command line, the tests and programs that ship experiments.

mod places;
mod shape;

use crate::check;
use crate::experiment::{Experiment, File};
use crate::fault::Fault;
use crate::limits::{BESIDE_BYTES_MAX, TEXT_BYTES_MAX};
use crate::path;
use conf::diagnostic::Diagnostic;
use conf::source::{FileId, SourceMap, Span};
use std::fmt;
use toml::de::DeTable;

pub use places::Places;

/// An experiment with the places of its parts.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The checked experiment, including the contents of the files beside it.
    pub experiment: Experiment,
    /// The places of its parts.
    pub places: Places,
}

/// All faults of a file, at least one.
#[derive(Debug, Clone)]
pub struct Refused {
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts of the diagnostics.
    pub sources: SourceMap,
}

impl Refused {
    /// Text for the terminal, without raw control characters from the file.
    pub fn render(&self, colour: bool) -> String {
        self.diagnostics.iter().map(|diagnostic| diagnostic.render(&self.sources, colour)).collect()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Refused {}

/// Most errors that are shown; with more, a user fixes some and tries again.
const DIAGNOSTICS_MAX: usize = 100;

/// Reads a file beside the experiment file, by its relative path.
pub type Beside<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

impl Experiment {
    /// Reads and checks the text of a file of this name.
    pub fn parse(text: &str, name: &str, beside: Beside<'_>) -> Result<Loaded, Refused> {
        let reading = Reading::new(text, name);
        if text.len() > TEXT_BYTES_MAX {
            let what = format!("the file has {} bytes; an experiment has at most {TEXT_BYTES_MAX}", text.len());
            return Err(reading.refused(vec![Diagnostic::error(reading.span(0..0), what)]));
        }
        let (tree, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let errors = errors.iter().map(|error| {
                let span = reading.span(error.span().unwrap_or_default());
                Diagnostic::error(span, format!("this is not TOML: {}", error.message()))
            });
            return Err(reading.refused(errors.collect()));
        }
        let places = Places::new(name, text, &tree);
        let (value, mut faults) = shape::check(&tree);
        match serde_json::from_value::<Experiment>(value) {
            Ok(mut experiment) => {
                read_beside(&mut experiment, beside, &mut faults);
                let found = check::check(&experiment, faults.is_empty());
                let found = found.into_iter().filter(|fault| !follows(fault, &faults));
                let found: Vec<Fault> = found.collect();
                faults.extend(found);
                if faults.is_empty() {
                    return Ok(Loaded { experiment, places });
                }
            }
            // Missing or mistyped values have been reported by then, with their places.
            Err(error) if faults.is_empty() => {
                faults.push(Fault::new(path![], format!("this is no experiment: {error}")));
            }
            Err(_) => {}
        }
        let diagnostics = faults.iter().map(|fault| {
            let diagnostic = Diagnostic::error(reading.span(places.range(fault)), fault.what.clone());
            match &fault.hint {
                Some(hint) => diagnostic.with_hint(hint.clone()),
                None => diagnostic,
            }
        });
        Err(reading.refused(diagnostics.collect()))
    }

    /// Reads and checks a file, with the files beside it.
    pub fn read(path: &std::path::Path) -> Result<Loaded, Refused> {
        let name = path.display().to_string();
        let text = read_text(path, TEXT_BYTES_MAX as u64).map_err(|error| {
            let mut sources = SourceMap::default();
            let file = sources.add_unread(&name);
            Refused { diagnostics: vec![Diagnostic::error(Span { file, start: 0, end: 0 }, error)], sources }
        })?;
        let folder = path.parent().unwrap_or(std::path::Path::new(""));
        Self::parse(&text, &name, &mut |beside| read_text(&folder.join(beside), BESIDE_BYTES_MAX))
    }
}

/// Whether this fault may be a consequence of an earlier one in the same table, where a value is now missing.
fn follows(fault: &Fault, earlier: &[Fault]) -> bool {
    let tables = earlier.iter().filter_map(|fault| fault.path.0.split_last()).map(|(_, table)| table);
    tables.into_iter().any(|table| !table.is_empty() && fault.path.0.starts_with(table))
}

fn read_text(path: &std::path::Path, bytes_max: u64) -> Result<String, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut text = String::new();
    // Reading one byte more than allowed detects a file that is too long; a device has no size to check.
    let read =
        file.take(bytes_max + 1).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    if read as u64 > bytes_max { Err(format!("is longer than {bytes_max} bytes")) } else { Ok(text) }
}

/// Copies the files beside the experiment into it, because a record must contain everything.
fn read_beside(experiment: &mut Experiment, beside: Beside<'_>, faults: &mut Vec<Fault>) {
    for (name, file) in &mut experiment.files {
        let File::Path(path) = file else { continue };
        let here = path!["files", name, "path"];
        let is_beside = std::path::Path::new(path.as_str())
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
        if !is_beside {
            let hint = "write a path that begins at the experiment file and stays below its folder";
            faults.push(Fault::new(here, format!("\"{path}\" is not beside the experiment")).with_hint(hint));
            continue;
        }
        match beside(path) {
            Ok(text) => *file = File::Text(text),
            Err(error) => {
                let fault = Fault::new(here, format!("\"{path}\" {error}"));
                faults.push(fault.with_hint("a `path` begins at the folder of the experiment file"));
            }
        }
    }
}

/// The text that diagnostics refer to.
struct Reading {
    sources: SourceMap,
    file: FileId,
}

impl Reading {
    fn new(text: &str, name: &str) -> Self {
        let mut sources = SourceMap::default();
        let file = sources.add(name, text.as_bytes().to_vec());
        Self { sources, file }
    }

    fn span(&self, range: std::ops::Range<usize>) -> Span {
        let end = self.sources.source(self.file).text.len();
        let start = range.start.min(end);
        Span { file: self.file, start: start as u32, end: range.end.clamp(start, end) as u32 }
    }

    fn refused(&self, mut diagnostics: Vec<Diagnostic>) -> Refused {
        conf::diagnostic::sort(&mut diagnostics);
        diagnostics.dedup();
        diagnostics.truncate(DIAGNOSTICS_MAX);
        Refused { diagnostics, sources: self.sources.clone() }
    }
}
