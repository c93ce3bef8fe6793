//! What a server offers beyond data, seen by rustls' own client: stapled OCSP responses, compressed certificates, early data, and the
//! ids of sessions.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::raw;
use crate::raw::{client, config, of_client, pair, server, shake, to_server};
use rustls::compress::{BROTLI_DECOMPRESSOR, ZLIB_DECOMPRESSOR};
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, cipher_suite::TLS13_AES_128_GCM_SHA256};
use std::io::{Read, Write};
use std::sync::Arc;
use tls::{
    ClientCheck, OneServer, Pair, Pairs, Protocol, Protocols, ServerSide, ServerSideBuilder, Session, SessionCache,
};

fn side() -> ServerSideBuilder {
    ServerSide::new().pair(pair(false))
}

#[test]
fn ocsp_response_is_stapled_to_its_pair() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let pairs = Pairs::new([pair(false).with_ocsp(b"a response in DER")]);
        let listener = server(ServerSide::new().pairs(pairs.clone()).protocols(Protocols::only(protocol)));
        let heard = || {
            let (config, stapled) = config(ALL_CIPHER_SUITES.to_vec());
            shake(&mut client(&Arc::new(config)), &mut Session::server(Arc::<OneServer>::clone(&listener)));
            stapled.lock().unwrap().clone()
        };
        assert_eq!(heard(), b"a response in DER", "{protocol:?}");
        pairs.replace([pair(false).with_ocsp(b"old").with_ocsp(b"")]);
        assert_eq!(heard(), b"", "{protocol:?}");
    }
}

/// Bytes that a server sends with its certificate.
fn flight(settings: ServerSideBuilder, with: Option<&'static dyn rustls::compress::CertDecompressor>) -> usize {
    let (mut config, _) = config(vec![TLS13_AES_128_GCM_SHA256]);
    config.cert_decompressors = with.into_iter().collect();
    let (mut client, mut server) = (client(&Arc::new(config)), Session::server(server(settings)));
    to_server(&mut server, &mut of_client(&mut client)).unwrap();
    let mut wire = Vec::new();
    server.take_output(&mut wire);
    raw::to_client(&mut client, &wire).unwrap();
    shake(&mut client, &mut server);
    wire.len()
}

#[test]
fn certificates_are_compressed_if_both_sides_agree() {
    // Names that repeat make it worth it.
    let names: Vec<String> = (0..100).map(|number| format!("host{number}.compressible.example.test")).collect();
    let long = Pair::self_made(&names).unwrap();
    let side = |compress| ServerSide::new().pair(long.clone()).compress_certificates(compress);
    let plain = flight(side(false), Some(ZLIB_DECOMPRESSOR));
    assert!(plain.abs_diff(flight(side(true), None)) < 100);
    for with in [ZLIB_DECOMPRESSOR, BROTLI_DECOMPRESSOR] {
        let compressed = flight(side(true), Some(with));
        assert!(compressed < plain / 2, "{:?}: {compressed} of {plain}", with.algorithm());
    }
    assert!(
        plain.abs_diff(flight(ServerSide::new().pair(long), Some(ZLIB_DECOMPRESSOR))) < 100,
        "it is off by default"
    );
}

#[test]
fn early_data_comes_once_and_a_copy_of_it_never() {
    let cache = Arc::new(SessionCache::new(10));
    let listener = server(side().session_cache(Some(Arc::clone(&cache))).ticket_keys(None).early_data(16_384));
    let accept = || Session::server(Arc::<OneServer>::clone(&listener));
    let mut config = config(vec![TLS13_AES_128_GCM_SHA256]).0;
    config.enable_early_data = true;
    let config = Arc::new(config);
    let (mut first, mut session) = (client(&config), accept());
    assert_eq!(shake(&mut first, &mut session), b"");
    assert!(!session.took_early_data() && !session.is_resumed());

    let mut again = client(&config);
    again.early_data().expect("the server takes it").write_all(b"GET / HTTP/1.1").unwrap();
    let flight = of_client(&mut again);
    let mut session = accept();
    assert_eq!(to_server(&mut session, &mut flight.clone()).unwrap(), b"GET / HTTP/1.1");
    assert!(session.is_early_data() && session.is_handshaking());
    let before = cache.len();

    // The same bytes, while the first connection is still open, and afterwards.
    for round in 0..2 {
        let mut copy = accept();
        assert_eq!(to_server(&mut copy, &mut flight.clone()).unwrap(), b"", "round {round}");
        assert!(!copy.took_early_data() && !copy.is_resumed());
        assert!(cache.len() <= before, "a copy brings no session back");
    }

    let mut wire = Vec::new();
    session.take_output(&mut wire);
    raw::to_client(&mut again, &wire).unwrap();
    assert!(again.is_early_data_accepted());
    assert_eq!(shake(&mut again, &mut session), b"");
    assert!(session.took_early_data() && !session.is_early_data(), "the handshake proves that the client is there");
    again.writer().write_all(b"later").unwrap();
    assert_eq!(to_server(&mut session, &mut of_client(&mut again)).unwrap(), b"later");
    assert!(!session.is_early_data());
}

