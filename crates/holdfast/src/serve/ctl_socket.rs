//! The control socket of a master: a limited number of clients, each with one request and one answer. Nothing here
//! blocks: the master polls these descriptors together with its others, and drops a client that stalls. `master::ctl`
//! executes the requests.

use crate::ctl::request::{Answer, REQUEST_BYTES_MAX, Request};
use crate::process::CtlPlan;
use crate::report::errno;
use nix::poll::{PollFd, PollFlags};
use rustix::fs::{Mode, fchmod};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most clients at a time: operators and a few scripts. An answer may have 3 MB.
const CLIENTS_MAX: usize = 8;
/// Clients that wait to be accepted: an operator and a few scripts.
const BACKLOG: i32 = 16;
/// A client is dropped if it neither sends its request nor reads its answer for this long.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to execute a request. A reload may wait for names; nothing else takes as long.
const WORK_TIMEOUT: Duration = Duration::from_mins(1);
/// Time between two checks that the socket file still exists. A new master that failed may have replaced it and then
/// removed it.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// The client's process, from the kernel (`SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    uid: u32,
    pid: i32,
}

impl fmt::Display for Caller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "uid {}, pid {}", self.uid, self.pid)
    }
}

/// The socket and its clients.
#[derive(Debug, Default)]
pub(super) struct CtlSocket {
    plan: Option<CtlPlan>,
    open: Option<Open>,
    clients: Vec<Client>,
    last_id: u64,
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file: another master may have replaced it.
    identity: (u64, u64),
}

#[derive(Debug)]
struct Client {
    id: u64,
    stream: UnixStream,
    caller: Caller,
    state: State,
    deadline: Instant,
}

#[derive(Debug)]
enum State {
    /// The request is not complete yet.
    Reading(Vec<u8>),
    /// The request is being executed.
    Waiting,
    /// The answer, and how many bytes of it are sent.
    Writing(Vec<u8>, usize),
}

/// A complete request.
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) caller: Caller,
    pub(super) request: Request,
}

impl CtlSocket {
    /// Opens the socket that the configuration wants. The error is for the log: without the socket the gateway serves
    /// all the same.
    pub(super) fn configure(&mut self, plan: Option<&CtlPlan>) -> Result<(), String> {
        if self.plan.as_ref() == plan && (plan.is_none() || self.open.is_some()) {
            return Ok(());
        }
        self.plan = plan.cloned();
        self.reopen()
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.close();
        let Some(plan) = &self.plan else { return Ok(()) };
        let opened = Open::new(plan).map_err(|error| {
            format!("the control socket \"{}\" cannot be opened {}", plan.path.display(), errno(&error))
        });
        self.open = Some(opened?);
        Ok(())
    }

    /// Removes the file if it is still this process's.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.take()
            && identity(&open.path).is_ok_and(|found| found == open.identity)
        {
            // If that fails, the next master replaces the file.
            let _ = fs::remove_file(&open.path);
        }
    }

    /// The descriptors to poll.
    pub(super) fn watched(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listener = self.open.iter().map(|open| PollFd::new(open.listener.as_fd(), PollFlags::POLLIN));
        let clients = self.clients.iter().map(|client| {
            let flags = match client.state {
                State::Reading(_) => PollFlags::POLLIN,
                State::Writing(..) => PollFlags::POLLOUT,
                State::Waiting => PollFlags::empty(),
            };
            PollFd::new(client.stream.as_fd(), flags)
        });
        listener.chain(clients)
    }

    /// Accepts, reads, writes, and drops clients that stall. Returns the complete requests.
    pub(super) fn turn(&mut self, now: Instant) -> Vec<Asked> {
        self.look_after(now);
        self.accept(now);
        let mut asked = Vec::new();
        self.clients.retain_mut(|client| match client.step(now) {
            Ok(Some(request)) => {
                asked.push(Asked { id: client.id, caller: client.caller, request });
                true
            }
            Ok(None) => now < client.deadline || client.give_up(now),
            Err(_) => false,
        });
        asked
    }

    /// Sends an answer if the client is still connected.
    pub(super) fn answer(&mut self, id: u64, answer: &Answer) {
        let waiting = |client: &&mut Client| client.id == id && matches!(client.state, State::Waiting);
        if let Some(client) = self.clients.iter_mut().find(waiting) {
            client.state = State::Writing(answer.encode(), 0);
            client.deadline = Instant::now() + STALL_TIMEOUT;
        }
    }

    /// Whether the client still waits for its answer.
    pub(super) fn waits(&self, id: u64) -> bool {
        self.clients.iter().any(|client| client.id == id && matches!(client.state, State::Waiting))
    }

    fn look_after(&mut self, now: Instant) {
        if self.looked_at.is_some_and(|at| now.duration_since(at) < LOOK_PERIOD) {
            return;
        }
        self.looked_at = Some(now);
        let is_gone = self
            .plan
            .as_ref()
            .is_some_and(|plan| matches!(identity(&plan.path), Err(error) if error.kind() == io::ErrorKind::NotFound));
        if is_gone && self.open.is_some() {
            // The start has reported a failure to open it. If an operator has removed the file, it is made again.
            let _ = self.reopen();
        }
    }

    fn accept(&mut self, now: Instant) {
        let Some(open) = &self.open else { return };
        while let Ok((stream, _)) = open.listener.accept() {
            if self.clients.len() >= CLIENTS_MAX {
                // A client with a request in execution keeps its place. Of the others, the oldest is dropped.
                let idle = |client: &Client| !matches!(client.state, State::Waiting);
                let Some(at) = self.clients.iter().position(idle) else { continue };
                self.clients.remove(at);
            }
            let Ok(credentials) = socket_peercred(&stream) else { continue };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.last_id += 1;
            let caller = Caller { uid: credentials.uid.as_raw(), pid: credentials.pid.as_raw_nonzero().get() };
            let (id, state) = (self.last_id, State::Reading(Vec::new()));
            self.clients.push(Client { id, stream, caller, state, deadline: now + STALL_TIMEOUT });
        }
    }
}

