//! Peers that answer with their name.

use std::net::SocketAddr;
use testkit::{Peer, Response, Talk};

/// Peers named a, b, c …, each of which answers every request with its name.
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

/// The name of the peer that answered.
pub(crate) trait Named {
    /// The name, or the status if no peer answered.
    fn peer(&self) -> String;
}

impl Named for Response {
    fn peer(&self) -> String {
        self.value("X-Peer").map_or_else(|| format!("<{}>", self.status()), str::to_owned)
    }
}

/// The names of the peers that answer this many requests for a target, one after the other.
pub(crate) fn sequence(client: &mut Talk, target: &str, requests: usize) -> String {
    (0..requests).map(|_| client.get(target, "").peer()).collect()
}
