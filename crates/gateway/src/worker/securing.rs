//! Connections to an address with `ssl` begin with a handshake. It is a state of a waiting connection, under
//! `client_header_timeout`; before the first byte it costs nothing. A client that speaks plain HTTP there gets an
//! answer that says so (497).

use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::logs::error::{Level, RequestLine};
use crate::downstream::h1::connection::{Connection, Securing};
use crate::downstream::handshake::FailedHandshake;
use crate::registry::generation::BoundListener;
use crate::registry::ocsp::client_statuses::ClientStatusSearch;
use crate::worker::certificates::Search;
use crate::worker::{Body, Worker};
use http1::{HeadEnd, find_head_end};
use reactor::{Pending, Read};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tls::{Pair, Pairs, Session};
use transport::{HandshakeProgress, tls_error};

/// The first byte of a handshake's first record.
const HANDSHAKE_RECORD: u8 = 22;
/// The bit in the first byte of SSL 2. nginx also treats that as a handshake, which then fails.
const SSL2_BIT: u8 = 0x80;

/// Bytes of the first read: a usual first message has 500 to 2,000.
const FIRST_READ_BYTES: usize = 4096;

/// How requests begin that are answered while the client's handshake is incomplete. No server answers TRACE.
const SAFE_METHODS: [&[u8]; 3] = [b"GET ", b"HEAD ", b"OPTIONS "];

/// What a connection under TLS waits for besides the client.
#[derive(Debug)]
pub(crate) enum SecuringWait {
    /// Certificates that the handshake needs.
    Certificates(Pending<Result<Vec<Pair>, String>>),
    /// OCSP answers about the client's certificate, which the first request needs.
    CertStatus(ClientStatusSearch),
}

/// What is beside a connection while it waits so.
pub(crate) type HandshakeWait = Option<Box<SecuringWait>>;

/// The kind of the client's first byte.
enum FirstByte {
    Nothing,
    Handshake,
    Other,
    Closed,
    Failed,
}

impl Worker {
    /// Returns the connection once its handshake is complete, its early data is answered, or it is clear that there is
    /// no handshake; and whether the time for the request has passed. `fired`: the time has passed.
    pub(crate) fn secure(
        self: &Rc<Self>,
        mut connection: Box<Connection>,
        awaited: HandshakeWait,
        listener: &BoundListener,
        fired: bool,
    ) -> Option<(Box<Connection>, bool)> {
        if connection.securing == Securing::NotBegun {
            let Some(tls) = &listener.tls else {
                return self.begin_in_clear(connection, listener, fired);
            };
            match connection.look_at_beginning() {
                FirstByte::Nothing if fired => {
                    self.give_up_handshake(connection);
                    return None;
                }
                FirstByte::Nothing => {
                    let task = connection.task;
                    self.put(task, Body::Idle(connection));
                    return None;
                }
                FirstByte::Closed => {
                    self.close(connection, CloseReason::ClientClosed);
                    return None;
                }
                FirstByte::Failed => {
                    self.close(connection, CloseReason::ClientAborted);
                    return None;
                }
                FirstByte::Other => {
                    connection.securing = Securing::PlainHttp;
                    connection.since = self.thread.reactor.now();
                    return Some((connection, fired));
                }
                FirstByte::Handshake => {
                    connection.securing = Securing::UnderWay;
                    let received = std::mem::take(&mut connection.pending);
                    let plain = *connection;
                    let stream = plain.stream.into_secure(Session::server(Arc::clone(tls)), received);
                    connection = Box::new(Connection { stream, ..plain });
                }
            }
        }
        self.shake_hands(connection, awaited, listener, fired)
    }

