//! The test origin behind `holdfast origin`: a fast static page for measurements, and every behaviour of an upstream that a
//! proxy must handle. The path of each request selects the behaviour, so one running origin serves all tests. Used by
//! tests, benches and experiments. Not a web server: it has no files and no configuration language.
//!
//! One event loop per worker thread. The fast path serves only the page: head and body are prepared once and sent with one
//! write.
//!
//! ```no_run
//! let origin = origin::Origin::bind(origin::Options::default())?.start()?;
//! println!("listening on {}", origin.address());
//! # Ok::<(), std::io::Error>(())
//! ```
//! It stops when `origin` is dropped.
#![doc = ""]
#![doc = include_str!("behaviours.md")]

mod action;
mod body;
mod connection;
mod counters;
mod events;
mod multiplex;
mod options;
mod query;
mod receive;
mod reply;
mod sending;
mod tcp;
mod websocket;
mod work;
mod worker;

pub use body::pattern_byte;
pub use counters::{CloseReason, Counts};
pub use options::{
    BACKLOG_DEFAULT, BODY_BYTES_MAX_DEFAULT, Closing, ClosingStyle, HTTP2_STREAMS_DEFAULT, Options, PAGE_BYTES_DEFAULT,
    Tls, UnknownClosingStyle,
};

pub use tcp::Tcp;

use reactor::{BacklogGranted, ListenOptions, Listener, PeerAddress};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use worker::{Doors, Shared, Worker};

/// The table of behaviours in Markdown, also part of this crate's documentation; for `--help`.
pub const BEHAVIOURS: &str = include_str!("behaviours.md");

/// Most worker threads: more than the cores of any machine, and few enough that a typo does not start thousands.
const WORKERS_MAX: usize = 1024;

/// An origin whose sockets are bound and listen; it serves from [`Origin::start`] on.
#[derive(Debug)]
pub struct Origin {
    addresses: Vec<PeerAddress>,
    backlogs: Vec<BacklogGranted>,
    doors: Arc<Doors>,
    shared: Arc<Shared>,
}

/// Stops all workers when one ends for any reason: with half of its workers, an origin would serve only half of its
/// connections.
struct StopAll(Arc<Shared>);

impl Drop for StopAll {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Origin {
    /// Binds all addresses. Connections wait in the backlog until [`Self::start`].
    ///
    /// Errors: that of the first address that cannot be bound; `InvalidInput` for options that contradict each other.
    pub fn bind(options: Options) -> io::Result<Self> {
        check(&options)?;
        let reuseport = options.is_one_of_several;
        let listen = ListenOptions { backlog: options.backlog, reuseport, ..ListenOptions::default() };
        let mut doors = Doors { listeners: Vec::new(), paths: Vec::new() };
        for address in &options.listen {
            doors.listeners.push(Listener::bind(address, &listen)?);
            if let PeerAddress::Unix(path) = address {
                doors.paths.push(path.clone());
            }
        }
        let mut addresses = Vec::new();
        for listener in &doors.listeners {
            addresses.extend(listener.local_address()?);
        }
        let backlogs =
            doors.listeners.iter().filter_map(|listener| listener.backlog_granted(options.backlog)).collect();
        Ok(Self { addresses, backlogs, doors: Arc::new(doors), shared: Arc::new(Shared::new(options)?) })
    }

    /// The addresses it listens on, in the order of [`Options::listen`], with the ports that the kernel chose.
    pub fn addresses(&self) -> &[PeerAddress] {
        &self.addresses
    }

    /// The accept queue of each TCP listener as the kernel granted it. The caller should warn if it is shorter than
    /// requested.
    pub fn backlogs_granted(&self) -> &[BacklogGranted] {
        &self.backlogs
    }

    /// A handle to stop it and to read its counters from another thread.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::clone(&self.shared) }
    }

    /// Starts the workers' threads.
    pub fn start(self) -> io::Result<Running> {
        let Self { addresses, doors, shared, .. } = self;
        let mut running = Running { addresses, handle: Handle { shared }, threads: Vec::new() };
        for index in 0..running.handle.shared.workers.len() {
            let stop_all = StopAll(Arc::clone(&running.handle.shared));
            let doors = Arc::clone(&doors);
            // If this fails, dropping `running` stops the workers that have started.
            let thread = std::thread::Builder::new()
                .name(format!("origin-{index}"))
                .spawn(move || Worker::new(Arc::clone(&stop_all.0), doors, index)?.run())?;
            running.threads.push(thread);
        }
        Ok(running)
    }

    /// Runs until [`Handle::stop`] is called.
    pub fn run(self) -> io::Result<()> {
        self.start()?.wait()
    }
}

fn check(options: &Options) -> io::Result<()> {
    let invalid = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if options.listen.is_empty() {
        return invalid("an origin needs an address to listen on");
    }
    if options.fastcgi && (options.tcp.is_some() || options.tls.is_some()) {
        return invalid("FastCGI is spoken in clear, and in place of TCP without a protocol");
    }
    if options.workers > WORKERS_MAX {
        return invalid("more than 1024 workers");
    }
    if !options.server.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return invalid("the Server field may have visible ASCII characters only");
    }
    Ok(())
}

/// Stops an origin and reads its counters, from any thread. Clones refer to the same origin.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// Stops all workers. Open connections are closed with FIN, or with RST if they have unread bytes.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// All counters at this moment.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// How often requests with this `id=` were executed.
    pub fn executed(&self, id: &str) -> u32 {
        self.shared.executions.of(id)
    }
}

/// A running origin. Dropping it stops it and waits for its threads.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<PeerAddress>,
    handle: Handle,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Running {
    /// The addresses it listens on, in the order of [`Options::listen`].
    pub fn addresses(&self) -> &[PeerAddress] {
        &self.addresses
    }

    /// The first IP address it listens on; `0.0.0.0:0` if it listens on Unix sockets only.
    pub fn address(&self) -> SocketAddr {
        let ip = self.addresses.iter().find_map(|address| match address {
            PeerAddress::Ip(ip) => Some(*ip),
            PeerAddress::Unix(_) => None,
        });
        ip.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// A handle to stop it and to read its counters from another thread.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// All counters at this moment.
    pub fn counts(&self) -> Counts {
        self.handle.counts()
    }

    /// How often requests with this `id=` were executed.
    pub fn executed(&self, id: &str) -> u32 {
        self.handle.executed(id)
    }

    /// Waits until a [`Handle`] stops it, or until a worker fails, which stops all workers.
    pub fn wait(mut self) -> io::Result<()> {
        self.join()
    }

    /// Stops it and waits for its threads.
    pub fn stop(mut self) -> io::Result<()> {
        self.handle.stop();
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker of the origin panicked")));
            result = result.and(ended);
        }
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        // An error has no reader here.
        let _ = self.join();
    }
}
