//! The tasks of the workspace. `cargo xtask --help` lists them; `.ci/run` calls the same ones.
//!
//! One file per task. It contains nothing that the product needs: no crate depends on this one.
#![allow(clippy::print_stdout, clippy::print_stderr)] // this is a terminal program

mod bench;
mod conformance;
mod deny;
mod docs;
mod fuzz;
mod handbook;
mod manifests;
mod metadata;
mod package;
mod peers;
mod test;
mod tidy;
mod tools;
mod trained;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use workspace::Workspace;

/// Tasks of the workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Sets up what the tests need and runs the whole suite.
    Test(test::Args),
    /// Provides nginx and haproxy (this system's, stable and newest), load tools and more under target/peers, without touching the system.
    Peers(peers::Args),
    /// Runs the Gateway API project's conformance tests against `holdfast ingress`.
    Conformance(conformance::Args),
    /// Checks the layout rules: direction, lengths, names, headers.
    Tidy(tidy::Args),
    /// Checks licences, sources and known vulnerabilities of the dependencies.
    Deny,
    /// Measures the product beside its peers.
    Bench(bench::Args),
    /// Writes the pages that are made from code.
    Docs,
    /// Renders the plain manifests of Kubernetes from the chart.
    Manifests,
    /// Makes the packages that operators install: a .deb, a tarball, an OCI image.
    Package(package::Args),
    /// Installs the .deb into a booted Debian, uses it, upgrades it under load and purges it.
    PackageTest(package::test::Args),
    /// Builds the handbook as a site and follows its links.
    Handbook,
    /// Compiles the fuzz targets, which are a workspace of their own.
    FuzzCheck,
    /// Runs every fuzz target for some seconds.
    FuzzSmoke(fuzz::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ran = Workspace::locate().and_then(|workspace| match cli.task {
        Task::Test(args) => test::run_suite(&workspace, &args),
        Task::Peers(args) => peers::run(&workspace, &args),
        Task::Conformance(args) => conformance::run_task(&workspace, &args),
        Task::Tidy(args) => tidy::run(&workspace, &args),
        Task::Bench(args) => bench::run(&workspace, &args),
        Task::Deny => deny::check(&workspace),
        Task::Handbook => handbook::build(&workspace),
        Task::Docs => docs::write(&workspace),
        Task::Manifests => manifests::write(&workspace),
        Task::Package(args) => package::run(&workspace, &args),
        Task::PackageTest(args) => package::test::run_test(&workspace, &args),
        Task::FuzzCheck => fuzz::check(&workspace),
        Task::FuzzSmoke(args) => fuzz::smoke(&workspace, &args),
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn every_task_has_a_sound_command_line() {
        Cli::command().debug_assert();
    }
}
