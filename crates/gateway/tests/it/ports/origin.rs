//! An origin that answers with the source of the connection, keeps connections open until the other side closes, and
//! delays answers until it is told to send them and close.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::{Signal, Talk};

pub(crate) struct Origin {
    address: SocketAddr,
    go: Signal,
}

impl Origin {
    pub(crate) fn start(at: IpAddr) -> Self {
        let listener = TcpListener::bind((at, 0)).unwrap();
        let origin = Self { address: listener.local_addr().unwrap(), go: Signal::new() };
        let (go, serials) = (origin.go.clone(), Arc::new(AtomicUsize::new(0)));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (go, serial) = (go.clone(), serials.fetch_add(1, Ordering::Relaxed));
                std::thread::spawn(move || serve(stream, serial, &go));
            }
        });
        origin
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends the delayed answers, and closes those connections.
    pub(crate) fn end_held(&self) {
        self.go.raise();
    }
}

/// Serves until the other side closes, or the connection breaks.
fn serve(stream: TcpStream, serial: usize, go: &Signal) {
    let Ok(from) = stream.peer_addr() else { return };
    let mut talk = Talk::of(stream);
    while let Some(request) = talk.request() {
        let held = request.target() == "/hold";
        if held {
            go.wait();
        }
        // FIN marks the end of the body, so this side certainly closes first.
        let end = if held { "Connection: close" } else { "Content-Length: 0" };
        talk.send(format!("HTTP/1.1 200 OK\r\nX-From: {}\r\nX-Connection: {serial}\r\n{end}\r\n\r\n", from.ip()));
        if held {
            return;
        }
    }
}
