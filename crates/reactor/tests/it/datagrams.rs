//! Datagrams in batches, over real sockets.

use reactor::{BATCH_MAX, ConnectOptions, Datagrams, ListenOptions, Listener, PeerAddress, Reactor};
use std::net::{IpAddr, SocketAddr, UdpSocket};

fn bind(address: &str) -> (Listener, u16) {
    let options = ListenOptions { datagrams: true, ..ListenOptions::default() };
    let address = PeerAddress::Ip(address.parse().expect("an address"));
    let listener = Listener::bind(&address, &options).expect("bound");
    let Some(PeerAddress::Ip(bound)) = listener.local_address().expect("bound") else { panic!("an address of IP") };
    (listener, bound.port())
}

#[test]
fn a_batch_has_the_datagrams_in_order_with_both_addresses() {
    let (listener, port) = bind("0.0.0.0:0");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..BATCH_MAX + 2 {
        client.send_to(&vec![number as u8; number], ("127.0.0.9", port)).unwrap();
    }
    let mut batch = Datagrams::default();
    let mut lengths = Vec::new();
    for expected in [BATCH_MAX, 2, 0] {
        listener.receive_datagrams(&mut batch).unwrap();
        assert_eq!((batch.len(), batch.is_full(), batch.is_empty()), (expected, expected == BATCH_MAX, expected == 0));
        for datagram in batch.datagrams() {
            assert_eq!(datagram.from, Some(client.local_addr().unwrap()));
            assert_eq!(datagram.local, Some(IpAddr::from([127, 0, 0, 9])));
            assert!(!datagram.truncated);
            lengths.push(datagram.bytes.len());
        }
    }
    assert_eq!(lengths, (0..BATCH_MAX + 2).collect::<Vec<_>>());
}

#[test]
fn answers_leave_from_the_address_that_was_asked() {
    for (bound, asked, own) in [("0.0.0.0:0", "127.0.0.9", "127.0.0.1:0"), ("[::]:0", "::1", "[::1]:0")] {
        let (listener, port) = bind(bound);
        let client = UdpSocket::bind(own).unwrap();
        let asked: IpAddr = asked.parse().unwrap();
        client.connect(SocketAddr::new(asked, port)).unwrap();
        let pieces: Vec<Vec<u8>> = (0..40_u8).map(|number| vec![number]).collect();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let sent = listener.send_datagrams(&pieces, client.local_addr().unwrap(), Some(asked));
        assert_eq!((sent.count, sent.error.is_none()), (40, true));
        let mut bytes = [0; 8];
        for number in 0..40 {
            assert_eq!((client.recv(&mut bytes).unwrap(), bytes[0]), (1, number));
        }
    }
}

#[test]
fn a_refusal_is_an_error_and_the_socket_works_on() {
    let reactor = Reactor::new().unwrap();
    let task = reactor.create_task();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap();
    drop(peer);
    let to = PeerAddress::Ip(address);
    let socket = reactor.connect_datagrams(&to, &ConnectOptions::default(), task).unwrap();
    assert_eq!(socket.send_datagrams(&[b"lost"]).count, 1);
    reactor.turn(Some(2000)).unwrap();
    let mut batch = Datagrams::default();
    let error = socket.receive_datagrams(&mut batch, BATCH_MAX).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let peer = UdpSocket::bind(address).unwrap();
    assert_eq!(socket.send_datagrams(&[b"found", b""]).count, 2);
    let mut bytes = [0; 8];
    assert_eq!([0; 2].map(|_| peer.recv(&mut bytes).unwrap()), [5, 0]);
    socket.receive_datagrams(&mut batch, BATCH_MAX).unwrap();
    assert!(batch.is_empty());
}

#[test]
fn a_second_socket_of_an_address_is_refused() {
    let (_first, port) = bind("127.0.0.1:0");
    let options = ListenOptions { datagrams: true, ..ListenOptions::default() };
    let second = Listener::bind(&PeerAddress::Ip(SocketAddr::from(([127, 0, 0, 1], port))), &options);
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
