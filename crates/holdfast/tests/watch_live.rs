//! The live view of `holdfast watch` on a real terminal: a pseudoterminal of 80 columns and 24 lines, keys typed into it.

#[allow(dead_code, reason = "each test file uses its part of the support")]
mod support;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use support::{DEADLINE, until};

/// The program on a terminal of its own, and all that it wrote there.
struct Live {
    child: Child,
    terminal: File,
    written: String,
}

impl Live {
    fn start(arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudoterminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        // A session of its own, whose terminal is this one and not that of whoever runs the tests.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_holdfast"), "watch"])
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
    fn wait_for(&mut self, text: &str) {
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

    fn press(&mut self, keys: &str) {
        self.written.clear();
        self.terminal.write_all(keys.as_bytes()).expect("typed");
    }

    fn wait_for_the_end(mut self) -> (Option<i32>, String) {
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

#[test]
fn pages_filters_and_the_end_answer_to_keys() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let mut live = Live::start(&["--interval", "0.2", &format!("state listening sport = :{port}")]);
    live.wait_for("ESTABLISHED");
    live.press("2");
    live.wait_for(&format!("127.0.0.1:{port}"));
    live.press("/");
    live.wait_for("filter:");
    live.press(" or\r");
    live.wait_for("missing");
    live.press("\x1b");
    live.wait_for("help");
    live.press("?");
    live.wait_for("goes");
    live.press("?");
    live.press("q");
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(0));
    // The terminal is as it was: the other screen is left, and the cursor is back.
    assert!(written.contains("\x1b[?1049l") && written.contains("\x1b[?25h"), "{written:?}");
}

#[test]
fn a_count_ends_it_and_a_refusal_leaves_the_terminal_alone() {
    let live = Live::start(&["--interval", "0.1", "--count", "2"]);
    let (status, written) = live.wait_for_the_end();
    assert!(status == Some(0) && written.contains("\x1b[?1049l"), "{status:?} {written:?}");
    let live = Live::start(&["state", "asleep"]);
    let (status, written) = live.wait_for_the_end();
    assert_eq!(status, Some(1));
    assert!(written.contains("`asleep` is no state") && !written.contains("\x1b["), "{written:?}");
}
