//! The log lines of a session: problems, and the access-log lines if it ends without a tunnel or becomes one.

use crate::base::logs::access::LineName;
use crate::base::logs::error::{ErrorLog, Level, RequestLine, quoted};
use crate::plan::logs::AccessLogPlan;
use crate::session::StreamSession;
use crate::session::proxy::SessionAttempt;
use crate::tunnel::record::{TunnelAttempt, TunnelRecord, TunnelView};
use rules::variable::Variable;
use std::sync::Arc;
use upstream::balance::SessionTiming;

impl StreamSession {
    fn error_log(&self) -> &ErrorLog {
        match self.plan().error_log {
            Some(id) => &self.generation.error_logs[id.0 as usize],
            None => &self.thread.registry.error_log,
        }
    }

    /// Writes a line to the error log, with nginx's suffix.
    pub(crate) fn log(&self, level: Level, message: &str) {
        let log = self.error_log();
        if !log.wants(level) {
            return;
        }
        let server = self.listener_text();
        let line = RequestLine {
            message,
            serial: self.serial,
            client: Some(self.client()),
            datagrams: self.connection.is_datagrams(),
            server: server.as_bytes(),
            request: b"",
            subrequest: None,
            upstream: self.attempts.last().map(|attempt| &*attempt.peer),
            host: None,
            referrer: None,
        };
        log.request_line(self.thread.index, level, &line);
    }

    /// The address that the client connected to, for the error log.
    fn listener_text(&self) -> String {
        let listener = self.generation.listener(self.listener);
        listener.map(|listener| listener.address.to_string()).unwrap_or_default()
    }

    pub(super) fn wants_info(&self) -> bool {
        self.error_log().wants(Level::Info)
    }

    pub(super) fn log_connected(&self) {
        if self.wants_info() {
            let (peer, listener) = (&self.peer, self.listener_text());
            let protocol = if self.connection.is_datagrams() { "udp " } else { "" };
            self.log(Level::Info, &format!("{protocol}client {peer} connected to {listener}"));
        }
    }

    /// Writes the access-log lines of a session that ended without a tunnel.
    pub(super) fn log_access(&self) {
        let mut line = self.thread.take_scratch();
        for log in self.plan().access_logs.iter().filter(|log| self.is_logged(log)) {
            let Ok(name) = self.line_name(log) else { continue };
            line.clear();
            log.format.write(&self.view(), &mut line);
            self.generation.sink(log.sink).write(self.thread.index, name.as_ref(), &line);
        }
        self.thread.put_scratch(line);
    }

    /// The access-log lines of the tunnel that the session becomes, as far as their values are known.
    pub(super) fn tunnel_record(&mut self, timing: Option<SessionTiming>) -> Option<Box<TunnelRecord>> {
        if self.plan().access_logs.is_empty() && self.limited.is_none() && timing.is_none() {
            return None;
        }
        let is_datagrams = self.connection.is_datagrams();
        let early = |log: &AccessLogPlan| {
            let name = self.line_name(log).ok()?;
            // Only the end of a session of datagrams tells whether enough answers came.
            let is_late = |variable: &Variable| {
                TunnelView::is_late(variable) || (is_datagrams && matches!(variable, Variable::Status))
            };
            let line = log.format.write_early(&self.view(), is_late);
            Some((Arc::clone(self.generation.sink(log.sink)), name, line))
        };
        let lines = self.plan().access_logs.iter().filter(|log| self.is_logged(log)).filter_map(early).collect();
        let attempt = |attempt: &SessionAttempt| TunnelAttempt {
            response_us: attempt.session_us,
            response_length: 0,
            bytes_received: 0,
            bytes_sent: attempt.proxy_header_bytes,
            separator: b", ",
        };
        let attempts: Box<[TunnelAttempt]> = self.attempts.iter().map(attempt).collect();
        Some(Box::new(TunnelRecord {
            lines,
            began_at: self.accepted_at,
            accepted_at: self.accepted_at,
            attempt_began_at: self.attempts.last().map_or(self.accepted_at, |last| last.began_at.millis()),
            first_byte_ms: None,
            timing,
            head_bytes: 0,
            limits: self.limited.take(),
            attempts,
            spans: Box::default(),
        }))
    }

    /// Whether a log gets a line about this session. A condition that could not be decided logs the line.
    fn is_logged(&self, log: &AccessLogPlan) -> bool {
        log.wants(&self.view()) || self.is_undecided.get()
    }

    fn line_name(&self, log: &AccessLogPlan) -> Result<Option<LineName>, ()> {
        // A session has no root of its own, so none that could be missing.
        log.line_name(&self.view(), |root| root.push(b'/')).map_err(|path| {
            let message = format!("\"{}\" leaves the directory of its log: it is not opened", quoted(&path));
            self.log(Level::Error, &message);
        })
    }
}
