//! `cargo xtask bench`: the cost of the product, compared with its peers in the same run. Benches of running servers
//! under load are experiment files in `bench/`, run by the lab (`experiments`); each other bench is a file here.

mod again;
mod conf;
mod connects;
mod experiments;
mod floor;
mod ingress;
mod instructions;
mod machine;
mod newest;
mod nginx;
mod profile;
mod proxy;
mod results;
mod scale;
mod soak;
mod sockets;

use crate::workspace::Workspace;
use anyhow::Result;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand)]
enum Experiment {
    /// CPU and latency per proxied request, and memory per connection: Holdfast, nginx, `HAProxy` and the floor.
    Proxy(proxy::Args),
    /// What a pool of upstream connections is worth (reports 0, 1 and 4): nginx, Holdfast and `HAProxy`, unpooled and pooled.
    Pool(experiments::Options),
    /// CPU per request of the `release` build beside the `dist` build.
    Profile(experiments::Options),
    /// CPU per request and per handshake over TLS: Holdfast, nginx and `HAProxy`.
    Tls(experiments::Options),
    /// CPU per request and memory per idle connection over HTTP/2: Holdfast and the newest nginx and `HAProxy`, asked by h2load.
    H2(experiments::Options),
    /// CPU per byte and per connection of TCP proxying: Holdfast's `stream` and the newest nginx and `HAProxy`.
    Stream(experiments::Options),
    /// CPU per hit of a cache: Holdfast and the newest nginx.
    Cache(experiments::Options),
    /// CPU per response and responses/s of load generators: Holdfast, wrk, ab, siege, h2load, hey.
    Load(experiments::Options),
    /// Requests that fail or are executed twice before peers that end their connections: Holdfast, nginx, `HAProxy`.
    Soak(soak::Args),
    /// 100,000 WebSocket tunnels through one installation: opened, held, upgraded, drained, reached by broadcasts.
    Scale(scale::Args),
    /// Time and memory for reading a configuration of 100,000 lines: Holdfast's parser and `nginx -t`.
    Conf(conf::Args),
    /// Time, memory and CPU of `holdfast ingress` with 1,000 Ingresses and 20,000 endpoints.
    Ingress(ingress::Args),
    /// Instructions and cache misses of a request in each of some cases, compared with `bench/instructions.toml`.
    Instructions(instructions::Args),
    /// One reading by ours: what `conf` starts and measures.
    #[command(hide = true)]
    ConfRead(conf::ReadArgs),
    /// CPU of a connect by the number of open connections to one port: by default, and as Holdfast connects.
    Connects(connects::Args),
    /// The other end of `connects`: what it starts.
    #[command(hide = true)]
    ConnectsHold,
    /// CPU per socket of a census: Holdfast's over netlink and from /proc, `ss`, `ss -p` and `netstat`.
    Sockets(sockets::Args),
    /// A process that holds sockets: what `sockets` starts.
    #[command(hide = true)]
    SocketsHold(sockets::HoldArgs),
    /// One census by ours: what `sockets` starts and measures.
    #[command(hide = true)]
    SocketsRead(sockets::ReadArgs),
}

/// Runs the task.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    lab::stage::process::end_all_when_interrupted(|| eprintln!("xtask: interrupted; ending what was started"))?;
    match &args.experiment {
        Experiment::Proxy(args) => proxy::run(workspace, args),
        Experiment::Pool(args) => experiments::run(workspace, "pool", args),
        Experiment::Profile(args) => profile::run(workspace, args),
        Experiment::Tls(args) => newest::run(workspace, "tls", args),
        Experiment::H2(args) => newest::run(workspace, "h2", args),
        Experiment::Stream(args) => newest::run(workspace, "stream", args),
        Experiment::Cache(args) => newest::run(workspace, "cache", args),
        Experiment::Load(args) => experiments::run(workspace, "load", args),
        Experiment::Soak(args) => soak::run(workspace, args),
        Experiment::Scale(args) => scale::run(workspace, args),
        Experiment::Conf(args) => conf::run(workspace, args),
        Experiment::Ingress(args) => ingress::run_task(workspace, args),
        Experiment::Instructions(args) => instructions::run(workspace, args),
        Experiment::ConfRead(args) => conf::read(args),
        Experiment::Connects(args) => connects::run(workspace, args),
        Experiment::ConnectsHold => connects::held_end(),
        Experiment::Sockets(args) => sockets::run(workspace, args),
        Experiment::SocketsHold(args) => sockets::hold(args),
        Experiment::SocketsRead(args) => sockets::read(args),
    }
}
