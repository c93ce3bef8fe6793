//! The proxies of a chain that `plan --verify` builds: processes of this same program, so that the kernel accounts for
//! each separately. They start with nginx's flags and a file, like any instance. The kernel ends them when the
//! verification ends, even after a crash. Called by `verify`.

use crate::{exit, report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time to become ready on a loaded machine; an idle one needs a tenth of a second.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two checks whether it is ready.
const READY_PERIOD: Duration = Duration::from_millis(10);
/// Time for one request to a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a server to end; then it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Another program may take the port between its release and its use. Then another port is tried, at most this often.
const ATTEMPTS: u32 = 3;
/// Most bytes read of an answer, which is a page.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Part of the server's message if its address is in use.
const IN_USE: &str = "Address already in use";

/// Hidden flags with which a verification starts its children.
#[derive(Debug, clap::Args)]
pub(super) struct ChildArgs {
    /// The process that this one must not outlive
    #[arg(long, hide = true, requires = "words")]
    parent: Option<i32>,
    /// What to become
    #[arg(last = true, hide = true, requires = "parent")]
    words: Vec<OsString>,
}

/// Runs a server that ends with the verification, if this process was started for that. Returns the exit code if that
/// failed.
pub(super) fn become_server(args: &ChildArgs) -> Option<u8> {
    let parent = Pid::from_raw(args.parent?);
    // The request comes first and the check second: otherwise a parent that ends in between would go unnoticed.
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

/// A server that answers requests. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts a server on a free port; `prepare` makes its command line for the address. The server is ready when it
    /// answers `GET /` with 200.
    pub(super) fn start(
        name: &str,
        folder: &Path,
        prepare: impl Fn(SocketAddr) -> io::Result<Vec<OsString>>,
    ) -> Result<Self, String> {
        let complain = |error: io::Error| format!("the {name} could not be started: {error}");
        fs::create_dir_all(folder).map_err(complain)?;
        let said = folder.join("output");
        let mut attempt = 1;
        loop {
            let address = free_address().map_err(complain)?;
            let words = prepare(address).map_err(complain)?;
            let child = spawn(&words, &said).map_err(complain)?;
            let mut server = Self { child, address };
            match server.wait_ready(name, &said) {
                Ok(()) => return Ok(server),
                Err(message) if attempt < ATTEMPTS && message.contains(IN_USE) => attempt += 1,
                Err(message) => return Err(message),
            }
        }
    }

    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_ready(&mut self, name: &str, said: &Path) -> Result<(), String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let words = || fs::read_to_string(said).unwrap_or_default();
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("the {name} ended with {status} instead of serving:\n{}", words().trim_end()));
            }
            match ask(self.address) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(format!("the {name} does not serve: {error}\n{}", words().trim_end()));
                }
                Err(_) => {
                    self.ends_within(READY_PERIOD);
                }
            }
        }
    }

    /// Ends several servers at the same time.
    pub(super) fn end_all(servers: Vec<Self>) {
        for server in &servers {
            server.signal(Signal::SIGTERM);
        }
        drop(servers);
    }

    /// Waits at most `timeout` for the server to end.
    fn ends_within(&self, timeout: Duration) -> bool {
        let pid = rustix::process::Pid::from_child(&self.child);
        let descriptor = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        // Without pidfd_open(2) in the kernel, this waits the whole time.
        let mut watched: Vec<PollFd<'_>> =
            descriptor.iter().map(|descriptor| PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        poll(&mut watched, timeout).is_ok_and(|ready| ready > 0)
    }

    fn signal(&self, signal: Signal) {
        // The child was not waited for, so its id cannot belong to another process. It may have ended already.
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

/// A process group of its own, so that the terminal's Ctrl-C does not reach it; it ends when this process has ended.
fn spawn(words: &[OsString], said: &Path) -> io::Result<Child> {
    let output = File::create(said)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0("holdfast").arg("plan").arg(format!("--parent={}", std::process::id())).arg("--").args(words);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0).spawn()
}

/// A port that stays free until the server listens. This leaves a connection in TIME_WAIT on the port. A server may
/// still listen there, but the kernel gives the port to no program that asks for any port.
fn free_address() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let mut client = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    // The side that closes first keeps the TIME_WAIT.
    drop(listener.accept()?);
    client.read_to_end(&mut Vec::new())?;
    Ok(address)
}

/// Sends a request over a new connection and expects a 200.
fn ask(whom: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&whom, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {whom}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = answer.split(|&byte| byte == b'\r').next().unwrap_or_default();
    Err(io::Error::other(format!("answer \"{}\"", line.escape_ascii())))
}
