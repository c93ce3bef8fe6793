//! The counts of one worker in one interval; merged, those of all workers and intervals.

use super::ending::Ending;
use crate::cause::{ByCause, Cause};
use crate::collect::Recorded;
use crate::generator::GeneratorRecord;
use crate::record::ROOM_NS;
use crate::tally::{Latencies, by_index};
use crate::tls::Handshakes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WebSocketRecord {
    /// Attempts to open a connection, reconnects included.
    pub begun: u64,
    /// Handshakes that succeeded.
    pub established: u64,
    /// Attempts after a loss or a failure; part of `begun`.
    pub again: u64,
    /// Attempts that failed, by [`Cause`] as index.
    pub failures: ByCause,
    /// Handshake responses with a status other than 101.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses with 101 that are not valid answers to the WebSocket handshake.
    pub bad_handshakes: u64,
    /// Endings of open connections, by [`Ending`] as index.
    #[serde(with = "by_index")]
    pub endings: [u64; Ending::ALL.len()],
    /// Codes of the target's close frames; 1005 means without a code, 1006 without a close frame.
    pub codes: BTreeMap<u16, u64>,
    /// Connections open at the end of the interval.
    pub open: u64,
    /// Established connections that never read.
    pub stalled: u64,
    /// Connections that never read and that the target or the network ended.
    pub stalled_ended: u64,
    /// Pings sent.
    pub pings: u64,
    /// Pongs to the load's pings.
    pub pongs: u64,
    /// Pings from the target, each answered.
    pub pings_received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages that were due but not sent, because no connection was open or the target did not read.
    pub unsent: u64,
    /// Received messages that the load had sent.
    pub delivered: u64,
    /// Other received messages.
    pub foreign: u64,
    /// Expected deliveries; counted when a connection ends.
    pub expected: u64,
    /// Expected deliveries that did not arrive.
    pub lost: u64,
    /// Deliveries beyond the expected ones: duplicates.
    pub surplus: u64,
    /// Requests for events that continue after the last id.
    #[serde(default)]
    pub resumed: u64,
    /// Comments among events, which servers send to keep connections open.
    #[serde(default)]
    pub comments: u64,
    /// Events without a usable time.
    #[serde(default)]
    pub unstamped: u64,
    /// Received bytes of frames and heads.
    pub bytes_received: u64,
    /// Sent bytes of frames and heads.
    pub bytes_sent: u64,
    /// From the time a connection was due to established TCP.
    pub connect: Latencies,
    /// From the time a connection was due to its 101.
    pub handshake: Latencies,
    /// From the time a ping was due to its pong.
    pub pong: Latencies,
    /// From the time a message was due to each of its receivers.
    pub delivery: Latencies,
    /// Between two events of a connection.
    #[serde(default)]
    pub between: Latencies,
    /// The generator's own lag and its time. The lag is measured for each message, ping, opening and further attempt, and
    /// by a probe after 10 ms in which nothing was due.
    pub generator: GeneratorRecord,
    /// After a storm: the time until as many connections were open as before it, in the slowest worker; 0 without a storm.
    pub recovered_ns: u64,
    /// Workers whose connections were not all open again at the end.
    pub unrecovered: u64,
    /// TLS handshakes; `None` without TLS.
    #[serde(default)]
    pub tls: Option<Box<Handshakes>>,
}

/// The fields that are sums, as references: `counts!(record, mut)` or `counts!(record,)`.
macro_rules! counts {
    ($record:expr, $($mut:tt)?) => {
        [
            &$($mut)? $record.begun,
            &$($mut)? $record.established,
            &$($mut)? $record.again,
            &$($mut)? $record.bad_handshakes,
            &$($mut)? $record.stalled,
            &$($mut)? $record.stalled_ended,
            &$($mut)? $record.pings,
            &$($mut)? $record.pongs,
            &$($mut)? $record.pings_received,
            &$($mut)? $record.sent,
            &$($mut)? $record.unsent,
            &$($mut)? $record.delivered,
            &$($mut)? $record.foreign,
            &$($mut)? $record.expected,
            &$($mut)? $record.lost,
            &$($mut)? $record.surplus,
            &$($mut)? $record.resumed,
            &$($mut)? $record.comments,
            &$($mut)? $record.unstamped,
            &$($mut)? $record.bytes_received,
            &$($mut)? $record.bytes_sent,
            &$($mut)? $record.unrecovered,
        ]
    };
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

    fn complete(&self) -> u64 {
        self.established
    }

    fn generator(&self) -> &GeneratorRecord {
        &self.generator
    }

    fn generator_mut(&mut self) -> &mut GeneratorRecord {
        &mut self.generator
    }
}

impl WebSocketRecord {
    /// Adds a record of another worker or another interval. `open` is a state, so it is added between workers but not
    /// between intervals.
    pub fn add(&mut self, other: &Self) {
        self.add_with_pauses(other, || ());
    }

