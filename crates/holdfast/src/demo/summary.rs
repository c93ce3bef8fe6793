//! From samples to the table: medians with their spread, ratios within the round, the bottleneck and how it was decided.
//! Pure; `Report` is what `--json` prints and what `text` renders.

use super::client::Faults;
use super::cpu::{Source, Spent};
use super::machine::Machine;
use super::measure::{Measured, Sample, Sockets};
use super::plan::{Arm, Plan, ROWS, Row};
use super::sockets::{Census, ESTABLISHED, TIME_WAIT};
use serde::Serialize;
use std::time::Duration;

/// A side whose busiest thread ran, or waited for a core, for this share of the time was never idle to speak of.
const NEVER_IDLE: f64 = 0.85;
/// Cores of which this share was used leave no room for a thread that wakes.
const CORES_FULL: f64 = 0.9;
/// A bottleneck that waited for a core for this share of the time would be faster on more cores.
const SHORT_OF_CORES: f64 = 0.15;

/// A quantity over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Rounds.
    pub(super) n: usize,
}

impl Spread {
    /// `None` of nothing.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.get((values.len() - 1) / 2)?;
        let median = f64::midpoint(*middle, *values.get(values.len() / 2)?);
        Some(Self { median, min, max, n: values.len() })
    }
}

/// What one process did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Side {
    /// CPU time of all its threads, user and system.
    pub(super) cpu_us_per_request: Spread,
    /// Its busiest thread: share of the time that it ran, in per cent.
    pub(super) busiest_running_percent: Spread,
    /// The same thread: share of the time that it waited for a core, in per cent.
    pub(super) busiest_queued_percent: Spread,
}

/// What held the rest up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Bottleneck {
    /// `client`, `gateway` or `origin`: it was never idle. `cores`: all of them were idle at times, but the cores were not.
    /// `none`: neither.
    pub(super) side: &'static str,
    /// It would have been faster if it had not waited for a core.
    pub(super) short_of_cores: bool,
}

/// Sockets of a port; a connection within one machine has two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PortReport {
    /// In `ESTABLISHED` while the load ran; nothing if there was no time to look.
    pub(super) established: Option<Spread>,
    /// In other states but `TIME_WAIT` while the load ran.
    pub(super) other: Option<Spread>,
    /// In the end, when nothing was sent any more.
    pub(super) at_end: Census,
}

/// Sockets of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SocketsReport {
    pub(super) origin_port: PortReport,
    pub(super) gateway_port: Option<PortReport>,
}

/// One line of the table. Sums and counts are over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RowReport {
    pub(super) arm: Arm,
    /// Whether the client keeps its connections.
    pub(super) client_keepalive: bool,
    pub(super) requests_per_second: Spread,
    /// Of the direct row with the same kind of client, in the same round.
    pub(super) percent_of_direct: Spread,
    pub(super) latency_ms_mean: Spread,
    pub(super) latency_ms_p99: Spread,
    pub(super) client: Side,
    pub(super) gateway: Option<Side>,
    pub(super) origin: Side,
    pub(super) bottleneck: Bottleneck,
    /// Requests completed in the measured windows.
    pub(super) requests_measured: u64,
    /// Requests completed, warm-up included.
    pub(super) requests: u64,
    pub(super) faults: Faults,
    pub(super) connections_opened_by_client: u64,
    pub(super) connections_accepted_by_origin: u64,
    pub(super) requests_at_origin: u64,
    pub(super) sockets: SocketsReport,
}

/// Everything that a demo found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    pub(super) page_bytes: u64,
    pub(super) connections: u32,
    pub(super) client_threads: usize,
    pub(super) rounds: u32,
    pub(super) window_ms: u64,
    pub(super) warm_up_ms: u64,
    pub(super) cpu_source: Source,
    /// CPU time that was not accounted to the demo's processes, in cores: other processes, what the hypervisor took, and
    /// interrupts where the kernel keeps them apart.
    pub(super) other_work_cores: Spread,
    pub(super) rows: Vec<RowReport>,
    pub(super) warnings: Vec<String>,
}

