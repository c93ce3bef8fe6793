//! What the scale bench reports: figures of the load, of the gateway and of the plan, and which of them are wrong.

use anyhow::{Context as _, Result};
use doctor::plan::parse_chain;
use doctor::plan::verify::{MEMORY_OFF_PERCENT_MAX, Round, predicted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Goals: connections opened each second, bytes of an idle tunnel, and milliseconds that a tunnel pauses at most.
const GOAL_RAMP: f64 = 5000.0;
const GOAL_USER_BYTES: f64 = 256.0;
const GOAL_PAUSE_MS: u64 = 100;

/// What the load has measured, of its JSON file.
#[derive(Deserialize, Serialize)]
pub(super) struct Loaded {
    processes: usize,
    established: u64,
    failed: u64,
    /// By cause.
    failures: BTreeMap<String, u64>,
    open_max: u64,
    /// How open connections ended.
    endings: BTreeMap<String, u64>,
    close_codes: BTreeMap<String, u64>,
    losses: u64,
    pings: u64,
    pongs: u64,
    sent: u64,
    delivered: u64,
    expected: u64,
    lost: u64,
    /// Delivered twice.
    surplus: u64,
    handshake: Times,
    pong: Times,
    delivery: Times,
    /// The load's own lateness.
    lag: Times,
    #[serde(skip_serializing)]
    intervals: Vec<Interval>,
    /// Connections opened each second, from the first to the last.
    #[serde(default)]
    opened_per_second: f64,
}

/// Times from when something was due.
#[derive(Deserialize, Serialize)]
struct Times {
    quantiles_ns: BTreeMap<String, u64>,
    max_ns: u64,
}

#[derive(Deserialize)]
struct Interval {
    begun_s: f64,
    length_s: f64,
    open: u64,
}

impl Loaded {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut loaded: Self = serde_json::from_str(text).context("the results of the load")?;
        let last = loaded.intervals.iter().find(|row| row.open == loaded.open_max);
        loaded.opened_per_second = last.map_or(f64::NAN, |row| loaded.open_max as f64 / (row.begun_s + row.length_s));
        Ok(loaded)
    }

    /// Faults that fail the task in every run.
    fn wrong(&self, tunnels: u64) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.failed > 0 || self.open_max != tunnels {
            wrong.push(format!("{} were not opened ({:?}), {} were open", self.failed, self.failures, self.open_max));
        }
        if self.lost > 0 || self.surplus > 0 {
            let Self { lost, surplus, expected, .. } = self;
            wrong.push(format!("of {expected} deliveries {lost} are lost, and {surplus} came twice"));
        }
        wrong
    }
}

/// An upgrade under load.
#[derive(Serialize)]
pub(super) struct Upgrade {
    /// Seconds from USR2 until the new program serves.
    pub(super) until_served: f64,
    /// Seconds from QUIT until the new program has all tunnels and the old one has ended.
    pub(super) until_moved: f64,
    /// By each process.
    pub(super) handed_over: Vec<HandedOver>,
}

/// What a process has handed over.
#[derive(Serialize)]
pub(super) struct HandedOver {
    pub(super) tunnels: u64,
    /// Pauses of 99 % of them, and of all, in milliseconds.
    pub(super) p99_ms: u64,
    pub(super) longest_ms: u64,
}

impl Upgrade {
    fn moved(&self) -> u64 {
        self.handed_over.iter().map(|one| one.tunnels).sum()
    }

    /// Of the process with the longest pauses.
    fn most(&self, of: impl Fn(&HandedOver) -> u64) -> u64 {
        self.handed_over.iter().map(of).max().unwrap_or(0)
    }

    fn wrong(&self, tunnels: u64) -> Option<String> {
        (self.moved() != tunnels).then(|| format!("{} of {tunnels} tunnels were handed over", self.moved()))
    }

