//! What a connection of server-sent events receives: events are counted, timed, and checked for gaps.

use super::ending::Ending;
use super::events::Rest;
use super::one_stream::StreamEnd;
use super::open_connection::ReadFrames;
use super::worker::Worker;
use crate::worker::Seat;
use std::time::{SystemTime, UNIX_EPOCH};

impl Worker {
    /// Takes frames of HTTP/2, and the events in them.
    pub(super) fn read_stream(&mut self, slot: usize, bytes: &[u8]) -> ReadFrames {
        let now_ms = self.seat.now_ns / 1_000_000;
        let Some(connection) = self.connections.get_mut(slot) else { return ReadFrames::default() };
        let Some(one_stream) = &mut connection.one_stream else { return ReadFrames::default() };
        let (mut body, mut reply) = (std::mem::take(&mut self.frame), Vec::new());
        body.clear();
        one_stream.take(bytes, now_ms, &mut body, &mut reply);
        let mut read = self.read_events(slot, &body);
        self.frame = body;
        read.reply = reply;
        read
    }

    /// Parses bytes of a response, and returns how the connection ends, if it does.
    pub(super) fn read_events(&mut self, slot: usize, bytes: &[u8]) -> ReadFrames {
        let Self { connections, seat, setup, .. } = self;
        let Seat { record, now_ns, .. } = seat;
        let Some(options) = &setup.options.events else { return ReadFrames::default() };
        let Some(events) = connections.get_mut(slot).and_then(|connection| connection.events.as_mut()) else {
            return ReadFrames::default();
        };
        let unix_ns = options.time.as_ref().map_or(0, |_| unix_now_ns());
        let (mut last_ns, mut last_number) = (events.last_ns, number(&events.last_id));
        let mut comments = 0;
        let told = |event: &super::events::ServerEvent<'_>| {
            record.delivered += 1;
            if last_ns > 0 {
                record.between.record(now_ns.saturating_sub(last_ns));
            }
            last_ns = (*now_ns).max(1);
            if let Some(place) = &options.time {
                // An event from the future is a matter of the clocks.
                match place.of(event).and_then(|sent_ns| unix_ns.checked_sub(sent_ns)) {
                    Some(time_ns) => record.delivery.record(time_ns),
                    None => record.unstamped += 1,
                }
            }
            if options.in_sequence {
                let this = number(event.id);
                let gap = last_number.zip(this).map_or(0, |(last, this)| this.saturating_sub(last.saturating_add(1)));
                record.surplus += u64::from(last_number.zip(this).is_some_and(|(last, this)| this <= last));
                record.lost += gap;
                record.expected += gap + 1;
                last_number = this.or(last_number);
            }
        };
        let rest = events.take(bytes, told, || comments += 1);
        events.last_ns = last_ns;
        record.comments += comments;
        let one_stream = connections.get(slot).and_then(|connection| connection.one_stream.as_ref());
        ReadFrames::ended(match rest {
            Ok(Rest::More) => one_stream.and_then(|one_stream| one_stream.end()).map(ending_of),
            Ok(Rest::Nothing) => Some(Ending::Complete),
            Err(_) => Some(Ending::BadFrame),
        })
    }
}

/// How a connection ends with its stream.
fn ending_of(end: StreamEnd) -> Ending {
    match end {
        StreamEnd::Complete => Ending::Complete,
        StreamEnd::Reset(_) => Ending::Reset,
        StreamEnd::Fault(_) => Ending::BadFrame,
    }
}

fn number(id: &[u8]) -> Option<u64> {
    std::str::from_utf8(id).ok()?.parse().ok()
}

fn unix_now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
