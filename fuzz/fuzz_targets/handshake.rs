//! The handshake of TLS: no panic and no growth, for any bytes in any pieces. The names, ciphers and groups of a first message are the
//! same as rustls reads. The first byte chooses the role and the pieces, the second one how much of a real conversation comes first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rustls::server::Acceptor;
use std::sync::{Arc, LazyLock, Mutex};
use tls::{Choice, ClientHello, ClientSide, Listener, Pair, ServerSide, Session, Trust};

/// Bytes that a session may hold: the engine's own limit, with a record.
const HELD_MAX: usize = 120 * 1024;

/// What was read of a first message.
type Read = (Option<String>, Vec<u16>, Vec<u16>);

#[derive(Debug)]
struct Noting {
    side: Arc<ServerSide>,
    seen: Mutex<Option<Read>>,
}

impl Listener for Noting {
    fn choose(&self, hello: &ClientHello<'_>) -> Choice {
        let name = hello.server_name.map(str::to_ascii_lowercase);
        *self.seen.lock().unwrap() = Some((name, hello.ciphers.iter().collect(), hello.groups.iter().collect()));
        Choice::Serve(Arc::clone(&self.side))
    }
}

static SERVER: LazyLock<Arc<ServerSide>> = LazyLock::new(|| {
    let pair = Pair::self_made(&["a.test".to_owned()]).unwrap();
    Arc::new(ServerSide::new().pair(pair).build().unwrap())
});
static CLIENT: LazyLock<ClientSide> = LazyLock::new(|| ClientSide::new(Trust::Anyone).build().unwrap());

/// Feeds bytes in pieces, and says something between them.
fn feed(session: &mut Session, bytes: &[u8], piece: usize) {
    let mut out = Vec::new();
    for piece in bytes.chunks(piece) {
        let taken = session.receive(&mut piece.to_vec(), &mut |_| ());
        assert!(session.held().len() <= HELD_MAX);
        session.take_output(&mut out);
        if taken.is_err() {
            assert!(session.receive(&mut piece.to_vec(), &mut |_| ()).is_err(), "it has failed for good");
            return;
        }
        let _ = session.seal(b"something", 100, &mut [0; 200]);
    }
    session.close();
    let _ = session.end();
}

/// What rustls reads of a first message.
fn as_rustls(bytes: &[u8]) -> Option<Read> {
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut &*bytes).ok()?;
    let accepted = acceptor.accept().ok()??;
    let hello = accepted.client_hello();
    let groups = hello.named_groups().unwrap_or_default().iter().map(|&group| group.into()).collect();
    let ciphers = hello.cipher_suites().iter().map(|&suite| suite.into()).collect();
    Some((hello.server_name().map(str::to_ascii_lowercase), ciphers, groups))
}

fuzz_target!(|input: &[u8]| {
    let [choice, prefix, bytes @ ..] = input else { return };
    let piece = usize::from(choice >> 2).max(1) * 7;
    let noting = Arc::new(Noting { side: Arc::clone(&SERVER), seen: Mutex::new(None) });
    let mut server = Session::server(Arc::<Noting>::clone(&noting));
    let mut client = Session::client(&CLIENT, "a.test").unwrap();
    let mut wire = Vec::new();
    client.take_output(&mut wire);
    if choice & 1 == 0 {
        // A server that hears some of a real first message, and then anything.
        let real = wire.get(..usize::from(*prefix) * 16).unwrap_or(&wire);
        let said = [real, bytes].concat();
        feed(&mut server, &said, piece);
        let ours = noting.seen.lock().unwrap().take();
        // An address is no name, and rustls leaves it out.
        if let (Some(ours), Some(theirs)) = (ours, as_rustls(&said))
            && theirs.0.is_some()
        {
            assert_eq!(ours, theirs);
        }
    } else {
        let mut answer = Vec::new();
        server.receive(&mut wire, &mut |_| ()).unwrap();
        server.take_output(&mut answer);
        let real = answer.get(..usize::from(*prefix) * 16).unwrap_or(&answer);
        feed(&mut client, &[real, bytes].concat(), piece);
    }
});