impl Report {
    /// `None` if a row has no sample, which is only so if the demo was ended early.
    pub(super) fn of(machine: Machine, plan: &Plan, mut warnings: Vec<String>, measured: &Measured) -> Option<Self> {
        let samples = &measured.samples;
        let rows = ROWS.iter().enumerate().map(|(index, row)| row_report(index, *row, measured));
        let rows = rows.collect::<Option<Vec<_>>>()?;
        let other = |sample: &Sample| {
            let ours = sample.client.run + sample.origin.run + sample.gateway.unwrap_or_default().run;
            sample.cores.used.saturating_sub(ours).div_duration_f64(sample.window)
        };
        let other_work_cores = Spread::of(samples.iter().map(other))?;
        let time_wait = rows.iter().map(|row| row.sockets.time_wait()).sum();
        warnings.extend(machine.afterthoughts(other_work_cores.median, time_wait));
        Some(Self {
            version: env!("CARGO_PKG_VERSION"),
            machine,
            page_bytes: origin::PAGE_BYTES_DEFAULT,
            connections: plan.connections,
            client_threads: plan.client_threads,
            rounds: samples.iter().map(|sample| sample.round + 1).max()?,
            window_ms: plan.window.as_millis() as u64,
            warm_up_ms: plan.warm_up.as_millis() as u64,
            cpu_source: samples.first()?.source,
            other_work_cores,
            rows,
            warnings,
        })
    }

    /// Failed requests of all rows.
    pub(super) fn faults(&self) -> u64 {
        self.rows.iter().map(|row| row.faults.sum()).sum()
    }
}

impl SocketsReport {
    fn of(samples: &[&Sample], at_end: &Sockets) -> Self {
        let looks = || samples.iter().filter_map(|sample| sample.sockets.as_ref());
        let gateway_port = at_end.gateway_port.as_ref();
        Self {
            origin_port: PortReport::of(looks().map(|look| &look.origin_port), &at_end.origin_port),
            gateway_port: gateway_port
                .map(|at_end| PortReport::of(looks().filter_map(|look| look.gateway_port.as_ref()), at_end)),
        }
    }

    /// On both ports together.
    fn time_wait(&self) -> u64 {
        let ports = [Some(&self.origin_port), self.gateway_port.as_ref()];
        ports.into_iter().flatten().map(|port| port.at_end.of(TIME_WAIT).sum()).sum()
    }
}

impl PortReport {
    fn of<'a>(looks: impl Iterator<Item = &'a Census> + Clone, at_end: &Census) -> Self {
        let other = |look: &Census| look.others(&[ESTABLISHED, TIME_WAIT]) as f64;
        Self {
            established: Spread::of(looks.clone().map(|look| look.of(ESTABLISHED).sum() as f64)),
            other: Spread::of(looks.map(other)),
            at_end: at_end.clone(),
        }
    }
}

fn rate(sample: &Sample) -> f64 {
    sample.tally.measured as f64 / sample.window.as_secs_f64()
}

fn row_report(index: usize, row: Row, measured: &Measured) -> Option<RowReport> {
    let samples = &measured.samples;
    let mut own: Vec<&Sample> = samples.iter().filter(|sample| sample.row == index).collect();
    own.sort_by_key(|sample| sample.round);
    let direct = ROWS.iter().position(|other| other.arm == Arm::Direct && other.keepalive == row.keepalive)?;
    let reference = |round| samples.iter().find(|sample| sample.row == direct && sample.round == round);
    let shares =
        own.iter().filter_map(|sample| Some(rate(sample) / rate(reference(sample.round)?) * 100.0)).collect::<Vec<_>>();
    let side = |spent: fn(&Sample) -> Option<Spent>| Side::of(&own, spent);
    let (client, gateway) = (side(|sample| Some(sample.client))?, side(|sample| sample.gateway));
    let origin = side(|sample| Some(sample.origin))?;
    let cores_used = Spread::of(own.iter().map(|sample| sample.cores.used_share()))?.median;
    let mut faults = Faults::default();
    for sample in &own {
        faults.add(&sample.tally.faults);
    }
    let sum = |count: fn(&Sample) -> u64| own.iter().map(|sample| count(sample)).sum();
    let mean_ns = |sample: &&Sample| sample.tally.latency_ns_sum as f64 / sample.tally.measured as f64;
    Some(RowReport {
        arm: row.arm,
        client_keepalive: row.keepalive,
        requests_per_second: Spread::of(own.iter().map(|sample| rate(sample)))?,
        percent_of_direct: Spread::of(shares.into_iter())?,
        latency_ms_mean: Spread::of(own.iter().map(|sample| mean_ns(sample) / 1e6))?,
        latency_ms_p99: Spread::of(
            own.iter().map(|sample| sample.tally.latency_us.value_at_quantile(0.99) as f64 / 1e3),
        )?,
        bottleneck: bottleneck(&[("client", Some(client)), ("gateway", gateway), ("origin", Some(origin))], cores_used),
        client,
        gateway,
        origin,
        requests_measured: sum(|sample| sample.tally.measured),
        requests: sum(|sample| sample.tally.requests),
        faults,
        connections_opened_by_client: sum(|sample| sample.tally.opened),
        connections_accepted_by_origin: sum(|sample| sample.at_origin.connections_accepted),
        requests_at_origin: sum(|sample| sample.at_origin.requests),
        sockets: SocketsReport::of(&own, measured.at_end.get(index)?),
    })
}

