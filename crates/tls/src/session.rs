//! One TLS connection: fed with bytes from the peer, it gives plaintext and bytes for the peer. It keeps received bytes only while a
//! record or a handshake message is incomplete. The caller owns all other memory, the socket and the deadlines.

use crate::client::ClientSide;
use crate::error::{SetupError, TlsError};
use crate::hello::{self, Found};
use crate::machine::{self, Events};
use crate::names::Protocol;
use crate::notes::{self, Notes};
use crate::ocsp::StatusQuestion;
use crate::peer::{ClientVerification, VerifyResult};
use crate::server::{Choice, Listener, Pairs, ServerSide};
use crate::verifier;
use aws_lc_rs::rand;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error};
use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

/// Largest plaintext of a record (RFC 8446 §5.1).
pub const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Most that a record is longer than its plaintext (head, nonce or content type, tag: 30 bytes), with room for a message about new
/// keys in front of it.
pub const RECORD_OVERHEAD_BYTES: usize = 64;
/// Most received bytes that are kept where the peer may show a chain of certificates: rustls takes handshake messages up to 64 KB, each
/// in records of up to 18 KB.
const HELD_BYTES_MAX: usize = 96 * 1024;
/// Most received bytes that are kept of other clients: a record of TLS 1.2 with its head (RFC 5246 §6.2.3).
const HELD_RECORD_BYTES_MAX: usize = 5 + RECORD_BYTES_MAX + 2048;
/// Most received bytes before the client's first message is complete: the longest one, with the heads of two hundred records.
const HELD_HELLO_BYTES_MAX: usize = hello::HELLO_BYTES_MAX + 1024;
/// Bytes of a session's id with OpenSSL.
const SESSION_ID_BYTES: usize = 32;
/// `protocol_version`, fatal, in a record that old clients read.
const PROTOCOL_VERSION: [u8; 7] = [21, 3, 1, 0, 2, 2, 70];
/// What rustls and the provider hold for a connection with an incomplete handshake, and for an open one. Tests measure both.
const HANDSHAKE_BYTES: usize = 3200;
const IDLE_BYTES: usize = 2800;
/// `unrecognized_name`, fatal, in a record of TLS 1.2: what nginx sends for `ssl_reject_handshake`.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// `internal_error`, fatal: what OpenSSL sends where a certificate cannot be loaded.
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Puts the alert into the output that OpenSSL sends for a first message that cannot be understood. What does not speak TLS gets none.
fn refuse_hello(error: TlsError, output: &mut Vec<u8>) -> TlsError {
    let alert = match &error {
        TlsError::NotHello => 10,                                  // unexpected_message
        TlsError::Handshake(Error::PeerSentOversizedRecord) => 22, // record_overflow
        TlsError::HelloTooLong => 47,                              // illegal_parameter
        TlsError::BadHello => 50,                                  // decode_error
        TlsError::WrongVersion => 70,                              // protocol_version
        _ => return error,
    };
    output.extend_from_slice(&[21, 3, 1, 0, 2, 2, alert]);
    error
}

/// How the peer's bytes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With `close_notify`: everything that the peer sent was received.
    Closed,
    /// Without: anything may be missing, and an attacker may have cut it.
    Truncated,
}

/// What [`Session::seal`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes of the plaintext that are encrypted.
    pub taken: usize,
    /// Bytes written to the buffer.
    pub written: usize,
}

enum Side {
    /// A server that has not been chosen: the client's first message is incomplete.
    Hello(Arc<dyn Listener>),
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

impl fmt::Debug for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hello(_) => "Hello",
            Self::Server(_) => "Server",
            Self::Client(_) => "Client",
        })
    }
}

/// Numbers that a client has offered, two bytes each.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) ciphers: Box<[u8]>,
    pub(crate) groups: Box<[u8]>,
    pub(crate) schemes: Box<[u8]>,
}

/// What only some connections have; behind a pointer, since most of them wait.
#[derive(Debug, Default)]
struct Extra {
    /// What the client offered, where a server keeps it.
    offered: Option<Offered>,
    /// The result of checking the client's certificate.
    verification: Option<ClientVerification>,
    /// Questions for OCSP responders about that certificate.
    questions: Option<Box<[StatusQuestion]>>,
    /// The name in SNI.
    server_name: Option<Box<str>>,
    /// The session's id, once it is known or was asked for.
    session_id: OnceCell<Box<[u8]>>,
    /// The listener's number for the certificate that has to be found.
    awaited: Option<u32>,
    /// The client speaks TLS 1.3.
    offers_tls13: bool,
    /// What rustls does not tell.
    notes: Notes,
}

