//! A program that a test runs: its output is collected, waits for a line, a state or its end have a deadline, and it ends
//! with its value.

use crate::DEADLINE;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a line or for the end of a program. A load that opens 8,000 connections takes a busy machine a quarter
/// of it.
const PATIENCE: Duration = Duration::from_mins(2);
/// Between two looks at a state that is not announced.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long the last lines of a failed program may take.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Most bytes of an output: far above what a program prints in a test, and far below the machine's memory.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// A running program. Dropping it ends it by its id; in a test that fails it shows what the program printed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Mutex<Printed>,
    stderr: Mutex<Printed>,
}

/// A program that has ended, with all that it printed.
#[derive(Debug)]
pub struct Ended {
    /// The id that it had.
    pub id: u32,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// One output, which a thread reads: the program never waits for its reader.
#[derive(Debug)]
struct Printed {
    lines: Receiver<String>,
    text: String,
}

impl Printed {
    /// Without a pipe it has ended from the start.
    fn of(pipe: Option<impl Read + Send + 'static>) -> Mutex<Self> {
        let (sender, lines) = mpsc::channel();
        if let Some(pipe) = pipe {
            std::thread::spawn(move || {
                let mut pipe = BufReader::new(pipe.take(OUTPUT_BYTES_MAX));
                let mut line = Vec::new();
                while pipe.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        Mutex::new(Self { lines, text: String::new() })
    }

    /// The next line; `None`: the program has closed this output.
    #[track_caller]
    fn next(&mut self, deadline: Instant) -> Option<String> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                self.text += &line;
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited in vain for {PATIENCE:?} after: {}", self.text),
        }
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.next(deadline);
            let line = line.unwrap_or_else(|| panic!("it has ended without {text:?}: {}", self.text));
            if line.contains(text) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Everything, when the program has closed this output.
    #[track_caller]
    fn whole(&mut self, deadline: Instant) -> String {
        while self.next(deadline).is_some() {}
        std::mem::take(&mut self.text)
    }

    /// What has come so far, for the message of a failed test: a program that has just ended may have printed more than was
    /// read.
    fn so_far(&mut self) -> &str {
        let deadline = Instant::now() + LAST_WORDS;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.text += &line;
        }
        &self.text
    }
}

/// Threads of a test may share a program. A failed wait of one of them leaves the output as it is.
fn hold(printed: &Mutex<Printed>) -> MutexGuard<'_, Printed> {
    printed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Starts a program without input.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::null()))
    }

    /// Starts a program with an input that stays open as long as the program runs: see [`Self::input`].
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start_with_input(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::piped()))
    }

    /// Starts a program, and waits until it accepts connections at an address.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn listening(command: &mut Command, address: impl Into<SocketAddr>) -> Self {
        let running = Self::start_with_input(command);
        let address = address.into();
        running.until(&format!("it listens at {address}"), || TcpStream::connect(address).ok());
        running
    }

    #[track_caller]
    fn spawn(command: &mut Command) -> Self {
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self::of(spawned.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display())))
    }

    /// A program that was started with other outputs; those that are pipes are collected.
    pub fn of(mut child: Child) -> Self {
        let (stdout, stderr) = (Printed::of(child.stdout.take()), Printed::of(child.stderr.take()));
        Self { child, stdout, stderr }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input.
    ///
    /// # Panics
    /// If it has none.
    pub fn input(&self) -> &ChildStdin {
        self.child.stdin.as_ref().expect("it was started with an input")
    }

    /// Waits for the next line of standard output with this text, and returns it without its end.
    ///
    /// # Panics
    /// If the program ends before that, or it does not come in two minutes.
    #[track_caller]
    pub fn wait_for_output(&self, text: &str) -> String {
        hold(&self.stdout).wait_for(text)
    }

    /// The same for standard error.
    ///
    /// # Panics
    /// As [`Self::wait_for_output`].
    #[track_caller]
    pub fn wait_for_error(&self, text: &str) -> String {
        hold(&self.stderr).wait_for(text)
    }

    /// The next line of standard output, if one has come.
    pub fn next_output(&self) -> Option<String> {
        hold(&self.stdout).lines.try_recv().ok()
    }

    /// Waits for a state that the program brings about.
    ///
    /// # Panics
    /// If the program ends before that, or the state does not come in time.
    #[track_caller]
    pub fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            let waited = !self.has_ended() && Instant::now() < deadline;
            assert!(
                waited,
                "waited in vain until {what}: {}{}",
                hold(&self.stderr).so_far(),
                hold(&self.stdout).so_far()
            );
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Whether it has ended. Its id stays its own.
    pub fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.pid()), flags), Ok(WaitStatus::StillAlive))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.id()).expect("process ids are small"))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a child of ours");
    }

    /// Waits until it ends by itself, even where another process has its outputs.
    ///
    /// # Panics
    /// If it does not end in two minutes.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() {
            assert!(Instant::now() < deadline, "it has not ended in {PATIENCE:?}: {}", hold(&self.stderr).so_far());
            std::thread::park_timeout(LOOK_AGAIN);
        }
        self.child.wait().expect("a child of ours")
    }

    /// Waits until it ends by itself and its outputs are closed.
    ///
    /// # Panics
    /// If that does not come in two minutes.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let (stdout, stderr) = (hold(&self.stdout).whole(deadline), hold(&self.stderr).whole(deadline));
        Ended { id: self.id(), status: self.wait(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        #[allow(clippy::print_stderr)] // helps to read the failed test's output
        if std::thread::panicking() {
            eprintln!("the program printed:\n{}{}", hold(&self.stdout).so_far(), hold(&self.stderr).so_far());
        }
        let _ = kill(self.pid(), Signal::SIGTERM);
        // A stopped program ends when it goes on.
        let _ = kill(self.pid(), Signal::SIGCONT);
        // After SIGKILL its children would run on.
        let deadline = Instant::now() + DEADLINE;
        while !self.has_ended() && Instant::now() < deadline {
            std::thread::park_timeout(LOOK_AGAIN);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Asserts the exit code; shows the output if it differs.
    ///
    /// # Panics
    /// If it differs.
    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.status.code(), Some(code), "{}\n{}", self.stderr, self.stdout);
    }

    /// Asserts that standard error has all of these words.
    ///
    /// # Panics
    /// If some are missing.
    #[track_caller]
    pub fn assert_reports(&self, words: &[&str]) {
        for words in words {
            assert!(self.stderr.contains(words), "{words:?} is not in:\n{}", self.stderr);
        }
    }
}

