//! `stream`: sessions of TCP and UDP, with scripted clients and peers, and compared with real nginx.

mod beside_nginx;
mod datagrams;
mod datagrams_beside_nginx;
mod datagrams_chosen;
mod datagrams_hostile;
mod ends;
mod hostile;
mod pass;
mod peers;
mod secured;
mod words;

use testkit::{End, Gateway, Peer, Talk};

/// A peer that echoes; `bye` ends it, and so does the client's FIN, which it answers with `rest`.
fn echo() -> Peer {
    Peer::script(|mut talk| {
        while let Some(bytes) = talk.whatever_came() {
            if bytes.starts_with(b"bye") {
                talk.send("bye");
                return;
            }
            talk.send(bytes);
        }
        if talk.end() == End::Fin {
            talk.send("rest");
        }
    })
}

/// A gateway with its peers, which end with it.
struct Site {
    gateway: Gateway,
    peers: Vec<Peer>,
}

impl std::ops::Deref for Site {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

/// A gateway with this text in `stream {}` and `server {}`, and these peers.
fn start(stream: &str, server: &str, peers: impl Into<Vec<Peer>>) -> Site {
    let peers = peers.into();
    let addresses: Vec<_> = peers.iter().map(Peer::address).collect();
    let text = format!("events {{}} stream {{ {stream} server {{ listen {{listen}}; {server} }} }}");
    Site { gateway: Gateway::start(&text, &addresses), peers }
}

/// A client that has exchanged bytes with the peer behind the gateway.
fn greeted(gateway: &Gateway) -> Talk {
    let mut client = Talk::connect(gateway.address());
    client.send("hello");
    client.expect("hello");
    client
}

/// An address that refuses connections.
fn dead() -> std::net::SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // The port stays bound until the test program ends.
    std::mem::forget(socket);
    address
}
