//! Peers that break the protocol, in each of its states. For any split into pieces, the server refuses the message with an alert,
//! unless it is one of the few that the RFCs allow. `forge` makes the messages.

mod forge;
mod hellos;
mod messages;

use std::sync::Arc;
use tls::{OneServer, Session};

/// The state of a server's session after the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It fails, and the peer gets an alert or a closed connection.
    Fails,
    /// It goes on.
    GoesOn,
}

/// Feeds a server in pieces.
fn feed(server: &mut Session, bytes: &[u8], piece: usize) -> Fate {
    for part in bytes.chunks(piece) {
        if server.receive(&mut part.to_vec(), &mut |_| ()).is_err() {
            assert!(server.receive(&mut part.to_vec(), &mut |_| ()).is_err(), "it has failed for good");
            assert!(server.seal(b"late", 100, &mut [0; 200]).is_err(), "and sends no data");
            return Fate::Fails;
        }
    }
    Fate::GoesOn
}

fn new_server(side: &Arc<OneServer>) -> Session {
    Session::server(Arc::<OneServer>::clone(side))
}
