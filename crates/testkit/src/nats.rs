//! A NATS server in a folder of its own, which can be stopped and started again at the same port.

use crate::{DEADLINE, free_port, peer_program};
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A NATS server on all addresses of the network namespace of the thread that starts it.
#[derive(Debug)]
pub struct Nats {
    port: u16,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Nats {
    /// Starts a server; `more` are further lines of its configuration.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let config = format!("host: 0.0.0.0\nport: {port}\nmax_control_line: 4096\n{more}\n");
        fs::write(folder.path().join("nats.conf"), config).expect("written");
        let mut server = Self { port, folder, child: None };
        server.start_again();
        server
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address on loopback.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server that was stopped.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        let log = fs::File::create(self.file("log")).expect("made");
        let mut command = Command::new(peer_program("nats-server"));
        command.arg("-c").arg(self.file("nats.conf")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("nats-server starts"));
        let deadline = Instant::now() + DEADLINE;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            let log = || fs::read_to_string(self.file("log")).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < deadline, "nats-server does not serve: {ended:?}\n{}", log());
            // It says only in its log that it listens.
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    }

    /// Ends the server at once.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Killing a process that has ended fails, which is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.stop();
    }
}
