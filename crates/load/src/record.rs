//! The counts of one worker of an HTTP load in one interval; merged, those of all workers and intervals.

use crate::collect::Recorded;
use crate::generator::GeneratorRecord;
use crate::scenario::FlowTally;
use crate::streams::StreamsRecord;
use crate::tally::{Latencies, Tally};
use crate::tls::Handshakes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Latencies up to this value have memory before the run begins; larger ones allocate when they occur.
pub(crate) const ROOM_NS: u64 = 1_000_000_000;
/// Targets with preallocated memory: 150 KB each, in each of the records below.
const ROOM_TARGETS_MAX: usize = 8;
/// Records of a worker: one being filled, one being merged, one waiting.
pub(crate) const RECORDS: usize = 3;

/// Everything that a worker counts in one interval; merged, the counts of all workers and intervals.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HttpRecord {
    /// By target, in the order of the options.
    pub targets: Vec<Tally>,
    /// Open loop: from writing a request to the end of its response. A closed loop would show this.
    pub service: Latencies,
    /// From sending to the end of a response; only with [`parts`](crate::Options::parts).
    pub processing: Latencies,
    /// From sending to the first byte of a response; only with [`parts`](crate::Options::parts).
    pub first_byte: Latencies,
    /// The Server field of one of the responses.
    pub server: Option<String>,
    /// From `connect` to an established connection.
    pub connect: Latencies,
    /// The generator's own lag (of each request in an open loop, of a probe every 10 ms in a closed loop) and its time.
    pub generator: GeneratorRecord,
    /// Connections that were begun, established or not.
    pub opened: u64,
    /// Connections that were established.
    pub established: u64,
    /// Idle connections that the target closed first.
    pub closed_by_target: u64,
    /// Connections that the load closed first.
    pub closed_by_load: u64,
    /// Requests in flight when the run was stopped by hand.
    pub cut_off: u64,
    /// Most requests that waited for a free connection at one time, in one worker.
    pub waiting_max: u64,
    /// TLS handshakes; `None` without TLS.
    #[serde(default)]
    pub tls: Option<Box<Handshakes>>,
    /// HTTP/2 streams; `None` without HTTP/2.
    #[serde(default)]
    pub streams: Option<Box<StreamsRecord>>,
    /// Iterations by flow, in the order of the scenario; empty without a scenario.
    #[serde(default)]
    pub flows: Vec<FlowTally>,
}

impl Recorded for HttpRecord {
    fn add(&mut self, other: &Self, pause: fn()) {
        self.add_with_pauses(other, pause);
    }

    fn spare(&self) -> Option<Self> {
        Some(*Self::new(self.targets.len()).make_room())
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn complete(&self) -> u64 {
        self.targets.iter().map(|tally| tally.responses).sum()
    }

    fn generator(&self) -> &GeneratorRecord {
        &self.generator
    }

    fn generator_mut(&mut self) -> &mut GeneratorRecord {
        &mut self.generator
    }
}

impl HttpRecord {
    pub(crate) fn new(targets: usize) -> Self {
        Self { targets: (0..targets).map(|_| Tally::default()).collect(), ..Self::default() }
    }

    /// Adds a record of another worker or another interval.
    pub fn add(&mut self, other: &Self) {
        self.add_with_pauses(other, || ());
    }

    fn add_with_pauses(&mut self, other: &Self, pause: fn()) {
        if self.targets.len() < other.targets.len() {
            self.targets.resize_with(other.targets.len(), Tally::default);
        }
        for (sum, tally) in self.targets.iter_mut().zip(&other.targets) {
            sum.add(tally);
            pause();
        }
        for (sum, more) in [
            (&mut self.service, &other.service),
            (&mut self.processing, &other.processing),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.connect, &other.connect),
        ] {
            sum.add(more);
            pause();
        }
        if self.server.is_none() {
            self.server.clone_from(&other.server);
        }
        self.opened += other.opened;
        self.established += other.established;
        self.closed_by_target += other.closed_by_target;
        self.closed_by_load += other.closed_by_load;
        self.cut_off += other.cut_off;
        self.waiting_max = self.waiting_max.max(other.waiting_max);
        self.generator.add(&other.generator, pause);
        if let Some(handshakes) = &other.tls {
            self.tls.get_or_insert_default().add(handshakes);
        }
        if let Some(streams) = &other.streams {
            self.streams.get_or_insert_default().add(streams);
        }
        if self.flows.len() < other.flows.len() {
            self.flows.resize_with(other.flows.len(), FlowTally::default);
        }
        self.flows.iter_mut().zip(&other.flows).for_each(|(sum, flow)| sum.add(flow));
    }

    /// Clears all counts and keeps the memory. In place, because a temporary new record would be a hundred kilobytes of
    /// zeros.
    pub(crate) fn clear(&mut self) {
        let Self {
            targets,
            service,
            processing,
            first_byte,
            server,
            connect,
            generator,
            opened,
            established,
            closed_by_target,
            closed_by_load,
            cut_off,
            waiting_max,
            tls,
            streams,
            flows,
        } = self;
        targets.iter_mut().for_each(Tally::clear);
        for latencies in [service, processing, first_byte, connect] {
            latencies.clear();
        }
        generator.clear();
        *server = None;
        *tls = None;
        *streams = None;
        flows.clear();
        for count in [opened, established, closed_by_target, closed_by_load, cut_off, waiting_max] {
            *count = 0;
        }
    }

    /// The iterations of a flow.
    pub(crate) fn flow(&mut self, flow: usize) -> Option<&mut FlowTally> {
        if self.flows.len() <= flow {
            self.flows.resize_with(flow + 1, FlowTally::default);
        }
        self.flows.get_mut(flow)
    }

    /// Allocates the memory of a usual run before it begins. The first use of a page costs a microsecond, and a growing
    /// histogram touches dozens at once.
    pub(crate) fn make_room(mut self) -> Box<Self> {
        let Self { targets, service, connect, generator, .. } = &mut self;
        let of_targets = targets.iter_mut().take(ROOM_TARGETS_MAX).map(|tally| &mut tally.latency);
        for latencies in of_targets.chain([service, connect]).chain(generator.latencies()) {
            latencies.make_room(ROOM_NS);
        }
        Box::new(self)
    }

    /// The sum of all targets.
    pub fn whole(&self) -> Tally {
        self.together().into_owned()
    }

    /// The same, without copying the histogram if there is only one target.
    pub fn together(&self) -> Cow<'_, Tally> {
        if let [only] = self.targets.as_slice() {
            return Cow::Borrowed(only);
        }
        let mut whole = Tally::default();
        for tally in &self.targets {
            whole.add(tally);
        }
        // Lengths are compared only within a target.
        whole.lengths_other = self.targets.iter().map(|tally| tally.lengths_other).sum();
        Cow::Owned(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleared_record_equals_a_new_one() {
        let text = |record: &HttpRecord| serde_json::to_string(record).unwrap();
        let mut record = HttpRecord::new(2).make_room();
        assert_eq!(text(&record), text(&HttpRecord::new(2)), "room is no content");
        record.targets[1].response(200, 5, 10);
        record.generator.lag.record(5);
        record.generator.lag_own.record(5);
        record.generator.turn.record(5);
        record.processing.record(5);
        record.server = Some("x".to_owned());
        record.tls.get_or_insert_default().truncated = 1;
        record.streams.get_or_insert_default().opened = 1;
        record.flows.push(FlowTally::default());
        record.generator.spent = crate::Spent { cpu_ns: 1, waited_ns: Some(1) };
        record.clear();
        assert_eq!(text(&record), text(&HttpRecord::new(2)));
    }
}
