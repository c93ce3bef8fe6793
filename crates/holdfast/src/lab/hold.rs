//! `holdfast lab hold`: the program of an experiment that holds connections (`program = "hold"`). It opens them one
//! after the other, reports that they are open, and keeps them for a time.

use super::named;
use crate::typed::{duration, size};
use crate::{exit, output};
use ::lab::stage::client::held_line;
use ::lab::stage::hold::{Held, open_url};
use clap::ValueEnum;
use std::time::{Duration, Instant};

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What the connections wait in
    #[arg(long, value_enum)]
    kind: Kind,
    /// How many
    #[arg(short = 'c', long, value_name = "N", value_parser = size)]
    connections: usize,
    /// For how long, once all are open
    #[arg(long, value_name = "TIME", value_parser = duration)]
    seconds: Duration,
    /// As `http://10.77.0.1:8080/page`, or `https://…`
    url: String,
}

/// As typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// One exchange is over, the next has not begun.
    Idle,
    /// The same over HTTP/2 under TLS.
    IdleHttp2,
    /// A request's head has begun and is not complete.
    HalfHead,
    /// Upgraded to a WebSocket, and nothing since.
    Tunnel,
}

pub(super) fn run(args: &Args) -> Result<u8, String> {
    let held = match args.kind {
        Kind::Idle => Held::Idle,
        Kind::IdleHttp2 => Held::IdleHttp2,
        Kind::HalfHead => Held::HalfHead,
        Kind::Tunnel => Held::Tunnel,
    };
    let streams = open_url(held, &args.url, args.connections).map_err(named)?;
    let until = Instant::now() + args.seconds;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        // Nothing wakes this thread but the end of the time, or the signal that ends the run.
        std::thread::park_timeout(left);
    }
    output::print(&format!("{}\n", held_line(streams.len()))).map_err(named)?;
    Ok(exit::OK)
}
