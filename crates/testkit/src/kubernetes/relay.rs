//! A relay from one network namespace into another: its listener is in one, its connections go out in the other.

use super::network::enter;
use socket2::SockRef;
use std::io::copy;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Ends with its value; connections end by themselves.
#[derive(Debug)]
pub(super) struct Relay {
    listener: Arc<TcpListener>,
    acceptor: Option<JoinHandle<()>>,
}

impl Relay {
    /// Passes the connections of a listener, in whichever namespace it is, on to an address in the namespace `to_namespace`, or in
    /// that of the caller.
    pub(super) fn start(listener: TcpListener, to: SocketAddr, to_namespace: Option<String>) -> Self {
        let listener = Arc::new(listener);
        let acceptor = std::thread::spawn({
            let listener = Arc::clone(&listener);
            move || {
                if let Some(name) = to_namespace {
                    enter(&name);
                }
                while let Ok((client, _)) = listener.accept() {
                    // If nothing listens there, the client sees the end of its connection.
                    if let Ok(server) = TcpStream::connect(to) {
                        join(client, server);
                    }
                }
            }
        });
        Self { listener, acceptor: Some(acceptor) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // This ends accept().
        let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Two threads for each connection: a test has few.
fn join(client: TcpStream, server: TcpStream) {
    let (Ok(other_client), Ok(other_server)) = (client.try_clone(), server.try_clone()) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    std::thread::spawn(move || pass(&client, &server));
    std::thread::spawn(move || pass(&other_server, &other_client));
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    // Linux copies between sockets without the process here. A broken connection breaks the other side, too.
    if copy(&mut from, &mut to).is_err() {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
    let _ = to.shutdown(Shutdown::Write);
}