#[test]
fn early_data_is_answered_before_the_client_has_finished() {
    let settings = side().session_cache(Some(Arc::new(SessionCache::new(10)))).ticket_keys(None).early_data(16_384);
    let listener = server(settings);
    let mut config = config(vec![TLS13_AES_128_GCM_SHA256]).0;
    config.enable_early_data = true;
    let config = Arc::new(config);
    let mut first = Session::server(Arc::<OneServer>::clone(&listener));
    shake(&mut client(&config), &mut first);
    assert!(!first.answer_early_data(), "there was none");

    let (mut again, mut session) = (client(&config), Session::server(listener));
    again.early_data().unwrap().write_all(b"request").unwrap();
    assert_eq!(to_server(&mut session, &mut of_client(&mut again)).unwrap(), b"request");
    let mut record = vec![0; 200];
    assert!(session.seal(b"answer", 100, &mut record).is_err(), "not unless its owner says so");
    assert!(session.answer_early_data() && session.is_early_data() && session.may_send());
    let mut wire = Vec::new();
    session.take_output(&mut wire);
    let sealed = session.seal(b"answer", 100, &mut record).unwrap();
    wire.extend_from_slice(&record[..sealed.written]);
    assert_eq!(raw::to_client(&mut again, &wire).unwrap(), b"answer");
    assert!(again.is_early_data_accepted() && session.is_handshaking());

    assert_eq!(shake(&mut again, &mut session), b"");
    assert!(!session.is_early_data() && session.may_send());
    let sealed = session.seal(b"more", 100, &mut record).unwrap();
    assert_eq!(raw::to_client(&mut again, &record[..sealed.written]).unwrap(), b"more");
}

#[test]
fn early_data_is_not_taken_where_clients_are_verified() {
    let check = Arc::new(ClientCheck::new(b"", b"").unwrap());
    let cache = Some(Arc::new(SessionCache::new(10)));
    let listener = server(side().session_cache(cache).ticket_keys(None).early_data(16_384).client_check(check));
    let mut config = config(vec![TLS13_AES_128_GCM_SHA256]).0;
    config.enable_early_data = true;
    let config = Arc::new(config);
    shake(&mut client(&config), &mut Session::server(listener));
    assert!(client(&config).early_data().is_none());
}

#[test]
fn early_data_is_bounded_and_excludes_tickets() {
    let mut config = config(vec![TLS13_AES_128_GCM_SHA256]).0;
    config.enable_early_data = true;
    let config = Arc::new(config);
    let cache = || Some(Arc::new(SessionCache::new(10)));
    // Tickets are on by default.
    for settings in [side().session_cache(cache()).early_data(16_384), side().ticket_keys(None).session_cache(cache())]
    {
        let listener = server(settings);
        shake(&mut client(&config), &mut Session::server(Arc::<OneServer>::clone(&listener)));
        assert!(client(&config).early_data().is_none());
    }
    let listener = server(side().session_cache(cache()).ticket_keys(None).early_data(100));
    shake(&mut client(&config), &mut Session::server(Arc::<OneServer>::clone(&listener)));
    let mut again = client(&config);
    assert_eq!(again.early_data().expect("the server takes it").write(&[b'x'; 500]).unwrap(), 100);
    assert_eq!(shake(&mut again, &mut Session::server(listener)).len(), 100);
}

#[test]
fn ids_of_sessions_are_as_with_openssl() {
    let mut ids = Vec::new();
    let mut config = config(ALL_CIPHER_SUITES.to_vec()).0;
    config.enable_sni = false;
    let config = Arc::new(config);
    let listener = server(side());
    for resumed in [false, true] {
        let (mut client, mut session) = (client(&config), Session::server(Arc::<OneServer>::clone(&listener)));
        assert_eq!(session.session_id(), None);
        shake(&mut client, &mut session);
        assert_eq!(session.is_resumed(), resumed);
        let id = session.session_id().expect("TLS 1.3 has one in either case").to_vec();
        assert_eq!((id.len(), session.session_id()), (32, Some(&id[..])), "it does not change");
        assert!(!ids.contains(&id), "each connection has another");
        ids.push(id);
    }
    let mut config = raw::config(ALL_CIPHER_SUITES[3..].to_vec()).0;
    config.resumption = rustls::client::Resumption::in_memory_sessions(8);
    let config = Arc::new(config);
    let listener = server(side().ticket_keys(None).session_cache(Some(Arc::new(SessionCache::new(10)))));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (mut client, mut session) = (client(&config), Session::server(Arc::<OneServer>::clone(&listener)));
        shake(&mut client, &mut session);
        seen.push(session.session_id().expect("the cache has it").to_vec());
    }
    assert_eq!(seen[0], seen[1], "TLS 1.2: the session keeps its id");
}

#[test]
fn client_reads_the_answer_to_early_data() {
    let listener = server(side().session_cache(Some(Arc::new(SessionCache::new(9)))).ticket_keys(None).early_data(9));
    let mut config = config(vec![TLS13_AES_128_GCM_SHA256]).0;
    config.enable_early_data = true;
    let config = Arc::new(config);
    shake(&mut client(&config), &mut Session::server(Arc::<OneServer>::clone(&listener)));
    let (mut again, mut session) = (client(&config), Session::server(listener));
    again.early_data().expect("the server takes it").write_all(b"question").unwrap();
    assert_eq!(shake(&mut again, &mut session), b"question");
    let mut record = [0; 100];
    let sealed = session.seal(b"answer", 100, &mut record).unwrap();
    raw_read(&mut again, &record[..sealed.written], b"answer");
}

fn raw_read(client: &mut rustls::ClientConnection, mut wire: &[u8], wanted: &[u8]) {
    client.read_tls(&mut wire).unwrap();
    client.process_new_packets().unwrap();
    let mut heard = vec![0; wanted.len()];
    client.reader().read_exact(&mut heard).unwrap();
    assert_eq!(heard, wanted);
}
