//! `cargo xtask test --long`: tests that take too long to run after each change. Run them before a release or after
//! work on the subject. Each step is a command that also exists separately; this is the list.

use super::repeated::{self, Tests};
use crate::peers;
use crate::workspace::{Workspace, heading, run};
use anyhow::{Result, bail};
use std::process::Command;
use std::time::Instant;

/// One command of the long tier.
struct Step {
    name: &'static str,
    about: &'static str,
    /// Measured, or stated by the experiments, on two cores.
    minutes: &'static str,
    runs: Runs,
}

enum Runs {
    /// `cargo test` with an environment variable, if there is one.
    Test(Option<(&'static str, &'static str)>, &'static [&'static str]),
    /// These tests, each this many times in a row.
    Repeated(u32, &'static [Tests]),
    /// A task of this program.
    Task(&'static [&'static str]),
}

/// Tests of waits that end when a client leaves (ADR 30).
const WAITS: [Tests; 4] = [
    Tests { package: "gateway", filter: "p09_waiting_ends_at_timeout_or_when_the_client_leaves" },
    Tests { package: "gateway", filter: "u13_" },
    Tests { package: "gateway", filter: "u14_" },
    Tests { package: "reactor", filter: "waits::" },
];

const STEPS: [Step; 18] = [
    Step {
        name: "ignored",
        about: "tests marked #[ignore] for their length",
        minutes: "5",
        runs: Runs::Test(None, &["--workspace", "--features", "holdfast/full", "--no-fail-fast", "--", "--ignored"]),
    },
    Step {
        name: "waits",
        about: "1,000 runs of each test of a wait that a client's end must end",
        minutes: "60 and more",
        runs: Runs::Repeated(1000, &WAITS),
    },
    Step {
        name: "nginx-agrees",
        about: "every generated configuration before nginx instead of each twelfth",
        minutes: "2",
        runs: Runs::Test(Some(("NGINX_AGREES", "all")), &["-p", "conf", "--test", "it", "nginx_agrees"]),
    },
    Step {
        name: "conformance",
        about: "the Gateway API's own tests of all that is claimed; it renews the report in docs/conformance",
        minutes: "15",
        runs: Runs::Task(&["conformance", "--build", "--features", ""]),
    },
    Step {
        name: "upgrades",
        about: "2,800 upgrades of a busy program in a row",
        minutes: "5",
        runs: Runs::Test(
            Some(("HOLDFAST_UPGRADES", "2800")),
            &["-p", "holdfast", "--test", "it", "upgrades_lose_no_request", "--", "--nocapture"],
        ),
    },
    Step {
        name: "reloads",
        about: "136 reloads in 10 minutes with 5,000 tunnels under load; nginx and HAProxy beside it",
        minutes: "31",
        runs: Runs::Test(
            Some(("HOLDFAST_RELOADS", "136 5000 600")),
            &["-p", "holdfast", "--test", "it", "many_reloads_fail_no_request", "--", "--nocapture"],
        ),
    },
    Step {
        name: "busy-cluster",
        about: "10 changes a second for 10 minutes in a cluster of 1,000 Ingresses, under 2,000 requests/s and 5,000 tunnels",
        minutes: "20",
        runs: Runs::Test(
            Some(("HOLDFAST_BUSY", "600 2000 5000 10")),
            &[
                "-p",
                "holdfast",
                "--release",
                "--features",
                "full",
                "--test",
                "it",
                "ingress::busy",
                "--",
                "--nocapture",
            ],
        ),
    },
    Step {
        name: "quiet",
        about: "three hours without a fault under the flight recorder: `incident` claims nothing",
        minutes: "180",
        runs: Runs::Test(
            Some(("HOLDFAST_QUIET_MINUTES", "180")),
            &["-p", "holdfast", "--test", "it", "a_quiet_time", "--", "--nocapture"],
        ),
    },
    Step {
        name: "cache-files",
        about: "a start with 1,000,000 files in a cache: first hit, hits while the folder is read, start from a snapshot",
        minutes: "10",
        runs: Runs::Test(
            Some(("HOLDFAST_CACHE_FILES", "1000000")),
            &["-p", "gateway", "--release", "--test", "alone", "many_files", "--", "--nocapture"],
        ),
    },
    Step {
        name: "soak",
        about: "a million requests through each proxy to peers that close, reset and half-close",
        minutes: "10 to 60",
        runs: Runs::Task(&["bench", "soak", "--requests", "1000000", "--keep"]),
    },
    Step {
        name: "pool",
        about: "bench pool, all experiments at full length",
        minutes: "30 and more",
        runs: Runs::Task(&["bench", "pool"]),
    },
    Step {
        name: "proxy",
        about: "bench proxy, all experiments at full length",
        minutes: "60 and more",
        runs: Runs::Task(&["bench", "proxy"]),
    },
    Step {
        name: "tls",
        about: "bench tls, all experiments at full length",
        minutes: "30 and more",
        runs: Runs::Task(&["bench", "tls"]),
    },
    Step {
        name: "cache",
        about: "bench cache, all experiments at full length",
        minutes: "10 and more",
        runs: Runs::Task(&["bench", "cache"]),
    },
    Step {
        name: "load",
        about: "bench load, all experiments at full length",
        minutes: "30 and more",
        runs: Runs::Task(&["bench", "load"]),
    },
    Step {
        name: "sockets",
        about: "a census of 100,000 sockets",
        minutes: "2",
        runs: Runs::Task(&["bench", "sockets"]),
    },
    Step {
        name: "conf",
        about: "a configuration of 100,000 lines",
        minutes: "2",
        runs: Runs::Task(&["bench", "conf"]),
    },
    Step {
        name: "ingress",
        about: "1,000 Ingresses and 20,000 endpoints behind a real API server",
        minutes: "10",
        runs: Runs::Task(&["bench", "ingress", "--keep"]),
    },
];

