//! `cargo xtask bench load`: what a request costs the tool that sends it, and how late ours is at a rate. Each generator in turn,
//! pinned to one core, against the built-in origin on the other; every round runs all of them, in rotating order.

mod lag;

use super::results::{median, now_utc, spread};
use crate::peers;
use crate::workspace::{Workspace, heading};
use anyhow::{Context as _, Result, bail};
use lab::stage::process::{Started, pause, pinned, wait_without_reaping};
use lab::stage::usage::{Cpu, cpu_of_tree};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Options of `cargo xtask bench load`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Connections of each generator.
    #[arg(long, value_delimiter = ',', default_value = "30,256")]
    connections: Vec<usize>,
    /// Interleaved repetitions of all generators.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seconds of load in each; the clock that is read has ticks of 10 ms.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// The program under test, which is the origin as well.
    #[arg(long, default_value = "target/release/holdfast")]
    holdfast: PathBuf,
    /// Core of the generator.
    #[arg(long, default_value_t = 0)]
    load_core: usize,
    /// Core of the origin.
    #[arg(long, default_value_t = 1)]
    origin_core: usize,
    /// A program `oha` (`cargo install oha`), which no Debian package has; left out without one.
    #[arg(long)]
    oha: Option<PathBuf>,
    /// Rates of the open loop, in percent of what our closed loop did at the first number of connections.
    #[arg(long, value_delimiter = ',', default_value = "10,25,50")]
    rates: Vec<u32>,
    /// Where the raw results go; otherwise target/bench.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A tick of the clock in /proc/PID/stat, in microseconds.
const TICK_US: f64 = 10_000.0;

/// A generator: how it is called, and where it says how many responses it had.
struct Tool {
    name: &'static str,
    /// Stands before the number or behind it, in the line that has it.
    marker: &'static str,
    words: fn(usize, u32, &str) -> Vec<String>,
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

const TOOLS: [Tool; 7] = [
    Tool {
        name: "holdfast",
        marker: " requests in ",
        words: |c, s, url| {
            words(&["load", "-q", "-t", "1", "-c", &c.to_string(), "-d", &s.to_string(), "--style", "wrk", url])
        },
    },
    Tool {
        name: "wrk",
        marker: " requests in ",
        words: |c, s, url| words(&["-t", "1", "-c", &c.to_string(), "-d", &s.to_string(), url]),
    },
    Tool {
        name: "ab",
        marker: "Complete requests:",
        words: |c, s, url| {
            words(&["-q", "-k", "-l", "-c", &c.to_string(), "-t", &s.to_string(), "-n", "100000000", url])
        },
    },
    Tool {
        name: "siege",
        marker: "Transactions:",
        words: |c, s, url| words(&["--no-parser", "-b", "-c", &c.to_string(), "-t", &format!("{s}S"), url]),
    },
    Tool {
        name: "h2load",
        marker: " succeeded,",
        words: |c, s, url| words(&["--h1", "-t", "1", "-c", &c.to_string(), "-D", &s.to_string(), url]),
    },
    Tool {
        name: "hey",
        marker: "[200]",
        words: |c, s, url| words(&["-cpus", "1", "-c", &c.to_string(), "-z", &format!("{s}s"), url]),
    },
    Tool {
        name: OHA,
        marker: "[200]",
        words: |c, s, url| words(&["--no-tui", "-c", &c.to_string(), "-z", &format!("{s}s"), url]),
    },
];

/// The one that is not always there.
const OHA: &str = "oha";

/// One generator in one round.
#[derive(Debug, Clone, Serialize)]
struct Sample {
    tool: &'static str,
    connections: usize,
    round: u64,
    responses: u64,
    responses_per_second: f64,
    cpu_us_per_response: f64,
    user_us_per_response: f64,
}

/// Everything of one bench.
#[derive(Serialize)]
struct Results<'a> {
    experiment: &'static str,
    date: String,
    load_average: String,
    rounds: u64,
    seconds: u32,
    samples: &'a [Sample],
    open_loop: &'a [lag::Sample],
}

pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let holdfast = workspace.root.join(&args.holdfast);
    if !holdfast.is_file() {
        bail!("{} is not there: `cargo build --release -p holdfast` makes it", holdfast.display());
    }
    let peers = peers::provide(workspace)?;
    let home = workspace.target("bench/load");
    fs::create_dir_all(&home)?;
    let mut origin = pinned(args.origin_core, &holdfast);
    origin.args(["origin", "--listen", "0"]);
    let said = home.join("origin.out");
    let mut origin = Started::new("the origin", &mut origin, said.clone())?;
    origin.wait_ready(|| fs::read_to_string(&said).is_ok_and(|text| text.ends_with('\n')))?;
    let text = fs::read_to_string(&said)?;
    let address = text.trim().strip_prefix("listening on ").context("the origin did not say where it listens")?;
    let url = format!("http://{address}/");
    let load_average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut samples = Vec::new();
    let tools: Vec<&Tool> = TOOLS.iter().filter(|tool| tool.name != OHA || args.oha.is_some()).collect();
    for &connections in &args.connections {
        heading(&format!("{connections} connections"));
        for round in 0..args.rounds {
            for turn in 0..tools.len() {
                let tool = tools[(turn + round as usize) % tools.len()];
                let program = match (tool.name, &args.oha) {
                    ("holdfast", _) => holdfast.clone(),
                    (OHA, Some(oha)) => oha.clone(),
                    (name, _) => peers.join(name),
                };
                let mut command = pinned(args.load_core, &program);
                command.args((tool.words)(connections, args.seconds, &url));
                samples.push(measure(tool, &mut command, &home, connections, round, args.seconds)?);
            }
        }
        print!("{}", table(&samples, connections));
    }
    let mut open_loop = Vec::new();
    if let Some(&connections) = args.connections.first() {
        let ours = samples.iter().filter(|sample| sample.tool == "holdfast" && sample.connections == connections);
        let most = median(&ours.map(|sample| sample.responses_per_second).collect::<Vec<_>>());
        heading(&format!("at a rate, {connections} connections"));
        for _ in 0..args.rounds {
            for percent in &args.rates {
                let rate = most * f64::from(*percent) / 100.0;
                let mut command = pinned(args.load_core, &holdfast);
                open_loop.push(lag::measure(&mut command, &home, connections, rate, args.seconds, &url)?);
            }
        }
        print!("{}", lag::table(&open_loop));
    }
    let results = Results {
        experiment: "load",
        date: now_utc(),
        load_average: load_average.trim().to_owned(),
        rounds: args.rounds,
        seconds: args.seconds,
        samples: &samples,
        open_loop: &open_loop,
    };
    let out = args.out.clone().unwrap_or_else(|| home.join("load.json"));
    fs::write(&out, serde_json::to_string_pretty(&results)? + "\n")?;
    println!("\nraw results: {}", out.display());
    Ok(())
}

/// A generator that has not ended so long after its time is stuck: siege waits for its slowest answers.
const LATE_MAX: Duration = Duration::from_mins(1);

/// Runs a generator to its end, and reads its times before they are gone.
fn measure(
    tool: &Tool,
    command: &mut Command,
    home: &Path,
    connections: usize,
    round: u64,
    seconds: u32,
) -> Result<Sample> {
    let output = home.join(format!("{}.out", tool.name));
    let mut started = Started::new(tool.name, command, output.clone())?;
    let late = Instant::now() + Duration::from_secs(u64::from(seconds)) + LATE_MAX;
    while !wait_without_reaping(started.id())? {
        if Instant::now() > late {
            bail!("{} does not come to its end", tool.name);
        }
        pause();
    }
    let cpu: Cpu = cpu_of_tree(started.id());
    started.wait()?;
    let said = fs::read_to_string(&output)?;
    let responses = parse_responses(&said, tool.marker);
    let responses = responses.with_context(|| format!("{} did not say what it did:\n{said}", tool.name))?;
    let each = |ticks: u64| ticks as f64 * TICK_US / responses.max(1) as f64;
    Ok(Sample {
        tool: tool.name,
        connections,
        round,
        responses,
        responses_per_second: responses as f64 / f64::from(seconds),
        cpu_us_per_response: each(cpu.user_ticks + cpu.system_ticks),
        user_us_per_response: each(cpu.user_ticks),
    })
}

/// The number beside the marker: behind it, or else right before it.
fn parse_responses(said: &str, marker: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains(marker))?;
    let (before, behind) = line.split_once(marker)?;
    let number = |word: &str| word.parse::<u64>().ok();
    let last_before = before.split_whitespace().last().and_then(number);
    last_before.or_else(|| behind.split_whitespace().next().and_then(number))
}

fn table(samples: &[Sample], connections: usize) -> String {
    let mut text = String::from("\n| generator | CPU µs/response | of it user | responses/s |\n|---|---|---|---|\n");
    let of = |tool: &str, value: fn(&Sample) -> f64| -> Vec<f64> {
        let mine = samples.iter().filter(|sample| sample.tool == tool && sample.connections == connections);
        mine.map(value).collect()
    };
    for tool in TOOLS.iter().filter(|tool| samples.iter().any(|sample| sample.tool == tool.name)) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            tool.name,
            spread(&of(tool.name, |sample| sample.cpu_us_per_response), 2),
            spread(&of(tool.name, |sample| sample.user_us_per_response), 2),
            spread(&of(tool.name, |sample| sample.responses_per_second), 0),
        );
    }
    let ratio = |value: fn(&Sample) -> f64| -> Vec<f64> {
        of("holdfast", value).iter().zip(of("wrk", value)).map(|(ours, theirs)| ours / theirs).collect()
    };
    let (cpu, rate) = (ratio(|sample| sample.cpu_us_per_response), ratio(|sample| sample.responses_per_second));
    let _ = writeln!(
        text,
        "\nholdfast/wrk within a round: CPU {}, responses/s {} (median {:.2})",
        spread(&cpu, 2),
        spread(&rate, 2),
        median(&rate)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tools_number_is_found() {
        let cases = [
            (" requests in ", "  24052 requests in 1.01s, 19.57MB read\n", 24_052),
            ("Complete requests:", "\nComplete requests:      200\n", 200),
            ("Transactions:", "Transactions:\t\t         100 hits\n", 100),
            (" succeeded,", "requests: 9 total, 9 started, 8 done, 7 succeeded, 0 failed\n", 7),
            ("[200]", "  [200]\t1234 responses\n", 1234),
        ];
        for (marker, said, expected) in cases {
            assert_eq!(parse_responses(said, marker), Some(expected), "{marker}");
        }
        assert_eq!(parse_responses("nothing\n", "[200]"), None);
    }
}