/// One TLS connection.
#[derive(Debug)]
pub struct Session {
    side: Side,
    server: Option<Arc<ServerSide>>,
    /// Received bytes that are not a whole record or message yet.
    held: Vec<u8>,
    /// Bytes for the peer that have not been taken yet.
    output: Vec<u8>,
    extra: Option<Box<Extra>>,
    handshaking: bool,
    peer_closed: bool,
    sent_close: bool,
    failed: bool,
    early_data: bool,
    /// Early data is answered before the client's part of the handshake is complete.
    answers_early: bool,
}

impl Session {
    /// The server's side of a connection that was accepted.
    pub fn server(listener: Arc<dyn Listener>) -> Self {
        Self::new(Side::Hello(listener))
    }

    /// The client's side; its first message is ready to be taken. The name is the one in SNI and in the certificate.
    pub fn client(side: &ClientSide, name: &str) -> Result<Self, SetupError> {
        Self::asking(side.connect(name)?)
    }

    /// The client's side of a connection to one of several peers, which may have the same name: only sessions that this one gave are
    /// resumed. `peer` tells it from others; without a name nothing is sent in SNI.
    pub fn client_of_peer(side: &ClientSide, peer: &str, name: Option<&str>) -> Result<Self, SetupError> {
        Self::asking(side.connect_to(peer, name)?)
    }

