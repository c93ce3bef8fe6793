//! Both ends of a connection against each other, over bytes that are cut anywhere.

use std::sync::Arc;
use tls::{
    Choice, ClientCheck, ClientHello, ClientSide, Curves, End, Listener, OneServer, Pair, Protocol, Protocols,
    RECORD_BYTES_MAX, ServerSide, Session, SessionCache, TicketKeys, TlsError, Trust, VerifyResult,
};

/// Rounds of a handshake: real ones take three.
const ROUNDS_MAX: usize = 10;

fn pair() -> Pair {
    Pair::self_made(&["a.test".to_owned(), "b.test".to_owned()]).expect("a certificate")
}

fn server(side: ServerSide) -> Session {
    Session::server(Arc::new(OneServer(Arc::new(side))))
}

fn anyone() -> ClientSide {
    ClientSide::new(Trust::Anyone).build().expect("a client")
}

/// Gives one end's output to the other in pieces of this size; returns the plaintext that was read.
fn carry(from: &mut Session, to: &mut Session, piece: usize) -> Result<Vec<u8>, TlsError> {
    let (mut wire, mut plain) = (Vec::new(), Vec::new());
    from.take_output(&mut wire);
    for piece in wire.chunks_mut(piece) {
        to.receive(piece, &mut |bytes| plain.extend_from_slice(bytes))?;
    }
    Ok(plain)
}

/// Completes a handshake; returns the error of the end that fails first.
fn shake(client: &mut Session, server: &mut Session, piece: usize) -> Result<(), TlsError> {
    for _ in 0..ROUNDS_MAX {
        carry(client, server, piece)?;
        carry(server, client, piece)?;
        if !client.is_handshaking() && !server.is_handshaking() && !client.has_output() {
            return Ok(());
        }
    }
    panic!("the handshake has no end");
}

fn pass_text(from: &mut Session, to: &mut Session, text: &[u8], record: usize, piece: usize) -> Vec<u8> {
    let mut wire = vec![0; text.len() * 40 + 200];
    let sealed = from.seal(text, record, &mut wire).expect("it is open");
    assert_eq!(sealed.taken, text.len());
    let mut plain = Vec::new();
    for piece in wire[..sealed.written].chunks_mut(piece) {
        to.receive(piece, &mut |bytes| plain.extend_from_slice(bytes)).expect("whole records");
    }
    plain
}

#[test]
fn carries_data_both_ways_whatever_the_pieces() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        for piece in [1, 7, 100, 5000, usize::MAX] {
            let side = ServerSide::new().pair(pair()).protocols(Protocols::only(protocol)).build().unwrap();
            let (mut client, mut server) = (Session::client(&anyone(), "a.test").unwrap(), server(side));
            shake(&mut client, &mut server, piece).unwrap();
            assert_eq!((client.protocol(), server.protocol()), (Some(protocol), Some(protocol)));
            assert_eq!(server.server_name(), Some("a.test"));
            let text: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
            assert_eq!(
                pass_text(&mut client, &mut server, b"GET / HTTP/1.1\r\n\r\n", 100, piece),
                b"GET / HTTP/1.1\r\n\r\n"
            );
            assert_eq!(pass_text(&mut server, &mut client, &text, RECORD_BYTES_MAX, piece), text);
            assert!(client.held().is_empty() && server.held().is_empty(), "nothing is kept between records");
        }
    }
}

#[test]
fn seals_records_of_the_requested_size() {
    let (mut client, mut server) =
        (Session::client(&anyone(), "a.test").unwrap(), server(ServerSide::new().pair(pair()).build().unwrap()));
    shake(&mut client, &mut server, usize::MAX).unwrap();
    let mut wire = [0; 4096];
    let sealed = client.seal(&[7; 3000], 1000, &mut wire).unwrap();
    assert_eq!((sealed.taken, sealed.written), (3000, 3 * (1000 + 5 + 1 + 16)));
    // Room for one record and a bit.
    let sealed = client.seal(&[7; 3000], 1000, &mut wire[..1200]).unwrap();
    assert!(sealed.taken >= 1000 && sealed.written <= 1200, "{sealed:?}");
    assert_eq!(client.seal(&[7; 3000], 1000, &mut wire[..10]).unwrap().taken, 0);
}

