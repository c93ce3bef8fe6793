//! `cargo xtask bench proxy`: what a proxied request costs, and what a held connection weighs.
//!
//! wrk and the origin share one core, the proxy under test has another to itself. All arms run in every round, in
//! rotating order, so that what disturbs the machine disturbs them alike; ratios are taken within the round.

use super::arms::{self, Arm, Programs, Proxy};
use super::holders::Held;
use super::machine::Machine;
use super::origin::{self, Tunnels};
use super::results::{self, Measured, Results, Sample};
use super::wrk::Load;
use super::{memory, syscalls};
use crate::peers;
use crate::workspace::{Workspace, heading};
use anyhow::{Context as _, Result, bail};
use lab::stage::process::{Started, raise_descriptors};
use lab::stage::usage::cpu_of_tree;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Options of `cargo xtask bench proxy`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Body sizes, in bytes or with k and m.
    #[arg(long, value_delimiter = ',', default_value = "100,612,16k,1m", value_parser = Body::parse)]
    bodies: Vec<Body>,
    /// Client connections that wrk keeps open.
    #[arg(long, value_delimiter = ',', default_value = "1,30,256,1000")]
    connections: Vec<usize>,
    /// Access log: off, on.
    #[arg(long, value_delimiter = ',', default_value = "off,on", value_parser = ["off", "on"])]
    log: Vec<String>,
    /// Interleaved repetitions of all arms.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seconds of load in each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Connections to hold when memory is measured; 0 leaves it out.
    #[arg(long, default_value_t = 5000)]
    hold: usize,
    /// One small cell, to see that everything works: `--bodies 612 --connections 30 --log off --rounds 2 --seconds 1`.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    compared: arms::Compared,
    /// Sources of the floor.
    #[arg(long, default_value = "../shared/floor")]
    floor: PathBuf,
    /// Core of wrk and the origin.
    #[arg(long, default_value_t = 0)]
    load_core: usize,
    /// Core of the proxy under test.
    #[arg(long, default_value_t = 1)]
    proxy_core: usize,
    /// Where the raw results go; otherwise bench/results, or target/bench with --quick.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A page of the origin.
#[derive(Clone, Serialize, Debug, PartialEq)]
pub(super) struct Body {
    /// As it was asked for, and the page's path.
    pub(super) name: String,
    pub(super) bytes: usize,
}

impl Body {
    /// Reads `612`, `16k` or `1m`.
    pub(super) fn parse(text: &str) -> Result<Body> {
        let (digits, unit) = match text.to_ascii_lowercase() {
            text if text.ends_with('k') => (text[..text.len() - 1].to_owned(), 1024),
            text if text.ends_with('m') => (text[..text.len() - 1].to_owned(), 1024 * 1024),
            text => (text, 1),
        };
        let number: usize = digits.parse().with_context(|| format!("`{text}` is no size such as 612, 16k or 1m"))?;
        Ok(Body { name: text.to_owned(), bytes: number * unit })
    }
}

/// What memory measurements ask for; always among the origin's pages.
pub(super) const SMALL_PAGE: &str = "100";

/// One point of the matrix.
#[derive(Clone, Serialize)]
pub(super) struct Cell {
    pub(super) log: bool,
    pub(super) body: Body,
    pub(super) connections: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = if self.log { "on" } else { "off" };
        write!(f, "{} B, {} connections, access log {log}", self.body.name, self.connections)
    }
}

/// Seconds of load that fill pools and caches before anything is read.
const WARM_UP_SECONDS: u32 = 1;

/// Connections that a quick look holds: enough to see that it works, too few for a figure.
const QUICK_HOLD: usize = 500;

/// A proxied connection needs two descriptors in the proxy, and a held tunnel one at each end in this process.
const DESCRIPTORS_WANTED: u64 = 20_000;

/// Runs the experiment.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let begun = Instant::now();
    check_machine(args)?;
    let bench = Bench::prepare(workspace, args)?;
    let cells = cells(args);
    let seconds = if args.quick { 1 } else { args.seconds };
    let rounds = if args.quick { 2 } else { args.rounds as usize };
    println!("{}\n\n{} cells × {rounds} rounds × {} arms", bench.machine.sentence(), cells.len(), bench.arms.len());

    let mut results = Results {
        experiment: "proxy",
        date: results::now_utc(),
        machine: bench.machine,
        rounds,
        seconds,
        absent: Arm::ALL.iter().filter(|arm| !bench.arms.contains(arm)).map(|arm| arm.name()).collect(),
        cells: Vec::new(),
        memory: Vec::new(),
    };
    for name in &results.absent {
        println!("absent: {name}");
    }
    let stage = Stage { programs: &bench.programs, arms: &bench.arms, home: &bench.home, args };
    for cell in cells {
        let measured = stage.measure(cell, rounds, seconds)?;
        print!("{}", measured.markdown(rounds, seconds));
        results.cells.push(measured);
    }
    let hold = if args.quick { args.hold.min(QUICK_HOLD) } else { args.hold };
    if hold > 0 {
        results.memory = stage.hold(hold)?;
        print!("{}", results::memory_markdown(&results.memory));
    }

    // A look whether everything works is no result to keep.
    let folder = if args.quick { workspace.target("bench") } else { workspace.root.join("bench/results") };
    let out = args.out.as_ref().map(|out| workspace.root.join(out));
    let file = results::write(out.unwrap_or_else(|| results::path(&folder, "proxy", &results.date)), &results)?;
    println!("\nraw results: {} ({:.0} s in all)", file.display(), begun.elapsed().as_secs_f64());
    Ok(())
}

