//! `--self-test`: loads an origin in this process, to measure the limits of the generator on this machine.

use load::{Latencies, Options, Summary, Target};
use origin::{Origin, Running};

/// Starts the origin, and makes it the only target.
pub(super) fn start(options: &mut Options) -> Result<Running, String> {
    let origin = Origin::bind(origin::Options::default()).and_then(Origin::start);
    let origin = origin.map_err(|error| format!("the built-in origin cannot start: {error}"))?;
    let url = format!("http://{}/", origin.address()).parse().map_err(|error| format!("{error}"))?;
    options.targets = vec![Target::new(url)];
    Ok(origin)
}

/// What the results tell about the generator.
pub(super) fn explain(summary: &Summary) -> String {
    let record = &summary.record;
    let cpu_us = record.generator.spent.cpu_ns as f64 / 1e3 / record.whole().responses.max(1) as f64;
    let p99_us = |lag: &Latencies| lag.quantile_ns(0.99) as f64 / 1e3;
    format!(
        "self-test   on a core of its own a thread of the generator can do up to {:.0} such requests/s ({cpu_us:.2} us of CPU \
         each);\n            here it shared {} cores with the origin, and was late by p99 {:.1} us, of which its\n            \
         own work was {:.1} us (`holdfast load floor` tells what is possible)\n",
        1e6 / cpu_us.max(f64::MIN_POSITIVE),
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        p99_us(&record.generator.lag),
        p99_us(&record.generator.lag_own),
    )
}
