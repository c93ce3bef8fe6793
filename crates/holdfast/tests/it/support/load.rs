//! Runs of `holdfast load`, its targets, and servers that misbehave.

use super::holdfast;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use testkit::Running;

/// The result of `holdfast load` with these arguments.
pub(crate) fn load(words: &[&str]) -> Output {
    holdfast().arg("load").args(words).stdin(Stdio::null()).output().expect("the program starts")
}

/// The same while it runs.
pub(crate) fn start(words: &[&str]) -> Running {
    Running::start(holdfast().arg("load").args(words))
}

/// The origin on threads of this process.
pub(crate) fn origin() -> origin::Running {
    origin::Origin::bind(origin::Options::default()).and_then(origin::Origin::start).expect("it starts")
}

/// `holdfast origin`.
pub(crate) struct Origin {
    pub(crate) running: Running,
    pub(crate) address: String,
}

impl Origin {
    /// Starts it with these flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let running = Running::start(holdfast().arg("origin").args(flags));
        let line = running.wait_for_output("");
        let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { running, address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn websocket_url(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }
}

/// The output of a program.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts a server that passes each connection to a function, one after the other, as long as the test runs; returns
/// its URL.
pub(crate) fn server(scheme: &str, treat: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("{scheme}://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || listener.incoming().flatten().for_each(treat));
    url
}

/// A server that answers each request with these bytes, and closes.
pub(crate) fn answering(scheme: &str, bytes: &'static [u8]) -> String {
    server(scheme, move |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        // Waits until the client has read it and closed.
        let _ = stream.read(&mut [0; 1]);
    })
}
