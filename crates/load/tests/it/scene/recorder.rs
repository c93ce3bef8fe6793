//! A server that keeps all requests and answers each by a function, so that tests compare what a load claims with what it
//! sent.

use std::net::SocketAddr;
use testkit::{Peer, Request};

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    peer: Peer,
}

impl Recorder {
    /// `answer` returns the bytes of a response. One that starts with `HTTP/1.0` ends its connection.
    pub(crate) fn start(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> Self {
        let peer = Peer::script(move |mut talk| {
            while let Some(request) = talk.request() {
                let text = answer(&request);
                talk.send(&text);
                if text.starts_with("HTTP/1.0") {
                    return;
                }
            }
        });
        Self { address: peer.address(), peer }
    }

    /// All requests in the order of their arrival.
    pub(crate) fn received(&self) -> Vec<Request> {
        self.peer.requests().into_iter().map(|(_, request)| request).collect()
    }

    /// Number of requests whose path begins with this.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.received().iter().filter(|request| request.target().starts_with(path)).count()
    }
}

/// A response with a body and more fields, each with its line end.
pub(crate) fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}