/// The output of a program that gets this input, whether it reads all of it or not.
///
/// # Panics
/// If it does not start.
#[track_caller]
pub fn output_for(command: &mut Command, input: impl AsRef<[u8]>) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = piped.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    // The pipe ends with the statement, and with it the input.
    let _ = child.stdin.take().expect("piped").write_all(input.as_ref());
    child.wait_with_output().expect("a child of ours")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        Running::start_with_input(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn lines_are_waited_for_and_all_are_kept() {
        let running = shell("echo one; echo two >&2; read word; echo three $word; exit 3");
        assert_eq!((running.wait_for_output("o"), running.wait_for_error("")), ("one".to_owned(), "two".to_owned()));
        assert_eq!((running.has_ended(), running.next_output()), (false, None));
        running.input().write_all(b"four\n").unwrap();
        assert_eq!(running.wait_for_output("three"), "three four");
        let ended = running.end();
        ended.assert_code(3);
        ended.assert_reports(&["two"]);
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("one\nthree four\n", "two\n"));
    }

    #[test]
    #[should_panic(expected = "it has ended without \"three\": one\ntwo\n")]
    fn no_line_comes_after_the_end() {
        shell("echo one; echo two").wait_for_output("three");
    }

    #[test]
    #[should_panic(expected = "waited in vain until it serves: bad\n")]
    fn no_state_comes_after_the_end() {
        shell("echo bad >&2").until("it serves", || None::<()>);
    }

    #[test]
    fn a_stopped_program_and_its_children_end() {
        let running = shell("trap 'kill $child; exit' TERM; sleep 600 & child=$!; echo $child; wait");
        let child = Pid::from_raw(running.wait_for_output("").parse().unwrap());
        running.signal(Signal::SIGSTOP);
        drop(running);
        // A process that has ended and that its parent has not waited for has no program.
        crate::until("the child has ended", || std::fs::read_link(format!("/proc/{child}/exe")).is_err().then_some(()));
    }

    #[test]
    fn the_end_does_not_wait_for_other_holders_of_its_output() {
        let mut running = shell("sleep 600 & echo $!");
        let child = Pid::from_raw(running.wait_for_output("").parse().unwrap());
        assert!(running.wait().success());
        kill(child, Signal::SIGKILL).unwrap();
    }

    #[test]
    fn an_input_ends_with_its_text() {
        assert_eq!(output_for(&mut Command::new("cat"), "text").stdout, b"text");
    }
}
