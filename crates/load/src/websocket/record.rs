//! What a worker has seen in an interval; merged, what all have seen in all.

use super::ending::Ending;
use crate::cause::Cause;
use crate::collect::{Generator, Recorded};
use crate::processors::Spent;
use crate::record::ROOM_NS;
use crate::tally::{Latencies, by_index};
use crate::tls::Handshakes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is counted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WebSocketRecord {
    /// Connections begun, reconnects included.
    pub begun: u64,
    /// Handshakes that succeeded.
    pub established: u64,
    /// Of those begun: again, after a loss or a failure.
    pub again: u64,
    /// Attempts that failed, by [`Cause`] as index.
    #[serde(with = "by_index")]
    pub failures: [u64; Cause::ALL.len()],
    /// Handshakes answered with another status than 101.
    pub statuses: BTreeMap<u16, u64>,
    /// 101 without what makes it the answer to a WebSocket handshake.
    pub bad_handshakes: u64,
    /// How open ones ended, by [`Ending`] as index.
    #[serde(with = "by_index")]
    pub endings: [u64; Ending::ALL.len()],
    /// Codes of the target's close frames; 1005 stands for none, 1006 for an end without a close frame.
    pub codes: BTreeMap<u16, u64>,
    /// Open at the end of the interval.
    pub open: u64,
    /// Of those established: never read.
    pub stalled: u64,
    /// Of those that never read: ended by the target, or something on the way.
    pub stalled_ended: u64,
    /// Pings sent.
    pub pings: u64,
    /// Pongs to them.
    pub pongs: u64,
    /// Pings of the target's, which were answered.
    pub pings_received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages that were due and not sent, since no connection was open or the target did not read.
    pub unsent: u64,
    /// Messages received that the load had sent.
    pub delivered: u64,
    /// Other messages received.
    pub foreign: u64,
    /// Deliveries that were to be expected; known when a connection ends.
    pub expected: u64,
    /// Of those, the ones that did not come.
    pub lost: u64,
    /// Deliveries beyond what was to be expected: doubled ones.
    pub surplus: u64,
    /// Bytes of frames and heads.
    pub bytes_received: u64,
    /// The same.
    pub bytes_sent: u64,
    /// From the moment a connection was due to established TCP.
    pub connect: Latencies,
    /// From the moment a connection was due to its 101.
    pub handshake: Latencies,
    /// From the moment a ping was due to its pong.
    pub pong: Latencies,
    /// From the moment a message was due to each of its receivers.
    pub delivery: Latencies,
    /// How late the generator itself was: of each message, ping, opening and next attempt, and of a timer after 10 ms in which nothing
    /// was due.
    pub lag: Latencies,
    /// Of the same, the part in which the worker ran, on what was ahead. For the rest it had no processor, or its timer was late.
    pub lag_own: Latencies,
    /// How long each turn of a worker's loop took: for so long at most a frame lay unread.
    pub turn: Latencies,
    /// After a storm: until as many connections were open as before, in the slowest worker; 0 without one.
    pub recovered_ns: u64,
    /// Workers whose connections were not all open again at the end.
    pub unrecovered: u64,
    /// What became of the workers' time.
    pub spent: Spent,
    /// Of the worker that ran most, and of the one that waited most: in an interval, or in the run.
    pub spent_most: Spent,
    /// Handshakes of TLS; none where nothing of it is spoken.
    #[serde(default)]
    pub tls: Option<Box<Handshakes>>,
}

impl Recorded for WebSocketRecord {
    fn add(&mut self, other: &Self, pause: fn()) {
        self.add_with_pauses(other, pause);
    }

    fn add_beside(&mut self, other: &Self, pause: fn()) {
        self.add_with_pauses(other, pause);
        self.open += other.open;
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn generator(&mut self) -> Generator<'_> {
        let Self { lag, lag_own, turn, spent, spent_most, .. } = self;
        Generator { lag, lag_own, turn, spent, spent_most }
    }
}

impl WebSocketRecord {
    /// Adds what another worker has seen, or what was seen in another interval. `open` is a state: it is added between workers,
    /// not between intervals.
    pub fn add(&mut self, other: &Self) {
        self.add_with_pauses(other, || ());
    }

