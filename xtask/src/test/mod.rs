//! `cargo xtask test`: the README's test command. It fetches what the tests need besides cargo and runs the whole
//! suite: unit, integration and documentation tests, then the loom models of the crates that have some. A failed
//! program does not stop the others. `--long` runs the tests that take hours instead (`long`).

mod lanes;
mod long;
mod loom;
mod programs;
mod repeated;
mod skipped;

use crate::peers;
use crate::workspace::{Workspace, find_program, heading};
use anyhow::{Result, bail};
use lanes::Outcome;
use programs::Program;
use skipped::run_and_collect;
use std::path::Path;
use std::time::Instant;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The long tier instead: soaks, and every experiment at full length. It lists its steps, what they need and how long they take.
    #[arg(long)]
    long: bool,
    /// Arguments for `cargo test`, such as `-p conf` or a test's name; the loom models are left out then. With `--long`: names of steps.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

/// Programs that the build needs besides Rust, and their Debian packages.
const BUILD_NEEDS: [(&str, &str); 2] = [("cc", "gcc libc6-dev"), ("ar", "binutils")];

/// Programs at a time for each core, and tests at a time in each of them: most wait for peers, timeouts and processes.
const LANES_PER_CORE: (usize, usize) = (3, 2);
const TESTS_PER_CORE: usize = 3;

/// Programs that run first, the longest before the others, so that no long one remains at the end.
const FIRST: [&str; 5] = ["holdfast it", "gateway it", "gateway under_tls", "lab it", "load it"];

/// Programs of this name run one at a time after the others: they measure the machine.
const ALONE: &str = " alone";

/// Runs the task.
pub(crate) fn run_suite(workspace: &Workspace, args: &Args) -> Result<()> {
    check_build_needs()?;
    if args.long {
        return long::run_steps(workspace, &args.more);
    }
    let begun = Instant::now();
    let bin = peers::provide(workspace)?;

    let outcome =
        if args.more.is_empty() { run_everything(workspace, &bin)? } else { run_some(workspace, &bin, &args.more) };

    heading("outcome");
    for line in &outcome.skipped {
        println!("{line}");
    }
    if !outcome.failed.is_empty() {
        bail!("{}", outcome.failed.join("\n"));
    }
    let skipped = outcome.skipped.len();
    let and_skipped = if skipped == 0 { String::new() } else { format!(" but {skipped} skipped") };
    println!("all tests passed{and_skipped} in {:.0} s, building included", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Builds and runs all tests, with everything that packages have, as CI builds the program for the test of the package.
fn run_everything(workspace: &Workspace, bin: &Path) -> Result<Outcome> {
    const ALL: [&str; 4] = ["--workspace", "--locked", "--features", "holdfast/full"];
    heading("building the tests");
    let mut programs = programs::build(workspace, &ALL)?;
    let mut documentation = workspace.cargo();
    documentation.args(["test", "--doc", "--no-fail-fast"]).args(ALL);
    programs.push(Program::of_cargo("documentation", documentation));
    for program in &mut programs {
        program.command.env("HOLDFAST_PEERS", bin);
    }
    let mut loom = loom::programs(workspace)?;
    programs.append(&mut loom);
    let (alone, mut together): (Vec<Program>, Vec<Program>) =
        programs.into_iter().partition(|program| program.name.ends_with(ALONE));
    together.sort_by_key(|program| FIRST.iter().position(|name| *name == program.name).unwrap_or(FIRST.len()));

    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let folder = workspace.target("test-output");
    let mut outcome = Outcome::default();
    lanes::run(together, cores * LANES_PER_CORE.0 / LANES_PER_CORE.1, cores * TESTS_PER_CORE, &folder, &mut outcome)?;
    lanes::run(alone, 1, cores * TESTS_PER_CORE, &folder, &mut outcome)?;
    Ok(outcome)
}

/// Runs `cargo test` with the arguments of the command line.
fn run_some(workspace: &Workspace, bin: &Path, arguments: &[String]) -> Outcome {
    heading("cargo test");
    let mut tests = workspace.cargo();
    tests.env("HOLDFAST_PEERS", bin).args(["test", "--locked", "--no-fail-fast"]).args(arguments);
    let mut outcome = Outcome::default();
    let result = run_and_collect(&mut tests, &mut outcome.skipped);
    outcome.failed.extend(result.err().map(|error| format!("{error:#}")));
    outcome
}

fn check_build_needs() -> Result<()> {
    let missing: Vec<&(&str, &str)> = BUILD_NEEDS.iter().filter(|(name, _)| find_program(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs = missing.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let packages = missing.iter().map(|(_, package)| *package).collect::<Vec<_>>().join(" ");
    bail!("the build needs {programs}. On Debian and Ubuntu: sudo apt-get install {packages}");
}
