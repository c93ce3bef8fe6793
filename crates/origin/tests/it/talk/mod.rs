//! Conversations with the origin: the client of `testkit`, with additions for these tests.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use origin::{Options, Origin, Running};
use testkit::Talk;
pub(crate) use testkit::{DEADLINE, End};

pub(crate) fn start(options: Options) -> Running {
    Origin::bind(options).unwrap().start().unwrap()
}

/// A client; `talk` is the underlying conversation.
pub(crate) struct Client {
    pub(crate) talk: Talk,
}

/// A head in which each field occurs once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) message: testkit::Response,
}

impl Head {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.message.value(name)
    }

    pub(crate) fn length(&self) -> usize {
        self.field("Content-Length").expect("no Content-Length").parse().unwrap()
    }
}

impl Client {
    pub(crate) fn connect(origin: &Running) -> Self {
        Self { talk: Talk::connect(origin.address()) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.talk.send(bytes);
    }

    /// Sends a GET without a body, on a connection that stays open.
    pub(crate) fn get(&mut self, target: &str) {
        self.talk.send_get(target, "");
    }

    pub(crate) fn half_close(&mut self) {
        self.talk.half_close();
    }

    #[track_caller]
    pub(crate) fn head(&mut self) -> Head {
        let message = self.talk.head().expect("a head and not the end");
        Head { status: message.status(), message }
    }

    /// Reads exactly this many bytes.
    #[track_caller]
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.talk.read(count)
    }

    /// Reads a complete response with Content-Length.
    #[track_caller]
    pub(crate) fn response(&mut self) -> (Head, Vec<u8>) {
        let head = self.head();
        let length = head.length();
        (head, self.bytes(length))
    }

    /// Reads a chunked body: the sizes of its chunks, its data, its trailer lines.
    #[track_caller]
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

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.append(&mut self.bytes(1));
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    /// Reads everything up to the end of the connection.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        self.talk.rest()
    }

    /// Expects that the origin sends nothing more and ends the connection like this.
    #[track_caller]
    pub(crate) fn expect_end(&mut self, expected: End) {
        assert_eq!(self.talk.end(), expected);
    }
}

/// The origin's body pattern.
pub(crate) fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(origin::pattern_byte).collect()
}

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    testkit::until(what, || condition().then_some(()));
}
