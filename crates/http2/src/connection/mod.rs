//! One connection, of either role: its state, and simple queries. `receive` reads, `heads` handles header blocks,
//! `control` the other frames, `send` writes, `end` closes.
//!
//! It has no queue of bytes: each method that sends something appends it to the caller's buffer. The caller bounds that
//! buffer by not calling `receive` while too much waits there; one call of `receive` appends less than twice what it
//! reads.

mod control;
mod end;
mod heads;
mod receive;
mod send;

pub use heads::Fields;
pub use send::{OpenFault, RequestLine, SendFault};

use crate::abuse::{Budgets, Cost};
use crate::event::{Event, ResetBy, StreamId};
use crate::frame::{self, PREFACE};
use crate::hpack::{Decoder, Encoder};
use crate::priority::Priority;
use crate::reason::Reason;
use crate::settings::{Config, PeerSettings, Role, WINDOW_DEFAULT};
use crate::streams::{Over, Stream, Streams};
use end::Going;
use heads::Block;
use receive::Reading;

/// One HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: Config,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Encoder,
    streams: Streams,
    budgets: Budgets,
    reading: Reading,
    /// An incomplete frame; otherwise empty, without memory.
    partial: Vec<u8>,
    /// A header block that CONTINUATION frames continue.
    block: Option<Box<Block>>,
    /// Bytes that we may send.
    send_window: i32,
    /// Bytes that the peer may send.
    receive_window: i32,
    /// Consumed bytes that were not reported to the peer yet.
    credit: u32,
    /// The highest stream that was opened.
    last_opened: u32,
    /// The stream whose turn it is to send.
    chosen: u32,
    /// We have reset a stream: the peer may send more on it for a while.
    has_reset: bool,
    /// When our settings must be acknowledged; `None` afterwards.
    settings_deadline_ms: Option<u64>,
    going: Going,
    /// The last stream that the peer will process, after its GOAWAY.
    peer_last: Option<u32>,
    /// Streams above this number must be reported as unprocessed.
    sweep_above: Option<u32>,
}

impl Connection {
    /// A connection from which nothing was read yet. Its first frames are appended to `out`.
    pub fn new(role: Role, config: Config, now_ms: u64, out: &mut Vec<u8>) -> Self {
        let config = config.bounded();
        if role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        config.encode(role, out);
        if config.connection_window > WINDOW_DEFAULT {
            frame::encode_window_update(0, config.connection_window - WINDOW_DEFAULT, out);
        }
        Self {
            config,
            encoder: Encoder::new(config.encoder_table_bytes),
            reading: if role == Role::Server { Reading::Preface(0) } else { Reading::FirstFrame },
            receive_window: config.connection_window as i32,
            settings_deadline_ms: Some(now_ms.saturating_add(u64::from(config.settings_timeout_ms))),
            ..Self::over(role)
        }
    }

    /// A connection that is over, without memory behind it: what is left where one was taken out.
    pub fn over(role: Role) -> Self {
        Self {
            role,
            config: Config::default(),
            peer: PeerSettings::default(),
            decoder: Decoder::default(),
            encoder: Encoder::new(0),
            streams: Streams::default(),
            budgets: Budgets::default(),
            reading: Reading::Closed,
            partial: Vec::new(),
            block: None,
            send_window: WINDOW_DEFAULT as i32,
            receive_window: 0,
            credit: 0,
            last_opened: 0,
            chosen: 0,
            has_reset: false,
            settings_deadline_ms: None,
            going: Going::No,
            peer_last: None,
            sweep_above: None,
        }
    }

    /// The settings that the peer has announced.
    pub fn peer_settings(&self) -> PeerSettings {
        self.peer
    }

    /// Whether the peer has announced its settings.
    pub fn knows_peer(&self) -> bool {
        !matches!(self.reading, Reading::Preface(_) | Reading::FirstFrame)
    }

    /// Number of open streams.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the stream is open.
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.streams.find(stream.0).is_some()
    }

    /// The caller's token for a stream; 0 before it set one, `None` if the stream is over.
    pub fn token(&self, stream: StreamId) -> Option<u32> {
        self.streams.look(stream.0).map(|stream| stream.token)
    }

    /// Sets the caller's token for a stream.
    pub fn set_token(&mut self, stream: StreamId, token: u32) {
        if let Some(stream) = self.streams.get(stream.0) {
            stream.token = token;
        }
    }

    /// The priority of a stream.
    pub fn priority(&self, stream: StreamId) -> Option<Priority> {
        self.streams.look(stream.0).map(|stream| stream.priority)
    }

    /// Sets the priority of a stream, for example after a `priority` field of the response (RFC 9218 §8).
    pub fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        self.streams.set_priority(stream.0, priority);
    }

    /// Whether a frame or a header block is incomplete. The peer should send the rest soon.
    pub fn is_reading(&self) -> bool {
        !self.partial.is_empty() || self.block.is_some() || matches!(self.reading, Reading::Preface(_))
    }

    /// Bytes of memory that it holds, without its own size.
    pub fn held_bytes(&self) -> usize {
        self.partial.capacity()
            + self.block.as_ref().map_or(0, |block| block.held_bytes())
            + self.decoder.held_bytes()
            + self.encoder.held_bytes()
            + self.streams.held_bytes()
    }

    /// Frees memory that a connection without streams does not need. Cheap enough to call whenever the last stream has
    /// ended.
    pub fn trim(&mut self) {
        if self.streams.len() == 0 {
            self.encoder.forget();
            self.streams.trim();
        }
    }

    /// Whether a stream with this number was never opened.
    fn is_idle(&self, stream: u32) -> bool {
        stream & 1 == 0 || stream > self.last_opened
    }

    /// Resets a stream for a fault of the peer.
    fn reset_for(
        &mut self,
        stream: u32,
        reason: Reason,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'static>, Reason> {
        self.budgets.charge(Cost::Provoked, now_ms)?;
        frame::encode_reset(stream, reason.code(), out);
        self.has_reset = true;
        self.remove(stream, Over::ByUs, out);
        Ok(Event::Reset { stream: StreamId(stream), by: ResetBy::Us(reason) })
    }

    /// Removes a stream. Its unconsumed bytes are returned to the connection's window.
    fn remove(&mut self, id: u32, over: Over, out: &mut Vec<u8>) -> Option<Stream> {
        if self.chosen == id {
            self.chosen = 0;
        }
        let Some(stream) = self.streams.remove(id, over) else {
            // It was refused before it was opened.
            self.streams.remember(id, over);
            return None;
        };
        self.credit_connection(stream.unconsumed, out);
        Some(stream)
    }
}
