//! Access logs on the request path: a line is rendered into the worker's buffer of the file; a thread that may block writes
//! the buffers. A full disk costs lines, which are counted, and never a request.

use rules::log_format::LogFormat;
use rules::template::{Template, View};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that wait in one worker's buffer of one file: at 200 bytes a line and 100 ms between two writes this is 50,000
/// requests a second of one worker. What comes on top is dropped and counted.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// One `access_log` of a location.
pub(crate) struct AccessLog {
    pub(crate) format: Arc<LogFormat>,
    pub(crate) sink: Arc<LogSink>,
    /// `if=`: no line where this gives an empty text or `0`.
    pub(crate) condition: Option<Template>,
}

impl AccessLog {
    /// Whether `if=` wants a line.
    pub(crate) fn wants(&self, view: &impl View) -> bool {
        self.condition.as_ref().is_none_or(|condition| {
            let mut value = Vec::new();
            condition.write(view, &mut value);
            !value.is_empty() && value != b"0"
        })
    }
}

/// A file that lines are collected for. Process-wide: locations and generations that name the same path share it.
#[derive(Debug)]
pub struct LogSink {
    path: std::path::PathBuf,
    buffers: Box<[Buffer]>,
    dropped: AtomicU64,
    /// Those of all times.
    dropped_total: AtomicU64,
}

/// One worker's lines. On cache lines of its own, since its worker writes it with every request.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Buffer(Mutex<Vec<u8>>);

impl LogSink {
    /// A sink for a number of workers.
    pub fn new(path: std::path::PathBuf, workers: usize) -> Self {
        let buffers = (0..workers.max(1)).map(|_| Buffer::default()).collect();
        Self { path, buffers, dropped: AtomicU64::new(0), dropped_total: AtomicU64::new(0) }
    }

    /// Where the lines go.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Adds a line, its newline included.
    pub(crate) fn write(&self, worker: u16, line: &[u8]) {
        let Some(Buffer(buffer)) = self.buffers.get(usize::from(worker)) else { return };
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() + line.len() > WAITING_BYTES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.dropped_total.fetch_add(1, Ordering::Relaxed);
        } else {
            buffer.extend_from_slice(line);
        }
    }

    /// Lines dropped since the process began.
    pub(crate) fn dropped_total(&self) -> u64 {
        self.dropped_total.load(Ordering::Relaxed)
    }

    /// Takes all waiting lines, whole, into `into`; returns how many were dropped since the last time.
    pub fn take(&self, into: &mut Vec<u8>) -> u64 {
        for Buffer(buffer) in &self.buffers {
            let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            into.extend_from_slice(&buffer);
            buffer.clear();
        }
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
