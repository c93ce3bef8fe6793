//! The report of a floor measurement, as text and as data: how late a program that only waits is on
//! this machine.

use super::figures::Latency;
use super::units::time;
use super::words::machine;
use crate::{Ask, Floor, Machine};
use report::text::grouped;
use serde::Serialize;

/// The figures, in the format of a run's.
#[derive(Serialize)]
struct Figures {
    rate: f64,
    elapsed_s: f64,
    lag: Latency,
    busy_share: f64,
    waited_share: Option<f64>,
    host_stolen_share: Option<f64>,
}

/// The report with its final line end; `json` selects the figures as data.
pub fn floor(ask: &Ask, floor: &Floor, json: bool) -> String {
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
    use crate::{Latencies, Spent, Ticks};
    use std::time::Duration;

    fn floor() -> Floor {
        let mut lag = Latencies::default();
        (0..1_000).for_each(|_| lag.record(40_000));
        let spent = Spent { cpu_ns: 250_000_000, waited_ns: Some(10_000_000) };
        Floor { lag, spent, processors: Ticks { all: 200, stolen: 8 }, elapsed: Duration::from_secs(1) }
    }

    #[test]
    fn prints_words_and_data() {
        let ask = Ask { rate: 1_000.0, duration: Duration::from_secs(1), work: Duration::ZERO };
        let words = super::floor(&ask, &floor(), false);
        for part in [
            "woken 1,000 times, 1000/s, for 1.00 s; the thread ran 25.0 % of the time",
            "late by p50 40.0 us, p99 40.0 us, p99.9 40.0 us, max 40.0 us",
            "waited for a processor 1.00 % of the time at most; the host took 4.00 %",
        ] {
            assert!(words.contains(part), "no {part:?} in {words}");
        }
        let data: serde_json::Value = serde_json::from_str(&super::floor(&ask, &floor(), true)).unwrap();
        assert_eq!(data["lag"]["count"], 1_000);
        assert_eq!((&data["busy_share"], &data["host_stolen_share"]), (&0.25.into(), &0.04.into()));
    }
}
