//! `cargo xtask test`: the README's test command. It fetches what the tests want beside cargo and runs the whole suite:
//! unit, integration and documentation tests, then the loom models of the crates that have some.

use crate::workspace::{Workspace, find_program, heading, output_of, run};
use crate::{metadata, peers};
use anyhow::{Result, bail};
use std::time::Instant;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Arguments for `cargo test`, such as `-p conf` or a test's name; the loom models are left out then.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// What the build calls besides Rust, and the Debian package that has it.
const BUILD_NEEDS: [(&str, &str); 2] = [("cc", "gcc libc6-dev"), ("ar", "binutils")];

/// Runs the task.
pub(crate) fn run_suite(workspace: &Workspace, args: &Args) -> Result<()> {
    let begun = Instant::now();
    check_build_needs()?;
    let bin = peers::provide(workspace)?;

    heading("cargo test");
    let mut tests = workspace.cargo();
    tests.env("HOLDFAST_PEERS", &bin).args(["test", "--locked"]);
    if args.cargo.is_empty() {
        run(tests.arg("--workspace"))?;
        run_loom_models(workspace)?;
    } else {
        run(tests.args(&args.cargo))?;
    }
    println!("\nall tests passed in {:.0} s, building included", begun.elapsed().as_secs_f64());
    Ok(())
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

/// Loom explores the interleavings of a model. A crate that declares loom is built once more with `--cfg loom`, and what
/// it has under that `cfg` is run. The `cfg` reaches everything that is built, so there is a target folder for it.
fn run_loom_models(workspace: &Workspace) -> Result<()> {
    for package in metadata::packages(workspace)?.iter().filter(|package| package.depends_on("loom")) {
        let name = &package.name;
        heading(&format!("loom models of {name}"));
        let cargo_test = || {
            let mut command = workspace.cargo();
            command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS);
            command.args(["test", "--locked", "--release", "--tests", "--package", name, "--target-dir"]);
            command.arg(workspace.target("loom"));
            // Models want speed, not the smallest program: linking the release way takes longer than running them.
            command.args(["--config", "profile.release.lto=false", "--config", "profile.release.codegen-units=16"]);
            command
        };
        // No test at all is a success for cargo; here it would be a model that nobody runs.
        let listed = output_of(cargo_test().args(["--", "--list"]))?;
        if !listed.lines().any(|line| line.ends_with(": test")) {
            bail!("{name} declares loom, but has no test under `cfg(loom)`");
        }
        run(&mut cargo_test())?;
    }
    Ok(())
}

/// Loom's authors found that two or three forced switches show most bugs; more multiply the time without bound.
const LOOM_PREEMPTIONS: &str = "3";
