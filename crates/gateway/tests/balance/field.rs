//! Peers that say who they are, and a client that asks one request after the other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use testkit::{DEADLINE, Peer};

/// Peers called a, b, c …, each of which answers everything with its name.
pub(crate) fn peers(count: u8) -> (Vec<Peer>, Vec<SocketAddr>) {
    let peers: Vec<Peer> = (0..count)
        .map(|index| {
            let name = char::from(b'a' + index);
            Peer::answering(move |_| {
                format!("HTTP/1.1 200 OK\r\nX-Peer: {name}\r\nContent-Length: 0\r\n\r\n").into_bytes()
            })
        })
        .collect();
    let addresses = peers.iter().map(Peer::address).collect();
    (peers, addresses)
}

/// One connection of a client.
pub(crate) struct Client(BufReader<TcpStream>);

/// A response, as far as these tests look at it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Who answered: its name, or the status of whoever answered instead.
    pub(crate) fn peer(&self) -> String {
        self.field("X-Peer").map_or_else(|| format!("<{}>", self.status), str::to_owned)
    }
}

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).unwrap())
    }

    /// From an address of the loopback network.
    pub(crate) fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        Self::of(TcpStream::from(socket))
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(BufReader::new(stream))
    }

    /// A GET with further field lines, each with its line end.
    pub(crate) fn get(&mut self, target: &str, fields: &str) -> Answer {
        self.begin(target, fields);
        self.answer()
    }

    pub(crate) fn begin(&mut self, target: &str, fields: &str) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    pub(crate) fn answer(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "the connection ended inside {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let answer = Answer { status, head };
        let length = answer.field("Content-Length").map_or(0, |length| length.trim().parse().unwrap());
        self.0.read_exact(&mut vec![0; length]).unwrap();
        answer
    }

    /// Who answers so many requests for a target, one after the other.
    pub(crate) fn sequence(&mut self, target: &str, requests: usize) -> String {
        (0..requests).map(|_| self.get(target, "").peer()).collect()
    }
}
