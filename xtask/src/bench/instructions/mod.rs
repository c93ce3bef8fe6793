//! `cargo xtask bench instructions`: the cost of a request in instructions and cache misses, counted by callgrind. On a
//! shared machine, time varies by several per cent between runs. These counts vary by less than one, so a change that
//! makes requests more expensive is noticed at once. The counts are compared with `bench/instructions.toml`, or, for the
//! quick `release` build, with `bench/instructions-release.toml`.

mod case;
mod counted;
mod table;

use super::experiments::build;
use crate::workspace::{Workspace, find_program, heading};
use anyhow::{Context as _, Result, bail};
use case::Case;
use counted::{Counts, Proxy};
use std::fs;
use std::path::PathBuf;
use table::Table;

/// Options of `cargo xtask bench instructions`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Only these cases.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Measure this program instead of a build of the working tree.
    #[arg(long)]
    holdfast: Option<PathBuf>,
    /// The profile of the build, and the table for it: a `dist` build is trained and takes two builds.
    #[arg(long, default_value = "dist", value_parser = ["dist", "release"])]
    profile: String,
    /// Requests of each case that are counted.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    requests: u64,
    /// Write what was counted into the table. Say in the commit why the numbers changed.
    #[arg(long)]
    write: bool,
}

/// Counts every case, prints the table, and fails if a case costs more than the table of its profile allows.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let missing = ["valgrind", "vgdb"].into_iter().find(|name| find_program(name).is_none());
    if let Some(name) = missing {
        bail!("{name} is not there: apt install valgrind");
    }
    let known = |name: &String| case::ALL.iter().any(|case| case.name == name);
    if let Some(unknown) = args.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = case::ALL.iter().map(|case| case.name).collect();
        bail!("there is no case {unknown}; the cases are {}", names.join(", "));
    }
    let holdfast = match &args.holdfast {
        Some(path) => path.canonicalize().with_context(|| format!("{} is not there", path.display()))?,
        None => build(workspace, &args.profile)?,
    };
    let home = workspace.target("bench").join("instructions");
    fs::create_dir_all(&home)?;
    let name = if args.profile == "dist" { "bench/instructions.toml" } else { "bench/instructions-release.toml" };
    let file = workspace.root.join(name);
    let mut table = Table::read(&file)?;
    let chosen = |case: &&Case| args.only.is_empty() || args.only.iter().any(|name| name == case.name);
    heading(&format!("{} requests of each case under callgrind", args.requests));
    println!("{:<14} {:>12} {:>10} {:>12} {:>9}", "case", "instructions", "L1 misses", "in the table", "change");
    let mut dearer = Vec::new();
    for case in case::ALL.iter().filter(chosen) {
        let count = |requests| {
            let mut proxy = Proxy::start(&holdfast, &home, case)?;
            proxy.count(case, requests).with_context(|| format!("the case {}", case.name))
        };
        let mut counts = count(args.requests)?;
        // How events fall into turns of the loop differs by run. What costs more in truth does so in a longer run, too.
        if table.change(case.name, counts).is_some_and(|change| change > table::ALLOWED) {
            counts = counts.cheaper(count(3 * args.requests)?);
        }
        let change = table.change(case.name, counts);
        println!("{}", row(case, counts, &table));
        if change.is_some_and(|change| change > table::ALLOWED) {
            dearer.push(case.name);
        }
        if args.write {
            table.set(case.name, counts);
        }
    }
    if args.write {
        table.write(&file)?;
        println!("\nwritten to {}", file.display());
        return Ok(());
    }
    if !dearer.is_empty() {
        bail!(
            "more than {:.0} % above {name}: {}. Find the cause with `callgrind_annotate` in {}, or change the table with \
             --write and say why in the commit",
            table::ALLOWED * 100.0,
            dearer.join(", "),
            home.display()
        );
    }
    Ok(())
}

fn row(case: &Case, counts: Counts, table: &Table) -> String {
    let before = table.instructions(case.name).map_or("–".to_owned(), |before| before.to_string());
    let change = table.change(case.name, counts).map_or("–".to_owned(), |change| format!("{:+.1} %", change * 100.0));
    format!("{:<14} {:>12} {:>10} {before:>12} {change:>9}", case.name, counts.instructions, counts.misses)
}
