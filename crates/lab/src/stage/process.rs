//! Programs that an experiment starts: pinned to a core, in their own process group, ended by pid in every case, and quoted
//! when they fail. [`super::usage`] reads what they use. Called by the stage and by `cargo xtask bench`.

use super::StageError;
use super::usage::{Identity, tree};
use super::written::{FILE_BYTES_MAX, in_mib};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, test_kill_process_group, waitid,
};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Running programs, so that a signal that ends this program ends them too.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A server that has not ended within this time after a request to end is killed.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// A program that is not ready within this time has failed: an idle machine needs 100 ms, the slowest loaded one a few
/// seconds.
pub const READY_TIME_MAX: Duration = Duration::from_secs(10);
/// Most lines of a program's output in an error: the last lines contain the cause.
const QUOTED_LINES_MAX: usize = 12;
/// Most bytes that are read for that: a program may have written gigabytes.
const QUOTED_BYTES_MAX: u64 = 16 * 1024;

/// On SIGINT and SIGTERM, calls `say` and ends every started program. Then the main thread's wait fails, and it returns.
pub fn end_all_when_interrupted(say: impl Fn() + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for _ in &mut signals {
            say();
            for pid in RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
                let _ = kill_process(*pid, Signal::TERM);
            }
        }
    });
    Ok(())
}

/// `program`, pinned to one core.
pub fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("--cpu-list").arg(core.to_string()).arg(program);
    command
}

/// `program`, pinned to a core if there is one.
pub fn placed(core: Option<usize>, program: &Path) -> Command {
    core.map_or_else(|| Command::new(program), |core| pinned(core, program))
}

/// A running program. Dropping it ends it and everything that it started.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// The file with its output, for error messages.
    output: PathBuf,
    name: String,
    /// Identifies its process group after it has ended.
    identity: Option<Identity>,
}

impl Started {
    /// Starts the command with standard output and error in a file, and empty standard input.
    pub fn new(name: &str, command: &mut Command, output: PathBuf) -> Result<Self, StageError> {
        let file = File::create(&output).and_then(|file| Ok((file.try_clone()?, file)));
        let (stderr, stdout) =
            file.map_err(|error| StageError::new(format!("cannot create {}: {error}", output.display())))?;
        // Its own process group, so that Ctrl-C on a terminal reaches only this program, which ends the others in order and
        // finds what they started.
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
        let child = command.spawn().map_err(|error| {
            StageError::new(format!("cannot start {name} ({}): {error}", command.get_program().to_string_lossy()))
        })?;
        RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(pid_of(&child));
        let identity = Identity::of(child.id());
        Ok(Self { child, output, name: name.to_owned(), identity })
    }

    /// Its process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The name it was started with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until `ready` returns true. The error quotes the program's output if it ends or takes longer than
    /// [`READY_TIME_MAX`].
    pub fn wait_ready(&mut self, mut ready: impl FnMut() -> bool) -> Result<(), StageError> {
        self.wait_ready_within(READY_TIME_MAX, || Ok(ready()))
    }

    /// The same with a `ready` that may fail.
    pub fn wait_ready_or(&mut self, ready: impl FnMut() -> Result<bool, StageError>) -> Result<(), StageError> {
        self.wait_ready_within(READY_TIME_MAX, ready)
    }

