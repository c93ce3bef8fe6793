//! From what was seen of one sample to its figures, series, remarks, and whether it counts. Values in, values out; what each
//! figure means stands at [`record`](crate::record).

use super::bottleneck::{Bottleneck, void_by_load};
use super::client;
use super::looks::{Fullest, Look, Numbers};
use super::usage::{Busiest, Cores};
use crate::record::Sample;
use sockdiag::Counters;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Sockets to one destination that are this part of the usable ports are a ceiling: the rest is between two looks.
const CEILING_SHARE: f64 = 0.95;
/// Metrics of a process that are charted: of a page with hundreds those that changed most often.
const TOLD_SERIES_MAX: usize = 32;
/// Part of a core that looking may take before it is worth a sentence.
const LOOKING_CORES_MAX: f64 = 0.05;

/// What is read before the load and after it.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) counters: Numbers,
    pub(super) cores: Cores,
    /// By process.
    pub(super) cpu_ns: BTreeMap<String, u64>,
    /// Of this program without what it started.
    pub(super) own_cpu_ns: u64,
}

/// What a load did.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) figures: client::Figures,
    /// From its start to its end.
    pub(super) cpu_ns: u64,
}

/// Everything that was seen.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) arm: String,
    pub(super) round: u32,
    pub(super) looks: Vec<Look>,
    /// When the idle time ended.
    pub(super) loaded_from: Instant,
    pub(super) before: Reading,
    pub(super) after: Reading,
    pub(super) clients: Vec<Client>,
    /// Processes of the experiment, in its order.
    pub(super) processes: Vec<String>,
    /// Why each of those that may die did.
    pub(super) died: BTreeMap<String, String>,
    /// What is to be said besides.
    pub(super) remarks: Vec<String>,
}

impl Seen {
    /// The sample.
    pub(super) fn into_sample(self) -> Sample {
        let mut figures = BTreeMap::new();
        self.add_loads(&mut figures);
        self.add_processes(&mut figures);
        self.add_counters(&mut figures);
        let series = self.series();
        self.add_looks(&series, &mut figures);
        let busiest = self.busiest();
        figures.extend(busiest.iter().map(|(name, busiest)| (format!("busiest.{name}"), busiest.occupied())));
        let remarks = self.remarks(&busiest, &figures);
        let void = self.void(&busiest);
        let charted = Self::charted(series);
        Sample { arm: self.arm, round: self.round, void, figures, series: charted, remarks }
    }

    fn is_load(&self, name: &str) -> bool {
        self.clients.iter().any(|client| client.name == name)
    }

    /// Looks between the beginning of the load and its end.
    fn during(&self) -> impl DoubleEndedIterator<Item = &Look> {
        self.looks.iter().filter(|look| look.at >= self.before.at && look.at <= self.after.at)
    }

    fn elapsed_s(&self) -> f64 {
        self.after.at.duration_since(self.before.at).as_secs_f64().max(1e-9)
    }

