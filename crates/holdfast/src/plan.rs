//! `holdfast plan`: reads the description of a chain, or builds one from flags, and prints which limit is reached
//! first. The arithmetic is in `doctor::plan`.

mod server;
mod verify;

use crate::exit;
use crate::output::Output;
use crate::typed::{count, rate};
use ::doctor::plan::{self, Chain, Ports, chain};
use std::path::PathBuf;

/// Compute which limit a chain of hosts reaches first, at how many connections, and the cheapest way to raise it.
///
/// A TOML file describes the chain (examples/plan/ has two), or flags describe one hop. Limits whose values are not given are not
/// checked, and the report lists them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The description of the chain.
    #[arg(value_name = "CHAIN.toml", conflicts_with_all = ["peers", "listen_ports", "sources", "ports", "tw_reuse", "descriptors"])]
    file: Option<PathBuf>,
    /// Number of concurrent connections; overrides the file's.
    #[arg(long, value_name = "N", required_unless_present_any = ["file", "parent"], value_parser = count)]
    connections: Option<u64>,
    /// Connections that are closed and opened again, such as 500/s; overrides the file's.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    churn: Option<f64>,
    /// Hosts at the far end.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    peers: u64,
    /// Ports that each of them listens on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    listen_ports: u64,
    /// Source addresses at the near end.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    sources: u64,
    /// `net.ipv4.ip_local_port_range` of the near end.
    #[arg(long, value_name = "FIRST-LAST", default_value = "32768-60999")]
    ports: Ports,
    /// `net.ipv4.tcp_tw_reuse` of the near end is 1.
    #[arg(long)]
    tw_reuse: bool,
    /// Descriptors of the process at the near end.
    #[arg(long, value_name = "N", value_parser = count)]
    descriptors: Option<u64>,
    /// Also build the chain on this machine with this many connections, one process per proxy, and compare.
    #[arg(long, value_name = "CONNECTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "1000",
          value_parser = verified)]
    verify: Option<u64>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    child: server::ChildArgs,
}

/// Most connections that a verification builds: more would take minutes and gigabytes.
const VERIFY_MAX: u64 = 20_000;

fn verified(text: &str) -> Result<u64, String> {
    let connections = count(text)?;
    let fits = (1..=VERIFY_MAX).contains(&connections);
    fits.then_some(connections).ok_or_else(|| format!("{connections} is not in 1..={VERIFY_MAX}"))
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> u8 {
    if let Some(code) = server::become_server(&args.child) {
        return code;
    }
    match answer(args) {
        Ok(code) => code,
        Err(message) => {
            crate::report::say(&format!("holdfast plan: {message}"));
            exit::FAILED
        }
    }
}

fn answer(args: &Args) -> Result<u8, String> {
    let mut chain = match &args.file {
        Some(path) => read(path)?,
        None => one_hop(args),
    };
    chain.connections = args.connections.unwrap_or(chain.connections);
    chain.traffic.churn_per_second = args.churn.unwrap_or(chain.traffic.churn_per_second);
    chain::check(&chain).map_err(|error| error.to_string())?;
    let plan = plan::plan(&chain);
    let made_by = format!("holdfast plan {}", env!("CARGO_PKG_VERSION"));
    let mut document = plan::document(&chain, &plan, &made_by);
    let mut agrees = true;
    if let Some(connections) = args.verify {
        let measured = verify::measure(&chain, connections).map_err(|error| format!("not verified: {error}"))?;
        let (section, agreed) = plan::verify::section(&chain, connections, &measured);
        document = document.section(section);
        agrees = agreed;
    }
    args.output.emit(&document)?;
    if !agrees {
        return Ok(exit::UNKNOWN);
    }
    let carries = plan.first().is_none_or(|limit| limit.connections_max >= chain.connections);
    Ok(if carries && plan.timeouts.is_empty() { exit::OK } else { exit::NO })
}

fn read(path: &PathBuf) -> Result<Chain, String> {
    let at = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    plan::parse_chain(&text).map_err(|error| at(error.to_string()))
}

fn one_hop(args: &Args) -> Chain {
    let mut near = plan::Tier::new("here");
    near.addresses = args.sources;
    near.ports = args.ports;
    near.tw_reuse = args.tw_reuse;
    near.descriptors = args.descriptors;
    let mut far = plan::Tier::new("peers");
    far.hosts = args.peers;
    far.listen_ports = args.listen_ports;
    // One process at the near end; a chain with a proxy needs a file.
    Chain { title: String::new(), connections: 0, traffic: plan::Traffic::default(), tiers: vec![near, far] }
}
