//! An instance of the real program in its own directory, with the helpers that tests need. Every wait has a deadline,
//! and every process is ended by its pid.

pub(crate) mod farm;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod nats_accounts;
pub(crate) mod numbered;
pub(crate) mod observer;
pub(crate) mod pebble;

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::{Response, Running, Talk, free_port};

/// Longer than any step takes on a machine that is busy with other builds.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The program.
pub(crate) fn holdfast() -> Command {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
}

/// Sends the head of an upgrade, and reads its 101: the stream is a tunnel then.
pub(crate) fn upgraded(port: u16, head: &str) -> (TcpStream, Response) {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
    stream.set_read_timeout(Some(DEADLINE)).expect("set");
    let response = testkit::ask(&stream, head).expect("a head");
    assert_eq!(response.status(), 101, "{response:?}");
    (stream, response)
}

/// The same for the WebSocket echo of the origin, below a path that ends with a slash.
pub(crate) fn echo_tunnel(port: u16, path: &str) -> TcpStream {
    let head = format!(
        "GET {path}websocket/echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    upgraded(port, &head).0
}

/// Waits for a condition.
pub(crate) fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes_true(condition), "waited in vain until {what}");
}

/// Whether a condition comes true in time.
pub(crate) fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        // The conditions are states of other processes, which cannot notify this one.
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

/// A directory with a configuration, and the program running in it.
pub(crate) struct Instance {
    /// It ends before its directory is removed.
    running: Option<Running>,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl Instance {
    /// A directory; `top` is at the top level and `servers` in `http`, where `PORT` is this instance's port.
    pub(crate) fn new(top: &str, servers: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(folder.path().join("logs")).expect("made");
        let instance = Self { running: None, folder, port: free_port() };
        instance.configure(top, servers);
        instance
    }

    /// Writes another configuration.
    pub(crate) fn configure(&self, top: &str, servers: &str) {
        // The user stays the same: the directory belongs to the user who runs the tests.
        let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
        let servers = servers.replace("PORT", &self.port.to_string());
        let text = format!(
            "{user}\nerror_log logs/error.log info;\n{top}\nevents {{ worker_connections 256; }}\nhttp {{\n\
             access_log logs/access.log;\n{servers}\n}}\n"
        );
        fs::write(self.path("nginx.conf"), text).expect("written");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with this instance's file and prefix, and more flags.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = holdfast();
        command.arg("-p").arg(self.folder.path()).arg("-c").arg(self.path("nginx.conf")).args(flags);
        command.stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, flags: &[&str]) -> Output {
        self.command(flags).output().expect("the program starts")
    }

    /// Starts it in the foreground and waits until it serves.
    pub(crate) fn start(&mut self) {
        self.start_as(|command| command);
    }

    /// Starts it in the foreground if its log does not show when it serves.
    pub(crate) fn start_unseen(&mut self) {
        let errors = fs::File::create(self.path("stderr")).expect("made");
        let child = self.command(&["-g", "daemon off;"]).stderr(errors).spawn().expect("the program starts");
        self.running = Some(Running::of(child));
    }

    /// As [`Self::start`], but `around` wraps the command.
    pub(crate) fn start_as(&mut self, around: impl FnOnce(Command) -> Command) {
        let errors = fs::File::create(self.path("stderr")).expect("made");
        // The lines of an earlier start do not count.
        let earlier = self.text("logs/error.log").len();
        let mut command = around(self.command(&["-g", "daemon off;"]));
        let child = command.stdin(Stdio::null()).stderr(errors).spawn().expect("the program starts");
        self.running = Some(Running::of(child));
        until("it serves", || {
            let has_ended = self.running.as_ref().is_some_and(Running::has_ended);
            assert!(!has_ended, "it ended: {}", self.text("stderr"));
            let log = self.text("logs/error.log");
            log.get(earlier..).unwrap_or(&log).contains("holdfast serves")
        });
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The pid in the pid file.
    pub(crate) fn pid_file(&self) -> Option<u32> {
        self.text("logs/holdfast.pid").trim_end().parse().ok()
    }

    /// The pid of the started process.
    pub(crate) fn pid(&self) -> u32 {
        self.running.as_ref().map(Running::id).or(self.pid_file()).expect("it runs")
    }

    /// Waits for a line in the error log.
    pub(crate) fn wait_for_line(&self, text: &str) {
        let log = || self.text("logs/error.log");
        assert!(comes_true(|| log().contains(text)), "waited in vain for {text:?} in the error log:\n{}", log());
    }

    /// Runs `-s`, which must succeed.
    pub(crate) fn signal(&self, word: &str) {
        let output = self.run(&["-s", word]);
        assert!(output.status.success(), "-s {word}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A new client.
    pub(crate) fn client(&self) -> Talk {
        Talk::connect(([127, 0, 0, 1], self.port).into())
    }

    /// Sends one request on a new connection; returns the whole response.
    pub(crate) fn fetch(&self, path: &str) -> std::io::Result<String> {
        fetch(self.port, path)
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.running.take().expect("it runs").wait().code()
    }
}

/// Converts a pid for system calls.
pub(crate) fn pid(pid: u32) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(i32::try_from(pid).expect("pids are small"))
}

/// Sends one request on a new connection; returns the whole response.
pub(crate) fn fetch(port: u16, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    Ok(testkit::fetch(("127.0.0.1", port), request)?.whole_text())
}

/// The children of a process, from /proc.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(Path::new(&path)).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether no thread of a process runs or can be woken: a stop signal reaches the threads one after the other.
pub(crate) fn threads_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it is there");
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// Whether a process exists and has not ended.
pub(crate) fn lives(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
