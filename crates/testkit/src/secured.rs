//! TLS of a conversation: the session, and the bytes that go over the socket for it.

use crate::DEADLINE;
use crate::talk::End;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;
use tls::{RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES, Session, TlsError};

/// TLS of a conversation.
#[derive(Debug)]
pub(crate) struct Secured {
    session: Session,
    /// The rest of a record that was sent in part.
    unsent: Vec<u8>,
}

impl Secured {
    pub(crate) fn new(session: Session) -> Self {
        Self { session, unsent: Vec::new() }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Shakes hands; `received` was read already. Data behind the handshake goes to `plain`.
    pub(crate) fn shake_hands(
        &mut self,
        mut stream: &TcpStream,
        mut received: Vec<u8>,
        plain: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let begun = Instant::now();
        let mut buffer = [0; 16 * 1024];
        loop {
            let outcome = self.session.receive(&mut received, &mut |part| plain.extend_from_slice(part));
            let _ = stream.write_all(&self.output());
            outcome?;
            if !self.session.is_handshaking() {
                return Ok(());
            }
            received = match stream.read(&mut buffer) {
                Ok(0) => return Err(TlsError::ClosedInHandshake),
                Ok(count) => buffer[..count].to_vec(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Vec::new(),
                Err(_) => return Err(TlsError::ClosedInHandshake),
            };
            assert!(begun.elapsed() < DEADLINE, "no handshake in {DEADLINE:?}");
        }
    }

    fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        self.session.take_output(&mut output);
        output
    }

    /// The records of these bytes.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut sealed = std::mem::take(&mut self.unsent);
        sealed.append(&mut self.output());
        let mut taken = 0;
        while taken < plain.len() {
            let at = sealed.len();
            sealed.resize(at + RECORD_BYTES_MAX + RECORD_OVERHEAD_BYTES, 0);
            // A connection that is over takes nothing, as a broken socket takes nothing.
            let done = self.session.seal(&plain[taken..], RECORD_BYTES_MAX, &mut sealed[at..]).ok();
            sealed.truncate(at + done.map_or(0, |done| done.written));
            match done {
                Some(done) if done.taken > 0 => taken += done.taken,
                _ => break,
            }
        }
        sealed
    }

    /// The rest of what was sealed goes in front of the next words.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        self.unsent = rest.to_vec();
    }

    /// Decrypts received bytes; `false`: TLS does not allow them.
    pub(crate) fn open(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> bool {
        self.session.receive(bytes, &mut |part| plain.extend_from_slice(part)).is_ok()
    }

    /// What the end of the socket means: without `close_notify` anything may be missing.
    pub(crate) fn end(&self) -> End {
        if self.session.is_peer_closed() { End::Fin } else { End::Reset }
    }

    /// `close_notify`
    pub(crate) fn close(&mut self) -> Vec<u8> {
        self.session.close();
        self.output()
    }
}
