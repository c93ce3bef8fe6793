//! `cargo xtask bench pool`: what a pool of upstream connections is worth (F0, F1, the gateway's side of F4), and that one
//! pool serves any number of workers. nginx, Holdfast and `HAProxy` without a pool, with a small one and with one of the
//! right size, interleaved by chance, each sample in a network namespace of its own.

mod bottleneck;
mod census;
mod clients;
mod plan;
mod programs;
mod sample;
mod table;

pub(super) use sample::{SampleArgs, run as measure_one};

use super::again::{Linked, run_optimised};
use super::arms::{Compared, Programs};
use super::machine::Machine;
use super::results;
use crate::peers;
use crate::workspace::{Workspace, heading};
use anyhow::{Result, bail};
use lab::stage::namespace::check_namespaces;
use plan::{Part, Scale};
use programs::{Paths, Placement};
use sample::Spec;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;
use table::Measured;

/// Options of `cargo xtask bench pool`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Interleaved repetitions of all arms.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seconds of a closed loop.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Seconds at a constant rate; F0 had 300, and TIME_WAIT lasts 60.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rate_seconds: u32,
    /// Constant rates, in requests/s.
    #[arg(long, value_delimiter = ',', default_value = "1200,2400")]
    rates: Vec<u32>,
    /// Clients at a constant rate, and the size of the right pool for them.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(17..=4000))]
    rate_clients: u32,
    /// Only these loads.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// The order of the arms follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Between two looks at all sockets, which cost about 1 µs each; F0 looked every 2 s.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(50..))]
    look_ms: u64,
    /// To see that everything works: `--rounds 1 --seconds 1 --rate-seconds 1`.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    compared: Compared,
    /// Core of the client.
    #[arg(long, default_value_t = 0)]
    client_core: usize,
    /// Core of the origin. If not given: the third if there is one; else the client's, but with ab, which needs as much time
    /// as all others together, the proxy's.
    #[arg(long)]
    origin_core: Option<usize>,
    /// Core of the proxy under test.
    #[arg(long, default_value_t = 1)]
    proxy_core: usize,
    /// All programs on all cores.
    #[arg(long)]
    unpinned: bool,
    /// Where the raw results go; otherwise bench/results, or target/bench with --quick.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Everything of one bench.
#[derive(Serialize)]
struct Results {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: Machine,
    seed: u64,
    rounds: u64,
    look_ms: u64,
    loads: Vec<Measured>,
}

/// Runs the experiment.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        return run_optimised(workspace, Linked::Quickly);
    }
    let begun = Instant::now();
    check_namespaces()?;
    let cores = args.cores()?;
    let paths = args.paths(workspace)?;
    let (rounds, scale) = args.scale();
    let mut results = Results {
        experiment: "pool",
        date: results::now_utc(),
        machine: Machine::describe(workspace, &programs_of(&paths)),
        seed: args.seed,
        rounds,
        look_ms: args.look_ms,
        loads: Vec::new(),
    };
    println!("{}\n\nseed {}, {rounds} rounds", results.machine.sentence(), args.seed);
    for (index, load) in plan::loads(&args.only, &scale).into_iter().enumerate() {
        let placement = args.placement(load.part, cores);
        heading(&load.to_string());
        let mut measured =
            Measured { title: load.to_string(), placement, load, orders: Vec::new(), samples: Vec::new() };
        for round in 0..rounds {
            let order = plan::order(&measured.load.arms, args.seed, index, round);
            let names: Vec<String> = order.iter().map(ToString::to_string).collect();
            println!("round {round}: {}", names.join(", "));
            measured.orders.push(names);
            for arm in order {
                let (load, paths) = (measured.load.clone(), paths.clone());
                let spec = Spec { arm, load, round, paths, placement, look_ms: args.look_ms };
                measured.samples.push(sample::measure_apart(&spec)?);
            }
        }
        print!("{}", measured.markdown(rounds));
        results.loads.push(measured);
    }
    let folder = if args.quick { workspace.target("bench") } else { workspace.root.join("bench/results") };
    let out = args.out.as_ref().map(|out| workspace.root.join(out));
    let file = results::write(out.unwrap_or_else(|| results::path(&folder, "pool", &results.date)), &results)?;
    println!("\nraw results: {} ({:.0} s in all)", file.display(), begun.elapsed().as_secs_f64());
    Ok(())
}

impl Args {
    fn scale(&self) -> (u64, Scale) {
        let (rates, rate_clients) = (self.rates.clone(), self.rate_clients);
        if self.quick {
            return (1, Scale { rates, rate_clients, rate_seconds: 1, seconds: 1 });
        }
        let (rate_seconds, seconds) = (self.rate_seconds, self.seconds);
        (self.rounds, Scale { rates, rate_clients, rate_seconds, seconds })
    }

    /// How many there are; an error where a flag names another.
    fn cores(&self) -> Result<usize> {
        let cores = std::thread::available_parallelism()?.get();
        let most = self.client_core.max(self.proxy_core).max(self.origin_core.unwrap_or(0));
        if !self.unpinned && most >= cores {
            bail!("there are {cores} cores: see --client-core, --origin-core, --proxy-core and --unpinned");
        }
        Ok(cores)
    }

    fn placement(&self, part: Part, cores: usize) -> Placement {
        // Workers on one core would show that they share it, and nothing about sharing a pool.
        if self.unpinned || part == Part::Reuse {
            return Placement { client: None, proxy: None, origin: None };
        }
        let (client, proxy) = (self.client_core, self.proxy_core);
        let beside = if part == Part::PerRequest { proxy } else { client };
        let third = (0..cores).find(|core| *core != client && *core != proxy);
        let origin = self.origin_core.or(third).unwrap_or(beside);
        Placement { client: Some(client), proxy: Some(proxy), origin: Some(origin) }
    }

    fn paths(&self, workspace: &Workspace) -> Result<Paths> {
        let bin = peers::provide(workspace)?;
        let home = workspace.target("bench").join("pool");
        fs::create_dir_all(&home)?;
        let paths = Paths {
            holdfast: self.compared.holdfast(workspace),
            nginx: self.compared.nginx(&bin),
            haproxy: bin.join("haproxy"),
            ab: bin.join("ab"),
            wrk: bin.join("wrk"),
            home,
        };
        sample::check(&paths)?;
        Ok(paths)
    }
}

fn programs_of(paths: &Paths) -> Programs {
    Programs {
        holdfast: Some(paths.holdfast.clone()),
        floor: None,
        nginx: paths.nginx.clone(),
        haproxy: paths.haproxy.clone(),
        wrk: paths.wrk.clone(),
    }
}
