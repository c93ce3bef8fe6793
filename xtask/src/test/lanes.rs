//! Runs test programs side by side. Most tests wait for peers, timeouts and processes, so one program at a time leaves
//! the processor idle. The output of a program is printed when it ends.

use super::programs::Program;
use super::skipped::skip_of;
use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// A program that runs longer hangs: the longest takes four minutes on two cores.
const PROGRAM_MINUTES_MAX: i64 = 20;

/// What the programs of all lanes left.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) failed: Vec<String>,
    pub(super) skipped: Vec<String>,
}

/// Runs all programs, at most `lanes` at a time, in their order. A failed program stops no other.
pub(super) fn run(
    programs: Vec<Program>,
    lanes: usize,
    threads: usize,
    folder: &Path,
    outcome: &mut Outcome,
) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (next, outcome) = (Mutex::new(programs.into_iter()), Mutex::new(outcome));
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(mut program) = take(&next) {
                    let run = Run::of(&mut program, threads, folder);
                    run.report(&program, &mut outcome.lock().unwrap_or_else(PoisonError::into_inner));
                }
            });
        }
    });
    Ok(())
}

fn take(next: &Mutex<std::vec::IntoIter<Program>>) -> Option<Program> {
    next.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// One program's end.
struct Run {
    result: Result<()>,
    output: PathBuf,
    seconds: f64,
}

impl Run {
    fn of(program: &mut Program, threads: usize, folder: &Path) -> Run {
        let output = folder.join(program.name.replace(' ', "-")).with_extension("log");
        let begun = Instant::now();
        let result = run_to_file(program, threads, &output);
        Run { result, output, seconds: begun.elapsed().as_secs_f64() }
    }

    /// Prints the output, and collects what the summary needs. The caller's lock keeps outputs apart.
    fn report(&self, program: &Program, outcome: &mut Outcome) {
        println!("\n=== {} ({:.1} s)", program.name, self.seconds);
        let output = fs::read(&self.output).unwrap_or_default();
        let text = String::from_utf8_lossy(&output);
        print!("{text}");
        outcome.skipped.extend(text.lines().filter_map(skip_of));
        if let Err(error) = &self.result {
            let tests: Vec<String> = text.lines().filter_map(failed_test).collect();
            println!("=== {} failed: {error:#}", program.name);
            outcome.failed.push(format!("{}: {error:#}; again with `{}`", program.name, program.again));
            outcome.failed.extend(tests);
        }
    }
}

/// The name of a failed test, indented, of a line of the test harness.
fn failed_test(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(format!("    {name}"))
}

fn run_to_file(program: &mut Program, threads: usize, output: &Path) -> Result<()> {
    let file = File::create(output).with_context(|| format!("cannot create {}", output.display()))?;
    let command = program.command.env("RUST_TEST_THREADS", threads.to_string());
    let mut child = command.stdout(file.try_clone()?).stderr(file).spawn().context("cannot start it")?;
    let status = wait(&mut child)?;
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec { tv_sec: PROGRAM_MINUTES_MAX * 60, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&limit))? == 0 {
        child.kill()?;
        child.wait()?;
        bail!("it did not end in {PROGRAM_MINUTES_MAX} minutes");
    }
    Ok(child.wait()?)
}
