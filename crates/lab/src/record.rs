//! The raw measurements of a run. They are stored beside the report, and the report can be generated from them again.
//!
//! Figures and series are flat maps from dotted names to numbers, so that a claim, a table and a chart can use any of them.
//! `PROCESS` is a process of the experiment or a load, `HOST` a host, `NAME` a probe:
//!
//! | figure | what |
//! |---|---|
//! | `requests`, `requests_per_second`, `failed`, `failed_share` | of all loads together, complete responses; `failed.CAUSE` each |
//! | `latency_ms.mean`, `.p50`, `.p90`, `.p99`, `.p99.9`, `.max` | of all loads together; `LOAD.…` with the load's name before it, for each |
//! | `LOAD.…` | other figures of its program, under the program's own names, as `client.connections_opened` or `client.open_max` of `holdfast load --json` |
//! | `cpu_us_per_request.PROCESS`, `cpu_user_us_per_request.PROCESS`, `cores.PROCESS`, `busiest.PROCESS` | CPU over answered requests; the part in user mode, in proportion to clock ticks; mean cores used; share of time that its busiest thread ran or waited for a core |
//! | `rss_mb.PROCESS`, `rss_mb_max.PROCESS`, `descriptors.PROCESS`, `died.PROCESS` | at the end; most seen; at the end; 1 or 0. Pages of a program's file and shared memory count once, not once a process |
//! | `bytes_per_connection.PROCESS`, `calls_per_request.NAME` | growth of resident memory during the load per connection that the loads had open, if they report the number (`open_max`); system calls, where a probe counts them |
//! | `cores.looking`, `cores_used`, `stolen` | mean cores that the lab itself used; share of all cores that any process used; share that the host of a virtual machine took although there was work |
//! | `ports.HOST` | the largest number of its ephemeral ports in use for one destination, as a share of the usable ones |
//! | `sockets.HOST.STATE`, `sockets.HOST`, and both with the `NAME` of a probe | mean over the load; `.idle` behind it: before the load; `.net` behind it: less that; `.end` behind it: right after the load |
//! | `closed_first.NAME` | the same for sockets in TIME_WAIT whose local port is the probe's: the side that listens there closed first |
//! | `share.NAME` | one figure over another, as the experiment says under `share` |
//! | `tcp.HOST.COUNTER` | growth over the load, by `/proc/net/snmp` and `/proc/net/netstat`'s names, as `TcpExt.ListenOverflows` |
//! | `queue.NAME.length`, `queue.NAME.backlog`, `bytes.NAME.…` | most seen |
//! | `told.NAME.METRIC` | growth over the load, without what asking added to `stub_status`; `.max` behind it: most seen |

mod io;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use io::RecordError;

/// Version of the format that is written and read.
pub const VERSION: u32 = 1;

/// One run of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The format of this file: [`VERSION`].
    pub version: u32,
    /// The experiment as it was run, `--quick` and other options applied.
    pub experiment: crate::Experiment,
    /// The whole command line, to repeat it.
    pub command: String,
    /// Whether `--quick` was asked for.
    pub quick: bool,
    /// Whether each arm was run against itself; then the claims test the method.
    pub control: bool,
    /// Seed of the order of the arms and of the bootstrap.
    pub seed: u64,
    /// When it began: RFC 3339, UTC.
    pub began: String,
    /// Name and value of everything that the figures depend on: processor, kernel, sysctls, versions of all programs.
    pub fingerprint: Vec<(String, String)>,
    /// Arms that could not be run, with the reason. The report always names them.
    pub absent: Vec<(String, String)>,
    /// Why the record does not contain all rounds; `None` for a complete one.
    pub partial: Option<String>,
    /// In the order in which they were taken.
    pub samples: Vec<Sample>,
}

impl Record {
    /// Number of rounds that were begun.
    pub fn rounds(&self) -> u32 {
        self.samples.iter().map(|sample| sample.round.saturating_add(1)).max().unwrap_or(0)
    }
}

/// Whether the load generator's lag is part of a figure. Latencies count from the time a request is due, and a late load is
/// not the load that the experiment specifies.
pub fn includes_lateness(figure: &str) -> bool {
    let is_time = |part: &str| part.ends_with("_ms");
    // The name of a share does not show whether it is made of one of these, so assume that it is.
    let is_rate = |part: &str| matches!(part, "requests" | "requests_per_second" | "failed" | "failed_share" | "share");
    // A handshake's time begins when it is sent.
    figure.split('.').any(|part| (is_time(part) && part != "connect_ms") || is_rate(part))
}

/// One arm in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The arm's name.
    pub arm: String,
    /// From 0.
    pub round: u32,
    /// Why the sample counts for nothing: the generator was the bottleneck, ran late, or could not run.
    pub void: Option<String>,
    /// Set if the generator was late: why the figures that include its lag count for nothing ([`includes_lateness`]). The
    /// other figures stay valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    /// Numbers by name.
    #[serde(deserialize_with = "io::figures")]
    pub figures: BTreeMap<String, f64>,
    /// Values over the time of the sample: seconds since the load began (negative during the idle time and the warm-up),
    /// and the value.
    #[serde(deserialize_with = "io::series")]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Remarks on this sample: which process was the bottleneck, which host ran out of ports, which process died and why.
    pub remarks: Vec<String>,
}
