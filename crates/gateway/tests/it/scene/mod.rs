//! One server of a real gateway, given the content of its `server {}`, and requests on connections of their own.
#![allow(clippy::unwrap_used)] // it is part of tests, which clippy sees only in functions marked so

use std::net::SocketAddr;
use std::path::PathBuf;
use testkit::{Response, Talk};

pub(crate) struct Gateway {
    running: testkit::Gateway,
    /// The prefix of relative paths; it has a directory `html`.
    pub(crate) directory: PathBuf,
    pub(crate) address: SocketAddr,
}

impl Gateway {
    /// Starts it with the content of a `server {}` and further text for `http {}`.
    pub(crate) fn start(server: &str, http: &str) -> Self {
        Self::start_before(server, http, &[])
    }

    /// As [`Self::start`], with addresses for `{upstream:0}` and so on.
    pub(crate) fn start_before(server: &str, http: &str, upstreams: &[SocketAddr]) -> Self {
        let text = format!("events {{}} http {{ access_log off; {http} server {{ listen {{listen}}; {server} }} }}");
        let running = testkit::Gateway::start(&text, upstreams);
        let directory = running.prefix();
        std::fs::create_dir(directory.join("html")).unwrap();
        Self { address: running.address(), directory, running }
    }

    /// Writes a file below the prefix.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Number of files in a directory of the prefix and its subdirectories.
    pub(crate) fn files_below(&self, path: &str) -> usize {
        let mut directories = vec![self.directory.join(path)];
        let mut files = 0;
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() { directories.push(entry.path()) } else { files += 1 }
            }
        }
        files
    }

    pub(crate) fn connect(&self) -> Talk {
        Talk::connect(self.address)
    }

    /// Sends a request on a connection of its own, which ends with the response.
    #[track_caller]
    pub(crate) fn exchange(&self, request: impl AsRef<[u8]>) -> Response {
        let mut client = self.connect();
        client.send(request);
        let response = client.response();
        client.end();
        response
    }

    /// Sends a request with further field lines, each with its line end.
    #[track_caller]
    pub(crate) fn request(&self, method: &str, target: &str, fields: &str) -> Response {
        let mut client = self.connect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n"));
        let response = if method == "HEAD" { client.response_to_head() } else { client.response() };
        client.end();
        response
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Response {
        self.request("GET", target, "")
    }

    /// Waits for a text in the error log.
    pub(crate) fn expect_error(&self, text: &str) {
        self.running.logged(text);
    }

    /// The first line of the access logs, once it is there.
    pub(crate) fn access_line(&self) -> String {
        self.running.access_lines(1).remove(0)
    }

    /// Everything in the error log so far.
    pub(crate) fn errors(&self) -> String {
        self.running.error_log()
    }
}
