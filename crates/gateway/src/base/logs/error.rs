//! Error logs in nginx's line format and phrases, since people and tools search for them, followed by our own. Lines
//! are collected in memory; this module does not know where they go or which thread writes them.

pub(crate) mod limiter;

use crate::base::logs::bell::LogBell;
use crate::base::logs::error::limiter::{Limiter, LineCause, Suppressed, reason_key};
use crate::base::logs::place::LogPlace;
use conf::value::words::LogLevel;
use reactor::PeerAddress;
use rules::time_format::Moment;
use std::fmt;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The severity, as `error_log` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Everything.
    Debug,
    /// Normal events.
    Info,
    /// Notable events.
    Notice,
    /// Conditions that may become errors.
    Warn,
    /// A request failed.
    Error,
    /// The operating system refused something.
    Crit,
    /// An operator must act.
    Alert,
    /// The process cannot continue.
    Emerg,
}

impl Level {
    /// All levels, the least severe first.
    pub const ALL: [Self; 8] =
        [Self::Debug, Self::Info, Self::Notice, Self::Warn, Self::Error, Self::Crit, Self::Alert, Self::Emerg];

    /// Its name in `error_log`.
    pub fn label(self) -> &'static str {
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

    /// The severity number of syslog: 0 is the most severe.
    pub(crate) fn severity(self) -> u32 {
        Self::Emerg as u32 - self as u32
    }
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Emerg => Self::Emerg,
            LogLevel::Alert => Self::Alert,
            LogLevel::Crit => Self::Crit,
            LogLevel::Error => Self::Error,
            LogLevel::Warn => Self::Warn,
            LogLevel::Notice => Self::Notice,
            LogLevel::Info => Self::Info,
            LogLevel::Debug => Self::Debug,
        }
    }
}

/// One `error_log`: the destination of lines, and the least severe level to write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorTarget {
    /// The destination.
    pub place: LogPlace,
    /// The least severe level written to it.
    pub level: Level,
}

/// The lines of a list of `error_log`s, and their destinations.
#[derive(Debug, Clone)]
pub struct ErrorOutput {
    /// Where the lines are collected.
    pub log: Arc<ErrorLog>,
    /// A line goes to each target whose level it reaches.
    pub targets: Vec<ErrorTarget>,
}

/// Bytes of one worker that wait for the writer, which runs ten times a second: 3,000 lines of 300 bytes. Further lines
/// are dropped and counted, so that a full disk or a slow terminal stops no request.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Most bytes of one value of a request (its first line, its Host) in a line. nginx cuts whole lines at 2,048 bytes;
/// here the text after a long value stays readable.
const VALUE_BYTES_MAX: usize = 1024;

/// The lines of one list of `error_log`s: that of the process, or that of the locations that define it.
#[derive(Debug)]
pub struct ErrorLog {
    threshold: Level,
    /// One buffer for each worker, and the last one for all other threads.
    buffers: Box<[LineBuffer]>,
    dropped: AtomicU64,
    /// Dropped lines since the process began.
    dropped_total: AtomicU64,
    utc_offset_minutes: i16,
    began: Instant,
    bell: Option<Arc<LogBell>>,
}

/// One worker's lines. On its own cache lines, since the worker writes it with every line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LineBuffer(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    limiter: Limiter,
}

/// The fields that nginx appends to the message of a request's error.
pub(crate) struct RequestLine<'a> {
    pub(crate) message: &'a str,
    pub(crate) serial: u64,
    /// `None` if the socket does not know the address any more.
    pub(crate) client: Option<&'a PeerAddress>,
    /// The client sent datagrams.
    pub(crate) datagrams: bool,
    pub(crate) server: &'a [u8],
    pub(crate) request: &'a [u8],
    pub(crate) subrequest: Option<&'a [u8]>,
    pub(crate) upstream: Option<&'a [u8]>,
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) referrer: Option<&'a [u8]>,
}

