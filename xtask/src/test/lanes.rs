//! Runs the test programs in two lanes at the same time. The programs that keep the machine busy are in one lane, one
//! after the other, with their output on the terminal. The others mostly wait, so they run beside these. The output of
//! each of them appears when it has ended.

use super::programs::Program;
use super::skipped;
use crate::workspace::shown;
use anyhow::{Context as _, Result};
use std::io::{self, BufReader, IsTerminal as _, Write};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The programs that load both cores.
const BUSY: [&str; 3] = ["gateway it", "gateway under_tls", "holdfast it"];
/// Programs that measure the machine. They run last, each alone.
const ALONE: [&str; 1] = ["gateway alone"];
/// Tests at a time in a program beside a busy one: enough to overlap their waits, few enough to leave the busy one its time.
const THREADS_BESIDE: &str = "4";

/// What the programs reported, collected from both lanes.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// A line for each program that failed.
    pub(super) failed: Vec<String>,
    /// The lines about skipped tests.
    pub(super) skipped: Vec<String>,
}

/// Runs all programs, those of each lane in the order of their names. A failed one does not stop the others.
pub(super) fn run(mut programs: Vec<Program>, terminal: &Mutex<impl Write + Send>) -> Result<Outcome> {
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    let busy = take(&mut programs, &BUSY)?;
    let alone = take(&mut programs, &ALONE)?;
    let outcome = Mutex::default();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| run_beside(programs, terminal, &outcome));
        let streamed = run_streamed(busy, terminal, &outcome);
        streamed.and(beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    run_streamed(alone, terminal, &outcome)?;
    Ok(outcome.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One program after the other; each line appears when it comes.
fn run_streamed(programs: Vec<Program>, terminal: &Mutex<impl Write>, outcome: &Mutex<Outcome>) -> Result<()> {
    programs.into_iter().try_for_each(|program| run_one(program, &mut Locked(terminal), outcome))
}

/// One program after the other; the lines of each appear together.
fn run_beside(programs: Vec<Program>, terminal: &Mutex<impl Write>, outcome: &Mutex<Outcome>) -> Result<()> {
    for mut program in programs {
        program.command.env("RUST_TEST_THREADS", THREADS_BESIDE);
        let mut text = Vec::new();
        run_one(program, &mut text, outcome)?;
        Locked(terminal).write_all(&text)?;
    }
    Ok(())
}

/// Runs a program with both its outputs going to one place.
fn run_one(program: Program, to: &mut impl Write, outcome: &Mutex<Outcome>) -> Result<()> {
    let Program { name, mut command } = program;
    if io::stdout().is_terminal() {
        command.args(["--color", "always"]);
    }
    let begun = Instant::now();
    let (output, input) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(&command)))?;
    drop(command); // it keeps the pipe open
    to.write_all(format!("\n=== {name}\n").as_bytes())?;
    let mut skipped = Vec::new();
    skipped::forward(BufReader::new(output), &mut *to, &mut skipped)?;
    let status = child.wait()?;
    to.write_all(format!("{name}: {status} after {:.0} s\n", begun.elapsed().as_secs_f64()).as_bytes())?;
    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    outcome.skipped.extend(skipped);
    if !status.success() {
        outcome.failed.push(format!("{name} ended with {status}; its failed tests are listed above"));
    }
    Ok(())
}

/// Writes whole buffers, so that the lines of two lanes do not mix.
struct Locked<'a, W>(&'a Mutex<W>);

impl<W: Write> Write for Locked<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Takes the programs with these names out of the list, in the order of the names.
fn take(programs: &mut Vec<Program>, names: &[&str]) -> Result<Vec<Program>> {
    names
        .iter()
        .map(|name| {
            let at = programs.iter().position(|program| program.name == *name);
            // Otherwise a renamed program would move into the other lane unnoticed.
            Ok(programs.remove(at.with_context(|| format!("no test program is called `{name}`"))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn program(name: &str, script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program { name: name.to_owned(), command }
    }

    #[test]
    fn each_lane_reports_failures_and_skipped_tests() {
        let mut programs: Vec<Program> = BUSY.iter().chain(&ALONE).map(|name| program(name, "true")).collect();
        programs.push(program("conf it", "echo SKIPPED a: no root >&2"));
        programs.push(program("tls it", "exit 101"));
        programs[0] = program(BUSY[0], "echo SKIPPED b: no root; exit 3");
        let terminal = Mutex::new(Vec::new());
        let outcome = run(programs, &terminal).unwrap();
        let told = String::from_utf8(terminal.into_inner().unwrap()).unwrap();
        assert!(told.contains("\n=== conf it\nSKIPPED a: no root\nconf it: exit status: 0"), "{told}");
        let mut skipped = outcome.skipped;
        skipped.sort();
        assert_eq!(skipped, ["SKIPPED a: no root", "SKIPPED b: no root"]);
        let failed = outcome.failed.join("\n");
        assert!(failed.contains("gateway it ended with exit status: 3"), "{failed}");
        assert!(failed.contains("tls it ended with exit status: 101"), "{failed}");
        assert_eq!(outcome.failed.len(), 2, "{failed}");
    }

    #[test]
    fn a_renamed_busy_program_is_an_error() {
        let missing = run(vec![program("gateway it", "true")], &Mutex::new(Vec::new())).unwrap_err();
        assert!(format!("{missing:#}").contains("`gateway under_tls`"), "{missing:#}");
    }
}
