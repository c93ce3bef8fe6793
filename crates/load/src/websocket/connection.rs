//! The state of one connection. An idle one costs this struct, a slot of the reactor and a timer.

use super::ending::Ending;
use super::events::EventStream;
use super::one_stream::OneStream;
use super::setup::WebSocketSetup;
use reactor::TaskId;
use transport::Transport;
use websocket::handshake::Key;
use websocket::{Decoder, Sender};

/// Longest message that is accepted; servers that send longer ones are not measured here.
const RECEIVED_BYTES_MAX: usize = 16 << 20;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not begun, or in the pause before the next attempt.
    Waiting,
    /// TCP is being established.
    Connecting,
    /// The TLS handshake is in progress.
    Securing,
    /// The WebSocket handshake was sent.
    Opening,
    Open,
    /// A close frame was sent; the other side's close frame or FIN is awaited.
    Closing,
    /// Closed, without another attempt.
    Gone,
}

/// The state of a WebSocket handshake until the 101.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) key: Key,
    /// The received part of the response.
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct WebSocketConnection {
    pub(super) stream: Option<Transport>,
    pub(super) task: TaskId,
    /// When it was due to be opened. Once open, when its next ping is due; in a pause, when the next attempt is due.
    pub(super) due_ns: u64,
    /// When its last ping was due. During the handshake, when the handshake began.
    pub(super) pinged_ns: u64,
    pub(super) handshake: Option<Box<Handshake>>,
    pub(super) decoder: Decoder,
    /// In a load of events: what it receives, and what it sends when it is opened again.
    pub(super) events: Option<Box<EventStream>>,
    /// In a load of events over HTTP/2: the stream.
    pub(super) one_stream: Option<Box<OneStream>>,
    /// Bytes that the socket has not taken.
    pub(super) unsent: Vec<u8>,
    pub(super) room: u32,
    /// The number of messages sent to its room before it was opened; only later ones are expected.
    pub(super) joined: u32,
    /// Number of expected messages received.
    pub(super) received: u32,
    /// Number of messages it has sent itself.
    pub(super) spoken: u32,
    pub(super) phase: Phase,
    /// How it will end, once that is known.
    pub(super) ending: Option<Ending>,
    /// Failed attempts in a row.
    pub(super) failures: u8,
    /// Whether it never reads.
    pub(super) stalled: bool,
    /// Whether the pong to its last ping is still missing.
    pub(super) awaits_pong: bool,
    /// Whether the next ping was put off because unread bytes may be the missing pong.
    pub(super) put_off: bool,
}

impl WebSocketConnection {
    pub(super) fn new(task: TaskId, room: u32, stalled: bool) -> Self {
        Self {
            stream: None,
            task,
            due_ns: 0,
            pinged_ns: 0,
            handshake: None,
            decoder: new_decoder(),
            events: None,
            one_stream: None,
            unsent: Vec::new(),
            room,
            joined: 0,
            received: 0,
            spoken: 0,
            phase: Phase::Waiting,
            ending: None,
            failures: 0,
            stalled,
            awaits_pong: false,
            put_off: false,
        }
    }

    /// Number of messages sent to its room, or by itself without rooms.
    pub(super) fn sent_here(&self, setup: &WebSocketSetup) -> u32 {
        setup.sent(self.room).unwrap_or(self.spoken)
    }

    /// Number of messages that it should have received by now.
    pub(super) fn expected(&self, setup: &WebSocketSetup) -> u32 {
        self.sent_here(setup).wrapping_sub(self.joined)
    }

    /// Whether it can send a message.
    pub(super) fn can_speak(&self) -> bool {
        self.phase == Phase::Open && !self.stalled && self.unsent.is_empty()
    }
}

pub(super) fn new_decoder() -> Decoder {
    Decoder::new(Sender::Server, RECEIVED_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rest of the kilobyte is for the reactor's slot and timer (under 80 bytes), the allocator, and tables with room
    /// for twice as many.
    #[test]
    fn a_connection_is_a_quarter_of_its_budget() {
        assert!(size_of::<WebSocketConnection>() <= 304, "{}", size_of::<WebSocketConnection>());
    }
}