    fn add_with_pauses(&mut self, other: &Self, pause: fn()) {
        let sums: [(&mut u64, u64); 19] = [
            (&mut self.begun, other.begun),
            (&mut self.established, other.established),
            (&mut self.again, other.again),
            (&mut self.bad_handshakes, other.bad_handshakes),
            (&mut self.stalled, other.stalled),
            (&mut self.stalled_ended, other.stalled_ended),
            (&mut self.pings, other.pings),
            (&mut self.pongs, other.pongs),
            (&mut self.pings_received, other.pings_received),
            (&mut self.sent, other.sent),
            (&mut self.unsent, other.unsent),
            (&mut self.delivered, other.delivered),
            (&mut self.foreign, other.foreign),
            (&mut self.expected, other.expected),
            (&mut self.lost, other.lost),
            (&mut self.surplus, other.surplus),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.bytes_sent, other.bytes_sent),
            (&mut self.unrecovered, other.unrecovered),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        for (sum, more) in self.failures.iter_mut().zip(&other.failures) {
            *sum += more;
        }
        for (sum, more) in self.endings.iter_mut().zip(&other.endings) {
            *sum += more;
        }
        for (into, from) in [(&mut self.statuses, &other.statuses), (&mut self.codes, &other.codes)] {
            for (key, count) in from {
                *into.entry(*key).or_default() += count;
            }
        }
        for (sum, more) in [
            (&mut self.connect, &other.connect),
            (&mut self.handshake, &other.handshake),
            (&mut self.pong, &other.pong),
            (&mut self.delivery, &other.delivery),
            (&mut self.lag, &other.lag),
            (&mut self.lag_own, &other.lag_own),
            (&mut self.turn, &other.turn),
        ] {
            sum.add(more);
            pause();
        }
        self.recovered_ns = self.recovered_ns.max(other.recovered_ns);
        self.spent += other.spent;
        self.spent_most = self.spent_most.most(other.spent_most);
        if let Some(handshakes) = &other.tls {
            self.tls.get_or_insert_default().add(handshakes);
        }
    }

    /// Forgets everything, and keeps the memory. In place: a new record in between would be a hundred kilobytes of zeros.
    pub(crate) fn clear(&mut self) {
        self.latencies().into_iter().for_each(Latencies::clear);
        let Self {
            begun,
            established,
            again,
            failures,
            statuses,
            bad_handshakes,
            endings,
            codes,
            open,
            stalled,
            stalled_ended,
            pings,
            pongs,
            pings_received,
            sent,
            unsent,
            delivered,
            foreign,
            expected,
            lost,
            surplus,
            bytes_received,
            bytes_sent,
            recovered_ns,
            unrecovered,
            spent,
            spent_most,
            tls,
            connect: _,
            handshake: _,
            pong: _,
            delivery: _,
            lag: _,
            lag_own: _,
            turn: _,
        } = self;
        *tls = None;
        for count in [
            begun,
            established,
            again,
            bad_handshakes,
            open,
            stalled,
            stalled_ended,
            pings,
            pongs,
            pings_received,
            sent,
            unsent,
            delivered,
            foreign,
            expected,
            lost,
            surplus,
            bytes_received,
            bytes_sent,
            recovered_ns,
            unrecovered,
        ] {
            *count = 0;
        }
        (*failures, *endings) = ([0; Cause::ALL.len()], [0; Ending::ALL.len()]);
        statuses.clear();
        codes.clear();
        (*spent, *spent_most) = (Spent::default(), Spent::default());
    }

    /// With the memory that a usual run needs, before it begins.
    pub(super) fn with_room() -> Box<Self> {
        let mut record = Self::default();
        record.latencies().into_iter().for_each(|latencies| latencies.make_room(ROOM_NS));
        Box::new(record)
    }

    fn latencies(&mut self) -> [&mut Latencies; 7] {
        let Self { connect, handshake, pong, delivery, lag, lag_own, turn, .. } = self;
        [connect, handshake, pong, delivery, lag, lag_own, turn]
    }

    /// Attempts that failed for this cause.
    pub fn failed_by(&self, cause: Cause) -> u64 {
        self.failures.get(cause as usize).copied().unwrap_or_default()
    }

    /// Attempts that failed.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum::<u64>() + self.refused() + self.bad_handshakes
    }

    /// Handshakes answered with another status.
    pub fn refused(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Open ones that ended like this.
    pub fn ended_by(&self, ending: Ending) -> u64 {
        self.endings.get(ending as usize).copied().unwrap_or_default()
    }

    /// Open ones that were lost: ended by anybody but the load itself.
    pub fn losses(&self) -> u64 {
        Ending::ALL.iter().filter(|ending| ending.is_loss()).map(|ending| self.ended_by(*ending)).sum()
    }

    pub(super) fn fail(&mut self, cause: Cause) {
        if let Some(count) = self.failures.get_mut(cause as usize) {
            *count += 1;
        }
    }

    pub(super) fn end(&mut self, ending: Ending) {
        if let Some(count) = self.endings.get_mut(ending as usize) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cleared_is_as_new() {
        let text = |record: &WebSocketRecord| serde_json::to_string(record).unwrap();
        let mut record = WebSocketRecord::with_room();
        assert_eq!(text(&record), text(&WebSocketRecord::default()), "room is no content");
        record.latencies().into_iter().for_each(|latencies| latencies.record(5));
        record.fail(Cause::Refused);
        record.end(Ending::Reset);
        (record.sent, record.open, record.recovered_ns) = (1, 2, 3);
        record.codes.insert(1000, 1);
        record.spent = Spent { cpu_ns: 1, waited_ns: Some(1) };
        record.clear();
        assert_eq!(text(&record), text(&WebSocketRecord::default()));
    }
}
