//! Recordings on disk. A recording is a folder of segments: lines of JSON, a head and then samples, about ten minutes each. The newest is
//! plain text, so that a kill or a full disk costs at most its last line; a finished one is compressed. `writer` bounds the folder by age
//! and bytes, `reader` reads what was asked for and skips what it cannot read.

mod reader;
mod writer;

pub use reader::{Recording, SegmentInfo, read, segments};
pub use writer::{Bounds, Writer};

use std::path::Path;

/// The names of segments: `samples-` and the Unix time of their first sample in milliseconds, so that names sort by time.
const PREFIX: &str = "samples-";
/// The ending of the segment that is being written.
const OPEN_ENDING: &str = ".jsonl";
/// The ending of finished segments.
const CLOSED_ENDING: &str = ".jsonl.gz";

fn file_name(begun_ms: u64) -> String {
    format!("{PREFIX}{begun_ms:015}{OPEN_ENDING}")
}

/// When a segment began, by its name, and whether it is compressed; `None` for other files.
fn parse_name(path: &Path) -> Option<(u64, bool)> {
    let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    if let Some(number) = name.strip_suffix(CLOSED_ENDING) {
        return Some((number.parse().ok()?, true));
    }
    Some((name.strip_suffix(OPEN_ENDING)?.parse().ok()?, false))
}
