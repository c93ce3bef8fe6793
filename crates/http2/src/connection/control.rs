//! Frames without message content: settings, windows, resets, pings, priorities, GOAWAY. And our own window updates.

use super::Connection;
use crate::abuse::Cost;
use crate::code::ErrorCode;
use crate::event::{Event, ResetBy, StreamId};
use crate::frame::{self, Header, flag, kind, number_31, number_32};
use crate::head::Head;
use crate::priority::Priority;
use crate::reason::Reason;
use crate::settings::{Role, WINDOW_DEFAULT, WINDOW_MAX};
use crate::streams::{Over, Phase, Waiting};

/// Number of priority updates that one new stream refills.
const UPDATES_PER_STREAM: u16 = 4;

impl Connection {
    /// Processes a complete frame other than DATA; its header was checked.
    pub(super) fn take_frame(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        head: &mut Head,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        match header.kind {
            kind::HEADERS => self.take_headers(header, payload, now_ms, head, out),
            kind::CONTINUATION => self.take_continuation(header, payload, now_ms, head, out),
            kind::SETTINGS => self.take_settings(header, payload, now_ms, out),
            kind::WINDOW_UPDATE => self.take_window_update(header, payload, now_ms, out),
            kind::RST_STREAM => self.take_reset(header, payload, now_ms, out),
            kind::PING => self.take_ping(header, payload, now_ms, out),
            kind::GOAWAY => Ok(Some(self.take_goaway(payload))),
            kind::PRIORITY => self.take_priority(header, payload, now_ms, out),
            _ => self.take_priority_update(payload, now_ms),
        }
    }

    fn take_settings(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        if header.has(flag::ACK) {
            if self.settings_deadline_ms.take().is_none() {
                return Err(Reason::SettingsAck);
            }
            self.decoder.set_size_max(self.config.decoder_table_bytes);
            self.take_back_default_windows(out);
            return Ok(Some(Event::SettingsAcked));
        }
        self.budgets.charge(Cost::Settings, now_ms)?;
        let window_before = self.peer.stream_window as i32;
        self.peer.take(payload, self.role)?;
        self.encoder.set_peer_max(self.peer.table_bytes_max);
        self.change_windows(self.peer.stream_window as i32 - window_before)?;
        frame::encode(kind::SETTINGS, flag::ACK, 0, &[], out);
        self.reading = super::receive::Reading::Frame;
        Ok(Some(Event::PeerSettings))
    }

    /// The window of a stream that is opened now. A peer that has not seen our settings may use the default (RFC 9113 §6.9.2).
    pub(super) fn initial_window(&self) -> u32 {
        if self.settings_deadline_ms.is_some() {
            self.config.stream_window.max(WINDOW_DEFAULT)
        } else {
            self.config.stream_window
        }
    }

    /// The peer has seen our settings: streams that are older than that get the window that we have asked for. It may be below 0.
    fn take_back_default_windows(&mut self, out: &mut Vec<u8>) {
        let excess = WINDOW_DEFAULT.saturating_sub(self.config.stream_window);
        if excess == 0 {
            return;
        }
        for stream in self.streams.iter_mut() {
            stream.receive_window -= excess as i32;
            stream.window_target = stream.window_target.saturating_sub(excess);
        }
        let ids: Vec<u32> = self.streams.ids().collect();
        for id in ids {
            // Half of the window is less now, and the peer may wait for what was consumed.
            self.credit_stream(id, 0, out);
            self.reset_if_stuck(id, out);
        }
    }

    /// Applies a changed initial window to the windows of all streams (RFC 9113 §6.9.2).
    fn change_windows(&mut self, change: i32) -> Result<(), Reason> {
        if change == 0 {
            return Ok(());
        }
        for stream in self.streams.iter_mut() {
            stream.send_window = stream.send_window.checked_add(change).ok_or(Reason::SettingsWindow)?;
        }
        if change > 0 {
            let is_free = |connection: &Self, id| {
                connection
                    .streams
                    .look(id)
                    .is_some_and(|stream| stream.waiting == Waiting::Window && stream.send_window > 0)
            };
            let free: Vec<u32> = self.streams.ids().filter(|&id| is_free(self, id)).collect();
            for id in free {
                self.streams.queue(id, false);
            }
        }
        Ok(())
    }

    fn take_window_update(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        if payload.len() != 4 {
            return Err(Reason::FrameLength);
        }
        self.budgets.charge(Cost::WindowUpdate, now_ms)?;
        let increment = number_31(payload, 0);
        if header.stream == 0 {
            if increment == 0 {
                return Err(Reason::WindowZero);
            }
            self.send_window = self.send_window.checked_add(increment as i32).ok_or(Reason::WindowOverflow)?;
            return Ok(None);
        }
        if self.is_idle(header.stream) {
            return Err(Reason::StreamIdle);
        }
        let Some(stream) = self.streams.get(header.stream) else { return Ok(None) };
        if increment == 0 {
            return self.reset_for(header.stream, Reason::WindowZero, now_ms, out).map(Some);
        }
        let Some(window) = stream.send_window.checked_add(increment as i32) else {
            return self.reset_for(header.stream, Reason::WindowOverflow, now_ms, out).map(Some);
        };
        stream.send_window = window;
        if stream.waiting == Waiting::Window && window > 0 {
            self.streams.queue(header.stream, false);
        }
        Ok(None)
    }

