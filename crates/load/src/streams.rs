//! What a load over HTTP/2 counts besides requests and responses: streams and the target's limit, windows, GOAWAY, resets,
//! and the statuses of gRPC calls.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one interval; merged, of the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamsRecord {
    /// Streams that were opened.
    pub opened: u64,
    /// Most streams at one time on one connection.
    pub most: u64,
    /// The lowest limit of concurrent streams that a target set (`SETTINGS_MAX_CONCURRENT_STREAMS`); `None` without a
    /// limit.
    pub allowed: Option<u32>,
    /// Nanoseconds in which a body was ready and a window of the target was closed, summed over all connections.
    pub window_limited_ns: u64,
    /// GOAWAY frames from the target, by the name of their code.
    pub goaways: BTreeMap<String, u64>,
    /// Streams that the target reset (`RST_STREAM`), by the name of their code.
    pub resets: BTreeMap<String, u64>,
    /// Requests that the target had not processed when it sent GOAWAY or refused them. They were sent again, or do not
    /// count.
    pub unprocessed: u64,
    /// gRPC calls by `grpc-status`.
    pub grpc: BTreeMap<u32, u64>,
    /// The first HTTP/2 protocol error of a connection, in words.
    pub failure: Option<String>,
}

impl StreamsRecord {
    /// Adds the counts of another worker or interval.
    pub(crate) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.most = self.most.max(other.most);
        self.allowed = self.allowed.into_iter().chain(other.allowed).min();
        self.window_limited_ns += other.window_limited_ns;
        self.unprocessed += other.unprocessed;
        for (sum, more) in [(&mut self.goaways, &other.goaways), (&mut self.resets, &other.resets)] {
            for (code, count) in more {
                *sum.entry(code.clone()).or_default() += count;
            }
        }
        for (status, count) in &other.grpc {
            *self.grpc.entry(*status).or_default() += count;
        }
        if self.failure.is_none() {
            self.failure.clone_from(&other.failure);
        }
    }

    /// Whether the target's limit was below the requested number of streams.
    pub fn is_bound(&self, asked: usize) -> bool {
        self.allowed.is_some_and(|allowed| (allowed as usize) < asked)
    }
}

/// The name of a `grpc-status`, where it has one.
pub(crate) fn grpc_status_name(status: u32) -> Option<&'static str> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES.get(status as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_add_up() {
        let code = |count| BTreeMap::from([("NO_ERROR".to_owned(), count)]);
        let one = StreamsRecord { opened: 3, most: 2, allowed: Some(9), goaways: code(1), ..StreamsRecord::default() };
        let grpc = BTreeMap::from([(0, 5)]);
        let mut sum = StreamsRecord { opened: 4, most: 7, goaways: code(2), grpc, ..StreamsRecord::default() };
        sum.add(&one);
        assert_eq!((sum.opened, sum.most, sum.allowed, &sum.goaways), (7, 7, Some(9), &code(3)));
        assert_eq!((sum.grpc[&0], sum.is_bound(10), sum.is_bound(9)), (5, true, false));
    }

    #[test]
    fn statuses_have_the_names_of_grpc() {
        assert_eq!([0, 14, 17].map(grpc_status_name), [Some("OK"), Some("UNAVAILABLE"), None]);
    }
}