    fn add_with_pauses(&mut self, other: &Self, pause: fn()) {
        for (sum, more) in counts!(self, mut).into_iter().zip(counts!(other,)) {
            *sum += *more;
        }
        for (sum, more) in self.failures.iter_mut().zip(other.failures.iter()) {
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
        let more = [&other.connect, &other.handshake, &other.pong, &other.delivery, &other.between];
        for (sum, more) in self.latencies().into_iter().zip(more) {
            sum.add(more);
            pause();
        }
        self.generator.add(&other.generator, pause);
        self.recovered_ns = self.recovered_ns.max(other.recovered_ns);
        if let Some(handshakes) = &other.tls {
            self.tls.get_or_insert_default().add(handshakes);
        }
    }

    /// Clears all counts and keeps the memory. In place, because a temporary new record would be a hundred kilobytes of
    /// zeros.
    pub(crate) fn clear(&mut self) {
        for count in counts!(self, mut) {
            *count = 0;
        }
        (self.open, self.recovered_ns, self.tls) = (0, 0, None);
        (self.failures, self.endings) = (ByCause::default(), [0; Ending::ALL.len()]);
        self.statuses.clear();
        self.codes.clear();
        self.latencies().into_iter().for_each(Latencies::clear);
        self.generator.clear();
    }

    /// A record with the memory of a usual run, allocated before it begins.
    pub(super) fn with_room() -> Box<Self> {
        let mut record = Self::default();
        record.latencies().into_iter().for_each(|latencies| latencies.make_room(ROOM_NS));
        record.generator.latencies().into_iter().for_each(|latencies| latencies.make_room(ROOM_NS));
        Box::new(record)
    }

    /// All latencies except the generator's own.
    fn latencies(&mut self) -> [&mut Latencies; 5] {
        [&mut self.connect, &mut self.handshake, &mut self.pong, &mut self.delivery, &mut self.between]
    }

    /// Attempts that failed for this cause.
    pub fn failed_by(&self, cause: Cause) -> u64 {
        self.failures.get(cause as usize).copied().unwrap_or_default()
    }

    /// Attempts that failed.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum::<u64>() + self.refused() + self.bad_handshakes
    }

    /// Handshake responses with another status.
    pub fn refused(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Number of open connections that ended like this.
    pub fn ended_by(&self, ending: Ending) -> u64 {
        self.endings.get(ending as usize).copied().unwrap_or_default()
    }

    /// Number of open connections that were lost: the load itself did not end them.
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

    /// A record in which no field has its default value.
    fn full() -> WebSocketRecord {
        fn fill(value: &mut serde_json::Value) {
            match value {
                serde_json::Value::Number(_) => *value = 7.into(),
                serde_json::Value::Array(values) => values.iter_mut().for_each(fill),
                serde_json::Value::Object(fields) => fields.values_mut().for_each(fill),
                _ => {}
            }
        }
        let mut latencies = Latencies::default();
        latencies.record(5);
        let generator = GeneratorRecord {
            lag: latencies.clone(),
            lag_own: latencies.clone(),
            turn: latencies.clone(),
            spent: crate::Spent { cpu_ns: 1, waited_ns: Some(1) },
            spent_most: crate::Spent { cpu_ns: 1, waited_ns: Some(1) },
        };
        let mut record = serde_json::to_value(WebSocketRecord::default()).unwrap();
        let times = ["connect", "handshake", "pong", "delivery", "between", "generator", "tls"];
        let fields = record.as_object_mut().unwrap();
        fields.iter_mut().filter(|(name, _)| !times.contains(&name.as_str())).for_each(|(_, value)| fill(value));
        let record: WebSocketRecord = serde_json::from_value(record).unwrap();
        WebSocketRecord {
            failures: ByCause([7; Cause::ALL.len()]),
            endings: [7; Ending::ALL.len()],
            statuses: [(503, 7)].into(),
            codes: [(1000, 7)].into(),
            connect: latencies.clone(),
            handshake: latencies.clone(),
            pong: latencies.clone(),
            delivery: latencies.clone(),
            between: latencies,
            generator,
            tls: Some(Box::default()),
            ..record
        }
    }

    #[test]
    fn clear_resets_every_field() {
        let text = |record: &WebSocketRecord| serde_json::to_string(record).unwrap();
        assert_eq!(text(&WebSocketRecord::with_room()), text(&WebSocketRecord::default()), "room is no content");
        let mut record = full();
        record.clear();
        assert_eq!(text(&record), text(&WebSocketRecord::default()));
    }

    #[test]
    fn add_sums_every_field() {
        let mut record = WebSocketRecord::default();
        Recorded::add_beside(&mut record, &full(), || ());
        assert_eq!(serde_json::to_value(&record).unwrap(), serde_json::to_value(full()).unwrap());
    }
}