    /// A connection without TLS: HTTP/2 begins with a preface, if it is enabled.
    fn begin_in_clear(
        self: &Rc<Self>,
        mut connection: Box<Connection>,
        listener: &BoundListener,
        fired: bool,
    ) -> Option<(Box<Connection>, bool)> {
        let default = listener.names.default_server();
        if !listener.http2 && !self.generation().server(default).http2.enabled {
            connection.securing = Securing::Done;
            return Some((connection, fired));
        }
        let task = connection.task;
        let was_partial = !connection.pending.is_empty();
        match connection.look_at_preface() {
            Preface::Whole => {
                connection.securing = Securing::Done;
                self.begin_http2(connection, listener);
                return None;
            }
            Preface::Partial if !fired => {
                if !was_partial {
                    connection.since = self.thread.reactor.now();
                    let deadline = connection.since.after(listener.header_timeout);
                    self.thread.reactor.set_deadline(task, Some(deadline));
                }
                self.put(task, Body::Idle(connection));
                return None;
            }
            Preface::Nothing if !fired => {
                self.put(task, Body::Idle(connection));
                return None;
            }
            Preface::Closed => {
                self.close(connection, CloseReason::ClientClosed);
                return None;
            }
            Preface::Failed => {
                self.close(connection, CloseReason::ClientAborted);
                return None;
            }
            // HTTP/1 handles everything else, including errors.
            Preface::Other | Preface::Partial | Preface::Nothing => {}
        }
        connection.securing = Securing::Done;
        connection.since = self.thread.reactor.now();
        Some((connection, fired))
    }

    fn shake_hands(
        self: &Rc<Self>,
        mut connection: Box<Connection>,
        awaited: HandshakeWait,
        listener: &BoundListener,
        fired: bool,
    ) -> Option<(Box<Connection>, bool)> {
        let task = connection.task;
        match connection.stream.handshake() {
            Ok(HandshakeProgress::Done) => {
                if let Some(search) = self.search_client_status(&connection, awaited) {
                    // The client is there, but the responder does not answer.
                    if fired {
                        self.give_up_handshake(connection);
                    } else {
                        self.put(task, Body::Securing(Box::new((connection, search))));
                    }
                    return None;
                }
                self.note_handshake(&mut connection, listener);
                if is_http2(&connection) {
                    self.begin_http2(connection, listener);
                    return None;
                }
                return Some((connection, false));
            }
            Ok(HandshakeProgress::Waiting)
                if let Some(server) = connection.stream.session(Session::awaits_certificate).flatten() =>
            {
                return self.go_on_with_certificates(connection, awaited, listener, server, fired);
            }
            Ok(HandshakeProgress::Waiting) if fired => self.give_up_handshake(connection),
            Ok(HandshakeProgress::Waiting) if self.thread.refuses_growth() => {
                self.close(connection, CloseReason::MemoryBudget);
            }
            Ok(HandshakeProgress::Waiting) if answers_early_data(&connection) => {
                self.note_handshake(&mut connection, listener);
                return Some((connection, false));
            }
            Ok(HandshakeProgress::Waiting) => self.put(task, Body::Idle(connection)),
            Err(error) => self.fail_handshake(connection, &error),
        }
        None
    }

    /// The connection waits for a head from now on, as any other does.
    fn note_handshake(&self, connection: &mut Connection, listener: &BoundListener) {
        connection.securing = Securing::Done;
        let resumed = connection.stream.session(Session::is_resumed).unwrap_or_default();
        bump(&self.thread.counters().handshakes[usize::from(resumed)], 1);
        let now = self.thread.reactor.now();
        self.thread.reactor.set_deadline(connection.task, Some(now.after(listener.header_timeout)));
    }

    fn go_on_with_certificates(
        self: &Rc<Self>,
        connection: Box<Connection>,
        awaited: HandshakeWait,
        listener: &BoundListener,
        server: u32,
        fired: bool,
    ) -> Option<(Box<Connection>, bool)> {
        match self.search_certificates(&connection, awaited, server) {
            Search::Found(pairs) => match connection.stream.show_certificates(Pairs::new(pairs)) {
                Ok(()) => return self.shake_hands(connection, None, listener, fired),
                Err(error) => self.fail_handshake(connection, &error),
            },
            Search::Waits(_) if fired => self.give_up_handshake(connection),
            Search::Waits(awaited) => {
                let task = connection.task;
                self.put(task, Body::Securing(Box::new((connection, awaited))));
            }
            Search::Failed(message) => {
                connection.stream.refuse_certificates();
                let failed = FailedHandshake::without_certificate(message);
                self.note_failure(&connection, &failed);
                self.close_after_lines(connection, failed.reason, None);
            }
        }
        None
    }

