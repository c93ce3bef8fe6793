//! Clients whose handshakes violate the protocol, through the whole gateway. The client gets an alert and a close, the
//! log one line with the reason, and a counter increases; other clients are not affected. `tls/tests/it/hostile` tests
//! what exactly the engine refuses.

use crate::tls::scene::{Scene, get};
use gateway::CloseReason;
use testkit::{End, Talk, until};
use tls::Session;

const ONE: &str = "server { listen {listen} ssl; server_name a.test; {a} location / { return 200 here; } \
                   location /status { status_page; } }";

/// Content type of an alert.
const ALERT: u8 = 21;

fn hello(scene: &Scene) -> Vec<u8> {
    let mut hello = Vec::new();
    Session::client(&scene.authority.client(), "a.test").unwrap().take_output(&mut hello);
    hello
}

/// The same address in `stream`, and the status page beside it.
const STREAM: &str = "http { server { listen {listen:1} ssl; server_name a.test; {a} location /status { status_page; } } } \
                      stream { server { listen {listen} ssl; server_name a.test; {a} return here; } }";

/// The metric of failed handshakes: for this reason, or for all.
fn failed(scene: &Scene, reason: &str) -> u64 {
    failed_at(scene, 0, reason)
}

/// The same from the status page at another listener.
fn failed_at(scene: &Scene, listener: usize, reason: &str) -> u64 {
    let address = scene.gateway.address_of(listener);
    let mut client = Talk::connect_secure(address, &scene.authority.client(), "a.test").unwrap();
    client.send("GET /status HTTP/1.1\r\nHost: a.test\r\nAccept: text/plain\r\n\r\n");
    let metrics = client.response().text();
    let lines = metrics.lines().filter(|line| line.starts_with("holdfast_tls_handshakes_failed_total{"));
    let ours = lines.filter(|line| reason.is_empty() || line.contains(&format!("\"{reason}\"")));
    ours.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

/// Rows T1, T3 and T4.
#[test]
fn each_refused_handshake_is_logged_and_counted() {
    let scene = Scene::new(ONE, &[]);
    refuse_each(&scene, 0);
    assert_eq!(scene.ask("a.test", "a.test"), (200, "here".to_owned()));
}

#[test]
fn stream_refuses_the_same_handshakes() {
    let scene = Scene::of_blocks(STREAM, &[]);
    refuse_each(&scene, 1);
    assert_eq!(scene.client("a.test").rest().0, b"here");
}

/// Plays each conversation that violates the protocol. `status`: the listener with the status page.
fn refuse_each(scene: &Scene, status: usize) {
    let first = hello(scene);
    let cut = |at: usize, byte: u8| {
        let mut bytes = first.clone();
        bytes[at] = byte;
        bytes
    };
    let behind = |bytes: &[u8]| [&first, bytes].concat();
    let conversations: Vec<(&str, Vec<u8>)> = vec![
        ("a record of no bytes", vec![22, 3, 1, 0, 0]),
        ("a record that is too long", [&[22, 3, 1, 0x7f, 0xff][..], &[0; 64]].concat()),
        ("a server's message", vec![22, 3, 1, 0, 4, 2, 0, 0, 0]),
        ("the end of a handshake", vec![22, 3, 1, 0, 4, 20, 0, 0, 0]),
        ("an id that is too long", cut(43, 255)),
        ("another first message", behind(&first)),
        ("a message in clear", behind(&[22, 3, 3, 0, 4, 20, 0, 0, 0])),
        ("a sealed record that is none", behind(&[&[23, 3, 3, 0, 40][..], &[7; 40]].concat())),
        ("a heartbeat", behind(&[24, 3, 3, 0, 3, 1, 0, 16])),
        ("changes of ciphers without end", behind(&[20, 3, 3, 0, 1, 1].repeat(100))),
        ("an old version", {
            let mut bytes = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 1];
            bytes.resize(43, 7);
            bytes.extend([0, 0, 2, 0, 47, 1, 0]);
            bytes
        }),
    ];
    for (place, (name, bytes)) in conversations.iter().enumerate() {
        let mut client = Talk::connect(scene.gateway.address());
        client.send(bytes);
        let (said, end) = client.rest();
        let is_told = said.windows(3).any(|window| window[0] == ALERT && window[1] == 3) || said.contains(&23);
        assert!(is_told, "{name}: {said:?}");
        assert_ne!(end, End::Reset, "{name}: the alert can be read");
        let count = place as u64 + 1;
        until(name, || (failed_at(scene, status, "") == count).then_some(()));
        let log = scene.gateway.error_log();
        assert_eq!(log.matches(" while SSL handshaking, client: 127.0.0.1").count(), place + 1, "{name}: {log}");
    }
    assert_eq!(failed_at(scene, status, "unsupported_version"), 1);
    let closed = scene.gateway.shared().closed(CloseReason::HandshakeFailed);
    assert_eq!(closed, conversations.len() as u64);
}

#[test]
fn a_flood_of_them_is_counted_whole_and_logged_in_part() {
    let scene = Scene::new(ONE, &[]);
    for _ in 0..300 {
        let mut client = Talk::connect(scene.gateway.address());
        client.send([22, 3, 1, 0, 4, 2, 0, 0, 0]);
        client.rest();
    }
    until("all are counted", || (failed(&scene, "") == 300).then_some(()));
    let lines = || scene.gateway.error_log().matches(" while SSL handshaking, client: ").count();
    assert!((1..300).contains(&lines()), "{}", lines());
    scene.gateway.logged("more lines within a second like: ");
}

/// Row T2.
#[test]
fn a_first_message_in_records_of_one_byte_is_served() {
    let scene = Scene::new(ONE, &[]);
    let mut session = Session::client(&scene.authority.client(), "a.test").unwrap();
    let mut hello = Vec::new();
    session.take_output(&mut hello);
    let pieces: Vec<u8> = hello[5..].iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect();
    let mut client = Talk::connect(scene.gateway.address());
    client.send(pieces);
    // The first message of both is the same without the record headers.
    client.secure(session).unwrap();
    client.send(get("a.test"));
    assert_eq!(client.response().text(), "here");
}

/// Row T6.
#[test]
fn connection_cut_after_its_handshake_counts_as_truncated() {
    let scene = Scene::new(ONE, &[]);
    let mut client = scene.client("a.test");
    client.send(get("a.test"));
    assert_eq!(client.response().text(), "here");
    // Half a record and nothing more: no request begins with it.
    client.socket().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.end(), End::Fin);
    scene.gateway.until_totals("it is closed", |totals| totals.active == 0);
    assert_eq!(scene.ask("a.test", "a.test").0, 200);
}
