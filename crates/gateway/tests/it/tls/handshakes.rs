//! Which certificate a client gets, and how failed handshakes are handled.

use crate::tls::scene::{Scene, get};
use gateway::CloseReason;
use std::net::TcpStream;
use testkit::{Authority, End, Talk, until};
use tls::{ClientSide, Protocol, Protocols, Trust};

const TWO: &str = "server { listen {listen} ssl; server_name a.test; {a} return 200 a; } \
                   server { listen {listen} ssl; server_name b.test; {b} return 200 b; } \
                   server { listen {listen} ssl; server_name *.wild.test ~^x[0-9]+\\.wild\\.test$; {wild} return 200 wild; }";

#[test]
fn sni_selects_certificate_and_server() {
    let scene = Scene::new(TWO, &[]);
    // The client verifies the names: a wrong certificate would end the handshake.
    assert_eq!(scene.ask("a.test", "a.test"), (200, "a".to_owned()));
    assert_eq!(scene.ask("b.test", "b.test"), (200, "b".to_owned()));
    assert_eq!(scene.ask("www.wild.test", "www.wild.test"), (200, "wild".to_owned()));
    // As without TLS, the request's Host selects the server.
    assert_eq!(scene.ask("a.test", "b.test"), (200, "b".to_owned()));
}

#[test]
fn an_unknown_name_gets_the_default_servers_certificate() {
    let scene = Scene::new(TWO, &[]);
    let anyone = ClientSide::new(Trust::Anyone).build().unwrap();
    let mut client = scene.try_client(&anyone, "nobody.test").unwrap();
    client.send(get("nobody.test"));
    assert_eq!(client.response().text(), "a");
    // A client that connects to an IP address sends no name.
    let mut client = scene.try_client(&anyone, "127.0.0.1").unwrap();
    client.send(get("b.test"));
    assert_eq!(client.response().text(), "b");
}

#[test]
fn a_request_without_host_is_the_server_of_the_handshake() {
    let scene = Scene::new(TWO, &[]);
    let mut client = scene.client("b.test");
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().text(), "b");
    // The end is announced by a close_notify: nothing can have been cut off.
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn a_server_can_refuse_handshakes() {
    let scene = Scene::new(
        "server { listen {listen} ssl default_server; ssl_reject_handshake on; } \
         server { listen {listen} ssl; server_name a.test; {a} return 200 a; }",
        &[],
    );
    assert_eq!(scene.ask("a.test", "a.test").0, 200);
    let refused = scene.try_client(&scene.authority.client(), "b.test").err().unwrap();
    assert!(refused.to_string().contains("UnrecognisedName"), "{refused}");
    let line = scene.gateway.logged("handshake rejected");
    assert!(line.contains(" [info] ") && line.contains("host: \"b.test\""), "{line}");
    until("it is counted", || (scene.gateway.shared().closed(CloseReason::HandshakeFailed) == 1).then_some(()));
}

#[test]
fn plain_http_on_a_tls_port_is_answered_in_plain_http() {
    let scene = Scene::new(TWO, &[]);
    let mut client = Talk::connect(scene.gateway.address());
    client.send(get("a.test"));
    let response = client.response();
    assert_eq!(response.status(), 400);
    assert!(response.text().contains("The plain HTTP request was sent to HTTPS port"), "{}", response.text());
    assert_eq!(client.end(), End::Fin);
    let line = scene.gateway.logged("client sent plain HTTP request to HTTPS port");
    assert!(line.contains(" [info] "), "{line}");
}

