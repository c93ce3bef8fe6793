//! Pods at all addresses of the node's network, each of which answers with its address, and a client of the replica.

use super::objects::{POD_ADDRESSES, POD_PORT};
use crate::ingress::scene::HTTP;
use socket2::SockRef;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::kubernetes::Network;

/// A request that takes longer has failed.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Heads in this test are shorter.
const HEAD_MAX: usize = 4096;

/// One server at all addresses.
pub(super) struct Pods {
    listener: Arc<TcpListener>,
    acceptor: Option<JoinHandle<()>>,
}

impl Pods {
    /// Makes all addresses of Pods local ones of the node's network, and answers at them.
    pub(super) fn start(network: &Network) -> Self {
        add_addresses(network);
        let bound = network.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, POD_PORT)));
        let listener = Arc::new(bound.expect("a free port"));
        let accepting = Arc::clone(&listener);
        let acceptor = std::thread::spawn(move || {
            while let Ok((stream, _)) = accepting.accept() {
                // A client that leaves is no concern of the test.
                let _ = answer(stream);
            }
        });
        Self { listener, acceptor: Some(acceptor) }
    }
}

/// Makes all addresses of Pods local ones of the node's network.
pub(crate) fn add_addresses(network: &Network) {
    let mut ip = network.command("ip");
    let added = ip.args(["route", "add", "local", POD_ADDRESSES, "dev", "lo"]).status().expect("ip starts");
    assert!(added.success(), "ip route: {added}");
}

impl Drop for Pods {
    fn drop(&mut self) {
        // This ends accept().
        let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// One request, and the address that it came to.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut part = [0; HEAD_MAX];
        let length = stream.read(&mut part)?;
        if length == 0 || head.len() > HEAD_MAX {
            return Ok(());
        }
        head.extend_from_slice(&part[..length]);
    }
    let address = stream.local_addr()?.ip().to_string();
    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{address}", address.len())
}

/// A client in the node's network, on one connection as long as the replica keeps it.
pub(super) struct Client<'a> {
    network: &'a Network,
    stream: Option<TcpStream>,
}

impl<'a> Client<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        Self { network, stream: None }
    }

    /// The status and the body; `None` if nothing answers, or the connection ended: then the next call opens another.
    pub(super) fn ask(&mut self, host: &str, path: &str) -> Option<(u16, String)> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().ok()?,
        };
        let (status, body, is_kept) = exchange(&stream, host, path).ok()?;
        self.stream = is_kept.then_some(stream);
        Some((status, body))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        // The socket stays in the network in which it was made.
        let stream = self.network.run(|| TcpStream::connect((self.network.address(), HTTP)))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(stream)
    }
}

fn exchange(stream: &TcpStream, host: &str, path: &str) -> io::Result<(u16, String, bool)> {
    let response = testkit::ask(stream, format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))?;
    Ok((response.status(), response.text(), !response.announces_close()))
}