impl Drop for CtlSocket {
    fn drop(&mut self) {
        self.close();
    }
}

impl Client {
    /// Reads or writes as far as possible; returns a complete request. An error means that the client is done.
    fn step(&mut self, now: Instant) -> io::Result<Option<Request>> {
        match &mut self.state {
            State::Reading(bytes) => {
                if !read_line(&mut self.stream, bytes)? {
                    return Ok(None);
                }
                match serde_json::from_slice(bytes) {
                    Ok(request) => {
                        (self.state, self.deadline) = (State::Waiting, now + WORK_TIMEOUT);
                        Ok(Some(request))
                    }
                    Err(error) => {
                        let answer = Answer::of(Err(format!("the request is not understood: {error}")));
                        (self.state, self.deadline) = (State::Writing(answer.encode(), 0), now + STALL_TIMEOUT);
                        self.step(now)
                    }
                }
            }
            State::Waiting => Ok(None),
            State::Writing(bytes, at) => {
                while *at < bytes.len() {
                    match self.stream.write(&bytes[*at..]) {
                        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Ok(written) => {
                            *at += written;
                            self.deadline = now + STALL_TIMEOUT;
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                // The answer is sent; closing the connection ends the client's read.
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        }
    }

    /// The client's time is over. A client that waits for an answer gets an error and stays to read it (`true`); others
    /// are dropped.
    fn give_up(&mut self, now: Instant) -> bool {
        if !matches!(self.state, State::Waiting) {
            return false;
        }
        let answer = Answer::of(Err("no answer in time; the error log may say why".to_owned()));
        (self.state, self.deadline) = (State::Writing(answer.encode(), 0), now + STALL_TIMEOUT);
        true
    }
}

/// Reads a line; `true` when it is complete.
fn read_line(stream: &mut UnixStream, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut part = [0; 1024];
    loop {
        match stream.read(&mut part) {
            Ok(0) if bytes.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => return Ok(true),
            Ok(read) => {
                bytes.extend_from_slice(&part[..read]);
                if bytes.len() > REQUEST_BYTES_MAX {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                if part[..read].contains(&b'\n') {
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Open {
    /// Creates the file under another name and renames it: it has its permissions from the first moment, and replaces
    /// an existing socket.
    fn new(plan: &CtlPlan) -> io::Result<Self> {
        let beside = beside(&plan.path);
        if let Err(error) = fs::remove_file(&beside)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        // The file inherits the mode of the socket, so it is closed to others from the first moment.
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(&beside)?)?;
        listen(&socket, BACKLOG)?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        if let Some(group) = plan.group {
            std::os::unix::fs::chown(&beside, None, Some(group.as_raw()))?;
        }
        fs::set_permissions(&beside, fs::Permissions::from_mode(plan.mode))?;
        if fs::symlink_metadata(&plan.path)
            .is_ok_and(|found| !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()))
        {
            let _ = fs::remove_file(&beside);
            return Err(io::Error::other("(the file is not a socket)"));
        }
        fs::rename(&beside, &plan.path)?;
        Ok(Self { listener, path: plan.path.clone(), identity: identity(&plan.path)? })
    }
}

/// A name of the same length in the same directory, because the kernel limits the path to 107 bytes.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().as_bytes().to_vec();
    if let Some(last) = name.last_mut() {
        *last = if *last == b'~' { b'-' } else { b'~' };
    }
    OsString::from_vec(name).into()
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan(folder: &tempfile::TempDir) -> CtlPlan {
        CtlPlan { path: folder.path().join("a.ctl"), mode: 0o600, group: None }
    }

    /// Calls `turn` until a request is complete.
    fn next(socket: &mut CtlSocket) -> Asked {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            assert!(Instant::now() < until, "no request came");
            if let Some(asked) = socket.turn(Instant::now()).pop() {
                return asked;
            }
        }
    }

    fn read_answer(socket: &mut CtlSocket, mut client: UnixStream) -> Answer {
        client.set_nonblocking(true).unwrap();
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            assert!(Instant::now() < until, "no answer came");
            socket.turn(Instant::now());
            match client.read(&mut part) {
                Ok(0) => return serde_json::from_slice(&bytes).unwrap(),
                Ok(read) => bytes.extend_from_slice(&part[..read]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    #[test]
    fn a_request_in_pieces_gets_its_answer() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = CtlSocket::default();
        socket.configure(Some(&plan(&folder))).unwrap();
        let mode = fs::metadata(folder.path().join("a.ctl")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = UnixStream::connect(folder.path().join("a.ctl")).unwrap();
        client.write_all(b"\"sta").unwrap();
        assert!(socket.turn(Instant::now()).is_empty());
        client.write_all(b"tus\"\n").unwrap();
        let asked = next(&mut socket);
        assert_eq!((asked.request, asked.caller.uid), (Request::Status, nix::unistd::getuid().as_raw()));
        assert_eq!(asked.caller.pid.cast_unsigned(), std::process::id());
        // More than the kernel accepts at once.
        let long = "x".repeat(1 << 20);
        socket.answer(asked.id, &Answer::of(Ok(json!({"text": long}))));
        assert_eq!(read_answer(&mut socket, client).result["text"].as_str().map(str::len), Some(1 << 20));
        assert!(socket.clients.is_empty());
    }

    #[test]
    fn refuses_malformed_requests() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = CtlSocket::default();
        socket.configure(Some(&plan(&folder))).unwrap();
        let mut client = UnixStream::connect(folder.path().join("a.ctl")).unwrap();
        client.write_all(b"GET / HTTP/1.0\n").unwrap();
        assert!(read_answer(&mut socket, client).error.unwrap().contains("not understood"));
        let mut endless = UnixStream::connect(folder.path().join("a.ctl")).unwrap();
        endless.write_all(&[b'x'; REQUEST_BYTES_MAX + 1]).unwrap();
        socket.turn(Instant::now());
        assert!(socket.clients.is_empty(), "too long a request is not read on");
    }

    #[test]
    fn stalled_clients_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = CtlSocket::default();
        socket.configure(Some(&plan(&folder))).unwrap();
        let path = folder.path().join("a.ctl");
        let stalled: Vec<UnixStream> = (0..CLIENTS_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        socket.turn(Instant::now());
        assert_eq!(socket.clients.len(), CLIENTS_MAX);
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"\"status\"\n").unwrap();
        let asked = next(&mut socket);
        assert_eq!((asked.request, socket.clients.len()), (Request::Status, CLIENTS_MAX));
        // The other clients are dropped when their time is over, and the waiting client gets an error.
        socket.turn(Instant::now() + STALL_TIMEOUT);
        assert_eq!(socket.clients.len(), 1);
        socket.turn(Instant::now() + WORK_TIMEOUT);
        assert!(read_answer(&mut socket, client).error.unwrap().contains("no answer in time"));
        drop(stalled);
    }

    #[test]
    fn removes_only_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (CtlSocket::default(), CtlSocket::default());
        old.configure(Some(&plan(&folder))).unwrap();
        new.configure(Some(&plan(&folder))).unwrap();
        drop(old);
        assert!(UnixStream::connect(folder.path().join("a.ctl")).is_ok(), "the new master's is there");
        new.configure(None).unwrap();
        assert!(!folder.path().join("a.ctl").exists());
        fs::write(folder.path().join("a.ctl"), "precious").unwrap();
        assert!(new.configure(Some(&plan(&folder))).unwrap_err().contains("not a socket"));
        assert_eq!(fs::read(folder.path().join("a.ctl")).unwrap(), b"precious");
    }

    #[test]
    fn a_socket_that_was_removed_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = CtlSocket::default();
        socket.configure(Some(&plan(&folder))).unwrap();
        fs::remove_file(folder.path().join("a.ctl")).unwrap();
        socket.turn(Instant::now() + LOOK_PERIOD);
        assert!(UnixStream::connect(folder.path().join("a.ctl")).is_ok());
    }
}