    /// The same with another time limit, for a program that runs under another one.
    pub fn wait_ready_within(
        &mut self,
        at_most: Duration,
        mut ready: impl FnMut() -> Result<bool, StageError>,
    ) -> Result<(), StageError> {
        let deadline = Instant::now() + at_most;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let what = format!("{} ended with {} instead of serving", self.name, in_words(status));
                return Err(StageError::new(self.quote(&what)));
            }
            if ready()? {
                return Ok(());
            }
            if Instant::now() > deadline {
                let what = format!("{} did not serve within {} s", self.name, at_most.as_secs());
                return Err(StageError::new(self.quote(&what)));
            }
            pause_briefly();
        }
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Result<(), StageError> {
        let status = self.child.wait()?;
        if !status.success() {
            return Err(StageError::new(self.quote(&format!("{} ended with {}", self.name, in_words(status)))));
        }
        Ok(())
    }

    /// Whether it has ended. Until it is reaped it stays a zombie, and its times can still be read.
    pub fn has_ended(&self) -> Result<bool, StageError> {
        wait_without_reaping(self.id())
    }

    /// Its exit status, if it has ended.
    pub fn status(&mut self) -> Result<Option<ExitStatus>, StageError> {
        Ok(self.child.try_wait()?)
    }

    /// The last lines of its output.
    pub fn said(&self) -> String {
        last_lines(&self.output)
    }

    /// The file with its output.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// A sentence, followed by the last lines of output.
    pub fn quote(&self, sentence: &str) -> String {
        match self.said() {
            said if said.is_empty() => format!("{sentence}, and said nothing"),
            said => format!("{sentence}:\n{said}"),
        }
    }

    /// Sends SIGINT, like Ctrl-C.
    pub fn interrupt(&self) {
        let _ = kill_process(pid_of(&self.child), Signal::INT);
    }

    /// Whether it was reaped, so that another process may have its number now.
    fn is_reaped(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

/// Ends all of them and everything that they started, at the same time: with a signal first, then by SIGKILL. One after
/// another could take [`END_TIME_MAX`] for each.
pub fn end_together(mut all: Vec<Started>) {
    end(&mut all);
}

/// A process that cannot be signalled has ended already.
fn end(all: &mut [Started]) {
    let mut others: Vec<Identity> = Vec::new();
    let mut asked: Vec<Pid> = Vec::new();
    for started in all.iter_mut().filter_map(|started| (!started.is_reaped()).then_some(started)) {
        others.extend(tree(started.id()).into_iter().skip(1).filter_map(Identity::of));
        let leader = pid_of(&started.child);
        let _ = kill_process(leader, Signal::TERM);
        asked.push(leader);
    }
    let deadline = Instant::now() + END_TIME_MAX;
    let has_ended = |leader: &Pid| wait_without_reaping(leader.as_raw_nonzero().get().unsigned_abs()).unwrap_or(true);
    while !asked.iter().all(has_ended) && Instant::now() < deadline {
        pause_briefly();
    }
    // While its leader is a zombie, no other process can get the group's number.
    for leader in &asked {
        let _ = kill_process_group(*leader, Signal::KILL);
    }
    for started in all.iter_mut() {
        let _ = started.child.wait();
    }
    end_left(all, others);
    let mut running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    running.retain(|pid| !all.iter().any(|started| pid_of(&started.child) == *pid));
}

/// Kills the remaining processes of their groups, and `others`. Waits until they are gone, because they hold ports.
fn end_left(all: &[Started], others: Vec<Identity>) {
    let has_group = |started: &&Started| test_kill_process_group(pid_of(&started.child)).is_ok();
    let leaders: Vec<Identity> = all.iter().filter(has_group).filter_map(|started| started.identity).collect();
    let left: Vec<Identity> = Identity::groups(&leaders).into_iter().chain(others).collect();
    left.iter().for_each(Identity::kill);
    let deadline = Instant::now() + END_TIME_MAX;
    while left.iter().any(Identity::is_there) && Instant::now() < deadline {
        pause_briefly();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        end(std::slice::from_mut(self));
    }
}

/// How a program ended, with an explanation where the number alone is unclear.
pub(super) fn in_words(status: ExitStatus) -> String {
    if status.signal() == Some(Signal::XFSZ.as_raw()) {
        let most = in_mib(FILE_BYTES_MAX);
        return format!("{status}: it wrote more than {most} into one file, which no program of the lab may");
    }
    status.to_string()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The last lines of a file that a program writes.
fn last_lines(file: &Path) -> String {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(QUOTED_BYTES_MAX)))?;
        file.take(QUOTED_BYTES_MAX).read_to_end(&mut bytes)
    });
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(QUOTED_LINES_MAX)..).unwrap_or_default().join("\n")
}

/// The time between two checks of a condition without a notification.
pub fn pause() {
    std::thread::park_timeout(Duration::from_millis(10));
}

/// The same for a caller that has nothing else to do: processes take some milliseconds to become ready, and to end.
fn pause_briefly() {
    std::thread::park_timeout(Duration::from_millis(2));
}

/// Whether a child has ended. Until it is reaped it stays a zombie, and its times can still be read.
pub fn wait_without_reaping(child: u32) -> Result<bool, StageError> {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| StageError::new(format!("{child} is no process id")))?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::Pid(pid), options).map_err(io::Error::from)?.is_some())
}

/// The first executable file with this name in the given folders, in `$PATH`, and then in the folders of system programs,
/// which the `$PATH` of an unprivileged user on Debian lacks. A name with a slash is a path, as in a shell. The result is
/// absolute.
pub fn find_program(name: &str, first: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return std::path::absolute(name).ok().filter(|file| is_executable(file));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders = first.iter().cloned().chain(std::env::split_paths(&path)).chain(system);
    folders.map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_instead_of_serving_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the reason >&2; exit 3"]);
        let mut child = Started::new("broken", &mut command, folder.path().join("out")).unwrap();
        let error = child.wait_ready(|| false).unwrap_err().to_string();
        assert!(error.contains("the reason") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn children_of_a_program_end_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!; wait"]);
        let mut shell = Started::new("sh", &mut command, folder.path().join("out")).unwrap();
        let output = shell.output().to_owned();
        let child = || fs::read_to_string(&output).ok().and_then(|text| text.trim().parse::<u32>().ok());
        shell.wait_ready(|| child().is_some()).unwrap();
        let child = Identity::of(child().unwrap()).unwrap();
        assert!(child.is_there());
        drop(shell);
        assert!(!child.is_there(), "nothing else would have ended it");

        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!"]);
        let mut shell = Started::new("sh", &mut command, folder.path().join("out")).unwrap();
        shell.wait().unwrap();
        let child = Identity::of(shell.said().parse().unwrap()).unwrap();
        assert!(child.is_there());
        drop(shell);
        assert!(!child.is_there(), "it was left by one that had ended before");
    }

    #[test]
    fn quotes_only_the_end_of_long_output() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        fs::write(&file, (0..100_000).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n")).unwrap();
        let said = last_lines(&file);
        assert_eq!((said.lines().count(), said.lines().last()), (QUOTED_LINES_MAX, Some("line 99999")));
        assert_eq!(last_lines(&folder.path().join("none")), "");
    }

    #[test]
    fn finds_programs_and_rejects_made_up_ones() {
        assert!(find_program("sh", &[]).is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program("no-such-program-anywhere", &[]), None);
        assert_eq!(find_program("/bin/sh", &[]), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("./sh", &[PathBuf::from("/bin")]), None, "a path is not looked for");
    }
}
