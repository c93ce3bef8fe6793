//! `cargo xtask bench soak`: GET and POST through each proxy to peers that close after an idle time, after some requests,
//! that half-close and still execute, and that execute and then reset. The peers count what they executed, so a request
//! that was executed twice is found whatever the client was told. Counts, not speeds: nothing is pinned.

mod arms;
mod clients;
mod peers;

use super::process::Started;
use crate::peers as programs;
use crate::workspace::{Workspace, heading};
use anyhow::{Context as _, Result, bail};
use arms::Arm;
use clients::Tally;
use peers::Peers;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of `cargo xtask bench soak`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Requests through each proxy, half of them GET, half POST.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: u64,
    /// Clients, each of which sends its next request when it has the answer to the last.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=512))]
    clients: u64,
    /// The shortest idle limit of a peer; the others have twice and five times as much.
    #[arg(long, default_value_t = 150)]
    idle_ms: u64,
    /// Of a thousand requests of each client so many come after a pause, in which all clients are silent for about as long as
    /// one of the two shorter idle limits.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pauses: u64,
    /// The program under test, started with nginx's own flags.
    #[arg(long, default_value = "target/release/holdfast")]
    holdfast: PathBuf,
    /// Arms; all of them if not given.
    #[arg(long, value_delimiter = ',')]
    arms: Vec<Arm>,
}

/// What one arm came to.
struct Row {
    arm: Arm,
    tally: Tally,
    /// POSTs that the peers executed more than once, and those of the failed ones that they executed.
    twice: u64,
    failed_executed: u64,
    opened: u64,
    took: Duration,
}

/// Runs every arm with peers of its own and prints the table.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let bin = programs::provide(workspace)?;
    let holdfast = workspace.root.join(&args.holdfast);
    if !holdfast.is_file() {
        bail!("{} is not there: cargo build --release", holdfast.display());
    }
    let home = workspace.target("bench").join("soak");
    fs::create_dir_all(&home)?;
    let arms = if args.arms.is_empty() { Arm::ALL.to_vec() } else { args.arms.clone() };
    let mut rows = Vec::new();
    for arm in arms {
        heading(&format!("{arm}: {} requests, {} clients", args.requests, args.clients));
        let program = if arm.is_holdfast() { holdfast.clone() } else { bin.join(arm.program()) };
        rows.push(soak(arm, &program, &home, args).with_context(|| format!("the soak of {arm}"))?);
    }
    print(&rows, args);
    let broken = |row: &Row| row.arm.is_holdfast() && (row.twice > 0 || row.tally.gets_failed > 0);
    if rows.iter().any(broken) {
        bail!("a GET failed, or a POST was executed twice");
    }
    Ok(())
}

fn soak(arm: Arm, program: &std::path::Path, home: &std::path::Path, args: &Args) -> Result<Row> {
    let peers = Peers::start(args.requests, args.idle_ms)?;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let mut command = arms::command(arm, program, home, port, &peers.ports())?;
    let mut proxy = Started::new(arm.program(), &mut command, home.join(format!("{arm}.out")))?;
    proxy.wait_ready(|| clients::answers(port))?;
    let began = Instant::now();
    let (tally, statuses) = clients::run(port, args.requests, args.clients, args.pauses, args.idle_ms)?;
    let took = began.elapsed();
    drop(proxy);
    let executed = peers.stop();
    let twice = executed.iter().filter(|times| **times > 1).count() as u64;
    let failed = |id: &usize| statuses.get(*id).is_some_and(|status| *status != 0 && *status != 200);
    let failed_executed = (0..executed.len()).filter(failed).filter(|id| executed[*id] > 0).count() as u64;
    Ok(Row { arm, tally, twice, failed_executed, opened: peers.opened(), took })
}

fn print(rows: &[Row], args: &Args) {
    println!(
        "\n{} requests in each arm, {} clients, peers with idle limits of {}, {} and {} ms, one that closes after every 50\n\
         requests, one that half-closes and still executes, one that executes and resets, one that is well.\n",
        args.requests,
        args.clients,
        args.idle_ms,
        args.idle_ms * 2,
        args.idle_ms * 5
    );
    println!(
        "{:<22} {:>9} {:>10} {:>9} {:>11} {:>10} {:>9} {:>8} {:>8}",
        "arm", "GET", "GET failed", "POST", "POST failed", "- executed", "- twice", "opened", "seconds"
    );
    for row in rows {
        println!(
            "{:<22} {:>9} {:>10} {:>9} {:>11} {:>10} {:>9} {:>8} {:>8.1}",
            row.arm.to_string(),
            row.tally.gets,
            row.tally.gets_failed,
            row.tally.posts,
            row.tally.posts_failed,
            row.failed_executed,
            row.twice,
            row.opened,
            row.took.as_secs_f64()
        );
    }
}
