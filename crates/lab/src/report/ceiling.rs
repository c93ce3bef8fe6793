//! Finds plateaus that are not a load: the number of sockets on a port stays at the number of ports that `connect()` can
//! choose from. Founding report 0 mistook one for a property of its gateway.

use super::arms::Arms;
use crate::experiment::{Arm as Setting, NetworkKind, Probe};
use crate::{Record, Sample};
use report::Unit;
use report::figure::shown;

/// Linux's default, which every new network namespace has.
const RANGE_DEFAULT: (u32, u32) = (32_768, 60_999);
/// The last part of the load in which the count must not change: half of it, so that a slow climb does not count as a
/// plateau.
const TAIL: f64 = 0.5;
/// With fewer looks in that part no plateau is reported.
const LOOKS_MIN: usize = 4;
/// How much the looks may differ.
const FLAT_SHARE: f64 = 0.04;
/// How near they must be to the number of ports. Other destinations use some ports, and some sockets are between two
/// states.
const NEAR_SHARE: f64 = 0.08;

/// A ceiling that one or several arms have reached.
#[derive(PartialEq)]
struct Ceiling<'r> {
    probe: &'r str,
    host: &'r str,
    port: u16,
    range: (u32, u32),
    /// What the number of sockets is of the number of ports.
    part: &'static str,
}

/// A sentence for each ceiling that the number of sockets on a port reaches in the typical round of an arm, with these arms.
pub(super) fn found(record: &Record, arms: &Arms<'_>) -> Vec<String> {
    let mut ceilings: Vec<(Ceiling<'_>, Vec<(&str, f64)>)> = Vec::new();
    for arm in arms.iter() {
        let (Some(sample), Some(setting)) =
            (arm.typical(), record.experiment.arms.iter().find(|known| known.name == arm.name))
        else {
            continue;
        };
        for probe in &record.experiment.probes {
            let Probe::Port { name, host, port } = probe else { continue };
            let Some(level) = plateau(sample, name) else { continue };
            let range = range(record, setting, host);
            let Some(part) = part_of(level, range) else { continue };
            let ceiling = Ceiling { probe: name, host, port: *port, range, part };
            let reached = (arm.name, level);
            match ceilings.iter_mut().find(|(known, _)| *known == ceiling) {
                Some((_, by)) => by.push(reached),
                None => ceilings.push((ceiling, vec![reached])),
            }
        }
    }
    ceilings.iter().map(|(ceiling, by)| ceiling.sentence(by)).collect()
}

fn ports_of((first, last): (u32, u32)) -> f64 {
    f64::from(last.saturating_sub(first)) + 1.0
}

/// What this number of sockets is of the ports of a range, if it is a ceiling.
fn part_of(level: f64, range: (u32, u32)) -> Option<&'static str> {
    match level / ports_of(range) {
        share if (share - 1.0).abs() <= NEAR_SHARE => Some("as many as"),
        share if (share - 0.5).abs() <= NEAR_SHARE / 2.0 => Some(
            "half of (connect() tries every second one first, and those whose other end closed first are free again)",
        ),
        _ => None,
    }
}

impl Ceiling<'_> {
    /// `by`: the arms, and their numbers of sockets.
    fn sentence(&self, by: &[(&str, f64)]) -> String {
        let Self { probe, host, port, range: (first, last), part } = self;
        let number = |value| shown(value, &Unit::of(""));
        let arms: Vec<&str> = by.iter().map(|(arm, _)| *arm).collect();
        let least = number(by.iter().map(|(_, level)| *level).fold(f64::INFINITY, f64::min));
        let most = number(by.iter().map(|(_, level)| *level).fold(0.0, f64::max));
        let level = if least == most { most } else { format!("{least} to {most}") };
        let ports = number(ports_of(self.range));
        format!(
            "{}: the sockets on port {port} ({probe}) stayed at {level}, {part} the {ports} ports {first}–{last} that host {host} \
             has towards one destination. This plateau is a ceiling, not a load: more requests could not have shown more.",
            arms.join(", ")
        )
    }
}

/// The level in the last half of the load, if it is constant.
fn plateau(sample: &Sample, probe: &str) -> Option<f64> {
    let totals = total(sample, probe);
    let end = totals.last().map(|(at, _)| *at)?;
    let tail: Vec<f64> =
        totals.iter().filter(|(at, _)| *at >= end * TAIL && *at > 0.0).map(|(_, value)| *value).collect();
    let most = tail.iter().copied().fold(0.0, f64::max);
    let least = tail.iter().copied().fold(f64::INFINITY, f64::min);
    (tail.len() >= LOOKS_MIN && most > 0.0 && most - least <= most * FLAT_SHARE).then_some(most)
}

/// All sockets of a probe over time: its own series, or the sum of its states.
pub(super) fn total(sample: &Sample, probe: &str) -> Vec<(f64, f64)> {
    if let Some(series) = sample.series.get(&format!("sockets.{probe}")) {
        return series.clone();
    }
    let prefix = format!("sockets.{probe}.");
    let mut sum: Vec<(f64, f64)> = Vec::new();
    for (_, series) in sample.series.iter().filter(|(name, _)| name.starts_with(&prefix)) {
        for (at, value) in series {
            match sum.iter_mut().find(|(known, _)| known.total_cmp(at).is_eq()) {
                Some((_, total)) => *total += value,
                None => sum.push((*at, *value)),
            }
        }
    }
    sum.sort_by(|a, b| a.0.total_cmp(&b.0));
    sum
}

/// The port range of a host in an arm.
fn range(record: &Record, arm: &Setting, host: &str) -> (u32, u32) {
    const NAME: &str = "net.ipv4.ip_local_port_range";
    // On the machine's own loopback the experiment sets no sysctls.
    let is_set = record.experiment.network.kind != NetworkKind::Loopback;
    let of_arm = arm.sysctls.get(host).and_then(|sysctls| sysctls.get(NAME));
    let of_host = || record.experiment.hosts.get(host).and_then(|host| host.sysctls.get(NAME));
    let text = of_arm.or_else(of_host).filter(|_| is_set);
    let numbers =
        text.map(|text| text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>());
    match numbers.as_deref() {
        Some([first, last]) => (*first, *last),
        _ => RANGE_DEFAULT,
    }
}
