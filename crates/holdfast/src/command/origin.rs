//! `holdfast origin`: runs the built-in test origin in the foreground until a signal ends it. With `--processes` it
//! runs several processes (`several`), for more connections than one process may have descriptors.

mod several;
mod tls;

use crate::report::errno;
use crate::signals::Signals;
use crate::typed::{bytes, count, duration, seconds, size, small};
use crate::{exit, report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use origin::{
    BACKLOG_DEFAULT, BEHAVIOURS, BODY_BYTES_MAX_DEFAULT, Closing, ClosingStyle, HTTP2_STREAMS_DEFAULT, Options, Origin,
    PAGE_BYTES_DEFAULT, Tcp,
};
use reactor::PeerAddress;
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

/// Printed before each address that the origin listens on.
const LISTENING: &str = "listening on ";
/// Most processes: a million connections need fifty if each process may have 20,000.
const PROCESSES_MAX: usize = 256;

/// Run the built-in test origin
///
/// A fast static page to measure against, and every behaviour of an upstream that a proxy must cope with, chosen by the
/// path of each request. Prints its addresses, and ends on INT, TERM or QUIT.
#[derive(Debug, clap::Args)]
#[command(after_long_help = BEHAVIOURS)]
pub(super) struct Args {
    /// Listen here: a port of 127.0.0.1, an address with a port, or `unix:/path`; port 0 lets the kernel choose
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_address)]
    listen: Vec<PeerAddress>,
    /// Threads per process, each with an event loop
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = size)]
    workers: usize,
    /// Processes that share the addresses, each with its own limit of descriptors. With several, paths that need one process
    /// (rooms, counters, executions) answer 501
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_processes)]
    processes: usize,
    /// Internal: one process of several; ends with standard input
    #[arg(long, value_name = "ADDRESS", hide = true, value_parser = parse_address)]
    part: Vec<PeerAddress>,
    /// Length of the accept queue (`listen` backlog)
    #[arg(long, value_name = "N", default_value_t = BACKLOG_DEFAULT, value_parser = small)]
    backlog: u32,
    /// Bytes of the page at `/` and `/page`
    #[arg(long, value_name = "BYTES", default_value_t = PAGE_BYTES_DEFAULT, value_parser = bytes)]
    size: u64,
    /// Value of the Server field
    #[arg(long, value_name = "TEXT", default_value = "holdfast-origin")]
    server: String,
    /// End a connection after this many requests
    #[arg(long, value_name = "N", value_parser = count)]
    close_after_requests: Option<u64>,
    /// End a connection after this time without a request, such as 500ms or 75s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    close_after_idle: Option<Duration>,
    /// How a connection is ended: fin, half-close or reset
    #[arg(long, value_name = "STYLE", default_value = "fin")]
    closing_style: ClosingStyle,
    /// Leave out `Connection: close` from the last response
    #[arg(long)]
    unannounced: bool,
    /// Send `Connection: close` in every response, and close
    #[arg(long)]
    always_close: bool,
    /// Send `Keep-Alive: timeout=` with this many seconds, whether it is true or not
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    keep_alive_timeout: Option<u64>,
    /// Accept connections, and neither read nor write
    #[arg(long)]
    silent: bool,
    /// Answer every connection with RST
    #[arg(long)]
    reset_at_accept: bool,
    /// Largest request body to read, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = BODY_BYTES_MAX_DEFAULT, value_parser = bytes)]
    body_max: u64,
    /// Serve TCP without HTTP: `echo`, `sink` or `source/BYTES`, with `?delay=MS&step=BYTES&every=MS&after=BYTES&by=STYLE`
    #[arg(long, value_name = "BEHAVIOUR")]
    tcp: Option<Tcp>,
    /// Speak FastCGI in place of HTTP, as an application does, for `fastcgi_pass`
    #[arg(long, conflicts_with_all = ["tcp", "tls"])]
    fastcgi: bool,
    /// Speak TLS, with a certificate made for this run unless --cert names one
    #[arg(long)]
    tls: bool,
    /// Certificate with its chain, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Streams that a client may have open at once on a connection of HTTP/2
    #[arg(long, value_name = "N", default_value_t = HTTP2_STREAMS_DEFAULT, value_parser = small)]
    http2_streams: u32,
    /// Print the addresses as JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Listening {
    listening: Vec<String>,
}

pub(super) fn run(args: &Args) -> u8 {
    let ran = if args.processes > 1 && args.part.is_empty() { several::serve(args) } else { serve(args) };
    match ran {
        Ok(()) => exit::OK,
        Err(message) => {
            report::say(&format!("holdfast: {message}"));
            exit::FAILED
        }
    }
}

