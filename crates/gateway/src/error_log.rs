//! The error log: nginx's line format and phrases, since people and tools search for them, with ours behind.

use reactor::PeerAddress;
use rules::time_format::Moment;
use std::io::{self, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How bad it is, as `error_log` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Debug,
    /// What happens.
    Info,
    /// What is remarkable.
    Notice,
    /// What may become an error.
    Warn,
    /// A request failed.
    Error,
    /// The system refuses something.
    Crit,
    /// Somebody must act.
    Alert,
    /// The process cannot go on.
    Emerg,
}

impl Level {
    fn label(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Crit => "crit",
            Self::Alert => "alert",
            Self::Emerg => "emerg",
        }
    }
}

/// Lines that wait for the writer: beyond this they are dropped and counted, so that a full disk or a slow terminal stops
/// nobody's request.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Bytes of one value of a request (its first line, its Host) in a line. nginx cuts whole lines at 2,048 bytes; here what
/// stands behind a long value stays readable.
const VALUE_BYTES_MAX: usize = 1024;

/// The error log of a process. Lines are collected in memory; [`ErrorLog::flush`] writes them.
#[derive(Debug)]
pub struct ErrorLog {
    threshold: Level,
    waiting: Mutex<Vec<u8>>,
    dropped: AtomicU64,
    /// Those of all times.
    dropped_total: AtomicU64,
    utc_offset_minutes: i16,
}

/// What nginx puts behind the message of a request's error.
pub(crate) struct RequestLine<'a> {
    pub(crate) message: &'a str,
    pub(crate) serial: u64,
    pub(crate) client: &'a PeerAddress,
    pub(crate) server: &'a [u8],
    pub(crate) request: &'a [u8],
    pub(crate) upstream: Option<&'a [u8]>,
    pub(crate) host: Option<&'a [u8]>,
}

impl ErrorLog {
    /// A log that keeps lines of this level and above.
    pub fn new(threshold: Level, utc_offset_minutes: i16) -> Self {
        Self {
            threshold,
            waiting: Mutex::default(),
            dropped: AtomicU64::new(0),
            dropped_total: AtomicU64::new(0),
            utc_offset_minutes,
        }
    }

    /// Offset of local time from UTC, east of Greenwich.
    pub(crate) fn utc_offset_minutes(&self) -> i16 {
        self.utc_offset_minutes
    }

    /// A line without a connection.
    pub fn log(&self, level: Level, message: &str) {
        if level < self.threshold {
            return;
        }
        let mut line = self.prefix(level);
        line.extend_from_slice(message.as_bytes());
        line.push(b'\n');
        self.push(&line);
    }

    pub(crate) fn info(&self, message: &str) {
        self.log(Level::Info, message);
    }

    pub(crate) fn crit(&self, message: &str) {
        self.log(Level::Crit, message);
    }

    pub(crate) fn alert(&self, message: &str) {
        self.log(Level::Alert, message);
    }

    /// A bug of ours.
    pub(crate) fn bug(&self, message: &str) {
        self.log(Level::Alert, &format!("bug in holdfast: {message}"));
    }

    pub(crate) fn request_error(&self, line: &RequestLine<'_>) {
        if Level::Error < self.threshold {
            return;
        }
        let mut text = self.prefix(Level::Error);
        // Writing to a vector cannot fail.
        let _ = write!(text, "*{} {}, client: {}", line.serial, line.message, line.client_text());
        for (label, value, quoted) in [
            (", server: ", Some(line.server), false),
            (", request: ", Some(line.request).filter(|request| !request.is_empty()), true),
            (", upstream: ", line.upstream, true),
            (", host: ", line.host, true),
        ] {
            let Some(value) = value else { continue };
            text.extend_from_slice(label.as_bytes());
            text.extend_from_slice(if quoted { b"\"" } else { b"" });
            escape(value, &mut text);
            text.extend_from_slice(if quoted { b"\"" } else { b"" });
        }
        text.push(b'\n');
        self.push(&text);
    }

    /// Gives the waiting lines to the closure, and says how many were dropped before them.
    pub fn flush(&self, write: impl FnOnce(&[u8], u64)) {
        let lines = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if !lines.is_empty() || dropped > 0 {
            write(&lines, dropped);
        }
    }

    /// Lines dropped since the process began.
    pub(crate) fn dropped_total(&self) -> u64 {
        self.dropped_total.load(Ordering::Relaxed)
    }

    fn prefix(&self, level: Level) -> Vec<u8> {
        let now = reactor::wall_clock().as_secs() as i64;
        let mut line = Vec::with_capacity(200);
        line.extend_from_slice(&Moment::new(now, self.utc_offset_minutes).error_log());
        let pid = std::process::id();
        let _ = write!(line, " [{}] {pid}#{pid}: ", level.label());
        line
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if waiting.len() + line.len() > WAITING_BYTES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.dropped_total.fetch_add(1, Ordering::Relaxed);
        } else {
            waiting.extend_from_slice(line);
        }
    }
}

impl RequestLine<'_> {
    fn client_text(&self) -> String {
        match self.client {
            PeerAddress::Ip(address) => address.ip().to_string(),
            PeerAddress::Unix(_) => "unix:".to_owned(),
        }
    }
}

/// A system call's error in nginx's words: `111: Connection refused`.
pub(crate) fn errno(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => format!("{number}: {}", text.split(" (os error").next().unwrap_or_default()),
        None => text,
    }
}

/// Bytes of a request in a log line: nothing of it may end the line or move a terminal's cursor.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    let (value, cut) = match value.split_at_checked(VALUE_BYTES_MAX) {
        Some((start, rest)) if !rest.is_empty() => (start, true),
        _ => (value, false),
    };
    for &byte in value {
        if !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\' {
            let _ = write!(out, "\\x{byte:02X}");
        } else {
            out.push(byte);
        }
    }
    if cut {
        out.extend_from_slice(b"...");
    }
}