    fn rows(&self) -> [(&'static str, String, String); 3] {
        let (p99, longest) = (self.most(|one| one.p99_ms), self.most(|one| one.longest_ms));
        let goal = format!("at most {GOAL_PAUSE_MS}: {}", met(p99 <= GOAL_PAUSE_MS));
        let pauses = format!("{p99} / {longest}");
        let seconds = |seconds: f64| format!("{seconds:.1}");
        [
            ("upgrade: from USR2 until the new program serves, s", seconds(self.until_served), String::new()),
            (
                "from QUIT until it has all tunnels and the old one has ended, s",
                seconds(self.until_moved),
                String::new(),
            ),
            ("pause of a tunnel at the upgrade, ms: p99 / most", pauses, goal),
        ]
    }
}

/// Memory and counts while all are open, and what `holdfast plan` computes for them.
#[derive(Serialize)]
pub(super) struct Memory {
    user_bytes_per_tunnel: f64,
    /// Of the sockets at both ends of both connections of a tunnel.
    kernel_bytes_per_tunnel: f64,
    /// Counted, and as `holdfast plan` computes it.
    descriptors: (u64, u64),
    /// Local ports towards the gateway and the origins.
    ports: [(u64, u64); 2],
    kernel_bytes: (u64, u64),
    program_bytes: (u64, u64),
}

impl Memory {
    pub(super) fn of(tunnels: u64, counted: &Round) -> Result<Self> {
        let tiers = ["clients", "holdfast", "origin"].map(|name| format!("[[tier]]\nname = \"{name}\"\n")).concat();
        let chain = parse_chain(&format!("connections = {tunnels}\n{tiers}"));
        let computed = predicted(&chain.map_err(|error| anyhow::anyhow!("{error}"))?, tunnels);
        let pair = |of: fn(&Round) -> u64| (of(counted), of(&computed));
        Ok(Self {
            user_bytes_per_tunnel: counted.program_bytes as f64 / tunnels as f64,
            kernel_bytes_per_tunnel: counted.kernel_bytes as f64 / tunnels as f64,
            descriptors: pair(|round| round.descriptors.iter().sum()),
            ports: [
                pair(|round| round.ports.first().copied().unwrap_or(0)),
                pair(|round| round.ports.get(1).copied().unwrap_or(0)),
            ],
            kernel_bytes: pair(|round| round.kernel_bytes),
            program_bytes: pair(|round| round.program_bytes),
        })
    }

    /// How far the measured memory is from the computed one, in percent.
    fn off(&self) -> f64 {
        let measured = self.kernel_bytes.0 + self.program_bytes.0;
        let computed = self.kernel_bytes.1 + self.program_bytes.1;
        (measured as f64 / computed as f64 - 1.0) * 100.0
    }

    fn rows(&self) -> [(&'static str, String, String); 6] {
        let exact = |(counted, computed): (u64, u64)| {
            (counted.to_string(), format!("{computed}: {}", met(counted == computed)))
        };
        let mib = |(counted, computed): (u64, u64)| {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            (format!("{:.1}", mib(counted)), format!("{:.1} computed", mib(computed)))
        };
        let user = format!("at most {GOAL_USER_BYTES}: {}", met(self.user_bytes_per_tunnel <= GOAL_USER_BYTES));
        let row = |what, (measured, goal)| (what, measured, goal);
        [
            ("user memory of a tunnel, bytes", format!("{:.0}", self.user_bytes_per_tunnel), user),
            (
                "kernel memory of a tunnel, all four sockets, bytes",
                format!("{:.0}", self.kernel_bytes_per_tunnel),
                String::new(),
            ),
            row("descriptors of the gateway (goal: computed by plan)", exact(self.descriptors)),
            row("local ports of the clients", exact(self.ports[0])),
            row("local ports of the gateway", exact(self.ports[1])),
            row("kernel memory, MiB", mib(self.kernel_bytes)),
        ]
    }

    fn verdict(&self) -> String {
        let is_met = self.off().abs() <= MEMORY_OFF_PERCENT_MAX;
        format!("{:+.1} % off, at most {MEMORY_OFF_PERCENT_MAX}: {}", self.off(), met(is_met))
    }

    fn wrong(&self) -> Option<String> {
        let is_exact = |(counted, computed): (u64, u64)| counted == computed;
        let agrees = is_exact(self.descriptors) && self.ports.iter().all(|pair| is_exact(*pair));
        (!agrees || self.off().abs() > MEMORY_OFF_PERCENT_MAX)
            .then(|| "descriptors, ports or memory are not as holdfast plan computes them".to_owned())
    }
}

/// The tunnels with heartbeats.
#[derive(Serialize)]
pub(super) struct Held {
    pub(super) loaded: Loaded,
    /// CPU of the gateway for opening a tunnel, in microseconds.
    pub(super) opening_cpu_us: f64,
    pub(super) memory: Memory,
    /// CPU of the gateway for a ping and its pong, in microseconds.
    pub(super) heartbeat_cpu_us: f64,
    pub(super) upgrade: Upgrade,
    /// From QUIT until the gateway has ended.
    pub(super) drain_seconds: f64,
    /// Lines of the gateway's error log.
    pub(super) errors: Vec<String>,
}

impl Held {
    pub(super) fn markdown(&self, tunnels: u64) -> String {
        let loaded = &self.loaded;
        let ramp = loaded.opened_per_second;
        let goal = format!("at least {GOAL_RAMP}: {}", met(ramp >= GOAL_RAMP));
        let drained = loaded.close_codes.get(DRAINED).copied().unwrap_or(0);
        let mut rows = vec![
            ("opened each second", format!("{ramp:.0}"), goal),
            ("CPU of the gateway for opening a tunnel, µs", format!("{:.0}", self.opening_cpu_us), String::new()),
        ];
        rows.extend(self.memory.rows());
        rows.push(("memory against the plan", self.memory.verdict(), String::new()));
        rows.push((
            "CPU of the gateway for a heartbeat (ping and pong), µs",
            format!("{:.1}", self.heartbeat_cpu_us),
            String::new(),
        ));
        rows.push(("pong, ms: median / p99 / most", loaded.pong.shown(), String::new()));
        rows.extend(self.upgrade.rows());
        rows.push(("drained with 1001", drained.to_string(), format!("{tunnels}: {}", met(drained == tunnels))));
        rows.push(("drain, s", format!("{:.1}", self.drain_seconds), String::new()));
        table(&rows)
    }

