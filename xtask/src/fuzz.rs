//! `cargo xtask fuzz-check` compiles the targets of `fuzz/`. `cargo xtask fuzz-smoke` runs each for some seconds, from
//! its seeds. For longer runs use `cargo fuzz run`.

use crate::tools::{self, Tool};
use crate::workspace::{Workspace, find_program, heading, in_ci, output_of, run, shown};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Options of `cargo xtask fuzz-smoke`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each target.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Where the search begins: the same for each run, so that what the smoke says depends on the code alone.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Only the targets whose name contains this.
    filter: Option<String>,
}

const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2", features: &[] };

/// An input that takes longer than this counts as a hang: our parsers finish in microseconds, even on a busy machine in
/// far less than this.
const HANG_SECONDS: u32 = 20;

/// Runs the task.
pub(crate) fn smoke(workspace: &Workspace, args: &Args) -> Result<()> {
    if !workspace.root.join("fuzz/Cargo.toml").is_file() {
        println!("fuzz/ holds no targets yet");
        return Ok(());
    }
    if let Err(missing) = check_needs() {
        // Without a nightly compiler a developer can continue; in CI a build that checks nothing must not pass.
        if in_ci() {
            return Err(missing);
        }
        println!("NOT FUZZED: {missing}");
        return Ok(());
    }
    tools::provide(workspace, &CARGO_FUZZ)?;
    let targets = output_of(cargo_fuzz(workspace)?.arg("list"))?;
    let wanted = |target: &&str| args.filter.as_ref().is_none_or(|filter| target.contains(filter));
    let targets: Vec<&str> = targets.lines().map(str::trim).filter(|line| !line.is_empty()).filter(wanted).collect();
    if targets.is_empty() {
        bail!("no fuzz target matches");
    }
    heading(&format!("building {} fuzz targets", targets.len()));
    run(cargo_fuzz(workspace)?.args(["build", "--target-dir"]).arg(workspace.target("fuzz")))?;
    fuzz_side_by_side(workspace, &targets, args)?;
    println!("\n{} fuzz targets, {} s each: nothing found", targets.len(), args.seconds);
    Ok(())
}

/// Compiles every target with the workspace's compiler, without sanitizers and without libFuzzer's C++ part. A change
/// that breaks a target fails here in seconds, before the build with sanitizers.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    heading("the fuzz targets compile");
    let mut cargo = workspace.cargo();
    cargo.args(["check", "--locked", "--bins", "--manifest-path"]).arg(workspace.root.join("fuzz/Cargo.toml"));
    // The target folder of the other builds, so that dependencies with the same version and features are compiled once.
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        cargo.arg("--target-dir").arg(workspace.target(""));
    }
    // Names a library that nothing links, so that the build script of libfuzzer-sys compiles none.
    cargo.env("CUSTOM_LIBFUZZER_PATH", workspace.target("no-libfuzzer.a"));
    run(&mut cargo)
}

fn check_needs() -> Result<()> {
    if find_program("c++").is_none() {
        bail!("libFuzzer is built with `c++`. On Debian and Ubuntu: sudo apt-get install g++");
    }
    let nightly =
        Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).env_remove("RUSTUP_TOOLCHAIN").output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        bail!("sanitizers need a nightly compiler: rustup toolchain install nightly --profile minimal");
    }
    Ok(())
}

/// `cargo fuzz` with the nightly compiler, independent of the toolchain that started us.
fn cargo_fuzz(workspace: &Workspace) -> Result<Command> {
    let mut command = Command::new("rustup");
    for inherited in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTFLAGS"] {
        command.env_remove(inherited);
    }
    command.current_dir(&workspace.root).env("PATH", tools::search_path(workspace)?);
    command.args(["run", "nightly", "cargo", "fuzz"]);
    Ok(command)
}

/// One target per core at a time. The output of a target is printed when it has ended; after a failure no other begins.
fn fuzz_side_by_side(workspace: &Workspace, targets: &[&str], args: &Args) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = fuzz(workspace, target, args) {
                next.store(targets.len(), Ordering::Relaxed);
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

fn fuzz(workspace: &Workspace, target: &str, &Args { seconds, seed, .. }: &Args) -> Result<()> {
    // libFuzzer writes new inputs into the first folder and only reads the others.
    let corpus = workspace.root.join("fuzz/corpus").join(target);
    let seeds = workspace.root.join("fuzz/seeds").join(target);
    fs::create_dir_all(&corpus)?;
    let mut command = cargo_fuzz(workspace)?;
    command.arg("run").arg("--target-dir").arg(workspace.target("fuzz")).arg(target).arg(corpus);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command.args(["--", "-print_final_stats=1", "-verbosity=0"]).arg(format!("-seed={seed}"));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={HANG_SECONDS}"));
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    heading(&format!("{target} was fuzzed for {seconds} s"));
    println!("{}\n{}", out.trim_end(), errors.trim_end());
    if !output.status.success() {
        bail!("{} ended with {}", shown(&command), output.status);
    }
    Ok(())
}
