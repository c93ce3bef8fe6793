//! A plain blocking client for conversations with the origin: sends bytes, reads heads and bodies, sees FIN and RST.
//! It trusts nothing: what it does not understand is a failed test.
#![allow(dead_code)] // each test file uses a part of it
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use origin::{Options, Origin, Running};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// No step of a conversation takes longer, however loaded the machine is.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) fn start(options: Options) -> Running {
    Origin::bind(options).unwrap().start().unwrap()
}

/// How the origin's side of a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Fin,
    Reset,
}

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} came twice");
        value
    }

    pub(crate) fn length(&self) -> usize {
        self.field("Content-Length").expect("no Content-Length").parse().unwrap()
    }
}

impl Client {
    pub(crate) fn connect(origin: &Running) -> Self {
        Self::new(TcpStream::connect(origin.address()).unwrap())
    }

    pub(crate) fn new(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { socket, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a GET without body on a connection that stays open.
    pub(crate) fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: origin\r\n\r\n"));
    }

    pub(crate) fn half_close(&mut self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads once; the end where there is one.
    fn read_more(&mut self) -> Option<End> {
        let mut piece = [0; 16 * 1024];
        match self.socket.read(&mut piece) {
            Ok(0) => Some(End::Fin),
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                None
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Some(End::Reset),
            Err(error) => panic!("reading: {error}; so far {:?}", String::from_utf8_lossy(&self.received)),
        }
    }

    pub(crate) fn head(&mut self) -> Head {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if let Some(end) = self.read_more() {
                panic!("{end:?} instead of a head, after {:?}", String::from_utf8_lossy(&self.received));
            }
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").expect("no HTTP/1.1 status line");
        let fields = lines.map(|line| line.split_once(": ").expect("a line without colon"));
        Head {
            status: status[..3].parse().unwrap(),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    /// Exactly this many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            if let Some(end) = self.read_more() {
                panic!("{end:?} after {} of {count} bytes", self.received.len());
            }
        }
        self.received.drain(..count).collect()
    }

    /// A whole response with Content-Length.
    pub(crate) fn response(&mut self) -> (Head, Vec<u8>) {
        let head = self.head();
        let length = head.length();
        let body = self.bytes(length);
        (head, body)
    }

    /// A chunked body: the sizes of its chunks, its data, its trailer lines.
    pub(crate) fn chunked(&mut self) -> (Vec<usize>, Vec<u8>, Vec<String>) {
        let (mut sizes, mut data, mut trailers) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let size = usize::from_str_radix(&self.line(), 16).unwrap();
            if size == 0 {
                break;
            }
            sizes.push(size);
            data.append(&mut self.bytes(size));
            assert_eq!(self.line(), "");
        }
        loop {
            let line = self.line();
            if line.is_empty() {
                return (sizes, data, trailers);
            }
            trailers.push(line);
        }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.append(&mut self.bytes(1));
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        loop {
            if let Some(end) = self.read_more() {
                return (std::mem::take(&mut self.received), end);
            }
        }
    }

    /// The origin says nothing more and ends the connection like this.
    #[track_caller]
    pub(crate) fn expect_end(&mut self, expected: End) {
        let (rest, end) = self.rest();
        assert_eq!((String::from_utf8_lossy(&rest).as_ref(), end), ("", expected));
    }
}

/// The origin's body pattern.
pub(crate) fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(origin::pattern_byte).collect()
}

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
}
