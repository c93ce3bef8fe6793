//! What a client's failed TLS handshake means: its log line, its counter, and why the connection is closed. Connections of
//! `http` and sessions of `stream` report it.

use crate::base::close::CloseReason;
use crate::base::counters::{bump, handshake_failure};
use crate::base::logs::error::{Level, errno};
use crate::thread::WorkerThread;
use std::io;
use tls::TlsError;
use transport::tls_error;

/// A failed handshake.
pub(crate) struct FailedHandshake {
    pub(crate) level: Level,
    /// nginx's phrase.
    pub(crate) message: String,
    /// For the counter; `None`: it is not the handshake's failure.
    key: Option<&'static str>,
    pub(crate) reason: CloseReason,
}

impl FailedHandshake {
    /// The client did not complete it in time.
    pub(crate) fn timed_out() -> Self {
        let message = "client timed out (110: Connection timed out)".to_owned();
        Self { level: Level::Info, message, key: Some("timed_out"), reason: CloseReason::HeadTimeout }
    }

    /// Memory is short, and a handshake needs more of it.
    pub(crate) fn out_of_memory() -> Self {
        let message = "memory is short: the handshake is given up".to_owned();
        Self { level: Level::Info, message, key: None, reason: CloseReason::MemoryBudget }
    }

    /// No certificate could be shown.
    pub(crate) fn without_certificate(message: String) -> Self {
        Self { level: Level::Error, message, key: Some("no_certificate"), reason: CloseReason::HandshakeFailed }
    }

    pub(crate) fn of(error: &io::Error) -> Self {
        let Some(failed) = tls_error(error) else {
            // As in nginx: the system's message for a connection that broke.
            let message = format!("SSL_do_handshake() failed ({})", errno(error));
            return Self { level: Level::Info, message, key: Some("connection"), reason: CloseReason::ClientAborted };
        };
        let level = match failed.level() {
            tls::Level::Info => Level::Info,
            tls::Level::Error => Level::Error,
            tls::Level::Critical => Level::Crit,
        };
        let reason = match failed {
            TlsError::ClosedInHandshake | TlsError::ClosedUnused => CloseReason::ClientAborted,
            _ => CloseReason::HandshakeFailed,
        };
        Self { level, message: failed.phrase(), key: Some(failed.key()), reason }
    }

    pub(crate) fn count(&self, thread: &WorkerThread) {
        if let Some(key) = self.key {
            bump(&thread.counters().handshakes_failed[handshake_failure(key)], 1);
        }
    }

    /// The message with nginx's action.
    pub(crate) fn line(&self) -> String {
        format!("{} while SSL handshaking", self.message)
    }
}
