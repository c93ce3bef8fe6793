//! `holdfast load floor`: how late a program that only waits is on this machine. The arm beside which the generator's own lag is
//! to be read; the measuring is `load`'s.

use super::data::Latency;
use super::style::machine;
use super::units::{grouped, parse_duration, parse_rate, time};
use crate::signals::{Ask as Asked, Signals};
use crate::{exit, report};
use load::{Ask, Floor, Machine, measure_floor};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the thread that waits for signals looks whether all was waited for.
const SIGNAL_LOOK_MS: u16 = 50;

/// How late a program is here that only waits for the next request
///
/// It sleeps until each moment at which a request of `-R` would be due, and counts how late it was woken. No generator can be more
/// punctual on these processors: what a run with the same rate is late by beyond this is its own work or its target's.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Wake-ups per second
    #[arg(short = 'R', long, value_name = "RATE", value_parser = parse_rate)]
    rate: (f64, f64),
    /// How long
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Processor time to use after each, so that the processor is as busy as under a load
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    work: Duration,
    /// Figures as JSON
    #[arg(long)]
    json: bool,
}

/// The figures, in the form of a run's.
#[derive(Serialize)]
struct Figures {
    rate: f64,
    elapsed_s: f64,
    lag: Latency,
    busy_share: f64,
    waited_share: Option<f64>,
    host_stolen_share: Option<f64>,
}

pub(super) fn run(args: &Args) -> u8 {
    let (rate, to) = args.rate;
    if rate <= 0.0 || (rate - to).abs() > f64::EPSILON {
        report::say("holdfast load floor: a rate above zero that does not change, such as -R 2400/s");
        return exit::USAGE;
    }
    let ask = Ask { rate, duration: args.duration, work: args.work };
    match measure(&ask) {
        Ok(floor) => {
            report::print(render(&ask, &floor, args.json).as_bytes());
            exit::OK
        }
        Err(message) => {
            report::say(&format!("holdfast load floor: {message}"));
            exit::FAILED
        }
    }
}

/// Measures until the end, or until somebody asks for it.
fn measure(ask: &Ask) -> Result<Floor, String> {
    let signals = Signals::open().map_err(|error| error.to_string())?;
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| stop_when_told(&signals, &stop, &over));
        let floor = measure_floor(ask, &stop).map_err(|error| error.to_string());
        over.store(true, Ordering::Relaxed);
        floor
    })
}

fn stop_when_told(signals: &Signals, stop: &AtomicBool, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
        let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        let _ = poll(&mut watched, PollTimeout::from(SIGNAL_LOOK_MS));
        while let Ok(Some(asked)) = signals.next() {
            stop.fetch_or(matches!(asked, Asked::Interrupt | Asked::Terminate | Asked::Quit), Ordering::Relaxed);
        }
    }
}

fn render(ask: &Ask, floor: &Floor, json: bool) -> String {
    let busy_share = floor.spent.cpu_ns as f64 / (floor.elapsed.as_nanos() as f64).max(1.0);
    let of_machine = Machine::new(floor.spent, floor.processors, floor.elapsed);
    let lag = &floor.lag;
    if json {
        let lag = Latency::from(lag);
        let elapsed_s = floor.elapsed.as_secs_f64();
        let Machine { waited_share, stolen_share: host_stolen_share } = of_machine;
        let figures = Figures { rate: ask.rate, elapsed_s, lag, busy_share, waited_share, host_stolen_share };
        return serde_json::to_string(&figures).expect("numbers and strings are always JSON") + "\n";
    }
    let mut text = format!(
        "floor       woken {} times, {}/s, for {:.2} s; the thread ran {:.1} % of the time\n            late by p50 {}, p99 {}, p99.9 {}, max \
         {}: nothing that waits is more punctual here\n",
        grouped(lag.count()),
        ask.rate,
        floor.elapsed.as_secs_f64(),
        busy_share * 100.0,
        time(lag.quantile_ns(0.5) as f64),
        time(lag.quantile_ns(0.99) as f64),
        time(lag.quantile_ns(0.999) as f64),
        time(lag.max_ns() as f64),
    );
    machine(of_machine, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::{Latencies, Spent, Ticks};

    fn floor() -> Floor {
        let mut lag = Latencies::default();
        (0..1_000).for_each(|_| lag.record(40_000));
        let spent = Spent { cpu_ns: 250_000_000, waited_ns: Some(10_000_000) };
        Floor { lag, spent, processors: Ticks { all: 200, stolen: 8 }, elapsed: Duration::from_secs(1) }
    }

    #[test]
    fn it_is_said_in_words_and_as_data() {
        let ask = Ask { rate: 1_000.0, duration: Duration::from_secs(1), work: Duration::ZERO };
        let words = render(&ask, &floor(), false);
        for part in [
            "woken 1,000 times, 1000/s, for 1.00 s; the thread ran 25.0 % of the time",
            "late by p50 40.0 us, p99 40.0 us, p99.9 40.0 us, max 40.0 us",
            "waited for a processor 1.00 % of the time at most; the host took 4.00 %",
        ] {
            assert!(words.contains(part), "no {part:?} in {words}");
        }
        let data: serde_json::Value = serde_json::from_str(&render(&ask, &floor(), true)).unwrap();
        assert_eq!(data["lag"]["count"], 1_000);
        assert_eq!((&data["busy_share"], &data["host_stolen_share"]), (&0.25.into(), &0.04.into()));
    }
}
