//! How the processors' time was spent during a run, as the kernel reports it: how long a runnable thread waited for a
//! processor, and how much of the machine's time its host took. This tells the generator's lag from the machine's; `health`
//! judges it.

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::ops::AddAssign;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// A line of `schedstat` has three numbers of at most twenty digits.
const SCHEDSTAT_BYTES: usize = 80;

/// How the generator's threads spent their time. Additive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Nanoseconds on a processor.
    pub cpu_ns: u64,
    /// Nanoseconds in which the threads were runnable but another thread or the host had the processor. `None` if the
    /// kernel does not report it (`CONFIG_SCHED_INFO`).
    pub waited_ns: Option<u64>,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        self.cpu_ns += more.cpu_ns;
        self.waited_ns = match (self.waited_ns, more.waited_ns) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or_default() + other.unwrap_or_default()),
        };
    }
}

impl Spent {
    /// The larger value of each field.
    pub(crate) fn most(self, other: Self) -> Self {
        Self { cpu_ns: self.cpu_ns.max(other.cpu_ns), waited_ns: self.waited_ns.max(other.waited_ns) }
    }
}

/// Time of the processors that the load may use, in the ticks of `/proc/stat` (usually 10 ms). Additive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ticks {
    /// All ticks: busy, idle and stolen.
    pub all: u64,
    /// Ticks in which a processor was wanted but the host ran something else (steal).
    pub stolen: u64,
}

impl Ticks {
    /// Share (0 to 1) that the host took away; `None` without any tick.
    pub fn stolen_share(&self) -> Option<f64> {
        (self.all > 0).then(|| self.stolen as f64 / self.all as f64)
    }
}

impl AddAssign for Ticks {
    fn add_assign(&mut self, more: Self) {
        self.all += more.all;
        self.stolen += more.stolen;
    }
}

/// The machine's part in a lag, as shares of the time (0 to 1). It is displayed in words, and as an empty text if the
/// kernel does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Machine {
    /// Share of the time that the thread that waited most was runnable without a processor.
    pub waited_share: Option<f64>,
    /// Share of the processors' time that the host took away (steal).
    pub stolen_share: Option<f64>,
}

impl Machine {
    /// The shares for a run of this length.
    pub fn new(spent_most: Spent, processors: Ticks, elapsed: Duration) -> Self {
        let elapsed_ns = elapsed.as_nanos() as f64;
        let waited_ns = spent_most.waited_ns.filter(|_| elapsed_ns > 0.0);
        let waited_share = waited_ns.map(|ns| (ns as f64 / elapsed_ns).min(1.0));
        Self { waited_share, stolen_share: processors.stolen_share() }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(share) = self.waited_share {
            write!(text, "the generator's threads waited for a processor {:.2} % of the time at most", share * 100.0)?;
        }
        if self.waited_share.is_some() && self.stolen_share.is_some() {
            text.write_str("; ")?;
        }
        if let Some(share) = self.stolen_share {
            write!(text, "the host took {:.2} % of the processors' time away (steal)", share * 100.0)?;
        }
        Ok(())
    }
}

/// Counts the ticks of the processors that this thread may run on.
#[derive(Debug)]
pub(crate) struct Processors {
    ours: Option<CpuSet>,
    before: Ticks,
}

impl Processors {
    pub(crate) fn new() -> Self {
        let mut processors = Self { ours: sched_getaffinity(None).ok(), before: Ticks::default() };
        processors.lap();
        processors
    }

    /// The ticks since the last call; zero if `/proc/stat` cannot be read.
    pub(crate) fn lap(&mut self) -> Ticks {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let is_ours = |processor| self.ours.as_ref().is_none_or(|ours| ours.is_set(processor));
        let now = parse_stat(&text, is_ours);
        let before = std::mem::replace(&mut self.before, now);
        // Ticks of a processor that goes offline disappear from the sum.
        Ticks { all: now.all.saturating_sub(before.all), stolen: now.stolen.saturating_sub(before.stolen) }
    }
}

