//! The processes of a sample: creates folders and files, starts the processes on their hosts within their limits, waits
//! until they are ready, and finds the reason if they are not. Called by `sample`.

use super::StageError;
use super::ask::Url;
use super::network::{MadeNetwork, Space};
use super::process::{Started, placed};
use super::programs::{Programs, Words, with_own_paths};
use super::run::Stop;
use super::sweep::Traces;
use super::written::FILE_BYTES_MAX;
use crate::experiment::Ready;
use crate::plan::{Content, Program, StagedFile, StagedProcess};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use sockdiag::{Census, Owners, Question, State, StateSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A connection within a host's own network succeeds at once or never.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);
/// How long a port may belong to a process that is ending.
const ENDING_MAX: Duration = Duration::from_secs(2);
/// Between two looks at such a port.
const ENDING_LOOK: Duration = Duration::from_millis(20);
/// The holder of a socket that no process has open: as a rule its process is ending.
const UNKNOWN: &str = "an unknown process";
/// The size of the pieces in which a file of `x` is written.
const FILL_PIECE_BYTES: usize = 64 * 1024;
/// Most ports that an error about ports in use looks up, from the last lines of the output.
const PORTS_NAMED_MAX: usize = 4;

/// The context for starting something on a host.
pub(super) struct Starting<'a> {
    pub(super) network: &'a MadeNetwork,
    pub(super) programs: &'a Programs,
    pub(super) traces: &'a Traces,
    pub(super) stop: &'a Stop,
}

/// The limits of a program.
pub(super) struct Limits {
    pub(super) descriptors: Option<u64>,
    pub(super) core: Option<usize>,
}

impl Starting<'_> {
    /// Starts a process and waits until it is ready.
    pub(super) fn process(&self, process: &StagedProcess) -> Result<Started, StageError> {
        self.start_and_wait(process).map_err(|error| error.at(&process.place))
    }

    fn start_and_wait(&self, process: &StagedProcess) -> Result<Started, StageError> {
        prepare_folder(&process.folder, &process.files)?;
        if process.program == Program::Nginx {
            keep_files_here(process)?;
        }
        let space = self.network.space(&process.host)?;
        let ready = process.ready.as_ref().map(Asked::parse).transpose()?;
        if let Some(holders) =
            ready.as_ref().and_then(|asked| lasting_holders_of(space, asked.address().port(), asked.address()))
        {
            let address = asked_address(ready.as_ref());
            return Err(StageError::new(format!("{} cannot have {address}: {holders} listens there", process.name)));
        }
        let words = self.programs.words(process, self.stop)?;
        let limits = Limits { descriptors: process.descriptors, core: process.core };
        let mut started = self.start(&process.name, &words, &limits, space, process.folder.join("output"))?;
        let waited = started.wait_ready_or(|| {
            self.stop.check(format_args!("while {} was being started", process.name))?;
            ready.as_ref().map_or(Ok(true), |asked| space.run(|| asked.is_answered()))
        });
        match waited {
            Ok(()) => Ok(started),
            Err(error) => Err(with_holders(error, &started.said(), space)),
        }
    }

    /// Starts a program on a host, with its output in a file.
    pub(super) fn start(
        &self,
        name: &str,
        words: &Words,
        limits: &Limits,
        space: &Space,
        output: PathBuf,
    ) -> Result<Started, StageError> {
        let core = limits.core.and_then(permitted_core);
        let bounds: Vec<String> = written_at_most().into_iter().chain(limits.descriptors.map(descriptors)).collect();
        let mut command = match bounds.as_slice() {
            [] => placed(core, &words.program),
            bounds => {
                let mut command = placed(core, Path::new("prlimit"));
                command.args(bounds).arg(&words.program);
                command
            }
        };
        command.args(&words.arguments);
        if let Some(folder) = output.parent() {
            command.current_dir(folder);
        }
        let started = space.run(move || start_here(name, command, output))??;
        self.traces.add(started.id());
        Ok(started)
    }
}

/// The n-th of the cores that this process may use. A container may have two of many, and a user who pinned this process to
/// one core means all its children. `None` if the kernel does not report the cores.
fn permitted_core(number: usize) -> Option<usize> {
    let permitted = sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| permitted.is_set(*core)).collect();
    cores.get(number.checked_rem(cores.len())?).copied()
}

/// The size limit of each file that a program writes; `None` if this process has a lower limit, which cannot be raised.
fn written_at_most() -> Option<String> {
    let own = getrlimit(Resource::Fsize).maximum;
    own.is_none_or(|own| own >= FILE_BYTES_MAX).then(|| format!("--fsize={FILE_BYTES_MAX}:{FILE_BYTES_MAX}"))
}

fn descriptors(count: u64) -> String {
    format!("--nofile={count}:{count}")
}

fn start_here(name: &str, mut command: Command, output: PathBuf) -> Result<Started, StageError> {
    Started::new(name, &mut command, output)
}

/// Creates or empties a folder, and writes the files into it.
pub(super) fn prepare_folder(folder: &Path, files: &[StagedFile]) -> Result<(), StageError> {
    let make = || -> io::Result<()> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(folder)?;
        for file in files {
            match &file.content {
                Content::Text(text) => fs::write(&file.path, text)?,
                Content::Fill(bytes) => fill(&file.path, *bytes)?,
            }
        }
        // nginx opens its log here until it has read the configuration.
        fs::create_dir_all(folder.join("logs"))
    };
    make().map_err(|error| StageError::new(format!("cannot prepare {}: {error}", folder.display())))
}

fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    let piece = vec![b'x'; FILL_PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(FILL_PIECE_BYTES as u64);
        file.write_all(piece.get(..now as usize).unwrap_or_default())?;
        left -= now;
    }
    Ok(())
}