    fn give_up_handshake(self: &Rc<Self>, connection: Box<Connection>) {
        let failed = FailedHandshake::timed_out();
        self.note_failure(&connection, &failed);
        self.close(connection, failed.reason);
    }

    fn fail_handshake(self: &Rc<Self>, connection: Box<Connection>, error: &io::Error) {
        let failed = FailedHandshake::of(error);
        self.note_failure(&connection, &failed);
        if tls_error(error).is_none() {
            return self.close(connection, failed.reason);
        }
        self.close_after_lines(connection, failed.reason, None);
    }

    fn note_failure(&self, connection: &Connection, failed: &FailedHandshake) {
        self.log_handshake(connection, failed.level, &failed.line());
        failed.count(&self.thread);
    }

    fn log_handshake(&self, connection: &Connection, level: Level, message: &str) {
        let asked = connection.stream.session(|session| session.server_name().map(str::to_owned)).flatten();
        let server = connection.stream.local_address().ok().flatten().map(|address| address.to_string());
        let line = RequestLine {
            message,
            serial: connection.client.serial,
            client: Some(&connection.client.peer),
            datagrams: false,
            server: server.as_deref().unwrap_or_default().as_bytes(),
            request: b"",
            subrequest: None,
            upstream: None,
            host: asked.as_deref().map(str::as_bytes),
            referrer: None,
        };
        if self.thread.registry.error_log.request_line(self.thread.index, level, &line) {
            connection.line_waits.set(true);
        }
    }
}

fn is_http2(connection: &Connection) -> bool {
    connection.stream.session(|session| session.alpn() == Some(b"h2")).unwrap_or_default()
}

/// Whether the client's early data is a request that is answered before its handshake is complete. Requests over HTTP/2 wait.
fn answers_early_data(connection: &Connection) -> bool {
    !is_http2(connection) && connection.stream.answer_early_data(is_one_safe_request)
}

/// Whether these bytes are the head of one request with a safe method (RFC 9110, 9.2.1), and nothing else. Any other request waits for
/// the end of the handshake, which an attacker that copied it cannot bring (RFC 8470, 3).
fn is_one_safe_request(bytes: &[u8]) -> bool {
    SAFE_METHODS.iter().any(|method| bytes.starts_with(method))
        && matches!(find_head_end(bytes, 0), HeadEnd::Found(end) if end == bytes.len())
}

/// Whether a connection without TLS begins with the HTTP/2 preface.
enum Preface {
    Nothing,
    /// All bytes so far match.
    Partial,
    Whole,
    Other,
    Closed,
    Failed,
}

impl Connection {
    /// Checks the first bytes for the HTTP/2 preface without consuming them.
    fn look_at_preface(&mut self) -> Preface {
        loop {
            let Self { stream, pending, .. } = self;
            if !::http2::PREFACE.starts_with(pending) {
                return if pending.starts_with(::http2::PREFACE) { Preface::Whole } else { Preface::Other };
            }
            if pending.len() == ::http2::PREFACE.len() {
                return Preface::Whole;
            }
            match stream.read_with(FIRST_READ_BYTES, |bytes| pending.extend_from_slice(bytes)) {
                Ok(Read::Data(())) => {}
                Ok(Read::NotReady) if pending.is_empty() => return Preface::Nothing,
                Ok(Read::NotReady) => return Preface::Partial,
                Ok(Read::Closed) => return Preface::Closed,
                Err(_) => return Preface::Failed,
            }
        }
    }

    /// Classifies the first byte without consuming it.
    fn look_at_beginning(&mut self) -> FirstByte {
        if self.pending.is_empty() {
            let Self { stream, pending, .. } = self;
            match stream.read_with(FIRST_READ_BYTES, |bytes| pending.extend_from_slice(bytes)) {
                Ok(Read::Data(())) => {}
                Ok(Read::NotReady) => return FirstByte::Nothing,
                Ok(Read::Closed) => return FirstByte::Closed,
                Err(_) => return FirstByte::Failed,
            }
        }
        match self.pending.first() {
            Some(first) if *first == HANDSHAKE_RECORD || *first & SSL2_BIT != 0 => FirstByte::Handshake,
            Some(_) => FirstByte::Other,
            None => FirstByte::Nothing,
        }
    }
}