/// The ticks of the selected processors since boot (`proc_stat(5)`).
fn parse_stat(text: &str, is_ours: impl Fn(usize) -> bool) -> Ticks {
    let mut sum = Ticks::default();
    for line in text.lines() {
        let Some((name, rest)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' ')) else { continue };
        // The line without a number is the sum of all processors.
        let Some(processor) = name.parse::<usize>().ok() else { continue };
        if processor >= CpuSet::MAX_CPU || !is_ours(processor) {
            continue;
        }
        // user nice system idle iowait irq softirq steal; guest time is part of user.
        let ticks: Vec<u64> = rest.split_ascii_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
        sum.all = ticks.iter().fold(sum.all, |all, ticks| all.saturating_add(*ticks));
        sum.stolen = sum.stolen.saturating_add(ticks.get(7).copied().unwrap_or_default());
    }
    sum
}

/// Counts how long the thread that created it has waited for a processor.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// `None` if the kernel does not report it.
    file: Option<File>,
    before_ns: u64,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        // The file stays that of this thread, even if another thread reads it.
        let mut waiting = Self { file: File::open("/proc/thread-self/schedstat").ok(), before_ns: 0 };
        waiting.lap();
        waiting
    }

    /// Nanoseconds since the last call.
    pub(crate) fn lap(&mut self) -> Option<u64> {
        let mut text = [0; SCHEDSTAT_BYTES];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let now_ns = parse_schedstat(text.get(..length)?)?;
        Some(now_ns.saturating_sub(std::mem::replace(&mut self.before_ns, now_ns)))
    }
}

/// The second of three numbers: nanoseconds on a run queue (`Documentation/scheduler/sched-stats.rst`).
fn parse_schedstat(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticks_of_our_processors_are_added_up() {
        let text =
            "cpu  90 0 0 0 0 0 0 9 0 0\ncpu0 10 1 2 80 3 0 1 3 7 7\ncpu1 20 0 0 70 0 0 0 10 0 0\nintr 5\nctxt 6\n";
        assert_eq!(parse_stat(text, |_| true), Ticks { all: 200, stolen: 13 });
        assert_eq!(parse_stat(text, |processor| processor == 1).stolen_share(), Some(0.1));
        // A kernel without steal, and an empty file.
        assert_eq!(parse_stat("cpu0 1 2 3 4\n", |_| true), Ticks { all: 10, stolen: 0 });
        assert_eq!(parse_stat("cpu99999 1\ncpux 1\ncpu\n", |_| true).stolen_share(), None);
    }

    #[test]
    fn waiting_for_a_processor_is_the_second_number() {
        assert_eq!(parse_schedstat(b"123 4567 89\n"), Some(4567));
        assert_eq!(parse_schedstat(b"123\n"), None);
        assert_eq!(parse_schedstat(b"\xff"), None);
    }

    #[test]
    fn reports_known_facts_of_the_machine() {
        let spent = Spent { cpu_ns: 0, waited_ns: Some(125_000_000) };
        let machine = Machine::new(spent, Ticks { all: 200, stolen: 9 }, Duration::from_secs(1));
        assert_eq!((machine.waited_share, machine.stolen_share), (Some(0.125), Some(0.045)));
        assert_eq!(
            machine.to_string(),
            "the generator's threads waited for a processor 12.50 % of the time at most; \
             the host took 4.50 % of the processors' time away (steal)"
        );
        assert_eq!(Machine::new(spent, Ticks::default(), Duration::ZERO).to_string(), "");
    }

    #[test]
    fn reads_this_machines_processors() {
        let mut processors = Processors::new();
        assert!(processors.before.all > 0);
        assert!(processors.lap().all < processors.before.all, "a lap is less than everything since the start");
        let mut waiting = Waiting::new();
        // If the kernel reports it once, it always does.
        assert_eq!(waiting.lap().is_some(), waiting.file.is_some());
    }

    #[test]
    fn unknown_processor_facts_come_from_its_siblings() {
        let mut spent = Spent { cpu_ns: 1, waited_ns: None };
        spent += Spent { cpu_ns: 2, waited_ns: Some(5) };
        spent += Spent { cpu_ns: 3, waited_ns: None };
        assert_eq!(spent, Spent { cpu_ns: 6, waited_ns: Some(5) });
        assert_eq!(spent.most(Spent { cpu_ns: 2, waited_ns: Some(7) }), Spent { cpu_ns: 6, waited_ns: Some(7) });
    }
}
