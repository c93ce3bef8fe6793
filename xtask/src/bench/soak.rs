//! `cargo xtask bench soak`: GET and POST through each proxy to peers that end connections in different ways: after 1
//! to 15 s without a request, after some requests, by half-closing and still executing, or by executing and then
//! resetting. The peers count executions, so a request that was executed twice is found whatever response the client
//! got. It counts and does not measure speed, so nothing is pinned.

mod arms;
mod clients;
mod peers;
mod plan;

use super::again::{Profile, run_optimised};
use super::experiments;
use super::machine::Machine;
use super::results;
use crate::peers as programs;
use crate::workspace::{Workspace, heading};
use anyhow::{Context as _, Result, bail};
use arms::Arm;
use clients::Status;
use lab::stage::process::Started;
use peers::Peers;
use plan::{Group, is_post};
use serde::Serialize;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `cargo xtask bench soak`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Requests through each proxy, half of them GET, half POST.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: u64,
    /// Clients in closed loops, each of which sends its next request when it has the answer to the last. Those before peers
    /// with idle limits come on top.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(3..=512))]
    clients: u64,
    /// The shortest idle limit of a peer; the others have 2, 5 and 15 times as much.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..))]
    idle_ms: u64,
    /// How long bursts and pauses go on before the peers with idle limits, in each arm; a ten-thousandth of the requests, but
    /// 16 to 100, if not given.
    #[arg(long)]
    pause_seconds: Option<u64>,
    /// The program under test, started with nginx's own flags; a `dist` build of the working tree if not given.
    #[arg(long)]
    holdfast: Option<PathBuf>,
    /// Arms; all of them if not given.
    #[arg(long, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// Put the raw results into bench/results; otherwise target/bench.
    #[arg(long)]
    keep: bool,
}

/// The results for the requests of one group, or of several.
#[derive(Clone, Default, Serialize)]
struct Tally {
    gets: u64,
    gets_failed: u64,
    posts: u64,
    posts_failed: u64,
    /// Failed requests that a peer has executed.
    failed_executed: u64,
    /// POSTs that the peers executed more than once, failed or not.
    twice: u64,
    /// POSTs that were answered with 200 although no peer has executed them.
    never: u64,
    /// Connections to the peers.
    opened: u64,
}

impl Tally {
    fn count(&mut self, id: u64, status: Status, executed: u8) {
        let failed = u64::from(status != 200);
        if !is_post(id) {
            self.gets += 1;
            self.gets_failed += failed;
            return;
        }
        self.posts += 1;
        self.posts_failed += failed;
        self.failed_executed += failed * u64::from(executed > 0);
        self.twice += u64::from(executed > 1);
        self.never += u64::from(status == 200 && executed == 0);
    }

    fn add(&mut self, other: &Self) {
        self.gets += other.gets;
        self.gets_failed += other.gets_failed;
        self.posts += other.posts;
        self.posts_failed += other.posts_failed;
        self.failed_executed += other.failed_executed;
        self.twice += other.twice;
        self.never += other.never;
        self.opened += other.opened;
    }

    /// POSTs that failed although no peer has executed them: lost by a race, or because the proxy does not repeat them.
    fn lost(&self) -> u64 {
        self.posts_failed - self.failed_executed
    }
}

/// The results of one arm.
#[derive(Serialize)]
struct Row {
    arm: String,
    is_holdfast: bool,
    /// Results by the peers' habit.
    habits: Vec<(String, Tally)>,
    seconds: f64,
}

impl Row {
    fn all(&self) -> Tally {
        let mut all = Tally::default();
        self.habits.iter().for_each(|(_, tally)| all.add(tally));
        all
    }
}

/// All results of one soak.
#[derive(Serialize)]
struct Results {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: Machine,
    requests: u64,
    clients: u64,
    idle_ms: u64,
    pause_seconds: u64,
    rows: Vec<Row>,
}

/// Goal with learning on: the share of POSTs that failed without being executed, among all requests.
const GOAL_LOST: f64 = 1e-5;

/// Runs every arm with its own peers and prints the tables.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        // Peers and clients are threads of this process.
        return run_optimised(workspace, Profile::Release);
    }
    let bin = programs::provide(workspace)?;
    let holdfast = match &args.holdfast {
        Some(path) => workspace.root.join(path),
        None => experiments::build(workspace, "dist")?,
    };
    if !holdfast.is_file() {
        bail!("{} does not exist", holdfast.display());
    }
    let home = workspace.target("bench").join("soak");
    fs::create_dir_all(&home)?;
    let pause_seconds = args.pause_seconds.unwrap_or((args.requests / 10_000).clamp(16, 100));
    let idle = Duration::from_millis(args.idle_ms);
    let groups = plan::groups(args.requests, args.clients, idle, Duration::from_secs(pause_seconds));
    let arms = if args.arms.is_empty() { Arm::ALL.to_vec() } else { args.arms.clone() };
    let machine = Machine::describe(workspace, &[bin.join("nginx"), bin.join("haproxy")]);
    println!("{}", machine.sentence());
    let (date, mut rows) = (results::now_utc(), Vec::new());
    for arm in arms {
        heading(&format!("{arm}: {} requests", args.requests));
        let program = if arm.is_holdfast() { holdfast.clone() } else { bin.join(arm.program()) };
        let row = soak(arm, &program, &home, &groups).with_context(|| format!("the soak of {arm}"))?;
        print_habits(&row);
        rows.push(row);
    }
    let (requests, clients, idle_ms) = (args.requests, args.clients, args.idle_ms);
    let results = Results { experiment: "soak", date, machine, requests, clients, idle_ms, pause_seconds, rows };
    print(&results);
    let file = results::store(workspace, args.keep, (results.experiment, &results.date), &results)?;
    println!("\nraw results: {}", file.display());
    let broken = |row: &&Row| row.is_holdfast && (row.all().twice > 0 || row.all().gets_failed > 0);
    if let Some(row) = results.rows.iter().find(broken) {
        bail!("{}: a GET failed, or a POST was executed twice", row.arm);
    }
    Ok(())
}

