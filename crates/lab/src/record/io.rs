//! Reads and writes records as files. A file is written completely or not at all, and read errors are explained
//! in words.

use super::{Record, VERSION};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Largest file that is read: 100 rounds of 32 arms with a look every 50 ms have some hundred megabytes.
const BYTES_MAX: u64 = 1 << 30;

/// Why a file cannot be read as a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file is missing or unreadable.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is larger than any run writes.
    #[error("{}: {bytes} bytes are more than a run writes", path.display())]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The file is not a record, or is cut off.
    #[error("{} is no record of a run: {error}", path.display())]
    NoRecord {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// The record was written by another release.
    #[error("{} has version {found}, and this program reads version {VERSION}", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
    },
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Record {
    /// Replaces the file. A reader at the same time, or after a crash, finds the old file or the new one.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        let at = |error| RecordError::Io { path: path.to_owned(), error };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        let written = self.write_to(&new).and_then(|()| fs::rename(&new, path));
        if written.is_err() {
            // On a full disk, do not keep half a record.
            let _ = fs::remove_file(&new);
        }
        written.map_err(at)
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer(&mut file, self)?;
        file.write_all(b"\n")?;
        // Without the sync, a rename may reach the disk before the data.
        file.into_inner()?.sync_all()
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let at = |error| RecordError::Io { path: path.to_owned(), error };
        let file = File::open(path).map_err(at)?;
        let bytes = file.metadata().map_err(at)?.len();
        if bytes > BYTES_MAX {
            return Err(RecordError::TooLong { path: path.to_owned(), bytes });
        }
        let mut text = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut text).map_err(at)?;
        let no_record = |error| RecordError::NoRecord { path: path.to_owned(), error };
        let Versioned { version } = serde_json::from_slice(&text).map_err(no_record)?;
        if version != VERSION {
            return Err(RecordError::Version { path: path.to_owned(), found: version });
        }
        serde_json::from_slice(&text).map_err(no_record)
    }
}

/// JSON has no infinity: a figure that is not finite is written as null and counts as not measured.
pub(super) fn figures<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let read = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    Ok(read.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect())
}

/// Seconds and value, as measured.
type Points = Vec<(f64, f64)>;
/// The same as read from JSON.
type PointsRead = Vec<(Option<f64>, Option<f64>)>;

/// The same for series.
pub(super) fn series<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Points>, D::Error> {
    let read = BTreeMap::<String, PointsRead>::deserialize(deserializer)?;
    let whole = |points: PointsRead| points.into_iter().filter_map(|(at, value)| at.zip(value)).collect();
    Ok(read.into_iter().map(|(name, points)| (name, whole(points))).collect())
}
