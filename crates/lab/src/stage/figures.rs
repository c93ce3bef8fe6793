//! Computes figures, series and remarks from the observations of one sample, and decides whether it counts. Values in,
//! values out; [`record`](crate::record) explains each figure.

use super::bottleneck::{Bottleneck, void_by_load};
use super::client;
use super::held::add_held;
use super::loads::of_loads;
use super::looks::{Fullest, Look, Numbers};
use super::threads::{Busiest, busiest};
use super::usage::{Cores, Cpu};
use crate::record::Sample;
use sockdiag::Counters;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// From this share of the usable ports on, the sockets to one destination count as a ceiling; the rest is in use between
/// two looks.
const CEILING_SHARE: f64 = 0.95;
/// Most metrics of a process that are kept as series: those that changed most often.
const TOLD_SERIES_MAX: usize = 32;
/// A larger share of all cores taken by the host gets a remark.
const STOLEN_MAX: f64 = 0.02;
/// A larger share of a core used for looking gets a remark.
const LOOKING_CORES_MAX: f64 = 0.05;

/// Readings taken before and after the load.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) counters: Numbers,
    pub(super) cores: Cores,
    /// By process.
    pub(super) cpu: BTreeMap<String, Cpu>,
    /// CPU time of this program, without its children.
    pub(super) own_cpu_ns: u64,
}

/// The outcome of one load.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) figures: client::Figures,
    /// From its start to its end.
    pub(super) cpu: Cpu,
    /// Whether the sample stays valid if this load was the bottleneck.
    pub(super) may_limit: bool,
}

/// All observations of a sample.
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
    /// Processes that were allowed to die and did, with the reason.
    pub(super) died: BTreeMap<String, String>,
    /// System calls during the load, by probe.
    pub(super) calls: BTreeMap<String, u64>,
    /// Further remarks.
    pub(super) remarks: Vec<String>,
}

impl Seen {
    /// Computes the sample.
    pub(super) fn into_sample(self) -> Sample {
        let mut figures = BTreeMap::new();
        self.add_loads(&mut figures);
        self.add_processes(&mut figures);
        self.add_counters(&mut figures);
        let series = self.series();
        self.add_looks(&series, &mut figures);
        let busiest = self.busiest();
        figures.extend(busiest.iter().map(|(name, busiest)| (format!("busiest.{name}"), busiest.occupied())));
        let mut remarks = self.remarks(&busiest, &figures);
        let void = self.void(&busiest);
        let late = self.late();
        remarks.extend(late.clone());
        let charted = Self::charted(series);
        Sample { arm: self.arm, round: self.round, void, late, figures, series: charted, remarks }
    }

    fn is_load(&self, name: &str) -> bool {
        self.clients.iter().any(|client| client.name == name)
    }

