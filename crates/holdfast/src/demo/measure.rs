//! One segment: a row in a round. Loads, and reads at the borders of the measured window what the kernel and the origin
//! have counted. Raw numbers out; `summary` makes the table of them.

use super::client::{Load, Phase, Tally, Target};
use super::cpu::{Cores, Source, Spent, Usage};
use super::plan::{Arm, Plan, ROWS};
use super::server::{OriginCounts, Server};
use super::signals::Signals;
use super::sockets::{self, Census};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// What looks at the sockets of a load may take altogether. Each one takes longer than the one before, because more sockets
/// are in `TIME_WAIT`: all of them in five rounds might take longer than the load.
const LOOKS_BUDGET: Duration = Duration::from_secs(4);

/// The servers of all rows. Each row has a port of the origin and, but for the direct ones, a gateway for itself, so that
/// sockets in `TIME_WAIT`, which stay for a minute, can be told apart.
#[derive(Debug)]
pub(super) struct Stage {
    origin: Server,
    /// By index of row.
    gateways: Vec<Option<Server>>,
}

impl Stage {
    /// Starts them.
    pub(super) fn build(plan: &Plan, folder: &Path) -> Result<Self, String> {
        // The last port is for questions.
        let origin = Server::origin(ROWS.len() + 1, &folder.join("origin"))?;
        let mut gateways = Vec::new();
        for (index, (row, address)) in ROWS.iter().zip(&origin.addresses).enumerate() {
            let folder = folder.join(format!("gateway-{index}"));
            let gateway = match row.arm {
                Arm::Direct => None,
                arm => Some(Server::gateway(arm, plan.connections, *address, &folder)?),
            };
            gateways.push(gateway);
        }
        Ok(Self { origin, gateways })
    }

    /// Ends them.
    pub(super) fn strike(self) {
        Server::end_all(self.gateways.into_iter().flatten().chain([self.origin]).collect());
    }

    fn gateway(&self, row: usize) -> Option<&Server> {
        self.gateways.get(row)?.as_ref()
    }

    fn origin_address(&self, row: usize) -> io::Result<SocketAddr> {
        self.origin.addresses.get(row).copied().ok_or_else(|| io::Error::other("the origin has a port for each row"))
    }

    /// Counts the sockets of these rows, in one reading.
    fn sockets(&self, rows: &[usize]) -> io::Result<Vec<Sockets>> {
        let gateway = |row| self.gateway(row).and_then(|gateway| gateway.addresses.first());
        let mut ports = Vec::new();
        for row in rows {
            ports.extend([self.origin_address(*row)?].iter().chain(gateway(*row)).map(SocketAddr::port));
        }
        let mut all = sockets::count(&ports)?.into_iter();
        let mut next = |row: &usize| Sockets {
            origin_port: all.next().unwrap_or_default(),
            gateway_port: gateway(*row).and_then(|_| all.next()),
        };
        Ok(rows.iter().map(&mut next).collect())
    }

    /// Counts the sockets of all rows.
    pub(super) fn all_sockets(&self) -> io::Result<Vec<Sockets>> {
        self.sockets(&(0..ROWS.len()).collect::<Vec<_>>())
    }

    fn ask_origin(&self) -> io::Result<OriginCounts> {
        OriginCounts::ask(self.origin_address(ROWS.len())?)
    }
}

/// Sockets of a row at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sockets {
    pub(super) origin_port: Census,
    pub(super) gateway_port: Option<Census>,
}

/// Everything that a demo measured.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) samples: Vec<Sample>,
    /// By index of row, in the end: those in `TIME_WAIT` are the sum of all rounds.
    pub(super) at_end: Vec<Sockets>,
}

/// What a segment gave.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Index in [`ROWS`].
    pub(super) row: usize,
    pub(super) round: u32,
    /// How long the measured window really was.
    pub(super) window: Duration,
    pub(super) tally: Tally,
    pub(super) client: Spent,
    pub(super) gateway: Option<Spent>,
    pub(super) origin: Spent,
    /// All cores, whoever used them.
    pub(super) cores: Cores,
    pub(super) source: Source,
    /// Connections and requests that the origin had in the whole segment.
    pub(super) at_origin: OriginCounts,
    pub(super) sockets: Option<Sockets>,
}

/// What the kernel has accounted at one moment.
struct Reading {
    at: Instant,
    client: Usage,
    gateway: Option<Usage>,
    origin: Usage,
    cores: Cores,
}

impl Reading {
    fn take(stage: &Stage, row: usize) -> io::Result<Self> {
        let gateway = stage.gateway(row).map(|gateway| Usage::read(gateway.pid())).transpose()?;
        Ok(Self {
            client: Usage::read(std::process::id())?,
            gateway,
            origin: Usage::read(stage.origin.pid())?,
            cores: Cores::read()?,
            at: Instant::now(),
        })
    }
}

/// Runs segments.
#[derive(Debug)]
pub(super) struct Measuring<'a> {
    plan: Plan,
    stage: &'a Stage,
    signals: &'a Signals,
    looks_left: Duration,
}

impl<'a> Measuring<'a> {
    pub(super) fn new(plan: Plan, stage: &'a Stage, signals: &'a Signals) -> Self {
        Self { plan, stage, signals, looks_left: LOOKS_BUDGET }
    }

    /// One segment; `None` if somebody wants the demo to end.
    pub(super) fn segment(&mut self, round: u32, row: usize) -> io::Result<Option<Sample>> {
        let Some(kind) = ROWS.get(row) else { return Ok(None) };
        let stage = self.stage;
        let address = match stage.gateway(row).and_then(|gateway| gateway.addresses.first()) {
            Some(address) => *address,
            None => stage.origin_address(row)?,
        };
        let before = stage.ask_origin()?;
        let Plan { connections, client_threads: threads, .. } = self.plan;
        let load = Load::start(Target { address, keepalive: kind.keepalive, connections, threads })?;
        if !self.signals.pause(self.plan.warm_up)? {
            return Ok(None);
        }
        let first = Reading::take(stage, row)?;
        load.enter(Phase::Measured);
        if !self.signals.pause(self.plan.window)? {
            return Ok(None);
        }
        load.enter(Phase::Watched);
        let last = Reading::take(stage, row)?;
        let sockets = self.look_at_sockets(row)?;
        let tally = load.end()?;
        let gateway = last.gateway.as_ref().zip(first.gateway.as_ref());
        Ok(Some(Sample {
            row,
            round,
            window: last.at - first.at,
            tally,
            client: last.client.since(&first.client),
            gateway: gateway.map(|(last, first)| last.since(first)),
            origin: last.origin.since(&first.origin),
            cores: last.cores.since(first.cores),
            source: last.origin.source(),
            at_origin: stage.ask_origin()?.since(before),
            sockets,
        }))
    }

    /// Counts sockets while the load goes on, after the window: a reading costs CPU in proportion to all sockets there are.
    fn look_at_sockets(&mut self, row: usize) -> io::Result<Option<Sockets>> {
        if self.looks_left.is_zero() {
            return Ok(None);
        }
        let begun = Instant::now();
        let sockets = self.stage.sockets(&[row])?.pop();
        self.looks_left = self.looks_left.saturating_sub(begun.elapsed());
        Ok(sockets)
    }
}
