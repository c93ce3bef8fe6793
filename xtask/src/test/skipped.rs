//! Collects the skipped tests with their reasons. The test harness prints nothing about a test that passes. So a test
//! that cannot run here writes a line that begins with `SKIPPED ` directly to standard error (`testkit::skip`). Under
//! `CI` it fails instead.

use crate::workspace::shown;
use anyhow::{Context as _, Result, bail};
use std::io::{self, BufRead, BufReader, IsTerminal as _, Write};
use std::process::{Command, Stdio};

/// The beginning of such a line.
const MARK: &str = "SKIPPED ";

/// Runs cargo with its output on the terminal, and collects the lines about skipped tests.
pub(super) fn run_and_collect(cargo: &mut Command, skipped: &mut Vec<String>) -> Result<()> {
    if io::stderr().is_terminal() && std::env::var_os("CARGO_TERM_COLOR").is_none() {
        cargo.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = cargo.stderr(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", shown(cargo)))?;
    let errors = child.stderr.take().context("it is piped")?;
    forward(BufReader::new(errors), io::stderr(), skipped)?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{} ended with {status}; cargo lists the failed programs above", shown(cargo));
    }
    Ok(())
}

/// Copies lines and collects those about skipped tests.
pub(super) fn forward(mut from: impl BufRead, mut to: impl Write, skipped: &mut Vec<String>) -> io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        skipped.extend(skip_of(&line));
        line.clear();
    }
    Ok(())
}

/// The part of a line about a skipped test: the name of the running test may precede it on the same line.
fn skip_of(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let at = text.find(MARK)?;
    Some(text.get(at..)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collects_skipped_tests_and_reports_failures() {
        let (mut skipped, mut told) = (Vec::new(), Vec::new());
        let text = "one\ntest a ... SKIPPED a: no root\ntwo";
        forward(text.as_bytes(), &mut told, &mut skipped).unwrap();
        assert_eq!((skipped.as_slice(), told.as_slice()), (&["SKIPPED a: no root".to_owned()][..], text.as_bytes()));
        let failed = run_and_collect(Command::new("sh").args(["-c", "exit 3"]), &mut skipped).unwrap_err();
        assert!(failed.to_string().contains("exit status: 3"), "{failed}");
    }
}
