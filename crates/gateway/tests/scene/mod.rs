//! One server of a real gateway, described by the content of its `server {}`, and requests on connections of their own.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part
#![allow(clippy::unwrap_used)] // it is part of tests, which clippy sees only in functions marked so

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use testkit::DEADLINE;

pub struct Gateway {
    running: testkit::Gateway,
    /// The prefix of relative paths; it has a directory `html`.
    pub directory: PathBuf,
    pub address: SocketAddr,
}

impl Gateway {
    /// Starts it with the content of a `server {}` and what stands beside it in `http {}`.
    pub fn start(server: &str, http: &str) -> Self {
        Self::start_before(server, http, &[])
    }

    /// As [`Self::start`], with addresses for `{upstream:0}` and so on.
    pub fn start_before(server: &str, http: &str, upstreams: &[SocketAddr]) -> Self {
        let text = format!("events {{}} http {{ access_log off; {http} server {{ listen {{listen}}; {server} }} }}");
        let running = testkit::Gateway::start(&text, upstreams);
        let directory = running.prefix();
        std::fs::create_dir(directory.join("html")).unwrap();
        Self { address: running.address(), directory, running }
    }

    /// Puts a file below the prefix.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// How many files a directory of the prefix and the directories in it have.
    pub fn files_below(&self, path: &str) -> usize {
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

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Sends a request on a connection of its own and reads the response to the end of the connection.
    pub fn exchange(&self, request: impl AsRef<[u8]>) -> Response {
        let mut stream = self.connect();
        stream.write_all(request.as_ref()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Response::parse(&bytes)
    }

    /// A request with further field lines, each with its line end.
    pub fn request(&self, method: &str, target: &str, fields: &str) -> Response {
        self.exchange(format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n"))
    }

    pub fn get(&self, target: &str) -> Response {
        self.request("GET", target, "")
    }

    /// Waits for a text in the error log.
    pub fn expect_error(&self, text: &str) {
        self.running.logged(text);
    }

    /// The first line of the access logs, as soon as it is there.
    pub fn access_line(&self) -> String {
        self.running.access_lines(1).remove(0)
    }

    /// Everything in the error log so far.
    pub fn errors(&self) -> String {
        self.running.error_log()
    }
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a complete head");
        let head = String::from_utf8(bytes[..end + 2].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