impl ErrorLog {
    /// A log that keeps lines of this level and above.
    pub fn new(threshold: Level, utc_offset_minutes: i16) -> Self {
        Self {
            threshold,
            buffers: Box::new([LineBuffer::default()]),
            dropped: AtomicU64::new(0),
            dropped_total: AtomicU64::new(0),
            utc_offset_minutes,
            began: Instant::now(),
            bell: None,
        }
    }

    /// The same with a buffer for each worker, and the bell of the log writer.
    pub(crate) fn for_workers(self, workers: usize, bell: Arc<LogBell>) -> Self {
        Self { buffers: (0..=workers).map(|_| LineBuffer::default()).collect(), bell: Some(bell), ..self }
    }

    /// The least severe level that is kept: the operator's, or the configured one.
    fn threshold(&self) -> Level {
        self.bell.as_ref().and_then(|bell| bell.level()).unwrap_or(self.threshold)
    }

    /// Whether lines of a level are written. A caller that must ask the kernel for the content of a line checks this
    /// first.
    pub(crate) fn wants(&self, level: Level) -> bool {
        level >= self.threshold()
    }

    /// Offset of local time from UTC, in minutes east of Greenwich.
    pub fn utc_offset_minutes(&self) -> i16 {
        self.utc_offset_minutes
    }

    /// Logs a line without a connection. These lines have no rate limit: no client can cause them at will.
    pub fn log(&self, level: Level, message: &str) {
        if level < self.threshold() {
            return;
        }
        let mut line = self.prefix(level);
        line.extend_from_slice(message.as_bytes());
        line.push(b'\n');
        self.push(&mut self.waiting(usize::MAX), &line);
    }

    pub(crate) fn crit(&self, message: &str) {
        self.log(Level::Crit, message);
    }

    pub(crate) fn alert(&self, message: &str) {
        self.log(Level::Alert, message);
    }

    /// Logs a bug of ours.
    pub(crate) fn bug(&self, message: &str) {
        self.log(Level::Alert, &format!("bug in holdfast: {message}"));
    }

    /// Logs a line about a request, which a client may cause as often as it likes; `true` if the line will be written.
    pub(crate) fn request_line(&self, worker: u16, level: Level, line: &RequestLine<'_>) -> bool {
        if level < self.threshold() {
            return false;
        }
        let key = reason_key(level as u8, line.server, line.upstream.unwrap_or_default(), line.message);
        let client = line.client.and_then(|client| match client {
            PeerAddress::Ip(address) => Some(address.ip()),
            PeerAddress::Unix(_) => None,
        });
        let cause = LineCause { key, phrase: line.message.as_bytes(), client };
        let mut suppressed = Vec::new();
        let mut waiting = self.waiting(worker.into());
        let admitted = waiting.limiter.admits(cause, self.now_ms(), &mut suppressed);
        self.log_suppressed(&mut waiting, &suppressed);
        if admitted {
            let mut text = self.prefix(level);
            line.encode(&mut text);
            self.push(&mut waiting, &text);
        }
        admitted
    }

