//! Connections to an address with `ssl` begin with a handshake. It is a state of a waiting connection, under
//! `client_header_timeout`; until the first byte has come it costs nothing. A client that speaks plain HTTP there is served all the
//! same, and told so (497).

use crate::base::close::CloseReason;
use crate::base::counters::{HANDSHAKE_FAILURES, bump};
use crate::base::logs::error::{Level, RequestLine, errno};
use crate::downstream::connection::{Connection, Securing};
use crate::registry::generation::BoundListener;
use crate::worker::{Body, Worker};
use reactor::Read;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tls::{Session, TlsError};
use transport::tls_error;

/// The first byte of a handshake's first record.
const HANDSHAKE_RECORD: u8 = 22;
/// The bit that the first byte of SSL 2 has. nginx takes it for a handshake, too, which then fails.
const SSL2_BIT: u8 = 0x80;

/// Bytes of the first read: a usual first message takes 500 to 2,000.
const FIRST_READ_BYTES: usize = 4096;

/// What the client begins with.
enum Beginning {
    Nothing,
    Handshake,
    Other,
    Closed,
    Failed,
}

impl Worker {
    /// The connection, once its handshake is complete, or it has become clear that there is none; with whether the time for what
    /// follows is over. `fired`: the time is over.
    pub(crate) fn secure(
        self: &Rc<Self>,
        mut connection: Box<Connection>,
        listener: &BoundListener,
        fired: bool,
    ) -> Option<(Box<Connection>, bool)> {
        if connection.securing == Securing::NotBegun {
            let Some(tls) = &listener.tls else {
                connection.securing = Securing::Done;
                return Some((connection, fired));
            };
            match connection.look_at_beginning() {
                Beginning::Nothing if fired => {
                    self.give_up_handshake(connection);
                    return None;
                }
                Beginning::Nothing => {
                    let task = connection.task;
                    self.put(task, Body::Idle(connection));
                    return None;
                }
                Beginning::Closed => {
                    self.close(connection, CloseReason::ClientClosed);
                    return None;
                }
                Beginning::Failed => {
                    self.close(connection, CloseReason::ClientAborted);
                    return None;
                }
                Beginning::Other => {
                    connection.securing = Securing::PlainHttp;
                    connection.head_since = self.thread.reactor.now();
                    return Some((connection, fired));
                }
                Beginning::Handshake => {
                    connection.securing = Securing::UnderWay;
                    let received = std::mem::take(&mut connection.pending);
                    let plain = *connection;
                    let stream = plain.stream.into_secure(Session::server(Arc::clone(tls)), received);
                    connection = Box::new(Connection { stream, ..plain });
                }
            }
        }
        self.shake_hands(connection, listener, fired)
    }

    fn shake_hands(
        self: &Rc<Self>,
        mut connection: Box<Connection>,
        listener: &BoundListener,
        fired: bool,
    ) -> Option<(Box<Connection>, bool)> {
        let task = connection.task;
        match connection.stream.handshake() {
            Ok(true) => {
                connection.securing = Securing::Done;
                let resumed = connection.stream.session(Session::is_resumed).unwrap_or_default();
                bump(&self.thread.counters().handshakes[usize::from(resumed)], 1);
                let now = self.thread.reactor.now();
                self.thread.reactor.set_deadline(task, Some(now.after(listener.header_timeout)));
                return Some((connection, false));
            }
            Ok(false) if fired => self.give_up_handshake(connection),
            Ok(false) if self.thread.refuses_growth() => {
                self.close(connection, CloseReason::MemoryBudget);
            }
            Ok(false) => self.put(task, Body::Idle(connection)),
            Err(error) => self.fail_handshake(connection, &error),
        }
        None
    }

    fn give_up_handshake(self: &Rc<Self>, connection: Box<Connection>) {
        self.log_handshake(&connection, Level::Info, "client timed out (110: Connection timed out)");
        self.count_failure("timed_out");
        self.close(connection, CloseReason::HeadTimeout);
    }

    fn fail_handshake(self: &Rc<Self>, connection: Box<Connection>, error: &io::Error) {
        let Some(failed) = tls_error(error) else {
            // As in nginx: the system's words for a connection that broke.
            let message = format!("SSL_do_handshake() failed ({})", errno(error));
            self.log_handshake(&connection, Level::Info, &message);
            self.count_failure("connection");
            return self.close(connection, CloseReason::ClientAborted);
        };
        let level = match failed.level() {
            tls::Level::Info => Level::Info,
            tls::Level::Error => Level::Error,
            tls::Level::Critical => Level::Crit,
        };
        self.log_handshake(&connection, level, &failed.phrase());
        self.count_failure(failed.key());
        let reason = match failed {
            TlsError::ClosedInHandshake | TlsError::ClosedUnused => CloseReason::ClientAborted,
            _ => CloseReason::HandshakeFailed,
        };
        self.close_after_lines(connection, reason, None);
    }

    fn count_failure(&self, key: &str) {
        let place = HANDSHAKE_FAILURES.iter().position(|known| *known == key).unwrap_or_default();
        bump(&self.thread.counters().handshakes_failed[place], 1);
    }

    fn log_handshake(&self, connection: &Connection, level: Level, message: &str) {
        let asked = connection.stream.session(|session| session.server_name().map(str::to_owned)).flatten();
        let server = connection.stream.local_address().ok().flatten().map(|address| address.to_string());
        let line = RequestLine {
            message: &format!("{message} while SSL handshaking"),
            serial: connection.serial,
            client: &connection.peer,
            server: server.as_deref().unwrap_or_default().as_bytes(),
            request: b"",
            upstream: None,
            host: asked.as_deref().map(str::as_bytes),
            referrer: None,
        };
        if self.thread.shared.error_log.request_line(self.thread.index, level, &line) {
            connection.line_waits.set(true);
        }
    }
}

impl Connection {
    /// What the first byte says, which stays where it is.
    fn look_at_beginning(&mut self) -> Beginning {
        if self.pending.is_empty() {
            let Self { stream, pending, .. } = self;
            match stream.read_with(FIRST_READ_BYTES, |bytes| pending.extend_from_slice(bytes)) {
                Ok(Read::Data(())) => {}
                Ok(Read::NotReady) => return Beginning::Nothing,
                Ok(Read::Closed) => return Beginning::Closed,
                Err(_) => return Beginning::Failed,
            }
        }
        match self.pending.first() {
            Some(first) if *first == HANDSHAKE_RECORD || *first & SSL2_BIT != 0 => Beginning::Handshake,
            Some(_) => Beginning::Other,
            None => Beginning::Nothing,
        }
    }
}