fn keep_files_here(process: &StagedProcess) -> Result<(), StageError> {
    let Some(conf) = &process.conf else { return Ok(()) };
    let text = fs::read_to_string(conf)?;
    Ok(fs::write(conf, with_own_paths(&text, &process.folder))?)
}

/// How to check whether a process is ready.
enum Asked {
    Http(Url),
    Tcp(SocketAddr),
}

impl Asked {
    fn parse(ready: &Ready) -> Result<Self, StageError> {
        match ready {
            Ready::Http(text) => Url::parse(text)
                .map(Asked::Http)
                .ok_or_else(|| StageError::new(format!("`ready`: {text} is not http://ADDRESS:PORT/PATH"))),
            Ready::Tcp(text) => text
                .parse()
                .map(Asked::Tcp)
                .map_err(|_| StageError::new(format!("`ready`: {text} is not ADDRESS:PORT"))),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Asked::Http(url) => url.address,
            Asked::Tcp(address) => *address,
        }
    }

    fn is_answered(&self) -> bool {
        match self {
            Asked::Http(url) => url.ask().is_ok(),
            Asked::Tcp(address) => TcpStream::connect_timeout(address, CONNECT_TIME_MAX).is_ok(),
        }
    }
}

fn asked_address(asked: Option<&Asked>) -> String {
    asked.map(|asked| asked.address().to_string()).unwrap_or_default()
}

/// As [`holders_of`], but a process that is ending gets time to do so.
fn lasting_holders_of(space: &Space, port: u16, address: SocketAddr) -> Option<String> {
    let deadline = Instant::now() + ENDING_MAX;
    loop {
        let holders = holders_of(space, port, address)?;
        if !holders.contains(UNKNOWN) || Instant::now() >= deadline {
            return Some(holders);
        }
        std::thread::park_timeout(ENDING_LOOK);
    }
}

/// The processes that listen on a port of a host, at an address or at all addresses: `nginx (pid 17)`. `None` if there is
/// none.
fn holders_of(space: &Space, port: u16, address: SocketAddr) -> Option<String> {
    let inodes = || -> Option<Vec<u32>> {
        let question =
            Question { states: StateSet::of(&[State::Listen]), tcp_info: false, memory: false, ..Question::default() };
        let is_meant = |local: SocketAddr| {
            local.port() == port
                && (local.ip() == address.ip() || local.ip().is_unspecified() || address.ip().is_unspecified())
        };
        let (inodes, _) = Census::open()
            .ok()?
            .collect(&question, Vec::new, |inodes, socket| {
                if is_meant(socket.local) {
                    inodes.push(socket.inode);
                }
            })
            .ok()?;
        (!inodes.is_empty()).then_some(inodes)
    };
    let inodes = space.run(inodes).ok().flatten()?;
    let owners = Owners::scan().unwrap_or_default();
    let mut names: Vec<String> = inodes
        .iter()
        .map(|inode| {
            owners.of(*inode).map_or_else(|| UNKNOWN.to_owned(), |owner| format!("{} (pid {})", owner.name, owner.pid))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    Some(names.join(", "))
}

/// Adds to the error which processes have the ports that the program could not bind.
fn with_holders(mut error: StageError, said: &str, space: &Space) -> StageError {
    let lines = said.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        line.contains("in use") || line.contains("eaddrinuse") || line.contains("cannot bind")
    });
    let mut named: Vec<u16> = Vec::new();
    for port in lines.flat_map(ports_in) {
        if named.len() < PORTS_NAMED_MAX && !named.contains(&port) {
            named.push(port);
        }
    }
    for port in named {
        let everywhere = SocketAddr::from(([0, 0, 0, 0], port));
        if let Some(holders) = holders_of(space, port, everywhere) {
            let _ = write!(error.text, "\nport {port} is held by {holders}");
        }
    }
    error
}

/// The numbers after a colon.
fn ports_in(line: &str) -> impl Iterator<Item = u16> + '_ {
    line.split(':').skip(1).filter_map(|rest| {
        let digits: &str = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().ok().filter(|port| *port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_setaffinity;

    #[test]
    fn core_is_one_of_the_allowed() {
        // In a separate thread, because the affinity applies to one thread only.
        let confined = std::thread::spawn(|| {
            let all = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|core| all.is_set(*core)).unwrap();
            let mut only = CpuSet::new();
            only.set(last);
            sched_setaffinity(None, &only).unwrap();
            (0..5).all(|number| permitted_core(number) == Some(last))
        });
        assert!(confined.join().unwrap());
        let first = permitted_core(0).unwrap();
        assert!(sched_getaffinity(None).unwrap().is_set(first));
    }

    #[test]
    fn finds_ports_in_server_output() {
        let nginx = "nginx: [emerg] bind() to 10.77.0.1:8080 failed (98: Address already in use)";
        assert_eq!(ports_in(nginx).collect::<Vec<_>>(), [8080]);
        let go = "listen tcp :9000: bind: address already in use";
        assert_eq!(ports_in(go).collect::<Vec<_>>(), [9000]);
    }

    #[test]
    fn a_folder_is_emptied_and_its_files_are_written_whole() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("proxy");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("old"), "left by the last sample").unwrap();
        let files = [
            StagedFile { path: folder.join("a.conf"), content: Content::Text("text".to_owned()) },
            StagedFile { path: folder.join("page"), content: Content::Fill(100_000) },
        ];
        prepare_folder(&folder, &files).unwrap();
        assert!(!folder.join("old").exists());
        assert_eq!(fs::read_to_string(folder.join("a.conf")).unwrap(), "text");
        assert_eq!(fs::read(folder.join("page")).unwrap(), vec![b'x'; 100_000]);
    }
}
