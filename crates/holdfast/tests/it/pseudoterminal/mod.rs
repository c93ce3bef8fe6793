//! The program on a pseudoterminal of 80 columns and 24 lines, for tests of its live views.

use super::support::{DEADLINE, comes_true, pid, until};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The size of the terminal.
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

/// The program on its own terminal, and all its output there.
pub(crate) struct Live {
    child: Child,
    terminal: File,
    /// The screen as a person sees it.
    screen: vt100::Parser,
    pub(crate) written: String,
}

impl Live {
    pub(crate) fn start(subcommand: &str, arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudoterminal");
        // A program that has the other side keeps the terminal open.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("set");
        let end = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        // A session of its own, with this terminal instead of the test run's.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_holdfast"), subcommand])
            .args(arguments)
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("util-linux is installed");
        let screen = vt100::Parser::new(ROWS, COLUMNS, 0);
        Self { child, terminal: File::from(pty.master), screen, written: String::new() }
    }

    /// The lines of the screen, without trailing spaces.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.screen.screen().rows(0, COLUMNS).map(|line| line.trim_end().to_owned()).collect()
    }

    /// Reads until the screen satisfies `seen`.
    pub(crate) fn wait_until(&mut self, what: &str, seen: impl Fn(&[String]) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !seen(&self.lines()) {
            assert!(Instant::now() < deadline, "{what}:\n{}", self.lines().join("\n"));
            self.read();
        }
    }

    /// Reads until the text has appeared since the last key.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + DEADLINE;
        while !self.written.contains(text) {
            assert!(Instant::now() < deadline, "{text:?} does not come:\n{:?}", self.written);
            self.read();
        }
    }

    /// Reads what arrives within a tenth of a second; a closed terminal has nothing more.
    fn read(&mut self) {
        let mut watched = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
        if poll(&mut watched, PollTimeout::from(100_u8)).expect("polled") > 0 {
            let mut bytes = [0; 4096];
            let length = self.terminal.read(&mut bytes).unwrap_or(0);
            let bytes = bytes.get(..length).unwrap_or_default();
            self.screen.process(bytes);
            self.written += &String::from_utf8_lossy(bytes);
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.written.clear();
        self.terminal.write_all(keys.as_bytes()).expect("typed");
    }

    /// Closes the terminal, as the end of an SSH session does, and waits for the end of the program.
    pub(crate) fn hang_up(mut self) {
        self.terminal = File::open("/dev/null").expect("it is there");
        until("it ends", || self.child.try_wait().expect("a child of ours").is_some());
    }

    pub(crate) fn wait_for_the_end(mut self) -> (Option<i32>, String) {
        let mut status = None;
        until("it ends", || {
            self.read();
            status = self.child.try_wait().expect("a child of ours");
            status.is_some()
        });
        self.read();
        (status.and_then(|status| status.code()), std::mem::take(&mut self.written))
    }
}

impl Drop for Live {
    /// A failed test leaves no program behind.
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        // It ends what it has started.
        let _ = kill(pid(self.child.id()), Signal::SIGTERM);
        if !comes_true(|| self.child.try_wait().is_ok_and(|status| status.is_some())) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
