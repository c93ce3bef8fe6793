//! The proxies of a chain that `plan --verify` builds: processes of this same program, so that the kernel accounts for each apart.
//! They are started with nginx's flags and a file, as anybody would start them. However the verification ends, the kernel ends
//! them with it. Called by `verify`.

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
/// Longest answer that is read: a page.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// What a server says when an address is taken.
const IN_USE: &str = "Address already in use";

/// Flags with which a verification starts its children.
#[derive(Debug, clap::Args)]
pub(super) struct ChildArgs {
    /// The process that this one must not outlive
    #[arg(long, hide = true, requires = "words")]
    parent: Option<i32>,
    /// What to become
    #[arg(last = true, hide = true, requires = "parent")]
    words: Vec<OsString>,
}

/// Becomes a server that ends when the verification does, if that is what this process is for. The result is the exit code if that
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

/// A server that answers. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

impl Server {
    /// Any of this program's servers, on a free port; `prepare` makes its command line for the address. It is ready when it
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

    /// Its process.
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

    /// Ends several at once.
    pub(super) fn end_all(servers: Vec<Self>) {
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
        // Our own child that was not waited for: the id cannot be another's. It may have ended already.
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

/// A group of its own keeps the terminal's ctrl-C from it: it ends when this process has.
fn spawn(words: &[OsString], said: &Path) -> io::Result<Child> {
    let output = File::create(said)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0("holdfast").arg("plan").arg(format!("--parent={}", std::process::id())).arg("--").args(words);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0).spawn()
}

/// A port that is free and stays so until the server listens: it leaves a connection in TIME_WAIT here, beside which servers may listen,
/// and which the kernel gives to no other program that asks for any port.
fn free_address() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let mut client = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    // The end that closes first waits.
    drop(listener.accept()?);
    client.read_to_end(&mut Vec::new())?;
    Ok(address)
}

/// Whether it answers with 200, over a connection of its own.
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
