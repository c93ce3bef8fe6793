//! Records under the engine's own form of keys against rustls with its own, in every suite: both ways, with new keys in between, and
//! with records that were changed on the way.

use crate::raw::{client, config, of_client, pair, server, shake, to_client, to_server};
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::{ClientConnection, Error, SupportedCipherSuite};
use std::io::Write;
use std::sync::Arc;
use tls::{RECORD_BYTES_MAX, ServerSide, Session};

/// Plaintext of a record and around it: nothing but a tag, blocks of the cipher, two records.
const SIZES: [usize; 9] = [1, 15, 16, 17, 255, 1000, RECORD_BYTES_MAX - 1, RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1];

fn seal(server: &mut Session, text: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    // Messages about new keys go first.
    server.take_output(&mut wire);
    let mut room = vec![0; text.len() + 1000];
    let sealed = server.seal(text, RECORD_BYTES_MAX, &mut room).expect("it is open");
    assert_eq!(sealed.taken, text.len());
    wire.extend_from_slice(&room[..sealed.written]);
    wire
}

fn connected(suite: SupportedCipherSuite) -> (ClientConnection, Session) {
    let is_rsa = format!("{:?}", suite.suite()).contains("_RSA_");
    let mut client = client(&Arc::new(config(vec![suite]).0));
    let mut server = Session::server(server(ServerSide::new().pair(pair(is_rsa))));
    shake(&mut client, &mut server);
    assert_eq!(client.negotiated_cipher_suite(), Some(suite));
    (client, server)
}

#[test]
fn rustls_interoperates_with_our_keys() {
    assert_eq!(ALL_CIPHER_SUITES.len(), 9);
    for suite in ALL_CIPHER_SUITES {
        let (mut client, mut server) = connected(*suite);
        for round in 0..3 {
            for size in SIZES {
                let text: Vec<u8> = (0..size).map(|at| (at * 7 + round) as u8).collect();
                client.writer().write_all(&text).expect("memory takes it");
                let mut wire = of_client(&mut client);
                assert!(to_server(&mut server, &mut wire).expect("whole records") == text, "{suite:?} {size}");
                let wire = seal(&mut server, &text);
                assert!(to_client(&mut client, &wire).expect("whole records") == text, "{suite:?} {size}");
            }
            if suite.tls13().is_some() {
                // The client changes its keys, and asks the server to do the same.
                client.refresh_traffic_keys().expect("it is open");
                to_server(&mut server, &mut of_client(&mut client)).expect("a key update");
            }
        }
    }
}

#[test]
fn changed_or_cut_records_fail_with_their_alert() {
    for suite in ALL_CIPHER_SUITES {
        // The first and the last byte of the body, one in between, and lengths that are too small for the tag.
        for change in 0..6 {
            let (mut client, mut server) = connected(*suite);
            client.writer().write_all(&[7; 40]).expect("memory takes it");
            let mut wire = of_client(&mut client);
            let length = wire.len();
            match change {
                0 => wire[5] ^= 1,
                1 => wire[length - 1] ^= 0x80,
                2 => wire[20] ^= 0x10,
                3 => wire.truncate(5 + 30),
                4 => wire.truncate(5 + 15),
                _ => wire.truncate(5 + 1),
            }
            let body = (wire.len() - 5) as u16;
            wire[3..5].copy_from_slice(&body.to_be_bytes());
            let error = to_server(&mut server, &mut wire).expect_err("it is not what was sent");
            assert_eq!(error.key(), "decrypt", "{suite:?} {change}: {error}");
            let mut alert = Vec::new();
            server.take_output(&mut alert);
            let heard = to_client(&mut client, &alert).expect_err("an alert");
            assert!(matches!(heard, Error::AlertReceived(rustls::AlertDescription::BadRecordMac)), "{heard}");
        }
    }
}

/// Row T4.
#[test]
fn a_record_that_comes_twice_is_refused() {
    for suite in ALL_CIPHER_SUITES {
        let (mut client, mut server) = connected(*suite);
        client.writer().write_all(b"once").expect("memory takes it");
        let wire = of_client(&mut client);
        assert_eq!(to_server(&mut server, &mut wire.clone()).expect("a record"), b"once");
        assert_eq!(to_server(&mut server, &mut wire.clone()).expect_err("the same again").key(), "decrypt");
    }
}
