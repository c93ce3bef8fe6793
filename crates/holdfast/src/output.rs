//! How a document leaves the program: as text on standard output, as JSON or SARIF there instead, and as a page beside it.
//! Used by every command that reports; what is in the document is theirs.

use report::Document;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Where output goes to no terminal, lines are this wide: tables stay tables, and mail still holds them.
const WIDTH_ELSEWHERE: usize = 120;

/// The flags that all reporting commands share.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Output {
    /// Print the report as JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write the report as one HTML page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

impl Output {
    /// Prints the document and writes the page. The error says what could not be written.
    pub(crate) fn emit(&self, document: &Document) -> Result<(), String> {
        self.write_page(document)?;
        print(&if self.json { report::json::render(document) } else { report::text::render(document, width()) })
    }

    /// Writes the page alone, if one is asked for.
    pub(crate) fn write_page(&self, document: &Document) -> Result<(), String> {
        let Some(path) = &self.html else { return Ok(()) };
        let page = report::html::render(document);
        std::fs::write(path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))
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
