//! The state of one connection: what an idle one costs is this struct, a slot of the reactor and a timer.

use super::ending::Ending;
use super::setup::Setup;
use reactor::TaskId;
use transport::Transport;
use websocket::handshake::Key;
use websocket::{Decoder, Sender};

/// Longest message that is taken; a server that sends longer ones is not what is measured here.
const RECEIVED_BYTES_MAX: usize = 16 << 20;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not begun, or in the pause before it begins again.
    Waiting,
    /// TCP.
    Connecting,
    /// TLS.
    Securing,
    /// The handshake was sent.
    Opening,
    Open,
    /// A close frame was sent; the other side's, or its FIN, is waited for.
    Closing,
    /// Over, and not begun again.
    Gone,
}

/// What is needed until the 101 has come.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) key: Key,
    /// What has come of the answer.
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Option<Transport>,
    pub(super) task: TaskId,
    /// When it was to be opened; once open, when its next ping is due.
    pub(super) due_ns: u64,
    /// When its last ping was due.
    pub(super) pinged_ns: u64,
    pub(super) handshake: Option<Box<Handshake>>,
    pub(super) decoder: Decoder,
    /// What the socket has not taken.
    pub(super) unsent: Vec<u8>,
    pub(super) room: u32,
    /// Messages that its room had been sent when it was opened: the later ones are expected.
    pub(super) joined: u32,
    /// Of those.
    pub(super) received: u32,
    /// Messages that it has sent itself.
    pub(super) spoken: u32,
    pub(super) phase: Phase,
    /// What it ends by, once that is known.
    pub(super) ending: Option<Ending>,
    /// Failures in a row.
    pub(super) failures: u8,
    /// It never reads.
    pub(super) stalled: bool,
    /// A ping was sent and its pong has not come.
    pub(super) awaits_pong: bool,
    /// The next ping was due, and bytes were there that could be that pong.
    pub(super) put_off: bool,
}

impl Connection {
    pub(super) fn new(task: TaskId, room: u32, stalled: bool) -> Self {
        Self {
            stream: None,
            task,
            due_ns: 0,
            pinged_ns: 0,
            handshake: None,
            decoder: new_decoder(),
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

    /// Messages that were sent to where it is.
    pub(super) fn sent_here(&self, setup: &Setup) -> u32 {
        setup.sent(self.room).unwrap_or(self.spoken)
    }

    /// Messages that it should have received by now.
    pub(super) fn expected(&self, setup: &Setup) -> u32 {
        self.sent_here(setup).wrapping_sub(self.joined)
    }

    /// Whether it can say something.
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

    /// The rest of the kilobyte is the reactor's slot and timer (under 80 bytes), the allocator's, and tables that have room
    /// for twice as many.
    #[test]
    fn a_connection_is_a_quarter_of_its_budget() {
        assert!(size_of::<Connection>() <= 304, "{}", size_of::<Connection>());
    }
}
