//! Runs the same tests many times in a row, to find a race that one run in hundreds meets.

use super::programs;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// Tests of a package's program `it`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tests {
    pub(super) package: &'static str,
    /// Part of their names.
    pub(super) filter: &'static str,
}

/// Output of a failed run that is printed: the end has the reason.
const SHOWN_BYTES: usize = 4000;

/// Builds the programs once and runs each of these tests `runs` times. All are run, even if one fails.
pub(super) fn run(workspace: &Workspace, peers: &Path, runs: u32, all: &[Tests]) -> Result<()> {
    let mut arguments = vec!["--locked", "--test", "it"];
    for tests in all {
        if !arguments.contains(&tests.package) {
            arguments.extend(["-p", tests.package]);
        }
    }
    let mut programs = programs::build(workspace, &arguments)?;
    let mut failed = Vec::new();
    for tests in all {
        let name = format!("{} it", tests.package);
        let program = programs.iter_mut().find(|program| program.name == name);
        let program = program.with_context(|| format!("cargo did not build {name}"))?;
        let mut failures = 0;
        for _ in 0..runs {
            let mut command = Command::new(program.command.get_program());
            command.args([tests.filter, "--quiet"]).env("HOLDFAST_PEERS", peers);
            if let Some(folder) = program.command.get_current_dir() {
                command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
            }
            let output = command.output().with_context(|| format!("cannot start {name}"))?;
            let text = String::from_utf8_lossy(&output.stdout);
            if text.contains("running 0 tests") {
                bail!("{name} has no test `{}`", tests.filter);
            }
            if !output.status.success() {
                failures += 1;
                println!("{}", end_of(&text));
            }
        }
        println!("{name} {}: {failures} of {runs} runs failed", tests.filter);
        if failures > 0 {
            failed.push(format!("{name} {}: {failures} of {runs} runs", tests.filter));
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

/// The last part of a text.
fn end_of(text: &str) -> &str {
    let from = text.len().saturating_sub(SHOWN_BYTES);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_text_is_shown() {
        assert_eq!(end_of("short"), "short");
        let long = "ä".repeat(SHOWN_BYTES);
        assert!(end_of(&long).len() <= SHOWN_BYTES && end_of(&format!("x{long}")).ends_with('ä'));
    }
}
