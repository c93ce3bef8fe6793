//! Messages that come where they do not belong: during a handshake, in clear; and behind it, sealed.

use crate::hostile::forge::{ALERT, CHANGE_CIPHER, DATA, Forger, HANDSHAKE, TLS12, TLS13, message, record};
use crate::hostile::{Fate, feed, new_server};
use crate::raw;
use rustls::SupportedCipherSuite;
use std::sync::Arc;
use tls::{End, OneServer, ServerSide};

/// Kinds of handshake messages.
const CLIENT_HELLO: u8 = 1;
const NEW_TICKET: u8 = 4;
const CERTIFICATE: u8 = 11;
const CERTIFICATE_REQUEST: u8 = 13;
const CLIENT_KEY: u8 = 16;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

fn side() -> Arc<OneServer> {
    raw::server(ServerSide::new().pair(raw::pair(false)))
}

fn hello(suite: SupportedCipherSuite) -> Vec<u8> {
    let (config, _) = raw::config(vec![suite]);
    raw::of_client(&mut raw::client(&Arc::new(config)))
}

#[test]
fn a_handshake_begins_with_a_first_message() {
    let side = side();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a server's first message", record(HANDSHAKE, &message(2, &[3; 40]))),
        ("a request for one", record(HANDSHAKE, &message(0, &[]))),
        ("a ticket", record(HANDSHAKE, &message(NEW_TICKET, &[0; 10]))),
        ("a key", record(HANDSHAKE, &message(CLIENT_KEY, &[0; 66]))),
        ("the end", record(HANDSHAKE, &message(FINISHED, &[0; 12]))),
        ("new keys", record(HANDSHAKE, &message(KEY_UPDATE, &[0]))),
        ("an unknown message", record(HANDSHAKE, &message(99, &[0; 4]))),
        ("a change of ciphers", record(CHANGE_CIPHER, &[1])),
        ("a farewell", record(ALERT, &[1, 0])),
        ("an alert", record(ALERT, &[2, 40])),
        ("data", record(DATA, b"GET / HTTP/1.1\r\n\r\n")),
        ("a heartbeat", record(24, &[1, 0, 16, 0])),
        ("an unknown record", record(99, &[0; 4])),
    ];
    for (name, wire) in cases {
        for piece in [1, usize::MAX] {
            assert_eq!(feed(&mut new_server(&side), &wire, piece), Fate::Fails, "{name}");
        }
    }
}

/// Row T3.
#[test]
fn refuses_unexpected_second_messages() {
    let side = side();
    let in_clear = |version: SupportedCipherSuite| -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("another first message", hello(version)),
            ("the end, in clear", record(HANDSHAKE, &message(FINISHED, &[0; 32]))),
            ("a certificate that was not asked for", record(HANDSHAKE, &message(CERTIFICATE, &[0, 0, 0]))),
            ("an unknown message", record(HANDSHAKE, &message(99, &[0; 4]))),
            ("a change of ciphers that is none", record(CHANGE_CIPHER, &[2])),
            ("a change of ciphers of two bytes", record(CHANGE_CIPHER, &[1, 1])),
            ("changes of ciphers without end", record(CHANGE_CIPHER, &[1]).repeat(100)),
            ("a sealed record that is none", record(DATA, &[7; 40])),
            ("a sealed record without a tag", record(DATA, &[7; 3])),
            ("an alert", record(ALERT, &[2, 40])),
            ("an alert of one byte", record(ALERT, &[2])),
            ("a heartbeat", record(24, &[1, 0, 16, 0])),
            ("warnings without end", record(ALERT, &[1, 90]).repeat(100)),
        ]
    };
    let of_tls12: Vec<(&str, Vec<u8>)> = vec![
        ("an empty key", record(HANDSHAKE, &message(CLIENT_KEY, &[]))),
        ("a key that is cut", record(HANDSHAKE, &message(CLIENT_KEY, &[32, 1, 2]))),
        ("a key of zeros", record(HANDSHAKE, &message(CLIENT_KEY, &[&[32][..], &[0; 32]].concat()))),
        ("data before the end", record(DATA, b"data")),
        ("a change of ciphers before the key", record(CHANGE_CIPHER, &[1])),
    ];
    let cases = in_clear(TLS13)
        .into_iter()
        .map(|case| (TLS13, case))
        .chain(in_clear(TLS12).into_iter().chain(of_tls12).map(|case| (TLS12, case)));
    for (suite, (name, wire)) in cases {
        for piece in [1, usize::MAX] {
            let mut server = new_server(&side);
            assert_eq!(feed(&mut server, &hello(suite), piece), Fate::GoesOn, "{name}");
            server.take_output(&mut Vec::new());
            assert_eq!(feed(&mut server, &wire, piece), Fate::Fails, "{name}, {suite:?}");
        }
    }
}

