//! Prints a document: as text on standard output, or as JSON or SARIF instead, and as an HTML file. Used by every
//! command that reports; the commands build the document.

use report::Document;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Line width if the output is not a terminal: tables stay readable, and mails do not break the lines.
const WIDTH_ELSEWHERE: usize = 120;

/// The flags that all reporting commands share.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Output {
    /// Print the report as JSON; with =FILE write JSON to the file and print text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the whole report instead of two screens
    #[arg(long)]
    pub(crate) full: bool,
}

/// The same flag for commands with a JSON format of their own.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct JsonFlag {
    /// Print JSON; with =FILE write JSON to the file and print text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl JsonFlag {
    /// Prints the text or the JSON, and writes the file. An error says which file could not be written.
    pub(crate) fn emit(
        &self,
        json: impl FnOnce() -> Result<String, String>,
        text: impl FnOnce() -> String,
    ) -> Result<(), String> {
        match &self.json {
            None => print(&text()),
            Some(path) if path == Path::new(STANDARD) => print(&json()?),
            Some(path) => {
                let written = std::fs::write(path, json()?);
                written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
                print(&text())
            }
        }
    }
}

/// The file name that means standard output.
const STANDARD: &str = "-";

impl Output {
    /// Prints the document and writes the page. An error says which file could not be written.
    pub(crate) fn emit(&self, document: &Document) -> Result<(), String> {
        let render = if self.full { report::text::render } else { report::text::brief };
        let mut text = render(document, width());
        if !self.full && document.answer.is_some() && document.sections.iter().any(|section| section.folded) {
            text.push_str("(--full prints the whole report)\n");
        }
        self.emit_text(document, &text)
    }

    /// The same with a text that the command has made itself.
    pub(crate) fn emit_text(&self, document: &Document, text: &str) -> Result<(), String> {
        self.write_files(document)?;
        if self.prints_json() { print(&(report::json::render(document))) } else { print(text) }
    }

    /// A copy that prints but writes no file, if another document has the files.
    pub(crate) fn text_alone(&self) -> Self {
        Self { full: self.full, ..Self::default() }
    }

    /// Whether JSON replaces the text.
    pub(crate) fn prints_json(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STANDARD))
    }

    /// Whether any format besides the text is requested.
    pub(crate) fn wants_document(&self) -> bool {
        self.json.is_some() || self.html.is_some()
    }

    /// Writes only the page and the JSON file, if requested.
    pub(crate) fn write_files(&self, document: &Document) -> Result<(), String> {
        let write = |path: &Path, text: String| {
            std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        if let Some(path) = &self.html {
            write(path, report::html::render(document))?;
        }
        match &self.json {
            Some(path) if !self.prints_json() => write(path, report::json::render(document)),
            _ => Ok(()),
        }
    }
}

/// Writes to standard output. A reader that closes the pipe early, such as `head`, is not an error.
pub(crate) fn print(text: &str) -> Result<(), String> {
    print_on(text).map(drop)
}

/// The same; whether the reader is still there.
pub(crate) fn print_on(text: &str) -> Result<bool, String> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write the report: {error}")),
    }
}

fn width() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return WIDTH_ELSEWHERE;
    }
    rustix::termios::tcgetwinsize(&stdout).map_or(WIDTH_ELSEWHERE, |size| usize::from(size.ws_col))
}
