//! `cargo xtask deny`: checks licences, sources and versions of all dependencies by the rules of `deny.toml`, and known
//! vulnerabilities if the `RustSec` database can be reached.

use crate::tools::{self, Tool};
use crate::workspace::{Workspace, heading, run, shown};
use anyhow::{Context as _, Result, bail};
use std::process::Command;

const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", features: &[] };

/// cargo-deny's message if it cannot fetch the database, as opposed to a finding.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Runs the task.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let program = tools::provide(workspace, &CARGO_DENY)?;
    let deny = |checks: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(&workspace.root).args(["--locked", "check"]).args(checks);
        command
    };

    heading("licences, sources and versions of the dependencies");
    run(&mut deny(&["licenses", "bans", "sources"]))?;

    heading("known vulnerabilities");
    let mut advisories = deny(&["advisories"]);
    let output = advisories.output().with_context(|| format!("cannot start {}", shown(&advisories)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!("advisories ok");
        return Ok(());
    }
    if said.contains(NO_DATABASE) {
        println!("NOT CHECKED: RustSec's advisory database cannot be reached from here.");
        return Ok(());
    }
    print!("{said}");
    bail!("{} ended with {}", shown(&advisories), output.status);
}