#[test]
fn distinguishes_close_notify_from_truncation() {
    let (mut client, mut server) =
        (Session::client(&anyone(), "a.test").unwrap(), server(ServerSide::new().pair(pair()).build().unwrap()));
    assert!(matches!(server.end(), Err(TlsError::ClosedUnused)));
    assert!(matches!(client.end(), Err(TlsError::ClosedInHandshake)));
    shake(&mut client, &mut server, usize::MAX).unwrap();
    assert_eq!(server.end().unwrap(), End::Truncated);
    client.close();
    client.close();
    carry(&mut client, &mut server, usize::MAX).unwrap();
    assert!(server.is_peer_closed() && !client.has_output());
    assert_eq!(server.end().unwrap(), End::Closed);
    // The other direction is still open.
    assert_eq!(pass_text(&mut server, &mut client, b"rest", 100, 1), b"rest");
    assert!(matches!(client.seal(b"x", 100, &mut [0; 100]), Err(TlsError::NotOpen)));
}

#[test]
fn a_session_is_resumed_by_ticket_and_by_cache() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        for cached in [false, true] {
            let tickets = (!cached).then(|| Arc::new(TicketKeys::random()));
            let cache = cached.then(|| Arc::new(SessionCache::new(10)));
            let side = ServerSide::new().pair(pair()).protocols(Protocols::only(protocol));
            let side = Arc::new(side.ticket_keys(tickets).session_cache(cache).build().unwrap());
            let client_side = anyone();
            let (mut seen, mut facts) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let mut client = Session::client(&client_side, "a.test").unwrap();
                let mut server = Session::server(Arc::new(OneServer(Arc::clone(&side))));
                shake(&mut client, &mut server, usize::MAX).unwrap();
                seen.push((client.is_resumed(), server.is_resumed()));
                facts.push((server.curve(), server.signature()));
            }
            assert_eq!(seen, [(false, false), (true, true), (true, true)], "{protocol:?} cached {cached}");
            // The group of the first connection, also after several; only the first one was signed.
            let curve = Some(if protocol == Protocol::Tls12 { "X25519" } else { "X25519MLKEM768" });
            let expected = [(curve, Some("ecdsa_secp256r1_sha256")), (curve, None), (curve, None)];
            assert_eq!(facts, expected, "{protocol:?} cached {cached}");
        }
    }
}

#[test]
fn a_session_enters_no_server_with_other_demands() {
    let authority = rcgen_authority();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let (keys, cache) = (Arc::new(TicketKeys::random()), Arc::new(SessionCache::new(10)));
        for by_ticket in [true, false] {
            let shared = || {
                let side = ServerSide::new().pair(pair()).protocols(Protocols::only(protocol)).session_name("one");
                side.ticket_keys(by_ticket.then(|| Arc::clone(&keys))).session_cache(Some(Arc::clone(&cache)))
            };
            let open = shared().build().unwrap();
            let strict =
                shared().client_check(Arc::new(ClientCheck::new(authority.as_bytes(), b"").unwrap())).build().unwrap();
            let renamed = shared().session_name("two").build().unwrap();
            let open = Arc::new(open);
            for other in [strict, renamed] {
                let client_side = anyone();
                let resumed: Vec<bool> = [Arc::clone(&open), Arc::clone(&open), Arc::new(other)]
                    .into_iter()
                    .map(|side| {
                        let mut client = Session::client(&client_side, "a.test").unwrap();
                        let mut server = Session::server(Arc::new(OneServer(side)));
                        shake(&mut client, &mut server, usize::MAX).unwrap();
                        server.is_resumed()
                    })
                    .collect();
                assert_eq!(resumed, [false, true, false], "{protocol:?}, tickets {by_ticket}");
            }
        }
    }
}

fn rcgen_authority() -> String {
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    // Not the name that rcgen gives self-signed certificates, which would make this their issuer.
    params.distinguished_name.push(rcgen::DnType::CommonName, "Test Authority");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").pem()
}

#[derive(Debug)]
struct ByName(Arc<ServerSide>, Arc<ServerSide>);

impl Listener for ByName {
    fn choose(&self, hello: &ClientHello<'_>) -> Choice {
        match hello.server_name {
            Some("a.test") => Choice::Serve(Arc::clone(&self.0)),
            Some(name) if name.ends_with(".wild.test") => Choice::Serve(Arc::clone(&self.1)),
            _ => Choice::Refuse,
        }
    }
}

