//! Access logs on the request path: a worker renders a line into its buffer for the file; a thread that may block
//! writes the buffers. A full disk loses lines, which are counted, and never fails a request.

use crate::base::logs::bell::LogBell;
use crate::base::logs::place::LogPlace;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most bytes that wait in one worker's buffer of one file: at 200 bytes a line and 100 ms between two writes this is
/// 50,000 requests a second per worker. Further lines are dropped and counted.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The file that a line of a log with a variable name goes to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct LineName {
    pub(crate) path: Vec<u8>,
    /// The request's root: as in nginx, no log file is created for a request whose root does not exist.
    pub(crate) root: Vec<u8>,
}

/// `buffer=`, `flush=` and `gzip=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes to collect before writing.
    pub bytes: usize,
    /// Longest time that a line waits for the buffer to fill.
    pub flush: Option<Duration>,
    /// Level of compression, 1 to 9.
    pub gzip: Option<u8>,
}

/// An access log as its writer needs it.
#[derive(Debug, Clone)]
pub struct AccessOutput {
    /// Where its lines are collected.
    pub sink: Arc<LogSink>,
    /// How they are written; `None` writes each batch at once.
    pub buffering: Option<Buffering>,
}

/// A destination of log lines. Process-wide: locations and generations that name the same destination share it.
#[derive(Debug)]
pub struct LogSink {
    place: LogPlace,
    buffers: Box<[RecordBuffer]>,
    dropped: AtomicU64,
    /// Dropped lines since the process began.
    dropped_total: AtomicU64,
    bell: Arc<LogBell>,
}

/// One worker's lines. On its own cache lines, since the worker writes it with every request.
#[derive(Debug, Default)]
#[repr(align(128))]
struct RecordBuffer(Mutex<Vec<u8>>);

/// A line with what belongs to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The file that the line goes to; empty if the sink knows it.
    pub path: &'a [u8],
    /// The directory that must exist before the file is created; empty if none must.
    pub root: &'a [u8],
    /// The line, without its newline.
    pub line: &'a [u8],
}

impl LogSink {
    /// A sink for this many workers, which ring the bell when a line waits.
    pub fn new(place: LogPlace, workers: usize, bell: Arc<LogBell>) -> Self {
        let buffers = (0..workers.max(1)).map(|_| RecordBuffer::default()).collect();
        Self { place, buffers, dropped: AtomicU64::new(0), dropped_total: AtomicU64::new(0), bell }
    }

    /// The destination of the lines.
    pub fn place(&self) -> &LogPlace {
        &self.place
    }

    /// Whether [`Self::take`] returns records: one message each, or lines that name their files.
    pub fn has_records(&self) -> bool {
        matches!(self.place, LogPlace::Syslog(_) | LogPlace::Named(_))
    }

    /// Adds a line, without its newline.
    pub(crate) fn write(&self, worker: u16, name: Option<&LineName>, line: &[u8]) {
        let Some(RecordBuffer(buffer)) = self.buffers.get(usize::from(worker)) else { return };
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = buffer.is_empty();
        if buffer.len() + line.len() > WAITING_BYTES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.dropped_total.fetch_add(1, Ordering::Relaxed);
        } else if self.has_records() {
            let (path, root) = name.map_or((&[][..], &[][..]), |name| (&name.path, &name.root));
            encode_record(&Record { path, root, line }, &mut buffer);
        } else {
            buffer.extend_from_slice(line);
            buffer.push(b'\n');
        }
        drop(buffer);
        if is_first {
            self.bell.ring();
        }
    }

    /// Lines dropped since the process began.
    pub(crate) fn dropped_total(&self) -> u64 {
        self.dropped_total.load(Ordering::Relaxed)
    }

    /// Moves all waiting lines into `into`; returns how many lines were dropped since the last call.
    pub fn take(&self, into: &mut Vec<u8>) -> u64 {
        for RecordBuffer(buffer) in &self.buffers {
            let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            into.extend_from_slice(&buffer);
            buffer.clear();
        }
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

fn encode_record(record: &Record<'_>, out: &mut Vec<u8>) {
    for part in [record.path, record.root, record.line] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part);
    }
}

/// The records in the bytes of [`LogSink::take`].
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let mut part = || {
            let (length, rest) = bytes.split_first_chunk()?;
            let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            bytes = rest;
            Some(part)
        };
        Some(Record { path: part()?, root: part()?, line: part()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::place::NamedFiles;

    #[test]
    fn lines_with_names_come_back_as_records() {
        let sink = LogSink::new(LogPlace::Named(NamedFiles::from(None)), 1, Arc::default());
        let name = LineName { path: b"/p/a.example".to_vec(), root: b"/srv".to_vec() };
        sink.write(0, Some(&name), b"one\ntwo");
        sink.write(0, None, b"");
        let mut taken = Vec::new();
        assert_eq!(sink.take(&mut taken), 0);
        let found: Vec<Record<'_>> = records(&taken).collect();
        let whole = Record { path: b"/p/a.example", root: b"/srv", line: b"one\ntwo" };
        assert_eq!(found, [whole, Record { path: b"", root: b"", line: b"" }]);
        for cut in 0..taken.len() {
            assert!(records(&taken[..cut]).count() < 2, "cut at {cut}");
        }
    }
}
