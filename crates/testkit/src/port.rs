//! Ports for programs that need a port number in advance: nginx, `HAProxy` and the Holdfast binary. Listeners in the test's own
//! process bind port 0 instead and keep what they get.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};

/// A free port of 127.0.0.1 that the kernel does not choose for other sockets in the next minute: a connection on it is in
/// TIME_WAIT. The kernel skips such a port when a socket binds port 0, but a server with `SO_REUSEADDR` can bind it by number. A
/// port that was only bound and released could be given to another test.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let (server, _) = listener.accept().unwrap();
    // The end that closes first enters TIME_WAIT; it must be the end with this port.
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    address.port()
}