    fn asking(connection: UnbufferedClientConnection) -> Result<Self, SetupError> {
        let mut session = Self::new(Side::Client(Box::new(connection)));
        session.process(&mut [], &mut |_| ()).map_err(|error| SetupError::Refused(error.to_string()))?;
        Ok(session)
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            server: None,
            held: Vec::new(),
            output: Vec::new(),
            extra: None,
            handshaking: true,
            peer_closed: false,
            sent_close: false,
            failed: false,
            early_data: false,
            answers_early: false,
        }
    }

    /// Whether the handshake is incomplete. No data can be sent before its end, unless early data is answered.
    pub fn is_handshaking(&self) -> bool {
        self.handshaking
    }

    /// Whether the peer's `close_notify` was received: the peer sends nothing more.
    pub fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// What the end of the peer's bytes means that the socket reports.
    pub fn end(&self) -> Result<End, TlsError> {
        match (self.peer_closed, self.handshaking) {
            (true, _) => Ok(End::Closed),
            (false, true) if self.is_unused() => Err(TlsError::ClosedUnused),
            (false, true) => Err(TlsError::ClosedInHandshake),
            (false, false) => Ok(End::Truncated),
        }
    }

    /// Whether a server's session has not received a byte.
    fn is_unused(&self) -> bool {
        matches!(self.side, Side::Hello(_)) && self.held.is_empty()
    }

    /// Takes the bytes out that wait for the rest of their record. With the next bytes behind them they go to [`Self::receive`]: so a
    /// read can be made directly behind them, and a large record is not copied together. If nothing came, [`Self::put_back`].
    #[must_use]
    pub fn take_held(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Puts back what [`Self::take_held`] has given.
    pub fn put_back(&mut self, held: Vec<u8>) {
        self.held = held;
    }

    /// Received bytes that wait for the rest of their record.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Takes bytes from the peer, which are decrypted where they are. Plaintext goes to the closure, record by record. What is
    /// not a whole record yet is kept. After an error, [`Self::take_output`] has the alert for the peer.
    pub fn receive(&mut self, incoming: &mut [u8], plain: &mut dyn FnMut(&[u8])) -> Result<(), TlsError> {
        if self.held.is_empty() {
            return self.receive_whole(incoming, plain);
        }
        let mut whole = self.take_held();
        whole.extend_from_slice(incoming);
        self.receive_whole(&mut whole, plain)
    }

    fn receive_whole(&mut self, incoming: &mut [u8], plain: &mut dyn FnMut(&[u8])) -> Result<(), TlsError> {
        let taken = match self.advance(incoming, plain) {
            Ok(taken) => taken,
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
        };
        let rest = incoming.get(taken..).unwrap_or_default();
        if rest.len() > self.held_bytes_max() {
            self.failed = true;
            return Err(TlsError::TooLong);
        }
        if !self.peer_closed {
            // An empty vector has no memory, so a connection without a partial record owns none.
            self.held = rest.to_vec();
        }
        Ok(())
    }

    /// Appends the bytes that the peer must be sent: parts of the handshake, tickets, alerts.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        if into.is_empty() {
            std::mem::swap(into, &mut self.output);
            self.output = Vec::new();
        } else {
            into.append(&mut self.output);
            self.output = Vec::new();
        }
    }

    /// Whether bytes for the peer wait to be taken.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Encrypts plaintext into a caller's buffer, in records of at most `record_bytes_max`. It takes what fits: a record needs
    /// [`RECORD_OVERHEAD_BYTES`] more than its plaintext. Output that waits must be taken and sent before.
    pub fn seal(&mut self, plaintext: &[u8], record_bytes_max: usize, into: &mut [u8]) -> Result<Sealed, TlsError> {
        let record_bytes_max = record_bytes_max.clamp(1, RECORD_BYTES_MAX);
        let mut records = Vec::new();
        let mut taken = 0;
        loop {
            let fits = into.len().saturating_sub(records.len() + RECORD_OVERHEAD_BYTES).min(record_bytes_max);
            let rest = plaintext.get(taken..).unwrap_or_default();
            let part = rest.get(..fits.min(rest.len())).unwrap_or_default();
            match self.append_sealed(part, record_bytes_max, &mut records)? {
                0 => break,
                count => taken += count,
            }
        }
        if let Some(place) = into.get_mut(..records.len()) {
            place.copy_from_slice(&records);
        }
        Ok(Sealed { taken, written: records.len() })
    }

    /// Encrypts plaintext, in records of at most `record_bytes_max`, and appends the records. Returns how many bytes it took: all, or less
    /// if output waits, which must be taken and sent before.
    pub fn append_sealed(
        &mut self,
        plaintext: &[u8],
        record_bytes_max: usize,
        records: &mut Vec<u8>,
    ) -> Result<usize, TlsError> {
        if !self.may_send() || self.failed || self.sent_close {
            return Err(TlsError::NotOpen);
        }
        let Self { side, held, output, .. } = self;
        let record_bytes_max = record_bytes_max.clamp(1, RECORD_BYTES_MAX);
        let what = (plaintext, record_bytes_max);
        match side {
            Side::Hello(_) => Err(TlsError::NotOpen),
            Side::Server(connection) => machine::seal(connection.as_mut(), held, output, what, records),
            Side::Client(connection) => machine::seal(connection.as_mut(), held, output, what, records),
        }
    }

    /// Puts `close_notify` into the output, once.
    pub fn close(&mut self) {
        if self.sent_close || self.failed || !self.may_send() {
            return;
        }
        self.sent_close = true;
        let Self { side, held, output, .. } = self;
        match side {
            Side::Hello(_) => {}
            Side::Server(connection) => machine::close(connection.as_mut(), held, output),
            Side::Client(connection) => machine::close(connection.as_mut(), held, output),
        }
    }

    /// The settings that were chosen by the client's first message.
    pub fn chosen(&self) -> Option<&Arc<ServerSide>> {
        self.server.as_ref()
    }

    /// Most plaintext for each record that is sent: what the server's settings say, or the protocol's limit.
    pub fn record_bytes_max(&self) -> usize {
        self.server.as_ref().map_or(RECORD_BYTES_MAX, |server| server.record_bytes_max())
    }

    /// User memory behind this session at this moment, for an account of memory: an estimate of what rustls holds, and the exact size
    /// of what is buffered.
    pub fn held_bytes(&self) -> usize {
        let machine = match (&self.side, self.handshaking) {
            (Side::Hello(_), _) => 0,
            (_, true) => HANDSHAKE_BYTES,
            (_, false) => IDLE_BYTES,
        };
        machine + self.held.capacity() + self.output.capacity()
    }

    pub(crate) fn common(&self) -> Option<&CommonState> {
        match &self.side {
            Side::Hello(_) => None,
            Side::Server(connection) => Some(connection),
            Side::Client(connection) => Some(connection),
        }
    }

    /// The name that the client asked for, as it sent it.
    pub fn server_name(&self) -> Option<&str> {
        self.extra.as_ref()?.server_name.as_deref()
    }

    /// The number from [`Choice::ServeLater`], while the handshake waits for [`Self::show`] or [`Self::refuse`]. Bytes that come
    /// meanwhile are kept.
    pub fn awaits_certificate(&self) -> Option<u32> {
        self.extra.as_ref()?.awaited
    }

    /// The certificates that the handshake has waited for. It goes on with the next call of [`Self::receive`], which may bring
    /// nothing new.
    pub fn show(&mut self, pairs: Pairs) -> Result<(), TlsError> {
        let Some(server) = self.server.clone() else { return Err(TlsError::NotOpen) };
        let extra = self.extra();
        extra.awaited = None;
        let offers_tls13 = extra.offers_tls13;
        self.side = Side::Server(Box::new(server.accept_with(pairs, offers_tls13).map_err(TlsError::Handshake)?));
        Ok(())
    }

    /// The certificates cannot be had: the output has an alert, and nothing else will follow.
    pub fn refuse(&mut self) {
        self.failed = true;
        self.output.extend_from_slice(&INTERNAL_ERROR);
    }

    /// Whether what was received came before the handshake was complete: it may be a copy of what a client sent before (RFC 8446 §8).
    /// A complete handshake proves that the client is there, and nothing is early data any more. `transport` keeps such data back
    /// until then, unless its owner answers it.
    pub fn is_early_data(&self) -> bool {
        self.early_data && self.handshaking
    }

    /// Whether the client's early data was taken.
    pub fn took_early_data(&self) -> bool {
        self.early_data
    }

    /// From now on data can be sent although the client's part of the handshake is missing (RFC 8446 §2.3). `false`: there is no early
    /// data, or the client has to be verified first.
    pub fn answer_early_data(&mut self) -> bool {
        let verifies = self.server.as_ref().is_none_or(|server| server.client_check().is_some());
        self.answers_early |= self.is_early_data() && !verifies;
        self.answers_early
    }

    /// Whether data can be sent, as far as the handshake is concerned.
    pub fn may_send(&self) -> bool {
        !self.handshaking || self.answers_early
    }

    /// The result of checking the client's certificate; `None` if none was requested.
    pub fn client_verification(&self) -> Option<&ClientVerification> {
        self.extra.as_ref()?.verification.as_ref()
    }

    /// Questions for OCSP responders about the client's certificate, which is otherwise valid. The owner asks once, before it serves a
    /// request.
    #[must_use]
    pub fn take_status_questions(&mut self) -> Box<[StatusQuestion]> {
        self.extra.as_mut().and_then(|extra| extra.questions.take()).unwrap_or_default()
    }

    /// Records that a responder does not confirm the client's certificate; the reason is in nginx's words.
    pub fn doubt_client(&mut self, reason: &'static str) {
        self.extra().verification = Some(ClientVerification { result: VerifyResult::NoGoodStanding(reason) });
    }

    /// What the client offered, where [`crate::ServerSideBuilder::keep_offers`] said so.
    pub(crate) fn offered(&self) -> Option<&Offered> {
        self.extra.as_ref()?.offered.as_ref()
    }

    /// What rustls does not tell about a server's handshake.
    pub(crate) fn notes(&self) -> Notes {
        self.extra.as_ref().map(|extra| extra.notes).unwrap_or_default()
    }

    /// The session's id (`$ssl_session_id`). With TLS 1.2 the server says it: none for a new session with a ticket. TLS 1.3 has
    /// none on the wire: as with OpenSSL it is 32 random bytes, others for each connection, resumed or not.
    pub fn session_id(&self) -> Option<&[u8]> {
        let id = &self.extra.as_ref()?.session_id;
        if self.protocol() == Some(Protocol::Tls13) && id.get().is_none() {
            let mut random = [0; SESSION_ID_BYTES];
            rand::fill(&mut random).ok()?;
            let _ = id.set(random.into());
        }
        id.get().map(|id| &**id)
    }

    /// A client that opens ten thousand connections with incomplete data can make each hold at most one record.
    fn held_bytes_max(&self) -> usize {
        let asks = self.server.as_ref().is_some_and(|server| server.client_check().is_some());
        match &self.side {
            Side::Client(_) => HELD_BYTES_MAX,
            // One read may have brought more than the first message.
            Side::Hello(_) if self.awaits_certificate().is_some() => HELD_BYTES_MAX,
            Side::Server(_) if self.handshaking && asks => HELD_BYTES_MAX,
            Side::Hello(_) | Side::Server(_) => HELD_RECORD_BYTES_MAX,
        }
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Feeds rustls, once a server is chosen. Gives the number of bytes that are done with.
    fn advance(&mut self, incoming: &mut [u8], plain: &mut dyn FnMut(&[u8])) -> Result<usize, TlsError> {
        if self.failed {
            return Err(TlsError::NotOpen);
        }
        if let Side::Hello(listener) = &self.side {
            if self.awaits_certificate().is_some() {
                return Ok(0);
            }
            let body = match hello::find(incoming) {
                Ok(Found::Whole(body)) => body,
                Ok(_) if incoming.len() <= HELD_HELLO_BYTES_MAX => return Ok(0),
                Ok(_) => return Err(refuse_hello(TlsError::HelloTooLong, &mut self.output)),
                Err(error) => return Err(refuse_hello(error, &mut self.output)),
            };
            let hello = hello::parse(&body).map_err(|error| refuse_hello(error, &mut self.output))?;
            if hello.is_before_tls12() {
                self.output.extend_from_slice(&PROTOCOL_VERSION);
                return Err(TlsError::OldProtocol);
            }
            let choice = listener.choose(&hello);
            // A refusal is logged with the name, too.
            if let Some(name) = hello.server_name {
                self.extra().server_name = Some(name.into());
            }
            match choice {
                Choice::Refuse => {
                    self.output.extend_from_slice(&UNRECOGNIZED_NAME);
                    return Err(TlsError::NameRefused);
                }
                Choice::Serve(server) => {
                    self.side =
                        Side::Server(Box::new(server.accept(hello.offers_tls13()).map_err(TlsError::Handshake)?));
                    self.note_choice(server, &hello);
                }
                Choice::ServeLater(server, number) => {
                    self.note_choice(server, &hello);
                    self.extra().awaited = Some(number);
                    return Ok(0);
                }
            }
        }
        self.process(incoming, plain)
    }

    fn note_choice(&mut self, server: Arc<ServerSide>, hello: &hello::ClientHello<'_>) {
        // Every server's session has a place for its id.
        let extra = self.extra();
        extra.offers_tls13 = hello.offers_tls13();
        if server.keeps_offers() {
            let [ciphers, groups, schemes] =
                [hello.ciphers, hello.groups, hello.schemes].map(|offer| offer.as_bytes().into());
            extra.offered = Some(Offered { ciphers, groups, schemes });
        }
        self.server = Some(server);
    }

    fn process(&mut self, incoming: &mut [u8], plain: &mut dyn FnMut(&[u8])) -> Result<usize, TlsError> {
        if self.handshaking {
            notes::begin(self.notes());
        }
        let mut events = Events { output: &mut self.output, plain, early_data: false, peer_closed: false };
        let result = match &mut self.side {
            Side::Hello(_) => return Ok(0),
            Side::Server(connection) => machine::feed(connection.as_mut(), incoming, &mut events),
            Side::Client(connection) => machine::feed(connection.as_mut(), incoming, &mut events),
        };
        let Events { early_data, peer_closed, .. } = events;
        self.early_data |= early_data;
        self.peer_closed |= peer_closed;
        match result {
            Ok(taken) => {
                self.note_progress();
                Ok(taken)
            }
            Err(error) if self.handshaking => Err(TlsError::Handshake(verifier::with_reason(error))),
            Err(error) => Err(TlsError::Broken(error)),
        }
    }

    /// Sees whether the handshake has come to its end, and looks at what it has brought.
    fn note_progress(&mut self) {
        if !self.handshaking {
            return;
        }
        if let Some(extra) = &mut self.extra {
            extra.notes = notes::take();
        }
        let Some(common) = self.common() else { return };
        if common.is_handshaking() {
            return self.note_session_id();
        }
        let check = self.server.as_ref().and_then(|server| server.client_check());
        let verification = check.map(|check| check.verify(common.peer_certificates().unwrap_or_default()));
        self.handshaking = false;
        if let Some((result, questions)) = verification {
            let extra = self.extra();
            extra.verification = Some(ClientVerification { result });
            extra.questions = (!questions.is_empty()).then(|| questions.into());
        }
    }

    /// Reads the session id from a `ServerHello` of TLS 1.2 that waits to be sent: rustls does not tell it.
    fn note_session_id(&mut self) {
        const SERVER_HELLO: u8 = 2;
        let Side::Server(connection) = &self.side else { return };
        if connection.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_2) {
            return;
        }
        // Record head, message head, version, random; then the id with its length.
        let Some(([22, 3, _, _, _, SERVER_HELLO, ..], rest)) = self.output.split_at_checked(5 + 4 + 2 + 32) else {
            return;
        };
        let id = rest.split_first().and_then(|(length, rest)| rest.get(..usize::from(*length)));
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            let id = id.into();
            let _ = self.extra().session_id.set(id);
        }
    }
}