    /// Looks between the start of the load and its end.
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
            let of = |reading: &Reading| reading.cpu.get(name).copied().unwrap_or_default();
            of(&self.after).since(of(&self.before))
        };
        let processes = self.processes.iter().map(|name| (name, of_process(name)));
        let loads = self.clients.iter().map(|client| (&client.name, client.cpu.since(Cpu::default())));
        for (name, (user_us, system_us)) in processes.chain(loads) {
            figures.insert(format!("cores.{name}"), (user_us + system_us) / 1e6 / self.elapsed_s());
            if requests > 0 {
                let each = |us: f64| us / requests as f64;
                figures.insert(format!("cpu_us_per_request.{name}"), each(user_us + system_us));
                figures.insert(format!("cpu_user_us_per_request.{name}"), each(user_us));
            }
            figures.insert(format!("died.{name}"), f64::from(u8::from(self.died.contains_key(name))));
        }
        let calls = self.calls.iter().filter(|_| requests > 0);
        let each = calls.map(|(name, count)| (format!("calls_per_request.{name}"), *count as f64 / requests as f64));
        figures.extend(each);
        let open = self.clients.iter().filter_map(|client| client.figures.more.get("open_max")).sum();
        let before = self.looks.iter().rfind(|look| look.at <= self.before.at);
        add_held(figures, &self.processes, open, before.zip(self.during().next_back()));
        let looking_ns = self.after.own_cpu_ns.saturating_sub(self.before.own_cpu_ns);
        figures.insert("cores.looking".to_owned(), looking_ns as f64 / 1e9 / self.elapsed_s());
        figures.insert("cores_used".to_owned(), self.after.cores.used_since(self.before.cores));
        figures.insert("stolen".to_owned(), self.after.cores.stolen_since(self.before.cores));
    }

    /// Adds counters that grew, and a few important ones also if they did not.
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

    /// Every number over time, in seconds since the load began. Sockets that a look does not list did not exist.
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

    /// The series to keep: without those that are always zero, and only some of the hundreds of metrics.
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

    /// Adds figures that are the mean, the maximum or the last value of the looks.
    fn add_looks(&self, series: &BTreeMap<String, Vec<(f64, f64)>>, figures: &mut Numbers) {
        let idle_until = self.loaded_from;
        let began_s = -self.before.at.saturating_duration_since(idle_until).as_secs_f64();
        let ended_s = self.elapsed_s();
        for (name, points) in series {
            let idle = points.iter().filter(|(at, _)| *at <= began_s).map(|(_, value)| *value);
            let during = || points.iter().filter(|(at, _)| (0.0..=ended_s).contains(at)).map(|(_, value)| *value);
            let group = name.split('.').next().unwrap_or_default();
            match group {
                "sockets" | "closed_first" => {
                    // The look right after the load.
                    if let Some((_, last)) = points.last() {
                        figures.insert(format!("{name}.end"), *last);
                    }
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

    /// How the busiest thread of each process and load spent the time between the first and the last look of the load.
    fn busiest(&self) -> BTreeMap<String, Busiest> {
        let names: BTreeSet<&String> = self.during().flat_map(|look| look.threads.keys()).collect();
        let found = names.into_iter().filter_map(|name| {
            let looks = self.during().filter_map(|look| look.threads.get(name));
            Some((name.clone(), busiest(looks)?))
        });
        found.collect()
    }

    fn void(&self, busiest: &BTreeMap<String, Busiest>) -> Option<String> {
        let by_itself = self.said_of_themselves(false);
        if !by_itself.is_empty() {
            return Some(by_itself.join("; "));
        }
        let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<(&str, Busiest)> {
            busiest.iter().filter(|(name, _)| wanted(name)).map(|(name, busiest)| (name.as_str(), *busiest)).collect()
        };
        let is_closed = |name: &str| {
            self.clients.iter().any(|client| client.name == name && !client.figures.is_open && !client.may_limit)
        };
        void_by_load(&of(&is_closed), &of(&|name| !self.is_load(name)))
    }

    /// The lag that the loads reported. It leaves out loads that may be the bottleneck.
    fn late(&self) -> Option<String> {
        let judged = self.clients.iter().filter(|client| !client.may_limit);
        let late =
            judged.filter_map(|client| Some(format!("{} was late: {}", client.name, client.figures.late.as_ref()?)));
        let late: Vec<String> = late.collect();
        (!late.is_empty()).then(|| late.join("; "))
    }

    /// Why the clients say that their figures are void: of the clients that may be the bottleneck, or of the others.
    fn said_of_themselves(&self, may_limit: bool) -> Vec<String> {
        let clients = self.clients.iter().filter(|client| client.may_limit == may_limit);
        clients
            .flat_map(|client| client.figures.void.iter().map(move |why| format!("{}: {why}", client.name)))
            .collect()
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
        remarks.extend(self.said_of_themselves(true));
        remarks.extend(self.ceilings());
        remarks.extend(self.died.iter().map(|(name, why)| format!("{name} died: {why}")));
        // Held tunnels exchange nothing, which is no failure.
        let in_vain = |told: &client::Figures| told.requests == 0 && (told.failed > 0 || told.attempts == 0);
        if self.clients.iter().all(|client| in_vain(&client.figures)) {
            remarks.push("no request was answered".to_owned());
        }
        if let Some(looking) = figures.get("cores.looking").filter(|looking| **looking > LOOKING_CORES_MAX) {
            remarks.push(format!("looking took {:.0} % of a core", looking * 100.0));
        }
        if let Some(stolen) = figures.get("stolen").filter(|stolen| **stolen > STOLEN_MAX) {
            remarks
                .push(format!("the host took time that the cores had work for ({:.0} % of all cores)", stolen * 100.0));
        }
        remarks.extend(self.remarks.iter().cloned());
        remarks
    }

    /// Hosts that used nearly all ports for one destination.
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

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

pub(super) fn most(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// Rounded to a thousandth for charts; figures are computed from the exact values.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::threads::Threads;
    use super::*;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);
    const SECOND_NS: u64 = 1_000_000_000;

    fn numbers(pairs: &[(&str, f64)]) -> Numbers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    /// CPU time of this many seconds, with this many of 100 ticks a second in system mode.
    fn used(seconds: u64, system_ticks: u64) -> Cpu {
        Cpu { total_ns: seconds * SECOND_NS, user_ticks: seconds * 100 - system_ticks, system_ticks }
    }

    fn reading(at: Instant, counters: &[(&str, f64)], cpu_s: u64) -> Reading {
        let cpu = BTreeMap::from([("proxy".to_owned(), used(cpu_s, 75 * cpu_s))]);
        Reading { at, counters: numbers(counters), cores: Cores::default(), cpu, own_cpu_ns: 0 }
    }

    /// Observations of one second each: idle, warm-up, two of load, and the time after. The client ran for the share `busy`
    /// of the load.
    fn seen(sockets: [f64; 5], busy: f64) -> Seen {
        let start = Instant::now();
        let began = start + SECOND * 2;
        let at = [start, start + SECOND, began + SECOND / 2, began + SECOND * 3 / 2, began + SECOND * 3];
        let looks = at.into_iter().zip(sockets).enumerate().map(|(turn, (at, sockets))| {
            let ran = (SECOND_NS as f64 * busy) as u64 * turn as u64;
            let client = Threads::scripted(at, &[(7, ran, 0)], 0);
            let proxy = Threads::scripted(at, &[(8, SECOND_NS / 2 * turn as u64, 0)], 0);
            let fullest = Fullest { pair: "a to b:80".to_owned(), sockets: sockets as u32, usable: 100 };
            Look {
                at,
                numbers: numbers(&[
                    ("sockets.proxy.TIME_WAIT", sockets),
                    ("queue.accepts.length", sockets / 10.0),
                    ("told.nginx.accepts", 10.0 * turn as f64),
                    ("told.nginx.same", 3.0),
                    ("rss_mb.proxy", 5.0 - turn as f64),
                ]),
                threads: BTreeMap::from([("client".to_owned(), client), ("proxy".to_owned(), proxy)]),
                fullest: BTreeMap::from([("proxy".to_owned(), fullest)]),
            }
        });
        let latency = client::Latency { mean: Some(2.0), p99: Some(5.0), ..client::Latency::default() };
        let figures = client::Figures {
            requests: 1000,
            attempts: 1010,
            requests_per_second: 500.0,
            failed: 10,
            causes: BTreeMap::from([("refused".to_owned(), 10)]),
            latency,
            ..client::Figures::default()
        };
        Seen {
            arm: "only".to_owned(),
            round: 3,
            looks: looks.collect(),
            loaded_from: start + SECOND / 2,
            before: reading(began, &[("tcp.proxy.Tcp.ActiveOpens", 5.0), ("tcp.proxy.TcpExt.Odd", 1.0)], 1),
            after: reading(began + SECOND * 2, &[("tcp.proxy.Tcp.ActiveOpens", 5.0), ("tcp.proxy.TcpExt.Odd", 1.0)], 2),
            clients: vec![Client { name: "client".to_owned(), figures, cpu: used(1, 75), may_limit: false }],
            processes: vec!["proxy".to_owned()],
            died: BTreeMap::new(),
            calls: BTreeMap::from([("of_proxy".to_owned(), 9500)]),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn sockets_are_means_of_the_load_beside_the_idle_reference() {
        let sample = seen([10.0, 500.0, 40.0, 60.0, 900.0], 0.5).into_sample();
        let of = |name: &str| sample.figures.get(name).copied();
        assert_eq!(of("sockets.proxy.TIME_WAIT"), Some(50.0), "neither the warm-up nor what came after");
        assert_eq!(of("sockets.proxy.TIME_WAIT.idle"), Some(10.0));
        assert_eq!(of("sockets.proxy.TIME_WAIT.net"), Some(40.0));
        assert_eq!(of("sockets.proxy.TIME_WAIT.end"), Some(900.0), "and this is what came after");
        assert_eq!(
            (of("queue.accepts.length"), of("rss_mb.proxy"), of("rss_mb_max.proxy")),
            (Some(6.0), Some(2.0), Some(3.0))
        );
        assert_eq!(of("told.nginx.accepts"), Some(30.0), "from the last answer before the load to the last of all");
        assert_eq!(sample.series["sockets.proxy.TIME_WAIT"].first(), Some(&(-2.0, 10.0)));
        assert!(!sample.series.contains_key("told.nginx.same"), "what never changes is no chart");
    }

    #[test]
    fn loads_and_processes_are_counted_per_answer() {
        let sample = seen([0.0; 5], 0.5).into_sample();
        let of = |name: &str| sample.figures.get(name).copied();
        assert_eq!(
            (of("requests"), of("failed.refused"), of("client.latency_ms.p99")),
            (Some(1000.0), Some(10.0), Some(5.0))
        );
        assert_eq!(of("failed_share"), Some(10.0 / 1010.0));
        assert_eq!(
            (of("cpu_us_per_request.proxy"), of("cores.proxy"), of("died.proxy")),
            (Some(1000.0), Some(0.5), Some(0.0))
        );
        assert_eq!((of("cpu_user_us_per_request.proxy"), of("calls_per_request.of_proxy")), (Some(250.0), Some(9.5)));
        assert_eq!(of("bytes_per_connection.proxy"), None, "the number of open connections is unknown");
        let mut held = seen([0.0; 5], 0.5);
        held.clients[0].figures.more.insert("open_max".to_owned(), 4.0);
        // 4 MB at the last look before the load, 2 MB at the last look during it.
        let bytes = held.into_sample().figures["bytes_per_connection.proxy"];
        assert_eq!(bytes.to_bits(), (-2.0 * 1024.0 * 1024.0 / 4.0_f64).to_bits());
        assert_eq!((of("busiest.client"), of("busiest.proxy")), (Some(0.5), Some(0.5)));
        assert_eq!(of("tcp.proxy.Tcp.ActiveOpens"), Some(0.0), "people ask for it");
        assert_eq!(of("tcp.proxy.TcpExt.Odd"), None, "no claim uses one of hundreds that did not grow");
        assert_eq!((sample.void, sample.round), (None, 3));
    }

    #[test]
    fn busy_client_voids_only_late_or_closed_loops() {
        let void = seen([0.0; 5], 0.97).into_sample().void.unwrap();
        assert_eq!(void, "client was the bottleneck: its busiest thread was busy 97 % of the time, and proxy's 50 %");
        let mut open = seen([0.0; 5], 0.97);
        open.clients[0].figures.is_open = true;
        assert_eq!(open.into_sample().void, None);
        let mut late = seen([0.0; 5], 0.1);
        late.clients[0].figures.void.push("it was late".to_owned());
        assert_eq!(late.into_sample().void.as_deref(), Some("client: it was late"));
        let mut punctual = seen([0.0; 5], 0.1);
        punctual.clients[0].figures.late = Some("p99 9 ms".to_owned());
        let sample = punctual.into_sample();
        assert_eq!((sample.void, sample.late.as_deref()), (None, Some("client was late: p99 9 ms")));
        let mut measured = seen([0.0; 5], 0.97);
        measured.clients[0].may_limit = true;
        measured.clients[0].figures.void.push("it was late".to_owned());
        let sample = measured.into_sample();
        assert_eq!(sample.void, None, "it is what is measured");
        assert!(sample.remarks.contains(&"client: it was late".to_owned()), "{:?}", sample.remarks);
    }

    #[test]
    fn a_plateau_at_the_port_range_is_named_as_one() {
        let remarks = seen([0.0, 0.0, 97.0, 96.0, 0.0], 0.5).into_sample().remarks;
        let said = "proxy: 97 sockets from a to b:80, of 100 usable ports: a plateau there is the port range's ceiling";
        assert!(remarks.iter().any(|remark| remark.starts_with(said)), "{remarks:?}");
        let remarks = seen([0.0, 0.0, 90.0, 90.0, 0.0], 0.5).into_sample().remarks;
        assert!(!remarks.iter().any(|remark| remark.contains("ceiling")), "{remarks:?}");
    }

    #[test]
    fn several_loads_add_up_with_their_worst_quantiles() {
        let mut two = seen([0.0; 5], 0.5);
        let mut other = two.clients[0].figures.clone();
        (other.requests, other.latency.mean, other.latency.p99) = (3000, Some(6.0), Some(1.0));
        two.clients.push(Client { name: "second".to_owned(), figures: other, cpu: Cpu::default(), may_limit: false });
        let figures = two.into_sample().figures;
        assert_eq!((figures["requests"], figures["latency_ms.mean"], figures["latency_ms.p99"]), (4000.0, 5.0, 5.0));
        assert_eq!((figures["second.requests"], figures["failed.refused"]), (3000.0, 20.0));
    }

    #[test]
    fn quantiles_of_complete_loads_cover_all_requests() {
        let mut two = seen([0.0; 5], 0.5);
        let latency =
            |p99| client::Latency { p50: Some(1.0), p99: Some(p99), max: Some(p99), ..client::Latency::default() };
        let mut other = two.clients[0].figures.clone();
        // One slow request in a hundred, and none in nine hundred.
        (two.clients[0].figures.latency, two.clients[0].figures.histogram) =
            (latency(500.0), vec![(1_000_000, 98), (500_000_000, 2)]);
        (other.latency, other.histogram) = (latency(1.0), vec![(1_000_000, 900)]);
        two.clients.push(Client {
            name: "second".to_owned(),
            figures: other.clone(),
            cpu: Cpu::default(),
            may_limit: false,
        });
        let figures = of_loads(&two.clients).into_iter().collect::<BTreeMap<_, _>>();
        assert!((figures["latency_ms.p99"] - 1.0).abs() < 0.001, "two of a thousand are beyond it: {figures:?}");
        assert_eq!(figures["latency_ms.max"].to_bits(), 500.0_f64.to_bits());
        two.clients[1].figures.histogram.clear();
        let figures = of_loads(&two.clients).into_iter().collect::<BTreeMap<_, _>>();
        assert_eq!(figures["latency_ms.p99"].to_bits(), 500.0_f64.to_bits(), "one of them does not tell");
    }
}