fn serve(args: &Args) -> Result<(), String> {
    // Opened before the first thread starts, so that every thread leaves the signals to this one.
    let signals = Signals::open().map_err(|error| format!("signalfd() failed {}", errno(&error)))?;
    // Each connection of a load test needs a descriptor, so the limit is raised as far as the system allows.
    let _ = reactor::descriptor_limit().and_then(|(_, hard)| reactor::raise_descriptor_limit(hard));
    let mut options = options(args);
    if args.tls {
        options.tls = Some(tls::side(args)?);
    }
    let origin = Origin::bind(options).map_err(|error| format!("the origin cannot listen: {error}"))?;
    for backlog in origin.backlogs_granted().iter().filter(|backlog| backlog.granted < backlog.asked) {
        report::say(&format!(
            "holdfast: the accept queue holds {} connections, not the {} asked for: net.core.somaxconn is lower",
            backlog.granted, backlog.asked
        ));
    }
    let running = origin.start().map_err(|error| format!("the origin cannot start: {error}"))?;
    let addresses: Vec<String> = running.addresses().iter().map(ToString::to_string).collect();
    print_addresses(addresses, args.json && args.part.is_empty())?;
    wait_for_the_end(&signals, !args.part.is_empty())
    // Dropping `running` stops the workers and waits for them.
}

/// Prints the addresses that the origin listens on.
fn print_addresses(listening: Vec<String>, as_json: bool) -> Result<(), String> {
    if !as_json {
        for address in listening {
            report::print(format!("{LISTENING}{address}\n").as_bytes());
        }
        return Ok(());
    }
    let mut line = serde_json::to_vec(&Listening { listening }).map_err(|error| error.to_string())?;
    line.push(b'\n');
    report::print(&line);
    Ok(())
}

/// Returns at the first signal that `Signals` handles. A part of several processes also returns when its standard input
/// ends: its parent holds the other end.
fn wait_for_the_end(signals: &Signals, is_part: bool) -> Result<(), String> {
    let input = std::io::stdin();
    loop {
        let mut watched =
            vec![PollFd::new(signals.descriptor(), PollFlags::POLLIN), PollFd::new(input.as_fd(), PollFlags::empty())];
        watched.truncate(if is_part { 2 } else { 1 });
        let polled = poll(&mut watched, PollTimeout::NONE);
        let is_gone =
            watched.get(1).and_then(PollFd::revents).is_some_and(|events| events.contains(PollFlags::POLLHUP));
        match polled {
            Ok(_) if is_gone => return Ok(()),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(format!("poll() failed {}", errno(&error.into()))),
        }
        if signals.next().map_err(|error| error.to_string())?.is_some() {
            return Ok(());
        }
    }
}

fn options(args: &Args) -> Options {
    Options {
        listen: if args.part.is_empty() { args.listen.clone() } else { args.part.clone() },
        is_one_of_several: !args.part.is_empty(),
        workers: args.workers,
        backlog: args.backlog,
        page_bytes: args.size,
        server: args.server.clone(),
        closing: Closing {
            after_requests: args.close_after_requests,
            after_idle: args.close_after_idle,
            style: args.closing_style,
            unannounced: args.unannounced,
        },
        always_close: args.always_close,
        keep_alive_timeout_s: args.keep_alive_timeout,
        silent: args.silent,
        reset_at_accept: args.reset_at_accept,
        body_bytes_max: args.body_max,
        tcp: args.tcp.clone(),
        fastcgi: args.fastcgi,
        tls: None,
        first_connection: 1,
        http2_streams: args.http2_streams,
    }
}

fn parse_address(text: &str) -> Result<PeerAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(PeerAddress::Unix(path.into()));
    }
    if let Ok(port) = text.parse::<u16>() {
        return Ok(PeerAddress::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }
    text.parse().map(PeerAddress::Ip).map_err(|_| "a port, an address with a port, or `unix:/path`".to_owned())
}

fn parse_processes(text: &str) -> Result<usize, String> {
    let count = size(text).ok().filter(|count| (1..=PROCESSES_MAX).contains(count));
    count.ok_or_else(|| format!("a number from 1 to {PROCESSES_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_written() {
        let ip = |text: &str| PeerAddress::Ip(text.parse().expect("an address"));
        assert_eq!(parse_address("8081"), Ok(ip("127.0.0.1:8081")));
        assert_eq!(parse_address("[::1]:80"), Ok(ip("[::1]:80")));
        assert_eq!(parse_address("unix:/s"), Ok(PeerAddress::Unix("/s".into())));
        assert!(parse_address("localhost").is_err());
    }
}