impl Side {
    fn of(samples: &[&Sample], spent: fn(&Sample) -> Option<Spent>) -> Option<Self> {
        let pairs = || samples.iter().filter_map(|sample| Some((sample, spent(sample)?)));
        let percent = |sample: &Sample, time: Duration| time.div_duration_f64(sample.window) * 100.0;
        Some(Self {
            cpu_us_per_request: Spread::of(
                pairs().map(|(sample, spent)| spent.run.as_secs_f64() * 1e6 / sample.tally.measured as f64),
            )?,
            busiest_running_percent: Spread::of(pairs().map(|(sample, spent)| percent(sample, spent.busiest_run)))?,
            busiest_queued_percent: Spread::of(pairs().map(|(sample, spent)| percent(sample, spent.busiest_queued)))?,
        })
    }
}

/// The side whose busiest thread was idle least. Running counts, and so does waiting for a core: a thread that waits for
/// one has work.
fn bottleneck(sides: &[(&'static str, Option<Side>)], cores_used: f64) -> Bottleneck {
    let shares =
        |side: &Side| (side.busiest_running_percent.median / 100.0, side.busiest_queued_percent.median / 100.0);
    let sides = sides.iter().filter_map(|(name, side)| Some((*name, shares(side.as_ref()?))));
    let most = sides.max_by(|(_, one), (_, other)| (one.0 + one.1).total_cmp(&(other.0 + other.1)));
    match most {
        Some((side, (running, queued))) if running + queued >= NEVER_IDLE => {
            Bottleneck { side, short_of_cores: queued >= SHORT_OF_CORES }
        }
        _ if cores_used >= CORES_FULL => Bottleneck { side: "cores", short_of_cores: true },
        _ => Bottleneck { side: "none", short_of_cores: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Spread {
        Spread { median, min: median, max: median, n: 1 }
    }

    fn side(running: f64, queued: f64) -> Side {
        Side {
            cpu_us_per_request: spread(10.0),
            busiest_running_percent: spread(running),
            busiest_queued_percent: spread(queued),
        }
    }

    #[test]
    fn a_median_has_its_spread() {
        let spread = Spread::of([3.0, 9.0, 1.0].into_iter()).expect("three values");
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 9.0, n: 3 });
        assert_eq!(Spread::of([1.0, 2.0].into_iter()).map(|spread| spread.median), Some(1.5));
        // No request was completed: the division by zero is no value.
        assert_eq!(Spread::of([f64::NAN].into_iter()), None);
    }

    #[test]
    fn the_bottleneck_is_who_was_never_idle() {
        let found = |client, gateway, origin, cores_used| {
            bottleneck(&[("client", Some(client)), ("gateway", gateway), ("origin", Some(origin))], cores_used)
        };
        let clear = found(side(60.0, 2.0), Some(side(97.0, 2.0)), side(40.0, 2.0), 0.99);
        assert_eq!(clear, Bottleneck { side: "gateway", short_of_cores: false });
        // Two of three share a core: the one that waits for it is never idle.
        let short = found(side(50.0, 10.0), Some(side(70.0, 28.0)), side(45.0, 20.0), 0.99);
        assert_eq!(short, Bottleneck { side: "gateway", short_of_cores: true });
        assert_eq!(found(side(60.0, 2.0), None, side(40.0, 2.0), 0.5).side, "none");
        assert_eq!(found(side(60.0, 20.0), None, side(40.0, 2.0), 0.97).side, "cores");
    }
}
