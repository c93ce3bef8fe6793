//! The program on a pseudoterminal of 80 columns and 24 lines, for tests of its live views.

use super::support::{DEADLINE, until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The program on a terminal of its own, and all that it wrote there.
pub(crate) struct Live {
    child: Child,
    terminal: File,
    pub(crate) written: String,
}

impl Live {
    pub(crate) fn start(subcommand: &str, arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudoterminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        // A session of its own, whose terminal is this one and not that of whoever runs the tests.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_holdfast"), subcommand])
            .args(arguments)
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("util-linux is installed");
        Self { child, terminal: File::from(pty.master), written: String::new() }
    }

    /// Reads until the text was written since the last key.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + DEADLINE;
        while !self.written.contains(text) {
            assert!(Instant::now() < deadline, "{text:?} does not come:\n{:?}", self.written);
            self.read();
        }
    }

    /// What there is within a tenth of a second; a terminal whose other end is closed has no more.
    fn read(&mut self) {
        let mut watched = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
        if poll(&mut watched, PollTimeout::from(100_u8)).expect("polled") > 0 {
            let mut bytes = [0; 4096];
            let length = self.terminal.read(&mut bytes).unwrap_or(0);
            self.written += &String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.written.clear();
        self.terminal.write_all(keys.as_bytes()).expect("typed");
    }

    pub(crate) fn wait_for_the_end(mut self) -> (Option<i32>, String) {
        let mut status = None;
        until("it ends", || {
            self.read();
            status = self.child.try_wait().expect("a child of ours");
            status.is_some()
        });
        self.read();
        (status.and_then(|status| status.code()), self.written)
    }
}
