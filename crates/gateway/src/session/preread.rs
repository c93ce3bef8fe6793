//! What a session reads before it chooses a peer: the PROXY protocol header, and the first TLS message.

use crate::base::close::CloseReason;
use crate::base::logs::error::Level;
use crate::connector::Caller as _;
use crate::plan::stream::PrereadPlan;
use crate::session::client::SessionClient;
use crate::session::{RefusedSession, StreamSession};
use proxyproto::{HEADER_BYTES_MAX, Parse};
use reactor::{Interest, Millis, Read, Woken};
use rules::captures::Captures;
use std::rc::Rc;
use std::time::Duration;
use tls::{Prereading, preread};

/// Bytes of an invalid header that the log shows: the longest line of version 1.
const SHOWN_BYTES_MAX: usize = 107;

impl StreamSession {
    /// Reads the header; the bytes after it stay pending.
    pub(super) async fn read_proxy_header(&mut self) -> Result<(), RefusedSession> {
        let timeout = self.plan().proxy_protocol_timeout;
        let began = self.thread.reactor.now();
        loop {
            match proxyproto::parse(&self.pending) {
                Ok(Parse::Complete { len, header }) => {
                    self.pending.drain(..len);
                    self.header = Some(Box::new(header));
                    return Ok(());
                }
                Ok(Parse::Partial) => {}
                Err(error) => {
                    let shown = self.pending[..self.pending.len().min(SHOWN_BYTES_MAX)].escape_ascii();
                    let message = format!("broken header: \"{shown}\" while reading PROXY protocol: {error}");
                    self.log(Level::Error, &message);
                    return Err(RefusedSession { status: 400, reason: CloseReason::BadRequest });
                }
            }
            match self.read_more(HEADER_BYTES_MAX, began, timeout).await {
                More::Came => {}
                More::Ended => return Err(RefusedSession { status: 400, reason: CloseReason::ClientAborted }),
                More::TimedOut => {
                    let message = "client timed out (110: Connection timed out) while reading PROXY protocol";
                    self.log(Level::Info, message);
                    return Err(RefusedSession { status: 200, reason: CloseReason::HeadTimeout });
                }
            }
        }
    }

    /// `ssl_preread`: reads the first TLS message, which stays pending, and chooses the server by its name. Other bytes
    /// are passed on unread.
    pub(super) async fn read_hello(&mut self, plan: PrereadPlan) -> Result<(), RefusedSession> {
        let began = self.thread.reactor.now();
        loop {
            match preread(&self.pending) {
                Prereading::Hello(hello) => {
                    let name = hello.server_name.clone();
                    self.hello = Some(Box::new(hello));
                    return name.map_or(Ok(()), |name| self.choose_server(&name));
                }
                Prereading::Other => return Ok(()),
                Prereading::Partial => {}
            }
            let Some(room) = plan.bytes_max.checked_sub(self.pending.len()).filter(|room| *room > 0) else {
                self.log(Level::Error, "preread buffer full while prereading client data");
                return Err(RefusedSession { status: 400, reason: CloseReason::BadRequest });
            };
            match self.read_more(room, began, plan.timeout).await {
                More::Came => {}
                More::Ended => return Err(RefusedSession { status: 200, reason: CloseReason::ClientClosed }),
                More::TimedOut => {
                    self.log(Level::Info, "client timed out (110: Connection timed out) while prereading client data");
                    return Err(RefusedSession { status: 200, reason: CloseReason::HeadTimeout });
                }
            }
        }
    }

    /// Chooses the server by the name in TLS; the address's default server if none has the name.
    pub(super) fn choose_server(&mut self, name: &str) -> Result<(), RefusedSession> {
        let name = name.to_ascii_lowercase();
        let generation = Rc::clone(&self.generation);
        let Some(listener) = generation.listener(self.listener) else { return Ok(()) };
        let mut captures = Captures::default();
        match listener.names.lookup(name.as_bytes(), &mut captures) {
            Ok(matched) => {
                self.server = matched.server;
                if let Some(pattern) = matched.pattern {
                    self.slots.store_groups(pattern, &captures);
                    self.captures.replace(captures);
                }
                Ok(())
            }
            Err(error) => {
                self.log(Level::Error, &error.message);
                Err(RefusedSession::INTERNAL)
            }
        }
    }

    /// Reads at most `room` bytes, or waits for some. The timeout is a total.
    async fn read_more(&mut self, room: usize, began: Millis, timeout: Duration) -> More {
        loop {
            let Self { connection, pending, .. } = self;
            let SessionClient::Stream(stream) = connection else { return More::Ended };
            match stream.read_with(room, |bytes| pending.extend_from_slice(bytes)) {
                Ok(Read::Data(())) => return More::Came,
                Ok(Read::NotReady) => {}
                Ok(Read::Closed) | Err(_) => return More::Ended,
            }
            let waited = Duration::from_millis(self.thread.reactor.now().since(began));
            let left = timeout.saturating_sub(waited);
            if left.is_zero() {
                return More::TimedOut;
            }
            let stream = self.connection.stream().map(|stream| (stream, Interest::READ));
            match self.wait_for(stream, left).await {
                Woken::Ready => {}
                Woken::PeerGone => return More::Ended,
                Woken::Deadline => return More::TimedOut,
            }
        }
    }
}

/// The result of waiting for more bytes of a client.
enum More {
    Came,
    Ended,
    TimedOut,
}
