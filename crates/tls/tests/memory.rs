//! What an idle connection costs. Alone in its process, since it looks at the process's memory, which counts what libraries in C
//! hold as well.

use std::fs;
use std::sync::Arc;
use tls::{ClientSide, OneServer, Pair, Protocol, Protocols, RECORD_BYTES_MAX, ServerSide, Session, Trust};

/// Enough that the memory of handshakes, which is used again, is a small part.
const SESSIONS: usize = 3000;
const PAGE_BYTES: usize = 4096;
/// What may be held for a connection that waits for its next request: 4 KB (ADR 40), and 512 bytes of the connection's own budget (ADR
/// 3), of which a session with its name and a hybrid key exchange behind it takes some hundred.
const IDLE_BYTES_MAX: usize = 4096 + 512;

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages") * PAGE_BYTES
}

/// A server's session that has answered one request.
fn served(client_side: &ClientSide, listener: &Arc<OneServer>) -> Session {
    let mut client = Session::client(client_side, "a.test").expect("a name");
    let mut server = Session::server(Arc::<OneServer>::clone(listener));
    for _ in 0..3 {
        let mut wire = Vec::new();
        client.take_output(&mut wire);
        server.receive(&mut wire, &mut |_| ()).expect("the server goes on");
        let mut wire = Vec::new();
        server.take_output(&mut wire);
        client.receive(&mut wire, &mut |_| ()).expect("the client goes on");
    }
    let mut record = [0; 2048];
    let sealed = client.seal(&[b'r'; 80], RECORD_BYTES_MAX, &mut record).expect("it is open");
    let mut heard = 0;
    server.receive(&mut record[..sealed.written], &mut |plain| heard += plain.len()).expect("a record");
    assert_eq!(heard, 80);
    server.seal(&[b'p'; 850], RECORD_BYTES_MAX, &mut record).expect("it is open");
    server
}

#[test]
fn an_idle_session_holds_no_buffer() {
    let pair = Pair::self_made(&["a.test".to_owned()]).expect("a certificate");
    let client_side = ClientSide::new(Trust::Anyone).build().expect("a client");
    let mut all = Vec::new();
    for protocol in [Protocol::Tls13, Protocol::Tls12] {
        let side = ServerSide::new().pair(pair.clone()).protocols(Protocols::only(protocol)).build().expect("a server");
        let listener = Arc::new(OneServer(Arc::new(side)));
        drop(served(&client_side, &listener));
        let before = resident_bytes();
        all.extend((0..SESSIONS).map(|_| served(&client_side, &listener)));
        let each = resident_bytes().saturating_sub(before) / SESSIONS;
        assert!((1000..=IDLE_BYTES_MAX).contains(&each), "{each} bytes for each session of {}", protocol.name());
    }
}