fn soak(arm: Arm, program: &Path, home: &Path, groups: &[Group]) -> Result<Row> {
    let peers = Peers::start(groups)?;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let mut command = arms::command(arm, program, home, port, peers.ports())?;
    let mut proxy = Started::new(arm.program(), &mut command, home.join(format!("{arm}.out")))?;
    proxy.wait_ready(|| clients::answers(port, groups.len()))?;
    let began = Instant::now();
    let statuses = clients::run(port, groups)?;
    let seconds = began.elapsed().as_secs_f64();
    drop(proxy);
    let executed = peers.stop();
    let mut habits = Vec::new();
    for (group, opened) in groups.iter().zip(peers.opened()) {
        let mut tally = Tally { opened, ..Tally::default() };
        for id in group.ids.clone() {
            let place = usize::try_from(id)?;
            tally.count(id, statuses[place], executed[place]);
        }
        habits.push((group.habit.to_string(), tally));
    }
    Ok(Row { arm: arm.to_string(), is_holdfast: arm.is_holdfast(), habits, seconds })
}

/// The column titles of a tally, after a first one for its subject.
fn head(first: &str) -> String {
    format!(
        "{first:<26} {:>8} {:>7} {:>8} {:>7} {:>10} {:>9} {:>6} {:>6} {:>8}",
        "GET", "failed", "POST", "failed", "- executed", "- unmade", "twice", "never", "opened"
    )
}

fn line(first: &str, tally: &Tally) -> String {
    format!(
        "{first:<26} {:>8} {:>7} {:>8} {:>7} {:>10} {:>9} {:>6} {:>6} {:>8}",
        tally.gets,
        tally.gets_failed,
        tally.posts,
        tally.posts_failed,
        tally.failed_executed,
        tally.lost(),
        tally.twice,
        tally.never,
        tally.opened
    )
}

fn print_habits(row: &Row) {
    println!("\n{}", head("peers"));
    row.habits.iter().for_each(|(habit, tally)| println!("{}", line(habit, tally)));
    println!("{:.1} s", row.seconds);
}

fn print(results: &Results) {
    println!(
        "\n{} requests in each arm; idle limits from {} ms to {} ms, bursts and pauses for {} s.\n\
         \"- executed\" and \"- unmade\": of the failed POSTs those that a peer had executed, and those that none had;\n\
         \"never\": answered with 200 and executed by none.\n",
        results.requests,
        results.idle_ms,
        results.idle_ms * 15,
        results.pause_seconds
    );
    println!("{} {:>8}", head("arm"), "seconds");
    for row in &results.rows {
        println!("{} {:>8.1}", line(&row.arm, &row.all()), row.seconds);
    }
    println!();
    for row in results.rows.iter().filter(|row| row.is_holdfast) {
        let all = row.all();
        let share = all.lost() as f64 / (all.gets + all.posts) as f64;
        let met = |holds: bool| if holds { "met" } else { "MISSED" };
        println!(
            "{}: failed GETs {} (goal 0: {}), executed twice {} (goal 0: {}), POSTs failed that no peer executed {share:.1e} \
             of all requests (goal with learning on < {GOAL_LOST:.0e}: {})",
            row.arm,
            all.gets_failed,
            met(all.gets_failed == 0),
            all.twice,
            met(all.twice == 0),
            met(share < GOAL_LOST)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn post_outcome_combines_client_and_peer() {
        let post = (0..100).find(|id| is_post(*id)).unwrap();
        let get = (0..100).find(|id| !is_post(*id)).unwrap();
        let mut tally = Tally::default();
        for (id, status, executed) in
            [(post, 200, 1), (post, 502, 1), (post, 502, 0), (post, 200, 2), (post, 200, 0), (get, 1, 0)]
        {
            tally.count(id, status, executed);
        }
        assert_eq!((tally.gets, tally.gets_failed, tally.posts, tally.posts_failed), (1, 1, 5, 2));
        assert_eq!((tally.failed_executed, tally.lost(), tally.twice, tally.never), (1, 1, 1, 1));
    }
}
