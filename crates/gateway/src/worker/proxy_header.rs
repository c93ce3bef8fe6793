//! Connections that begin with a PROXY protocol header: they are served once it has arrived. If it is invalid they are
//! closed without an answer, since the receiver of an answer is unknown.

use crate::base::close::CloseReason;
use crate::base::logs::error::{Level, RequestLine};
use crate::downstream::h1::connection::Connection;
use crate::downstream::h1::proxy_header::HeaderRead;
use crate::plan::listener::ListenerPlan;
use crate::worker::{Body, Worker};
use std::rc::Rc;

/// Bytes of an invalid header that the log shows: the longest line of version 1.
const SHOWN_BYTES_MAX: usize = 107;

impl Worker {
    /// The connection, once its header has arrived. `fired`: its time has passed.
    pub(crate) fn await_proxy_header(
        self: &Rc<Self>,
        mut connection: Box<Connection>,
        listener: &ListenerPlan,
        fired: bool,
    ) -> Option<Box<Connection>> {
        let task = connection.task;
        match connection.read_proxy_header(self.thread.reactor.now()) {
            HeaderRead::Complete => {
                self.thread.reactor.set_deadline(task, Some(self.thread.reactor.now().after(listener.header_timeout)));
                return Some(connection);
            }
            HeaderRead::Waiting if fired => {
                let message = "client timed out (110: Connection timed out) while reading PROXY protocol";
                self.log_of_connection(&connection, Level::Info, message);
                self.close(connection, CloseReason::HeadTimeout);
            }
            HeaderRead::Waiting => self.put(task, Body::Idle(connection)),
            HeaderRead::ClosedBefore => self.close(connection, CloseReason::ClientClosed),
            HeaderRead::ClosedInside | HeaderRead::Failed => self.close(connection, CloseReason::ClientAborted),
            HeaderRead::Refused(error) => {
                let shown = &connection.pending[..connection.pending.len().min(SHOWN_BYTES_MAX)];
                let shown = shown.escape_ascii();
                let message = format!("broken header: \"{shown}\" while reading PROXY protocol: {error}");
                self.log_of_connection(&connection, Level::Error, &message);
                self.close(connection, CloseReason::BadRequest);
            }
        }
        None
    }

    /// Logs an event of a client's connection outside of any request.
    pub(super) fn log_of_connection(&self, connection: &Connection, level: Level, message: &str) {
        let line = RequestLine {
            message,
            serial: connection.client.serial,
            client: Some(&connection.client.peer),
            datagrams: false,
            server: b"",
            request: b"",
            subrequest: None,
            upstream: None,
            host: None,
            referrer: None,
        };
        if self.thread.registry.error_log.request_line(self.thread.index, level, &line) {
            connection.line_waits.set(true);
        }
    }
}
