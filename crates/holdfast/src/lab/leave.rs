//! Writes the files of a report atomically, and handles an interruption while they are written or printed. At that
//! point nothing runs any more and the record is on disk, so the program may end at once: `lab report` can make the
//! rest again.

use crate::{exit, report};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Extension of a file until it is complete.
const UNFINISHED: &str = "new";

/// From here on, SIGINT and SIGTERM end the program at once, with this message. Otherwise a reader that blocks would
/// make printing the report wait forever.
pub(super) fn when_interrupted(message: String, stem: &Path) -> io::Result<()> {
    let unfinished = super::run::REPORTS.map(|extension| unfinished(&stem.with_added_extension(extension)));
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            at_once(&message, &unfinished);
        }
    });
    Ok(())
}

#[allow(clippy::disallowed_methods)] // the main thread may be in a write that never ends, and nothing is left to be dropped
fn at_once(message: &str, unfinished: &[PathBuf]) -> ! {
    for path in unfinished {
        let _ = fs::remove_file(path);
    }
    report::say(message);
    std::process::exit(i32::from(exit::FAILED))
}

/// Writes a file. A reader finds either the complete file or the previous one.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), String> {
    let new = unfinished(path);
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&new);
        format!("cannot write {}: {error}", path.display())
    })
}

fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension(UNFINISHED)
}
