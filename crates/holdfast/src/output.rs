//! How a document leaves the program: as text on standard output, as JSON or SARIF there instead, and as a page beside it.
//! Used by every command that reports; what is in the document is theirs.

use report::Document;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Where output goes to no terminal, lines are this wide: tables stay tables, and mail still holds them.
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

/// Standard output, in place of a file's name.
const STANDARD: &str = "-";

impl Output {
    /// Prints the document and writes the page. The error says what could not be written.
    pub(crate) fn emit(&self, document: &Document) -> Result<(), String> {
        let render = if self.full { report::text::render } else { report::text::brief };
        let mut text = render(document, width());
        if !self.full && document.answer.is_some() && document.sections.iter().any(|section| section.folded) {
            text.push_str("(--full prints the whole report)\n");
        }
        self.emit_text(document, &text)
    }

    /// The same with a text of the command's own.
    pub(crate) fn emit_text(&self, document: &Document, text: &str) -> Result<(), String> {
        self.write_files(document)?;
        if self.prints_json() { print(&(report::json::render(document))) } else { print(text) }
    }

    /// The text as asked for, and no file: where the files are of another document.
    pub(crate) fn text_alone(&self) -> Self {
        Self { full: self.full, ..Self::default() }
    }

    /// Whether JSON takes the place of the text.
    pub(crate) fn prints_json(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STANDARD))
    }

    /// Whether any form but the text is asked for.
    pub(crate) fn wants_document(&self) -> bool {
        self.json.is_some() || self.html.is_some()
    }

    /// Writes the page and the JSON file alone, if they are asked for.
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

/// Writes to standard output. A reader that went away, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> Result<(), String> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot write the report: {error}")),
        _ => Ok(()),
    }
}

fn width() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return WIDTH_ELSEWHERE;
    }
    rustix::termios::tcgetwinsize(&stdout).map_or(WIDTH_ELSEWHERE, |size| usize::from(size.ws_col))
}