#[test]
fn an_error_page_for_497_can_lead_to_https() {
    let scene = Scene::new(
        "server { listen {listen} ssl; server_name a.test; {a} error_page 497 =301 https://a.test$request_uri; return 200 a; }",
        &[],
    );
    let mut client = Talk::connect(scene.gateway.address());
    client.send("GET /x?y HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status(), response.value("Location")), (301, Some("https://a.test/x?y")));
}

#[test]
fn a_handshake_that_comes_byte_by_byte_is_completed() {
    let scene = Scene::new(TWO, &[]);
    let session = tls::Session::client(&scene.authority.client(), "a.test").unwrap();
    let mut hello = Vec::new();
    let mut session = session;
    session.take_output(&mut hello);
    let mut client = Talk::connect(scene.gateway.address());
    client.send_bytewise(&hello);
    client.secure(session).unwrap();
    client.send_bytewise(get("a.test"));
    assert_eq!(client.response().text(), "a");
}

#[test]
fn a_handshake_has_the_time_of_a_head() {
    let scene = Scene::new(
        "server { listen {listen} ssl; server_name a.test; {a} client_header_timeout 1s; return 200 a; }",
        &[],
    );
    let mut silent = Talk::connect(scene.gateway.address());
    assert_eq!(silent.end(), End::Fin);
    let mut half = Talk::connect(scene.gateway.address());
    half.send([22, 3, 1, 2, 0, 1]);
    half.rest();
    let line = scene.gateway.logged("client timed out (110: Connection timed out) while SSL handshaking");
    assert!(line.contains(" [info] "), "{line}");
    until("both are counted", || (scene.gateway.shared().closed(CloseReason::HeadTimeout) == 2).then_some(()));
}

#[test]
fn handshakes_that_fail_are_logged_with_their_reason() {
    let scene = Scene::new(TWO, &[]);
    // A client that trusts another authority.
    let stranger = Authority::new("Another Authority").client();
    assert!(scene.try_client(&stranger, "a.test").is_err());
    let line = scene.gateway.logged("alert unknown ca");
    assert!(line.contains("while SSL handshaking, client: 127.0.0.1") && line.contains("a.test"), "{line}");
    // Bytes that are not TLS, after a first byte that is.
    let mut odd = Talk::connect(scene.gateway.address());
    odd.send([22, 9, 9, 0, 5, 1, 2, 3, 4, 5]);
    odd.rest();
    scene.gateway.logged("SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number)");
    // A client that leaves in the middle of its first message.
    let gone = TcpStream::connect(scene.gateway.address()).unwrap();
    std::io::Write::write_all(&mut { &gone }, &[22, 3, 1, 0, 200, 1, 0]).unwrap();
    drop(gone);
    scene.gateway.logged("peer closed connection in SSL handshake while SSL handshaking");
    assert_eq!(scene.ask("a.test", "a.test").0, 200);
}

#[test]
fn versions_that_are_not_spoken_are_refused() {
    let scene = Scene::new(
        "server { listen {listen} ssl; server_name a.test; {a} ssl_protocols TLSv1.3; return 200 here; }",
        &[],
    );
    assert_eq!(scene.client("a.test").session().protocol(), Some(Protocol::Tls13));
    let old = scene.authority.client_with(|side| side.protocols(Protocols::only(Protocol::Tls12)));
    assert!(scene.try_client(&old, "a.test").is_err());
}

#[test]
fn handshakes_and_certificates_are_on_the_status_page() {
    let scene =
        Scene::new("server { listen {listen} ssl; server_name a.test; {a} location /status { status_page; } }", &[]);
    let ask = |accept: &str| {
        let mut client = scene.client("a.test");
        client.send(format!("GET /status HTTP/1.1\r\nHost: a.test\r\nAccept: {accept}\r\n\r\n"));
        client.response().text()
    };
    let page = ask("text/html");
    assert!(page.contains("\">Certificates</h2>") && page.contains("CN=a.test") && page.contains(" GMT"), "{page}");
    let metrics = ask("text/plain");
    assert!(metrics.contains("holdfast_tls_handshakes_total{kind=\"full\"} 2"), "{metrics}");
    assert!(metrics.contains("holdfast_tls_certificate_not_after_seconds{source="), "{metrics}");
}