/// Row T3.
#[test]
fn sealed_messages_that_do_not_belong_there_end_a_connection() {
    type Forge = fn(&mut Forger) -> Vec<u8>;
    let both: [(&str, Forge); 8] = [
        ("an end once more", |forger| forger.seal(HANDSHAKE, &message(FINISHED, &[0; 32]))),
        ("a certificate", |forger| forger.seal(HANDSHAKE, &message(CERTIFICATE, &[0, 0, 0]))),
        ("an unknown message", |forger| forger.seal(HANDSHAKE, &message(99, &[0; 4]))),
        ("a heartbeat", |forger| forger.seal(24, &[1, 0, 16, 0])),
        ("an alert of one byte", |forger| forger.seal(ALERT, &[2])),
        ("an alert", |forger| forger.seal(ALERT, &[2, 40])),
        ("a record in clear", |_| record(DATA, b"data")),
        ("a record that was sent before", |forger| {
            let first = forger.seal(DATA, b"once");
            [first.clone(), first].concat()
        }),
    ];
    let of_tls13: [(&str, Forge); 10] = [
        ("a first message", |forger| forger.seal(HANDSHAKE, &message(CLIENT_HELLO, &[3; 60]))),
        ("a ticket", |forger| forger.seal(HANDSHAKE, &message(NEW_TICKET, &[0; 10]))),
        ("a request for a certificate", |forger| forger.seal(HANDSHAKE, &message(CERTIFICATE_REQUEST, &[0; 3]))),
        ("new keys that say something else", |forger| forger.seal(HANDSHAKE, &message(KEY_UPDATE, &[2]))),
        ("new keys of two bytes", |forger| forger.seal(HANDSHAKE, &message(KEY_UPDATE, &[0, 0]))),
        ("new keys with something behind them", |forger| {
            forger.seal(HANDSHAKE, &[message(KEY_UPDATE, &[0]), message(KEY_UPDATE, &[0])].concat())
        }),
        ("a record without a content type", |forger| forger.seal_inner(DATA, &[0; 20])),
        ("a record that is too long inside", |forger| forger.seal(DATA, &vec![b'x'; 16 * 1024 + 1])),
        ("a change of ciphers, sealed", |forger| forger.seal(CHANGE_CIPHER, &[1])),
        ("data in the middle of a message", |forger| {
            let whole = message(KEY_UPDATE, &[0]);
            [forger.seal(HANDSHAKE, &whole[..2]), forger.seal(DATA, b"data")].concat()
        }),
    ];
    let side = side();
    let cases =
        both.iter().flat_map(|case| [(TLS13, case), (TLS12, case)]).chain(of_tls13.iter().map(|case| (TLS13, case)));
    for (suite, (name, forge)) in cases {
        for piece in [1, usize::MAX] {
            let (mut forger, mut server) = Forger::shake(&side, suite);
            assert_eq!(feed(&mut server, &forger.seal(DATA, b"as usual"), piece), Fate::GoesOn, "{name}");
            assert_eq!(feed(&mut server, &forge(&mut forger), piece), Fate::Fails, "{name}, {suite:?}");
        }
    }
}

/// Row T3.
#[test]
fn a_client_cannot_shake_hands_anew_within_a_connection() {
    let side = side();
    let (mut forger, mut server) = Forger::shake(&side, TLS12);
    server.take_output(&mut Vec::new());
    let again = hello(TLS12)[5..].to_vec();
    // RFC 5246 lets a server say no by a warning; asking on ends the connection.
    let mut fate = Fate::GoesOn;
    let mut asked = 0;
    while fate == Fate::GoesOn && asked < 10 {
        fate = feed(&mut server, &forger.seal(HANDSHAKE, &again), usize::MAX);
        asked += 1;
        assert!(!server.is_handshaking());
        let mut said = Vec::new();
        server.take_output(&mut said);
        assert!(said.first().is_none_or(|kind| *kind == ALERT), "it says nothing but no");
    }
    assert_eq!(fate, Fate::Fails, "after {asked} attempts");
}

#[test]
fn endless_empty_records_and_key_updates_are_bounded() {
    let side = side();
    for suite in [TLS13, TLS12] {
        let (mut forger, mut server) = Forger::shake(&side, suite);
        let empty: Vec<u8> = (0..1000).flat_map(|_| forger.seal(DATA, &[])).collect();
        feed(&mut server, &empty, usize::MAX);
        assert!(server.held().is_empty());
        let (mut forger, mut server) = Forger::shake(&side, suite);
        let empty: Vec<u8> = (0..1000).flat_map(|_| forger.seal(HANDSHAKE, &[])).collect();
        feed(&mut server, &empty, usize::MAX);
        assert!(server.held().is_empty());
        let (mut forger, mut server) = Forger::shake(&side, suite);
        let warnings: Vec<u8> = (0..1000).flat_map(|_| forger.seal(ALERT, &[1, 90])).collect();
        assert_eq!(feed(&mut server, &warnings, usize::MAX), Fate::Fails, "{suite:?}");
    }
}

/// Row T6.
#[test]
fn a_farewell_that_is_cut_is_no_farewell() {
    let side = side();
    for suite in [TLS13, TLS12] {
        let (mut forger, mut server) = Forger::shake(&side, suite);
        let farewell = forger.seal(ALERT, &[1, 0]);
        assert_eq!(feed(&mut server, &farewell[..farewell.len() - 1], 3), Fate::GoesOn);
        assert!(!server.is_peer_closed());
        assert_eq!(server.end().expect("it is open"), End::Truncated);
        assert_eq!(feed(&mut server, &farewell[farewell.len() - 1..], 3), Fate::GoesOn);
        assert!(server.is_peer_closed());
        assert_eq!(server.end().expect("it has ended"), End::Closed);
        // What comes behind a farewell is not read.
        let mut heard = Vec::new();
        let mut late = forger.seal(DATA, b"late");
        let _ = server.receive(&mut late, &mut |plain| heard.extend_from_slice(plain));
        assert_eq!(heard, b"");
    }
}