    /// Faults that fail the task. The drain has ended all tunnels, and nothing else has.
    pub(super) fn wrong(&self, tunnels: u64) -> Vec<String> {
        let mut wrong = self.loaded.wrong(tunnels);
        let drained = self.loaded.close_codes.get(DRAINED).copied().unwrap_or(0);
        if drained != tunnels || self.loaded.losses != tunnels {
            wrong.push(format!("{drained} tunnels were drained; ends: {:?}", self.loaded.endings));
        }
        wrong.extend(self.upgrade.wrong(tunnels));
        wrong.extend(self.memory.wrong());
        wrong.extend(self.errors.iter().cloned());
        wrong
    }
}

/// The close code of a drain at the end of a process ("going away", RFC 6455 section 7.4.1).
const DRAINED: &str = "1001";

/// The tunnels with broadcasts.
#[derive(Serialize)]
pub(super) struct Broadcast {
    pub(super) loaded: Loaded,
    /// Messages each second; each reaches all members of a room.
    pub(super) rate: f64,
    /// CPU of the gateway for a delivered message, in microseconds.
    pub(super) delivery_cpu_us: f64,
    pub(super) upgrade: Upgrade,
    /// Lines of the gateway's error log.
    pub(super) errors: Vec<String>,
}

impl Broadcast {
    pub(super) fn markdown(&self, tunnels: u64) -> String {
        let loaded = &self.loaded;
        let mut rows = vec![
            ("messages that were sent", loaded.sent.to_string(), String::new()),
            ("delivered", loaded.delivered.to_string(), String::new()),
            (
                "lost / twice",
                format!("{} / {}", loaded.lost, loaded.surplus),
                format!("0 / 0: {}", met(loaded.lost + loaded.surplus == 0)),
            ),
            ("CPU of the gateway for a delivered message, µs", format!("{:.1}", self.delivery_cpu_us), String::new()),
            ("delivery, ms: median / p99 / most", loaded.delivery.shown(), String::new()),
        ];
        rows.extend(self.upgrade.rows());
        rows.push(("tunnels lost", loaded.losses.to_string(), format!("0 of {tunnels}: {}", met(loaded.losses == 0))));
        table(&rows)
    }

    /// Faults that fail the task.
    pub(super) fn wrong(&self, tunnels: u64) -> Vec<String> {
        let mut wrong = self.loaded.wrong(tunnels);
        if self.loaded.losses > 0 {
            wrong.push(format!("{} tunnels were lost: {:?}", self.loaded.losses, self.loaded.endings));
        }
        wrong.extend(self.upgrade.wrong(tunnels));
        wrong.extend(self.errors.iter().cloned());
        wrong
    }
}

impl Times {
    fn shown(&self) -> String {
        let of = |name: &str| self.quantiles_ns.get(name).copied().unwrap_or(self.max_ns) as f64 / 1e6;
        format!("{:.1} / {:.1} / {:.1}", of("p50"), of("p99"), self.max_ns as f64 / 1e6)
    }
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

fn table(rows: &[(&str, String, String)]) -> String {
    let mut text = "| what | measured | goal |\n|---|---|---|\n".to_owned();
    for (what, measured, goal) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {what} | {measured} | {goal} |");
    }
    text
}