#[test]
fn a_listener_chooses_by_name_and_refuses_others() {
    let side =
        |protocol| Arc::new(ServerSide::new().pair(pair()).protocols(Protocols::only(protocol)).build().unwrap());
    let listener: Arc<dyn Listener> = Arc::new(ByName(side(Protocol::Tls12), side(Protocol::Tls13)));
    for (name, protocol) in [("a.test", Protocol::Tls12), ("x.wild.test", Protocol::Tls13)] {
        let mut server = Session::server(Arc::clone(&listener));
        let mut client = Session::client(&anyone(), name).unwrap();
        shake(&mut client, &mut server, usize::MAX).unwrap();
        assert_eq!(server.protocol(), Some(protocol));
    }
    let mut server = Session::server(listener);
    let mut client = Session::client(&anyone(), "other.test").unwrap();
    let error = shake(&mut client, &mut server, usize::MAX).unwrap_err();
    assert!(matches!(error, TlsError::NameRefused), "{error}");
    let error = carry(&mut server, &mut client, usize::MAX).unwrap_err();
    assert!(error.phrase().contains("unrecognized name"), "{}", error.phrase());
}

#[test]
fn failed_handshake_sends_the_reason() {
    let client_side = ClientSide::new(Trust::Authorities(rcgen_authority().into_bytes())).build().unwrap();
    let (mut client, mut server) =
        (Session::client(&client_side, "a.test").unwrap(), server(ServerSide::new().pair(pair()).build().unwrap()));
    let error = shake(&mut client, &mut server, usize::MAX).unwrap_err();
    assert_eq!(error.key(), "certificate_unknown_issuer");
    let error = carry(&mut client, &mut server, usize::MAX).unwrap_err();
    assert!(error.phrase().contains("alert unknown ca:SSL alert number 48"), "{}", error.phrase());
}

#[test]
fn nothing_in_common_is_named() {
    let side = ServerSide::new().pair(pair()).curves(Curves::parse("P-384").unwrap()).build().unwrap();
    let only = ClientSide::new(Trust::Anyone).curves(Curves::parse("X25519").unwrap()).build().unwrap();
    let error = shake(&mut Session::client(&only, "a.test").unwrap(), &mut server(side), usize::MAX).unwrap_err();
    assert_eq!(error.key(), "nothing_in_common", "{error}");
}

#[test]
fn plain_http_is_recognised_and_given_back() {
    let mut server = server(ServerSide::new().pair(pair()).build().unwrap());
    let error = server.receive(&mut b"GET / HTTP/1.1\r\n".to_vec(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, TlsError::NotTls { is_http: true }));
}

#[test]
fn a_client_without_certificate_is_let_through_and_named() {
    let check = Arc::new(ClientCheck::new(rcgen_authority().as_bytes(), b"").unwrap());
    let side = ServerSide::new().pair(pair()).client_check(check).build().unwrap();
    let (mut client, mut server) = (Session::client(&anyone(), "a.test").unwrap(), server(side));
    shake(&mut client, &mut server, usize::MAX).unwrap();
    assert_eq!(server.client_verification().unwrap().result, VerifyResult::None);
}

#[test]
fn session_facts_use_openssl_words() {
    let side = ServerSide::new().pair(pair()).alpn(["http/1.1"]).keep_offers().build().unwrap();
    let client_side = ClientSide::new(Trust::Anyone).alpn(["h2", "http/1.1"]).build().unwrap();
    let (mut client, mut server) = (Session::client(&client_side, "a.test").unwrap(), server(side));
    shake(&mut client, &mut server, usize::MAX).unwrap();
    assert_eq!(server.cipher(), Some("TLS_AES_256_GCM_SHA384"));
    assert_eq!(server.curve(), Some("X25519MLKEM768"));
    assert_eq!((server.signature(), server.client_signature()), (Some("ecdsa_secp256r1_sha256"), None));
    assert!(server.offered_signatures().unwrap().split(':').any(|name| name == "rsa_pss_rsae_sha256"));
    assert_eq!(server.alpn(), Some(&b"http/1.1"[..]));
    assert!(server.offered_curves().unwrap().starts_with("X25519MLKEM768:X25519:prime256v1:secp384r1"));
    let ciphers = server.offered_ciphers().unwrap();
    assert!(
        ciphers.starts_with("TLS_AES_256_GCM_SHA384:") && ciphers.ends_with(":TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
        "{ciphers}"
    );
}

#[test]
fn non_tls_bytes_fail_a_client_once() {
    let mut client = Session::client(&anyone(), "a.test").unwrap();
    let error = client.receive(&mut b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), &mut |_| ()).unwrap_err();
    assert_eq!(error.key(), "not_tls", "{error}");
    assert!(matches!(client.receive(&mut [0; 9], &mut |_| ()), Err(TlsError::NotOpen)));
}