    fn take_reset(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        if self.is_idle(header.stream) {
            return Err(Reason::StreamIdle);
        }
        let Some(stream) = self.streams.look(header.stream) else {
            self.budgets.charge(Cost::Stray, now_ms)?;
            self.streams.set_over_by_peer(header.stream);
            return Ok(None);
        };
        if self.role == Role::Server && stream.sends != Phase::Ended {
            self.budgets.charge(Cost::Reset, now_ms)?;
        }
        self.remove(header.stream, Over::ByPeer, out);
        let by = ResetBy::Peer(ErrorCode(number_32(payload, 0)));
        Ok(Some(Event::Reset { stream: StreamId(header.stream), by }))
    }

    fn take_ping(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        self.budgets.charge(Cost::Ping, now_ms)?;
        let payload = *payload.first_chunk().ok_or(Reason::FrameLength)?;
        if header.has(flag::ACK) {
            return Ok(if self.take_pong(payload, out) { None } else { Some(Event::Pong(payload)) });
        }
        frame::encode_ping(flag::ACK, payload, out);
        Ok(None)
    }

    fn take_goaway(&mut self, payload: &[u8]) -> Event<'static> {
        // The number never grows, even if the peer says so.
        let last = number_31(payload, 0).min(self.peer_last.unwrap_or(u32::MAX));
        self.peer_last = Some(last);
        if self.role == Role::Client {
            self.sweep_above = Some(last);
        }
        Event::GoAway { last: StreamId(last), code: ErrorCode(number_32(payload, 4)) }
    }

    /// The next stream that the peer will not process.
    pub(super) fn next_unprocessed(&mut self, out: &mut Vec<u8>) -> Option<Event<'static>> {
        let above = self.sweep_above?;
        let Some(id) = self.streams.last_id().filter(|&id| id > above) else {
            self.sweep_above = None;
            return None;
        };
        self.remove(id, Over::ByPeer, out);
        Some(Event::Reset { stream: StreamId(id), by: ResetBy::Us(Reason::Unprocessed) })
    }

    /// PRIORITY has no effect any more (RFC 9113 §5.3.2), but must be well-formed.
    fn take_priority(
        &mut self,
        header: Header,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Reason> {
        self.budgets.charge(Cost::Priority, now_ms)?;
        let fault = if payload.len() != 5 {
            Reason::FrameLength
        } else if number_31(payload, 0) == header.stream {
            Reason::SelfDependency
        } else {
            return Ok(None);
        };
        if self.streams.find(header.stream).is_none() {
            // A stream that is not open cannot be reset.
            return Err(fault);
        }
        self.reset_for(header.stream, fault, now_ms, out).map(Some)
    }

    /// RFC 9218 §7.1. An update that comes before its stream is not kept: the `priority` field says the same.
    fn take_priority_update(&mut self, payload: &[u8], now_ms: u64) -> Result<Option<Event<'static>>, Reason> {
        let stream = number_31(payload, 0);
        if self.role == Role::Client || stream & 1 == 0 {
            return Err(Reason::PriorityUpdate);
        }
        self.budgets.charge(Cost::Priority, now_ms)?;
        self.streams.set_priority(stream, Priority::parse(payload.get(4..).unwrap_or_default()));
        Ok(None)
    }

    /// A new stream permits further priority updates.
    pub(super) fn refund_priorities(&mut self) {
        self.budgets.refund(Cost::Priority, UPDATES_PER_STREAM);
    }

    /// The caller has consumed this many bytes of the stream's body, and has room for as many more. A window update is
    /// sent when half a window has accumulated.
    pub fn consume(&mut self, stream: StreamId, bytes: usize, out: &mut Vec<u8>) {
        let Some(known) = self.streams.get(stream.0) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(known.unconsumed);
        known.unconsumed -= bytes;
        self.credit_stream(stream.0, bytes, out);
        self.credit_connection(bytes, out);
    }

    /// Enlarges the window of a stream: this many bytes of its body may be in flight or unconsumed.
    pub fn grow_window(&mut self, stream: StreamId, bytes: u32, out: &mut Vec<u8>) {
        // The default, which the peer may use until it knows our settings, does not count: it is taken back then.
        let excess = self.initial_window() - self.config.stream_window;
        let Some(known) = self.streams.get(stream.0) else { return };
        let more = bytes.min(WINDOW_MAX - excess).saturating_sub(known.window_target.saturating_sub(excess));
        if more > 0 && known.receives != Phase::Ended {
            known.window_target += more;
            known.receive_window += more as i32;
            frame::encode_window_update(stream.0, more, out);
        }
    }

    /// Padding is never passed to the caller, so its window is returned at once.
    pub(super) fn credit_padding(&mut self, stream: u32, bytes: u32, out: &mut Vec<u8>) {
        self.credit_stream(stream, bytes, out);
        self.credit_connection(bytes, out);
    }

    fn credit_stream(&mut self, id: u32, bytes: u32, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get(id) else { return };
        stream.credit += bytes;
        if stream.receives != Phase::Ended
            && !stream.discards
            && stream.credit > 0
            && stream.credit >= stream.window_target / 2
        {
            frame::encode_window_update(id, stream.credit, out);
            stream.receive_window += stream.credit as i32;
            stream.credit = 0;
        }
    }

    pub(super) fn credit_connection(&mut self, bytes: u32, out: &mut Vec<u8>) {
        self.credit += bytes;
        if self.credit >= self.config.connection_window / 2 {
            frame::encode_window_update(0, self.credit, out);
            self.receive_window += self.credit as i32;
            self.credit = 0;
        }
    }
}
