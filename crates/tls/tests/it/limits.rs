//! What a peer can make a session hold with messages that never end.

use std::sync::Arc;
use tls::{ClientSide, OneServer, Pair, Protocol, Protocols, RECORD_BYTES_MAX, ServerSide, Session, Trust};

#[test]
fn a_first_message_that_does_not_end_is_bounded() {
    let pair = Pair::self_made(&["a.test".to_owned()]).expect("a certificate");
    let listener = Arc::new(OneServer(Arc::new(ServerSide::new().pair(pair).build().expect("a server"))));
    // A record of 16 KB with one byte missing, and records of one byte each.
    let long = [&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc][..], &[0; 16_379]].concat();
    let short: Vec<u8> = [[22, 3, 1, 0, 1, 1], [22, 3, 1, 0, 1, 0], [22, 3, 1, 0, 1, 0x3f]]
        .concat()
        .into_iter()
        .chain([22, 3, 1, 0, 1, 0].repeat(10_000))
        .collect();
    for bytes in [long, short] {
        let mut server = Session::server(Arc::<OneServer>::clone(&listener));
        let mut most = 0;
        for piece in bytes.chunks(500) {
            if server.receive(&mut piece.to_vec(), &mut |_| ()).is_err() {
                break;
            }
            most = most.max(server.held_bytes());
        }
        assert!((10_000..=17 * 1024).contains(&most), "{most}");
    }
}

#[test]
fn handshake_without_client_certificates_holds_one_record() {
    let pair = Pair::self_made(&["a.test".to_owned()]).expect("a certificate");
    let side = ServerSide::new().pair(pair).protocols(Protocols::only(Protocol::Tls12)).build().expect("a server");
    let client_side = ClientSide::new(Trust::Anyone).build().expect("a client");
    let mut client = Session::client(&client_side, "a.test").expect("a name");
    let mut server = Session::server(Arc::new(OneServer(Arc::new(side))));
    let mut wire = Vec::new();
    client.take_output(&mut wire);
    server.receive(&mut wire, &mut |_| ()).expect("a first message");
    // A certificate of 60 KB that was not requested, in records of 16 KB.
    let mut message = vec![11, 0, 0xea, 0x60];
    message.resize(60_000, 0);
    let mut failed = false;
    for part in message.chunks(RECORD_BYTES_MAX) {
        let record = [&[22, 3, 3][..], &(part.len() as u16).to_be_bytes(), part].concat();
        for piece in record.chunks(1000) {
            failed |= server.receive(&mut piece.to_vec(), &mut |_| ()).is_err();
            assert!(server.held().len() <= 20 * 1024, "{}", server.held().len());
        }
    }
    assert!(failed, "it does not wait for the rest");
}