/// What exists before the first measurement and lasts to the end.
struct Bench {
    home: PathBuf,
    programs: Programs,
    arms: Vec<Arm>,
    machine: Machine,
    _pages: Started,
}

impl Bench {
    fn prepare(workspace: &Workspace, args: &Args) -> Result<Bench> {
        let bin = peers::provide(workspace)?;
        let home = workspace.target("bench");
        fs::create_dir_all(&home)?;
        let holdfast = args.compared.holdfast(workspace);
        let programs = Programs {
            holdfast: holdfast.is_file().then_some(holdfast),
            floor: arms::build_floor(workspace, &workspace.root.join(&args.floor))?,
            nginx: args.compared.nginx(&bin),
            haproxy: bin.join("haproxy"),
            wrk: bin.join("wrk"),
        };
        let mut pages = args.bodies.clone();
        pages.push(Body::parse(SMALL_PAGE)?);
        Ok(Bench {
            arms: Arm::ALL.into_iter().filter(|arm| programs.has(*arm)).collect(),
            machine: Machine::describe(workspace, &programs),
            _pages: origin::start_pages(&programs, args.load_core, &home, &pages)?,
            home,
            programs,
        })
    }
}

/// What every measurement uses.
struct Stage<'a> {
    programs: &'a Programs,
    arms: &'a [Arm],
    home: &'a Path,
    args: &'a Args,
}

impl Stage<'_> {
    fn measure(&self, cell: Cell, rounds: usize, seconds: u32) -> Result<Measured> {
        let mut proxies = Vec::new();
        for arm in self.arms {
            // Logs of earlier cells would only fill the disk.
            let _ = fs::remove_file(self.home.join(format!("{arm}.access.log")));
            let proxy = arms::start(self.programs, *arm, self.args.proxy_core, self.home, cell.log, &cell.body.name)?;
            self.load(&proxy, &cell).run(WARM_UP_SECONDS)?;
            proxies.push(proxy);
        }
        let mut samples = Vec::new();
        for round in 0..rounds {
            for turn in 0..proxies.len() {
                let proxy = &proxies[(round + turn) % proxies.len()];
                samples.push(self.sample(proxy, &cell, round, seconds)?);
            }
        }
        let mut calls = Vec::new();
        if !cell.log {
            for proxy in &proxies {
                calls.push((proxy.arm.name(), syscalls::per_request(proxy, &self.load(proxy, &cell), self.home)?));
            }
        }
        Ok(Measured { cell, samples, syscalls: calls })
    }

    fn load<'l>(&'l self, proxy: &Proxy, cell: &'l Cell) -> Load<'l> {
        Load {
            program: &self.programs.wrk,
            core: Some(self.args.load_core),
            home: self.home,
            port: proxy.port,
            page: &cell.body.name,
            connections: cell.connections,
            script: "",
        }
    }

    fn sample(&self, proxy: &Proxy, cell: &Cell, round: usize, seconds: u32) -> Result<Sample> {
        let before = cpu_of_tree(proxy.process.id());
        let begun = Instant::now();
        let figures = self.load(proxy, cell).run(seconds)?;
        let (user, system) = cpu_of_tree(proxy.process.id()).since(before);
        let elapsed_us = begun.elapsed().as_secs_f64() * 1e6;
        if figures.requests == 0 {
            bail!("{} answered no request in {seconds} s:\n{}", proxy.arm, proxy.process.said());
        }
        let requests = figures.requests as f64;
        Ok(Sample {
            arm: proxy.arm.name(),
            round,
            cpu_us_user: user / requests,
            cpu_us_system: system / requests,
            core_busy: (user + system) / elapsed_us,
            figures,
        })
    }

    fn hold(&self, connections: usize) -> Result<Vec<memory::Memory>> {
        heading("memory per held connection");
        let tunnels = Tunnels::start()?;
        let mut rows = Vec::new();
        for held in Held::ALL {
            for arm in self.arms {
                let core = self.args.proxy_core;
                rows.push(memory::measure(self.programs, *arm, core, self.home, &tunnels, held, connections)?);
            }
        }
        Ok(rows)
    }
}

fn cells(args: &Args) -> Vec<Cell> {
    if args.quick {
        return vec![Cell { log: false, body: Body { name: "612".to_owned(), bytes: 612 }, connections: 30 }];
    }
    let mut cells = Vec::new();
    for log in &args.log {
        for body in &args.bodies {
            for connections in &args.connections {
                cells.push(Cell { log: log == "on", body: body.clone(), connections: *connections });
            }
        }
    }
    cells
}

/// Pinning needs two cores, and holding connections needs descriptors; the programs we start inherit the limit.
fn check_machine(args: &Args) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    if args.load_core == args.proxy_core || args.load_core.max(args.proxy_core) >= cores {
        bail!("the load and the proxy need a core each, and there are {cores}: see --load-core and --proxy-core");
    }
    match raise_descriptors(DESCRIPTORS_WANTED) {
        Err(error) if args.hold > 0 => {
            Err(anyhow::Error::from(error).context("holding connections: --hold 0 leaves it out"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_sizes_are_read_with_their_units() {
        assert_eq!(Body::parse("612").unwrap().bytes, 612);
        assert_eq!(Body::parse("16k").unwrap().bytes, 16_384);
        assert_eq!(Body::parse("1M").unwrap().bytes, 1_048_576);
        assert!(Body::parse("").is_err() && Body::parse("k").is_err() && Body::parse("-1").is_err());
    }
}
