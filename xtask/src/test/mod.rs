//! `cargo xtask test`: the README's test command. It fetches what the tests need besides cargo and runs the whole
//! suite in two lanes (`lanes`): unit and integration tests, documentation tests, and the loom models of the crates that
//! have some. A failed program does not stop the others. `--long` runs the tests that take hours instead (`long`).

mod lanes;
mod long;
mod programs;
mod repeated;
mod skipped;

use crate::workspace::{Workspace, find_program, heading, output_of};
use crate::{metadata, peers};
use anyhow::{Result, bail};
use lanes::Outcome;
use programs::Program;
use skipped::run_and_collect;
use std::io;
use std::path::Path;
use std::sync::Mutex;
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

/// Runs the task.
pub(crate) fn run_suite(workspace: &Workspace, args: &Args) -> Result<()> {
    check_build_needs()?;
    if args.long {
        return long::run_steps(workspace, &args.more);
    }
    let begun = Instant::now();
    let bin = peers::provide(workspace)?;

    let outcome =
        if args.more.is_empty() { run_whole(workspace, &bin)? } else { run_some(workspace, &bin, &args.more) };

    heading("outcome");
    let Outcome { failed, skipped } = outcome;
    for line in &skipped {
        println!("{line}");
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    let and_skipped = if skipped.is_empty() { String::new() } else { format!(" but {} skipped", skipped.len()) };
    println!("all tests passed{and_skipped} in {:.0} s, building included", begun.elapsed().as_secs_f64());
    Ok(())
}

/// All tests of the workspace. They are built with everything that packages have, as CI builds the program for the test
/// of the package.
fn run_whole(workspace: &Workspace, peers: &Path) -> Result<Outcome> {
    const WHOLE: [&str; 4] = ["--locked", "--workspace", "--features", "holdfast/full"];
    heading("build");
    let mut programs = programs::build(workspace, &WHOLE)?;
    for program in &mut programs {
        program.command.env("HOLDFAST_PEERS", peers);
    }
    let mut examples = workspace.cargo();
    examples.args(["test", "--doc", "--no-fail-fast"]).args(WHOLE);
    programs.push(Program { name: "examples in the documentation".to_owned(), command: examples });
    let (models, without) = loom_models(workspace)?;
    programs.extend(models);
    let mut outcome = lanes::run(programs, &Mutex::new(io::stdout()))?;
    outcome.failed.extend(without);
    Ok(outcome)
}

/// The tests that the arguments select.
fn run_some(workspace: &Workspace, peers: &Path, arguments: &[String]) -> Outcome {
    heading("cargo test");
    let mut tests = workspace.cargo();
    tests.env("HOLDFAST_PEERS", peers).args(["test", "--locked", "--no-fail-fast"]).args(arguments);
    let mut outcome = Outcome::default();
    let ended = run_and_collect(&mut tests, &mut outcome.skipped);
    note(&mut outcome.failed, ended);
    outcome
}

/// Records a failure for the end.
fn note(failed: &mut Vec<String>, outcome: Result<()>) {
    failed.extend(outcome.err().map(|error| format!("{error:#}")));
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

/// Loom explores the interleavings of a model. A crate that declares loom is built again with `--cfg loom`, and its
/// tests under that `cfg` are run. The `cfg` affects all dependencies, so these builds have their own target folder.
/// Returns the programs, and a line for each crate without a test.
fn loom_models(workspace: &Workspace) -> Result<(Vec<Program>, Vec<String>)> {
    let (mut programs, mut failed) = (Vec::new(), Vec::new());
    for package in metadata::packages(workspace)?.iter().filter(|package| package.depends_on("loom")) {
        let name = &package.name;
        heading(&format!("loom models of {name}"));
        let cargo_test = || {
            let mut command = workspace.cargo();
            command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS);
            command.args(["test", "--locked", "--no-fail-fast", "--release", "--tests", "--package", name]);
            command.arg("--target-dir").arg(workspace.target("loom"));
            command
        };
        // cargo accepts a run without tests; here it would mean a model that never runs.
        match output_of(cargo_test().args(["--", "--list"])) {
            Ok(listed) if !listed.lines().any(|line| line.ends_with(": test")) => {
                failed.push(format!("{name} declares loom, but has no test under `cfg(loom)`"));
            }
            Ok(_) => programs.push(Program { name: format!("loom models of {name}"), command: cargo_test() }),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    Ok((programs, failed))
}

/// Loom's authors found that two or three forced switches show most bugs; more increase the time without limit.
const LOOM_PREEMPTIONS: &str = "3";