/// The requirements of all steps together.
const NEEDS: &str = "It needs root or user namespaces, iproute2, the peers (fetched), two cores that nothing else uses, and a `dist` build.
Benches write dated records below bench/results.";

/// Runs the steps with these names, or all; a failed step does not stop the others.
pub(super) fn run_steps(workspace: &Workspace, names: &[String]) -> Result<()> {
    let steps = choose(names)?;
    heading("the long tier");
    for step in &steps {
        println!("{:13}{} ({} min)", step.name, step.about, step.minutes);
    }
    println!("{NEEDS}");
    let bin = peers::provide_all(workspace)?;
    let mut failed = Vec::new();
    for step in &steps {
        heading(step.name);
        let begun = Instant::now();
        let outcome = match step.runs {
            Runs::Test(variable, arguments) => {
                let mut command = workspace.cargo();
                command.args(["test", "--locked"]).args(arguments).env("HOLDFAST_PEERS", &bin).envs(variable);
                run(&mut command)
            }
            Runs::Repeated(runs, tests) => repeated::run(workspace, &bin, runs, tests),
            Runs::Task(arguments) => run(Command::new(std::env::current_exe()?).args(arguments)),
        };
        println!("{}: {:.0} s", step.name, begun.elapsed().as_secs_f64());
        failed.extend(outcome.err().map(|error| format!("{}: {error:#}", step.name)));
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

fn choose(names: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("the long tier has no step `{unknown}`; it has {}", known.join(", "));
    }
    Ok(STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| step.name == name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::tracked_files;
    use clap::Parser as _;
    use std::path::Path;

    #[test]
    fn steps_are_chosen_by_name_and_unknown_ones_refused() {
        let chosen = choose(&["soak".to_owned()]).unwrap();
        assert_eq!(chosen.iter().map(|step| step.name).collect::<Vec<_>>(), ["soak"]);
        assert_eq!(choose(&[]).unwrap().len(), STEPS.len());
        let refused = choose(&["soap".to_owned()]).err().unwrap().to_string();
        assert!(refused.contains("`soap`") && refused.contains("nginx-agrees"), "{refused}");
    }

    #[test]
    fn every_filter_of_the_long_tier_finds_its_test() {
        let workspace = Workspace::locate().unwrap();
        let files = tracked_files(&workspace).unwrap();
        let is_source = |path: &&Path| path.starts_with("crates") && path.extension().is_some_and(|end| end == "rs");
        let sources: Vec<(&Path, String)> = files
            .iter()
            .map(Path::new)
            .filter(is_source)
            .map(|path| (path, std::fs::read_to_string(workspace.root.join(path)).unwrap()))
            .collect();
        for step in &STEPS {
            let Runs::Test(Some((variable, _)), arguments) = step.runs else { continue };
            let filter = arguments.iter().skip_while(|word| **word != "--test").nth(2).unwrap();
            let name = filter.rsplit("::").next().unwrap();
            let quoted = format!("\"{variable}\"");
            let is_there = sources.iter().filter(|(_, text)| text.contains(&quoted)).any(|(path, text)| {
                path.file_stem().is_some_and(|stem| stem == name)
                    || text.lines().any(|line| line.starts_with("fn ") && line.contains(name))
            });
            assert!(is_there, "{}: no test `{filter}` reads {variable}", step.name);
        }
    }

    #[test]
    fn every_task_of_the_long_tier_exists() {
        for step in &STEPS {
            if let Runs::Task(arguments) = step.runs {
                let line = std::iter::once("xtask").chain(arguments.iter().copied());
                assert!(crate::Cli::try_parse_from(line).is_ok(), "{}", step.name);
            }
        }
    }
}
