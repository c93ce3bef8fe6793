//! Lines of the error log about an exchange.

use crate::base::logs::error::{Level, RequestLine};
use crate::exchange::Exchange;
use http1::FieldId;

impl Exchange {
    /// Writes a line to the error log, with nginx's suffix.
    pub(crate) fn error_log(&self, message: &str) {
        self.log_at(Level::Error, message);
    }

    /// Logs an error of the client, which nginx logs as `info`: the operator cannot correct it, and scanners cause
    /// many.
    pub(crate) fn client_log(&self, message: &str) {
        self.log_at(Level::Info, message);
    }

    /// Logs at another level. The most specific `error_log` gets the line.
    pub(crate) fn log_at(&self, level: Level, message: &str) {
        let request = &self.request;
        let log = self.generation.error_log(self.location()).unwrap_or(&self.thread.registry.error_log);
        let written = log.request_line(
            self.thread.index,
            level,
            &RequestLine {
                message,
                serial: self.down.serial(),
                client: Some(self.client()),
                datagrams: false,
                server: &self.generation.server(self.routing.target.server).name,
                request: request.head.line.of(&request.bytes),
                subrequest: self.is_subrequest().then(|| self.uri()),
                upstream: self.upstream_url().as_deref(),
                host: request.head.host.map(|host| host.raw.of(&request.bytes)),
                referrer: request.head.value(FieldId::Referer, &request.bytes),
            },
        );
        if written {
            self.down.await_line();
        }
    }

    /// The URL of the last attempt, as nginx writes it.
    fn upstream_url(&self) -> Option<Vec<u8>> {
        let peer = self.upstream.attempts().last_peer(&self.generation)?;
        let target = self.request.upstream_head.target();
        let separator: &[u8] = if peer.starts_with(b"unix:") && !target.is_empty() { b":" } else { b"" };
        let scheme = self.upstream.attempts().last_scheme(&self.generation).as_str().as_bytes();
        Some([scheme, b"://", peer, separator, target].concat())
    }
}
