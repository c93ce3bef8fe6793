//! The one door for tasks. `cargo xtask --help` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr)] // this is a terminal program

use clap::{Parser, Subcommand};
use std::process::{Command, ExitCode};

/// Tasks of the workspace.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Sets up what the tests need and runs the whole suite.
    Test,
}

fn main() -> ExitCode {
    let Task::Test = Cli::parse().task;
    let ran = Command::new(env!("CARGO")).args(["test", "--workspace"]).status();
    if ran.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
