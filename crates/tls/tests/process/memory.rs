//! Memory of a waiting connection: before its first message, before the end of its handshake, and between requests. It reads the
//! memory of the process, which includes what C libraries hold.

use std::fs;
use std::sync::Arc;
use tls::{ClientSide, OneServer, Pair, Protocol, Protocols, RECORD_BYTES_MAX, ServerSide, Session, TlsError, Trust};

/// Enough that the memory of handshakes, which is used again, is a small part.
const SESSIONS: usize = 3000;
const PAGE_BYTES: usize = 4096;
/// A session that waits for the client's first byte: with ten thousand of them it is nothing.
const UNUSED_BYTES_MAX: usize = 256;
/// A session of the default hybrid key exchange that waits for the next request. The whole of TLS may have 4 KB (ADR
/// 40), of which `transport` takes some 100 bytes more.
const IDLE_BYTES_MAX: usize = 3200;
/// A session that waits for the end of its handshake.
const HANDSHAKE_BYTES_MAX: usize = 4 * 1024;

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages") * PAGE_BYTES
}

/// Lets the client say what it has, and the server answer.
fn turn(client: &mut Session, server: &mut Session) -> Result<(), TlsError> {
    let mut wire = Vec::new();
    client.take_output(&mut wire);
    server.receive(&mut wire, &mut |_| ())?;
    let mut wire = Vec::new();
    server.take_output(&mut wire);
    client.receive(&mut wire, &mut |_| ())
}

/// A server's session that has answered one request.
fn served(client_side: &ClientSide, listener: &Arc<OneServer>) -> Session {
    let mut client = Session::client(client_side, "a.test").expect("a name");
    let mut server = Session::server(Arc::<OneServer>::clone(listener));
    for _ in 0..3 {
        turn(&mut client, &mut server).expect("the handshake goes on");
    }
    let mut record = [0; 2048];
    let sealed = client.seal(&[b'r'; 80], RECORD_BYTES_MAX, &mut record).expect("it is open");
    let mut heard = 0;
    server.receive(&mut record[..sealed.written], &mut |plain| heard += plain.len()).expect("a record");
    assert_eq!(heard, 80);
    server.seal(&[b'p'; 850], RECORD_BYTES_MAX, &mut record).expect("it is open");
    server
}

/// A server's session that has sent its part of the handshake, and receives nothing more.
fn abandoned(client_side: &ClientSide, listener: &Arc<OneServer>) -> Session {
    let mut client = Session::client(client_side, "a.test").expect("a name");
    let mut server = Session::server(Arc::<OneServer>::clone(listener));
    turn(&mut client, &mut server).expect("the handshake goes on");
    assert!(server.is_handshaking());
    server
}

/// Bytes of each of many sessions, which are kept until the end so that no memory is used twice.
fn each(all: &mut Vec<Session>, mut session: impl FnMut() -> Session) -> usize {
    drop(session());
    all.reserve(SESSIONS);
    let before = resident_bytes();
    all.extend((0..SESSIONS).map(|_| session()));
    resident_bytes().saturating_sub(before) / SESSIONS
}

#[test]
fn a_connection_that_waits_holds_little() {
    let pair = Pair::self_made(&["a.test".to_owned()]).expect("a certificate");
    let client_side = ClientSide::new(Trust::Anyone).build().expect("a client");
    let mut all = Vec::new();
    for protocol in [Protocol::Tls13, Protocol::Tls12] {
        let name = protocol.name();
        let side = ServerSide::new().pair(pair.clone()).protocols(Protocols::only(protocol)).build().expect("a server");
        let listener = Arc::new(OneServer(Arc::new(side)));
        let unused = each(&mut all, || Session::server(Arc::<OneServer>::clone(&listener)));
        assert!(unused <= UNUSED_BYTES_MAX, "{unused} bytes before the first byte");
        let idle = each(&mut all, || served(&client_side, &listener));
        let during = each(&mut all, || abandoned(&client_side, &listener));
        eprintln!("{name}: {idle} B idle, {during} B during the handshake, {SESSIONS} sessions");
        assert!((1000..=IDLE_BYTES_MAX).contains(&idle), "{idle} bytes for each idle session of {name}");
        assert!((1000..=HANDSHAKE_BYTES_MAX).contains(&during), "{during} bytes for each handshake of {name}");
        // The reported memory lies between half and twice the measured memory.
        for (session, bytes) in [(served(&client_side, &listener), idle), (abandoned(&client_side, &listener), during)]
        {
            let told = session.held_bytes() + size_of::<Session>();
            assert!((bytes / 2..=bytes * 2).contains(&told), "{told} is told for {bytes} of {name}");
        }
    }
}