    /// Passes the waiting lines to the closure, with the number of lines dropped before them.
    pub fn flush(&self, write: impl FnOnce(&[u8], u64)) {
        let (mut lines, mut suppressed) = (Vec::new(), Vec::new());
        let now_ms = self.now_ms();
        for LineBuffer(buffer) in &self.buffers {
            let mut waiting = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            suppressed.clear();
            waiting.limiter.settle(now_ms, &mut suppressed);
            self.log_suppressed(&mut waiting, &suppressed);
            lines.append(&mut waiting.lines);
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if !lines.is_empty() || dropped > 0 {
            write(&lines, dropped);
        }
    }

    /// Lines dropped since the process began.
    pub(crate) fn dropped_total(&self) -> u64 {
        self.dropped_total.load(Ordering::Relaxed)
    }

    /// The buffer of a worker; the shared one for a number that no worker has.
    fn waiting(&self, worker: usize) -> std::sync::MutexGuard<'_, Waiting> {
        let LineBuffer(buffer) = &self.buffers[worker.min(self.buffers.len() - 1)];
        buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn log_suppressed(&self, waiting: &mut Waiting, suppressed: &[Suppressed]) {
        for Suppressed { count, phrase, clients, has_others } in suppressed {
            let mut line = self.prefix(Level::Warn);
            // Writing to a vector cannot fail.
            let _ = write!(line, "suppressed {count} more lines within a second like: ");
            escape(phrase, &mut line);
            for (at, client) in clients.iter().enumerate() {
                // Not `client:`, which programs that count lines of a client look for.
                let _ = write!(line, "{}{client}", if at == 0 { ", clients: " } else { ", " });
            }
            line.extend_from_slice(if *has_others { b" and others\n" } else { b"\n" });
            self.push(waiting, &line);
        }
    }

    fn prefix(&self, level: Level) -> Vec<u8> {
        let now = reactor::wall_clock().as_secs() as i64;
        let mut line = Vec::with_capacity(200);
        line.extend_from_slice(&Moment::new(now, self.utc_offset_minutes).error_log());
        let pid = std::process::id();
        let _ = write!(line, " [{}] {pid}#{pid}: ", level.label());
        line
    }

    fn push(&self, waiting: &mut Waiting, line: &[u8]) {
        if waiting.lines.len() + line.len() > WAITING_BYTES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.dropped_total.fetch_add(1, Ordering::Relaxed);
        } else {
            let is_first = waiting.lines.is_empty();
            waiting.lines.extend_from_slice(line);
            if let (true, Some(bell)) = (is_first, &self.bell) {
                bell.ring();
            }
        }
    }
}

impl RequestLine<'_> {
    /// Appends the line without its prefix.
    fn encode(&self, text: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        let _ = write!(text, "*{} {}", self.serial, self.message);
        if let Some(client) = self.client {
            let protocol = if self.datagrams { "udp " } else { "" };
            let _ = write!(text, ", {protocol}client: {}", client_text(client));
        }
        for (label, value, quoted) in [
            (", server: ", Some(self.server), false),
            (", request: ", Some(self.request).filter(|request| !request.is_empty()), true),
            (", subrequest: ", self.subrequest, true),
            (", upstream: ", self.upstream, true),
            (", host: ", self.host, true),
            (", referrer: ", self.referrer, true),
        ] {
            let Some(value) = value else { continue };
            text.extend_from_slice(label.as_bytes());
            text.extend_from_slice(if quoted { b"\"" } else { b"" });
            escape(value, text);
            text.extend_from_slice(if quoted { b"\"" } else { b"" });
        }
        text.push(b'\n');
    }
}

fn client_text(client: &PeerAddress) -> String {
    match client {
        PeerAddress::Ip(address) => address.ip().to_string(),
        PeerAddress::Unix(_) => "unix:".to_owned(),
    }
}

/// A system call's error in nginx's format: `111: Connection refused`.
pub fn errno(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => format!("{number}: {}", text.split(" (os error").next().unwrap_or_default()),
        None => text,
    }
}

/// Quotes a value that a client may have chosen (a path, a header value). No byte of it may end the quotes or the line,
/// or look like another field to programs that search the log, such as fail2ban. Text stays readable.
pub(crate) fn quoted(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    let hex = |byte: &u8, out: &mut String| {
        // Writing to a string cannot fail.
        let _ = fmt::Write::write_fmt(out, format_args!("\\x{byte:02X}"));
    };
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || matches!(character, '"' | '\\') {
                character.encode_utf8(&mut [0; 4]).as_bytes().iter().for_each(|byte| hex(byte, &mut out));
            } else {
                out.push(character);
            }
        }
        chunk.invalid().iter().for_each(|byte| hex(byte, &mut out));
    }
    out
}

/// Escapes bytes of a request for a log line: no byte of them may end the line or move a terminal's cursor.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_values_stay_within_their_quotes_and_readable() {
        assert_eq!(quoted("/ä b".as_bytes()), "/ä b");
        assert_eq!(quoted(b"a\"b\\c\nd\xff"), r"a\x22b\x5Cc\x0Ad\xFF");
        assert_eq!(quoted("\u{85}".as_bytes()), r"\xC2\x85", "a control character beyond ASCII");
    }
}
