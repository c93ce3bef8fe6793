//! A port for a program that has to be told one, as nginx and `HAProxy` have, and the real one of ours. What listens in the test's
//! own process needs none of this: it binds port 0 and keeps what it gets.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};

/// A port of 127.0.0.1 that is free, and that the kernel gives to no socket by chance in the next minute: a connection on it is in
/// TIME_WAIT. The kernel does not choose such a port for who asks for any, and lets have it who asks for it by its number with
/// `SO_REUSEADDR`, as servers do. A port that was only bound and released is another test's as easily as anybody's.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let (server, _) = listener.accept().unwrap();
    // Who closes first is the one that waits, and it has to be the end with this port.
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    address.port()
}
