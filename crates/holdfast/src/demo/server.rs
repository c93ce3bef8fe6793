//! The servers of a demo: the origin and the gateways, each a process of this same program, so that the kernel accounts
//! their CPU time apart. The gateway is started with nginx's flags and a file, as anybody would start it. However the demo
//! ends, the kernel ends them with it.

use super::configuration;
use super::plan::Arm;
use crate::{exit, report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A loaded machine; an idle one needs a tenth of a second.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether it is ready.
const READY_PERIOD: Duration = Duration::from_millis(10);
/// For one question to a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// A server that has not ended by then is killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Between a port's release and its use somebody else may take it: then another one is tried, so often.
const ATTEMPTS: u32 = 3;
/// Longest answer that is read: a page, or counters as JSON.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// What a server says when an address is taken.
const IN_USE: &str = "Address already in use";

/// Flags with which a demo starts its children.
#[derive(Debug, clap::Args)]
pub(super) struct ChildArgs {
    /// The process that this one must not outlive
    #[arg(long, hide = true, requires = "words")]
    parent: Option<i32>,
    /// What to become
    #[arg(last = true, hide = true, requires = "parent")]
    words: Vec<OsString>,
}

/// Becomes a server that ends when the demo does, if that is what this process is for. The result is the exit code if that
/// did not work.
pub(super) fn become_server(args: &ChildArgs) -> Option<u8> {
    let parent = Pid::from_raw(args.parent?);
    // Asked for first and checked then: a parent that has ended in between would never be noticed.
    if set_pdeathsig(Signal::SIGTERM).is_err() || getppid() != parent {
        return Some(exit::FAILED);
    }
    let error = match std::env::current_exe() {
        Ok(program) => Command::new(program).arg0("holdfast").args(&args.words).exec(),
        Err(error) => error,
    };
    report::say(&format!("holdfast: {}", report::errno(&error)));
    Some(exit::FAILED)
}

const CONF_NAME: &str = "nginx.conf";

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A server that answers. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Server {
    /// The origin, on `count` ports with the same page.
    pub(super) fn origin(count: usize, folder: &Path) -> Result<Self, String> {
        Self::start("origin", count, folder, |addresses| {
            let listen = addresses.iter().map(|address| format!("--listen={address}").into());
            Ok(["origin".into()].into_iter().chain(listen).collect())
        })
    }

    /// A gateway of an arm.
    pub(super) fn gateway(arm: Arm, connections: u32, origin: SocketAddr, folder: &Path) -> Result<Self, String> {
        Self::start("gateway", 1, folder, |addresses| {
            let listen = addresses.first().copied().unwrap_or(address(0));
            let conf_path = folder.join(CONF_NAME);
            fs::write(&conf_path, configuration::text(arm, connections, listen, origin, folder))?;
            let words = ["-e".as_ref(), "stderr".as_ref(), "-g".as_ref(), "daemon off; master_process off;".as_ref()];
            let paths = ["-c".as_ref(), conf_path.as_os_str(), "-p".as_ref(), folder.as_os_str()];
            Ok(paths.into_iter().chain(words).map(OsStr::to_owned).collect())
        })
    }

    /// Any of this program's servers, on so many free ports; `prepare` makes its command line for them. It is ready when it
    /// answers `GET /` with 200.
    pub(crate) fn start(
        name: &str,
        ports: usize,
        folder: &Path,
        prepare: impl Fn(&[SocketAddr]) -> io::Result<Vec<OsString>>,
    ) -> Result<Self, String> {
        let complain = |error: io::Error| format!("the {name} could not be started: {error}");
        fs::create_dir_all(folder).map_err(complain)?;
        let said = folder.join("output");
        let mut attempt = 1;
        loop {
            let addresses = free_addresses(ports).map_err(complain)?;
            let words = prepare(&addresses).map_err(complain)?;
            let child = spawn(&words, &said).map_err(complain)?;
            let mut server = Self { child, addresses };
            match server.wait_ready(name, &said) {
                Ok(()) => return Ok(server),
                Err(message) if attempt < ATTEMPTS && message.contains(IN_USE) => attempt += 1,
                Err(message) => return Err(message),
            }
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_ready(&mut self, name: &str, said: &Path) -> Result<(), String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let words = || fs::read_to_string(said).unwrap_or_default();
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("the {name} ended with {status} instead of serving:\n{}", words().trim_end()));
            }
            let first = self.addresses.first().copied().unwrap_or(address(0));
            match fetch(first, "/") {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(format!("the {name} does not serve: {error}\n{}", words().trim_end()));
                }
                Err(_) => {
                    self.ends_within(READY_PERIOD);
                }
            }
        }
    }

    /// Ends several at once.
    pub(crate) fn end_all(servers: Vec<Self>) {
        for server in &servers {
            server.signal(Signal::SIGTERM);
        }
        drop(servers);
    }

    /// Waits for its end for so long.
    fn ends_within(&self, timeout: Duration) -> bool {
        let pid = rustix::process::Pid::from_child(&self.child);
        let descriptor = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        // Where the kernel has no such descriptors, the wait is for the whole time.
        let mut watched: Vec<PollFd<'_>> =
            descriptor.iter().map(|descriptor| PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        poll(&mut watched, timeout).is_ok_and(|ready| ready > 0)
    }

    fn signal(&self, signal: Signal) {
        // Our own child that nobody has waited for: the id cannot be another's. It may have ended already.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
        if !self.ends_within(END_TIMEOUT) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A group of its own keeps the terminal's ctrl-C from it: the demo ends it when it has seen the signal itself.
fn spawn(words: &[OsString], said: &Path) -> io::Result<Child> {
    let output = File::create(said)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0("holdfast").arg("demo").arg(format!("--parent={}", std::process::id())).arg("--").args(words);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0).spawn()
}

/// Ports that nobody uses. All are held until all are known, so that they differ.
fn free_addresses(count: usize) -> io::Result<Vec<SocketAddr>> {
    let listeners = (0..count).map(|_| TcpListener::bind(address(0))).collect::<io::Result<Vec<_>>>()?;
    listeners.iter().map(TcpListener::local_addr).collect()
}

/// What the origin has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct OriginCounts {
    pub(super) connections_accepted: u64,
    pub(super) requests: u64,
}

impl OriginCounts {
    /// Asks; the question is itself one connection and one request, and counted in the answer.
    pub(super) fn ask(origin: SocketAddr) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fetch(origin, "/counters")?)?)
    }

    /// What was added since an earlier question, without this one.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            connections_accepted: self.connections_accepted.saturating_sub(earlier.connections_accepted + 1),
            requests: self.requests.saturating_sub(earlier.requests + 1),
        }
    }
}

/// The body of a page, over a connection of its own.
fn fetch(from: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&from, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {from}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (Some(end), true) = (end, answer.starts_with(b"HTTP/1.1 200 ")) else {
        let line = answer.split(|&byte| byte == b'\r').next().unwrap_or_default();
        return Err(io::Error::other(format!("answer \"{}\"", line.escape_ascii())));
    };
    Ok(answer.split_off(end + 4))
}