    fn add_loads(&self, figures: &mut Numbers) {
        let mut causes: BTreeMap<&String, u64> = BTreeMap::new();
        for client in &self.clients {
            let (name, told) = (&client.name, &client.figures);
            figures.extend(told.more.iter().map(|(key, value)| (format!("{name}.{key}"), *value)));
            let own = of_loads(std::slice::from_ref(client));
            figures.extend(own.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            for (cause, count) in &told.causes {
                figures.insert(format!("{name}.failed.{cause}"), *count as f64);
                *causes.entry(cause).or_insert(0) += count;
            }
        }
        figures.extend(of_loads(&self.clients));
        figures.extend(causes.into_iter().map(|(cause, count)| (format!("failed.{cause}"), count as f64)));
    }

    fn add_processes(&self, figures: &mut Numbers) {
        let requests: u64 = self.clients.iter().map(|client| client.figures.requests).sum();
        let of_process = |name: &String| {
            let then = self.before.cpu_ns.get(name).copied().unwrap_or(0);
            self.after.cpu_ns.get(name).copied().unwrap_or(0).saturating_sub(then)
        };
        let processes = self.processes.iter().map(|name| (name, of_process(name)));
        let loads = self.clients.iter().map(|client| (&client.name, client.cpu_ns));
        for (name, cpu_ns) in processes.chain(loads) {
            figures.insert(format!("cores.{name}"), cpu_ns as f64 / 1e9 / self.elapsed_s());
            if requests > 0 {
                figures.insert(format!("cpu_us_per_request.{name}"), cpu_ns as f64 / 1e3 / requests as f64);
            }
            figures.insert(format!("died.{name}"), f64::from(u8::from(self.died.contains_key(name))));
        }
        let looking_ns = self.after.own_cpu_ns.saturating_sub(self.before.own_cpu_ns);
        figures.insert("cores.looking".to_owned(), looking_ns as f64 / 1e9 / self.elapsed_s());
        figures.insert("cores_used".to_owned(), self.after.cores.used_since(self.before.cores));
    }

    /// What grew, and what people ask for also when it did not.
    fn add_counters(&self, figures: &mut Numbers) {
        let known: BTreeSet<&str> = Counters::default().each().map(|(name, _)| name).collect();
        for (name, now) in &self.after.counters {
            let grown = now - self.before.counters.get(name).copied().unwrap_or(0.0);
            let last = name.rsplit('.').next().unwrap_or_default();
            if grown != 0.0 || known.contains(last) {
                figures.insert(name.clone(), grown);
            }
        }
    }

    /// Every number over time: seconds since the load began. Sockets that a look did not tell of were not there.
    fn series(&self) -> BTreeMap<String, Vec<(f64, f64)>> {
        let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        let seconds = |at: Instant| {
            let since = at.saturating_duration_since(self.before.at).as_secs_f64();
            since - self.before.at.saturating_duration_since(at).as_secs_f64()
        };
        for look in &self.looks {
            for (name, value) in &look.numbers {
                series.entry(name.clone()).or_default().push((seconds(look.at), *value));
            }
        }
        let mut earlier: BTreeMap<&String, (Instant, u64)> = BTreeMap::new();
        for look in &self.looks {
            for (name, threads) in look.threads.iter().filter(|(_, threads)| !threads.is_empty()) {
                let now = (look.at, threads.run_ns());
                if let Some((at, run_ns)) = earlier.insert(name, now) {
                    let elapsed_ns = look.at.duration_since(at).as_nanos().max(1) as f64;
                    let cores = now.1.saturating_sub(run_ns) as f64 / elapsed_ns;
                    series.entry(format!("cores.{name}")).or_default().push((seconds(look.at), cores));
                }
            }
        }
        for client in &self.clients {
            let name = if let [_] = self.clients.as_slice() { String::new() } else { format!("{}.", client.name) };
            if !client.figures.over_time.is_empty() {
                series.insert(format!("{name}requests_per_second"), client.figures.over_time.clone());
            }
        }
        series
    }

    /// Those that are worth keeping: what was always nothing is no chart, and what is told is told in hundreds of numbers.
    fn charted(mut series: BTreeMap<String, Vec<(f64, f64)>>) -> BTreeMap<String, Vec<(f64, f64)>> {
        let changes = |points: &[(f64, f64)]| {
            let neighbours = points.iter().zip(points.iter().skip(1));
            neighbours.filter(|((_, one), (_, other))| one.to_bits() != other.to_bits()).count()
        };
        let mut told: Vec<(usize, String)> = series
            .iter()
            .filter(|(name, _)| name.starts_with("told."))
            .map(|(name, points)| (changes(points), name.clone()))
            .collect();
        told.sort_by(|(one, _), (other, _)| other.cmp(one));
        let dull = told.iter().enumerate().filter(|(at, (changes, _))| *at >= TOLD_SERIES_MAX || *changes == 0);
        for (_, (_, name)) in dull {
            series.remove(name);
        }
        series.retain(|_, points| points.iter().any(|(_, value)| *value != 0.0));
        for points in series.values_mut() {
            for point in points {
                *point = (rounded(point.0), rounded(point.1));
            }
        }
        series
    }

    /// What is averaged over the looks, or the most or the last of them.
    fn add_looks(&self, series: &BTreeMap<String, Vec<(f64, f64)>>, figures: &mut Numbers) {
        let idle_until = self.loaded_from;
        let began_s = -self.before.at.saturating_duration_since(idle_until).as_secs_f64();
        let ended_s = self.elapsed_s();
        for (name, points) in series {
            let idle = points.iter().filter(|(at, _)| *at <= began_s).map(|(_, value)| *value);
            let during = || points.iter().filter(|(at, _)| (0.0..=ended_s).contains(at)).map(|(_, value)| *value);
            let group = name.split('.').next().unwrap_or_default();
            match group {
                "sockets" => {
                    let (idle, load) = (mean(idle).unwrap_or(0.0), mean(during()));
                    figures.insert(format!("{name}.idle"), idle);
                    if let Some(load) = load {
                        figures.insert(name.clone(), load);
                        figures.insert(format!("{name}.net"), load - idle);
                    }
                }
                "queue" | "bytes" | "ports" => _ = most(during()).map(|most| figures.insert(name.clone(), most)),
                "rss_mb" | "descriptors" => {
                    if let Some(last) = during().next_back() {
                        figures.insert(name.clone(), last);
                    }
                    if let Some(most) = most(during()).filter(|_| group == "rss_mb") {
                        figures.insert(name.replacen("rss_mb", "rss_mb_max", 1), most);
                    }
                }
                "told" => {
                    let before = points.iter().rev().find(|(at, _)| *at <= 0.0).map(|(_, value)| *value);
                    if let (Some(before), Some((_, last))) = (before, points.last()) {
                        figures.insert(name.clone(), last - before);
                    }
                    if let Some(most) = most(during()) {
                        figures.insert(format!("{name}.max"), most);
                    }
                }
                _ => {}
            }
        }
    }

    /// How the busiest thread of each process and load spent the time between the first look of the load and the last.
    fn busiest(&self) -> BTreeMap<String, Busiest> {
        let mut busiest = BTreeMap::new();
        let names: BTreeSet<&String> = self.during().flat_map(|look| look.threads.keys()).collect();
        for name in names {
            let mut seen =
                self.during().filter_map(|look| look.threads.get(name)).filter(|threads| !threads.is_empty());
            let (first, last) = (seen.next(), seen.next_back());
            if let (Some(first), Some(last)) = (first, last) {
                busiest.insert(name.clone(), last.busiest_since(first));
            }
        }
        busiest
    }

    fn void(&self, busiest: &BTreeMap<String, Busiest>) -> Option<String> {
        let by_itself: Vec<String> = self
            .clients
            .iter()
            .flat_map(|client| client.figures.void.iter().map(move |why| format!("{}: {why}", client.name)))
            .collect();
        if !by_itself.is_empty() {
            return Some(by_itself.join("; "));
        }
        let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<(&str, Busiest)> {
            busiest.iter().filter(|(name, _)| wanted(name)).map(|(name, busiest)| (name.as_str(), *busiest)).collect()
        };
        let is_closed = |name: &str| self.clients.iter().any(|client| client.name == name && !client.figures.is_open);
        void_by_load(&of(&is_closed), &of(&|name| !self.is_load(name)))
    }

    fn remarks(&self, busiest: &BTreeMap<String, Busiest>, figures: &Numbers) -> Vec<String> {
        let mut remarks = Vec::new();
        if busiest.is_empty() {
            remarks.push("the load was over before anybody had looked twice: who held it up is not known".to_owned());
        } else {
            let all: Vec<(&str, Busiest)> = busiest.iter().map(|(name, busiest)| (name.as_str(), *busiest)).collect();
            let cores_used = figures.get("cores_used").copied().unwrap_or(0.0);
            let each = all.iter().map(|(name, busiest)| {
                format!("{name} {:.0}+{:.0} %", busiest.running * 100.0, busiest.queued * 100.0)
            });
            let each: Vec<String> = each.collect();
            remarks.push(format!(
                "bottleneck: {} (busiest threads, running + waiting for a core: {}; all cores {:.0} %)",
                Bottleneck::find(&all, cores_used),
                each.join(", "),
                cores_used * 100.0
            ));
        }
        remarks.extend(self.ceilings());
        remarks.extend(self.died.iter().map(|(name, why)| format!("{name} died: {why}")));
        if self.clients.iter().all(|client| client.figures.requests == 0) {
            remarks.push("no request was answered".to_owned());
        }
        if let Some(looking) = figures.get("cores.looking").filter(|looking| **looking > LOOKING_CORES_MAX) {
            remarks.push(format!("looking took {:.0} % of a core", looking * 100.0));
        }
        remarks.extend(self.remarks.iter().cloned());
        remarks
    }

    /// Hosts that had nearly all ports for one destination in use.
    fn ceilings(&self) -> Vec<String> {
        let mut fullest: BTreeMap<&String, &Fullest> = BTreeMap::new();
        for (host, found) in self.during().flat_map(|look| &look.fullest) {
            let known = fullest.entry(host).or_insert(found);
            if found.sockets > known.sockets {
                *known = found;
            }
        }
        let full = fullest
            .into_iter()
            .filter(|(_, found)| f64::from(found.sockets) >= CEILING_SHARE * f64::from(found.usable));
        let said = full.map(|(host, found)| {
            format!(
                "{host}: {} sockets from {}, of {} usable ports: a plateau there is the port range's ceiling, not the load's",
                found.sockets, found.pair, found.usable
            )
        });
        said.collect()
    }
}

/// Of loads together: counts are added up, means weighted, and of quantiles the worst is told, for they cannot be added.
fn of_loads(clients: &[Client]) -> Vec<(String, f64)> {
    let sum = |of: &dyn Fn(&client::Figures) -> f64| -> f64 { clients.iter().map(|client| of(&client.figures)).sum() };
    let (requests, failed) = (sum(&|told| told.requests as f64), sum(&|told| told.failed as f64));
    let attempts = sum(&|told| told.attempts as f64);
    let mut figures = vec![
        ("requests".to_owned(), requests),
        ("requests_per_second".to_owned(), sum(&|told| told.requests_per_second)),
        ("failed".to_owned(), failed),
    ];
    if attempts > 0.0 {
        figures.push(("failed_share".to_owned(), failed / attempts));
    }
    let mut latencies: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for client in clients {
        for (name, value) in client.figures.latency.each() {
            latencies.entry(name).or_default().push((value, client.figures.requests as f64));
        }
    }
    for (name, values) in latencies {
        let value = if name == "mean" {
            let weight: f64 = values.iter().map(|(_, weight)| weight).sum();
            let weighted: f64 = values.iter().map(|(value, weight)| value * weight).sum();
            (weight > 0.0).then(|| weighted / weight)
        } else {
            most(values.into_iter().map(|(value, _)| value))
        };
        figures.extend(value.map(|value| (format!("latency_ms.{name}"), value)));
    }
    figures
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn most(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// To a thousandth: a series is drawn, and its figures are taken before this.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
