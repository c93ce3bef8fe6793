//! The machine that a demo runs on, and what about it makes its numbers doubtful. Reads /proc; judges in plain functions.

use super::plan::Plan;
use serde::Serialize;
use std::fs;

/// Fewer ports than this would be seen in the numbers: connections in `TIME_WAIT` keep theirs for a minute.
const PORTS_MIN: u32 = 10_000;
/// Cores for client, gateway and origin each, and one for everything else.
const CORES_WANTED: usize = 4;
/// Share of the cores that others may use before it is worth a word.
const OTHERS_SHARE_MAX: f64 = 0.1;

/// What is stated beside the numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Machine {
    /// Cores that this process may use.
    pub(super) cores: usize,
    pub(super) processor: String,
    pub(super) kernel: String,
    /// Over the minute before the start.
    pub(super) load_average: Option<f64>,
    /// `net.ipv4.ip_local_port_range`, first and last.
    pub(super) ports: Option<(u32, u32)>,
    /// `net.ipv4.tcp_tw_reuse`.
    pub(super) tcp_tw_reuse: Option<u32>,
    /// `net.ipv4.tcp_max_tw_buckets`.
    pub(super) tcp_max_tw_buckets: Option<u64>,
}

impl Machine {
    pub(super) fn read() -> Self {
        let ports = setting("net/ipv4/ip_local_port_range");
        Self {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            kernel: setting("kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            load_average: fs::read_to_string("/proc/loadavg").ok().and_then(|text| first(&text)),
            ports: ports.as_deref().and_then(|text| {
                let mut numbers = text.split_ascii_whitespace().map(str::parse);
                Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
            }),
            tcp_tw_reuse: setting("net/ipv4/tcp_tw_reuse").and_then(|text| text.parse().ok()),
            tcp_max_tw_buckets: setting("net/ipv4/tcp_max_tw_buckets").and_then(|text| text.parse().ok()),
        }
    }

    /// What is known to be in the way before the start.
    pub(super) fn warnings(&self, plan: &Plan) -> Vec<String> {
        let mut warnings = Vec::new();
        let cores = self.cores;
        if cores < CORES_WANTED {
            warnings.push(format!(
                "{cores} core{} for client, gateway and origin together: they take CPU from each other, and requests/s of \
                 the arms are closer or farther apart than where each has its own. Compare CPU per request.",
                if cores == 1 { "" } else { "s" }
            ));
        }
        if self.load_average.is_some_and(|load| load > cores as f64 * OTHERS_SHARE_MAX) {
            let load = self.load_average.unwrap_or_default();
            warnings.push(format!("The machine was at work before the demo began: load average {load:.2}."));
        }
        if let Some((first, last)) = self.ports {
            let ports = (last + 1).saturating_sub(first);
            if ports < PORTS_MIN.max(plan.connections.saturating_mul(8)) {
                warnings.push(format!(
                    "net.ipv4.ip_local_port_range has {ports} ports only: connections may fail for want of one."
                ));
            }
        }
        if cfg!(debug_assertions) {
            warnings.push("This is a build without optimisation (use `cargo run --release`).".to_owned());
        }
        warnings
    }

    /// What turned out in its course: work of others in cores, and sockets seen in `TIME_WAIT` on this machine.
    pub(super) fn afterthoughts(&self, other_cores: f64, time_wait: u64) -> Vec<String> {
        let mut warnings = Vec::new();
        if other_cores > self.cores as f64 * OTHERS_SHARE_MAX {
            warnings.push(format!(
                "{other_cores:.2} of {} cores were used for something else while it was measured (median of all segments): \
                 requests/s are too low, and the spread is wide.",
                self.cores
            ));
        }
        if self.tcp_max_tw_buckets.is_some_and(|buckets| time_wait.saturating_mul(10) >= buckets.saturating_mul(9)) {
            let buckets = self.tcp_max_tw_buckets.unwrap_or_default();
            warnings.push(format!(
                "net.ipv4.tcp_max_tw_buckets is {buckets}: what is beyond is closed at once and missing in the counts."
            ));
        }
        warnings
    }
}

fn setting(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned())
}

fn first(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// `model name` on x86; other architectures have numbers only.
fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            cores: 8,
            processor: String::new(),
            kernel: String::new(),
            load_average: Some(0.1),
            ports: Some((32_768, 60_999)),
            tcp_tw_reuse: Some(2),
            tcp_max_tw_buckets: Some(131_072),
        }
    }

    /// A test's build is one without optimisation, and says so.
    fn warnings(machine: &Machine) -> Vec<String> {
        let all = machine.warnings(&Plan::new(20, 30, machine.cores));
        all.into_iter().filter(|text| !text.contains("optimisation")).collect()
    }

    #[test]
    fn a_machine_with_room_is_not_warned_about() {
        assert_eq!(warnings(&machine()), [""; 0]);
        assert_eq!(machine().afterthoughts(0.1, 50_000), [""; 0]);
    }

    #[test]
    fn what_is_short_is_named() {
        let small = Machine { cores: 2, load_average: Some(1.5), ports: Some((60_000, 60_999)), ..machine() };
        let warnings = warnings(&small);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        for (warning, word) in warnings.iter().zip(["2 cores", "1.50", "1000 ports"]) {
            assert!(warning.contains(word), "{warning}");
        }
        let after = small.afterthoughts(0.8, 120_000);
        assert!(after.len() == 2 && after[0].contains("0.80 of 2") && after[1].contains("131072"), "{after:?}");
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::read();
        assert!(machine.cores > 0 && machine.ports.is_some() && machine.tcp_tw_reuse.is_some(), "{machine:?}");
        assert_eq!(processor("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"), "Some CPU @ 2 GHz");
    }
}
