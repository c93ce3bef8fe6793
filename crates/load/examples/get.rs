//! A closed loop of GET requests, as small as it can be: `cargo run --release -p load --example get -- URL CONNECTIONS SECONDS`.
#![allow(clippy::print_stdout)] // an example shows what it found

use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("a URL")?.parse()?;
    let connections = words.next().map_or(Ok(10), |word| word.parse())?;
    let seconds = words.next().map_or(Ok(2), |word| word.parse())?;
    let options = load::Options {
        connections,
        duration: Some(Duration::from_secs(seconds)),
        ..load::Options::new(load::Target::new(url))
    };
    let summary = load::start(options)?.wait()?;
    let whole = summary.record.whole();
    println!(
        "{:.0} responses/s, p50 {} us, p99 {} us, {:.2} us of CPU per response, {} failed",
        summary.rate(),
        whole.latency.quantile_ns(0.5) / 1_000,
        whole.latency.quantile_ns(0.99) / 1_000,
        summary.record.generator.spent.cpu_ns as f64 / 1e3 / whole.responses.max(1) as f64,
        whole.failed(),
    );
    Ok(())
}
