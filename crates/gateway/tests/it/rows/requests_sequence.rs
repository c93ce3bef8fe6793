//! R47–R50 and R52: the effect of one request on the next one on the connection.

use crate::site::{GET, HELLO, Site, post};
use testkit::{End, Peer, Signal};

#[test]
fn r47_h2c_is_not_passed_on() {
    let set = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;";
    for location in ["", set] {
        let site = Site::with(Peer::saying(HELLO), location);
        let fields = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
        assert_eq!(site.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).status(), 200);
        let request = site.peer.only_request();
        assert_eq!((request.value("Upgrade"), request.value("HTTP2-Settings")), (None, None), "{request:?}");
    }
}

#[test]
fn r47_h2c_in_any_upgrade_line_is_not_passed_on() {
    let set = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    for lines in [
        "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket, H2C\r\n",
        "Connection: Upgrade\r\nUpgrade: x\r\nUpgrade: y ,h2c\r\n",
        "Upgrade: h2c\r\n",
    ] {
        let peer = Peer::saying_once("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n");
        let site = Site::with(peer, set);
        // The upstream answers 101 although its request did not ask for an upgrade.
        assert_eq!(site.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).status(), 502, "{lines}");
        assert_eq!(site.peer.only_request().value("Upgrade"), None, "{lines}");
    }
}

#[test]
fn r48_pipelined_bytes_after_a_refused_upgrade_are_a_request() {
    let set = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    let (asked, checked) = (Signal::new(), Signal::new());
    let peer = Peer::script({
        let (asked, checked) = (asked.clone(), checked.clone());
        move |mut talk| {
            let first = talk.request().unwrap();
            if first.target() == "/ws" {
                assert_eq!(first.value("Upgrade"), Some("websocket"));
                asked.raise();
                talk.wait(&checked);
            }
            talk.send(HELLO);
            while talk.request().is_some() {
                talk.send(HELLO);
            }
        }
    });
    let site = Site::with(peer, set);
    let mut client = site.client();
    let upgrade = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.send(format!("{upgrade}GET /second HTTP/1.1\r\nHost: a\r\n\r\n"));
    asked.wait();
    // The upstream has the first request, and not one byte of the bytes after it.
    assert!(site.peer.received(0).ends_with(b"\r\n\r\n"));
    assert!(!site.peer.received(0).windows(7).any(|window| window == b"/second"));
    checked.raise();
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.response().text(), "hello");
    let targets: Vec<String> = site.peer.requests().iter().map(|(_, it)| it.target().to_owned()).collect();
    assert_eq!(targets, ["/ws", "/second"]);
}

#[test]
fn r49_connection_strips_named_fields_but_not_framing() {
    let site = Site::of(Peer::saying(HELLO));
    let fields = "Connection: Host, Content-Length, X-A\r\nX-A: 1\r\nx-a: 2\r\nX-B: 3\r\nContent-Length: 3\r\n\
                  Keep-Alive: 1\r\nTE: trailers\r\nProxy-Connection: x\r\nConnection: x-b\r\n";
    assert_eq!(site.ask(post(fields) + "abc").status(), 200);
    let request = site.peer.only_request();
    assert_eq!((request.value("Content-Length"), request.text()), (Some("3"), "abc".into()));
    assert!(request.value("Host").is_some());
    for name in ["X-A", "X-B", "Keep-Alive", "TE", "Proxy-Connection"] {
        assert_eq!(request.value(name), None, "{request:?}");
    }
}

#[test]
fn r50_valid_request_is_answered_before_the_invalid_one() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send(format!("{GET}GET / HTTP/1.1\r\nHost a\r\n\r\n{GET}"));
    assert_eq!(client.response().text(), "hello");
    let refused = client.response();
    assert_eq!((refused.status(), refused.announces_close()), (400, true));
    assert_eq!(client.end(), End::Fin);
    assert_eq!(site.peer.requests().len(), 1);
    site.gateway.logged("client sent invalid header line");
    let lines = site.gateway.access_lines(2);
    assert!(lines[0].starts_with("200 ") && lines[1].starts_with("400 "), "{lines:?}");
}

#[test]
fn r50_pipelined_requests_are_answered_in_order() {
    let peer = Peer::answering(|request| {
        let body = request.target();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    let site = Site::of(peer);
    let mut client = site.client();
    let requests =
        (0..20).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n")).collect::<Vec<_>>().concat();
    client.send(requests);
    for number in 0..20 {
        assert_eq!(client.response().text(), format!("/{number}"));
    }
}

#[test]
fn r52_short_body_rest_is_drained_and_kept_alive() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send("POST /alive HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nGET");
    let response = client.response();
    assert_eq!((response.text(), response.announces_close()), ("alive".into(), false));
    // The rest of the body looks like a request but is none.
    client.send(" / xGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send("");
    let second = client.response();
    assert_eq!(second.status(), 400, "three bytes are the body's, what follows them is a bad request line: {second:?}");

    let mut client = site.client();
    client.send("POST /alive HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nGET");
    assert_eq!(client.response().text(), "alive");
    client.send(" / GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(site.peer.only_request().target(), "/next");
}

#[test]
fn r52_short_chunked_rest_is_drained_and_kept_alive() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    for number in 0..3 {
        client.send("POST /alive HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /");
        let response = client.response();
        assert_eq!((response.text(), response.announces_close()), ("alive".into(), false));
        client.send(format!("\r\n5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\nGET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.response().text(), "hello");
    }
    let targets: Vec<_> = site.peer.requests().iter().map(|(_, request)| request.target().to_owned()).collect();
    assert_eq!(targets, ["/0", "/1", "/2"]);
}

#[test]
fn r52_long_or_invalid_chunked_rest_closes() {
    let long = "1000\r\n".to_owned() + &"x".repeat(0x1000) + "\r\n";
    for rest in [long.repeat(40), "nonsense\r\n".to_owned()] {
        let site = Site::of(Peer::saying(HELLO));
        let mut client = site.client();
        client.send("POST /alive HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        // The client keeps sending; a reset must not destroy the response.
        client.send(rest);
        assert_eq!(client.response().text(), "alive");
        assert_eq!(client.end(), End::Fin);
        site.peer_saw_nothing();
    }
}

#[test]
fn r52_long_rest_closes_after_the_response_arrives() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send("POST /alive HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n");
    // The client keeps sending; a reset must not destroy the response.
    client.send("x".repeat(300_000));
    let response = client.response();
    assert_eq!((response.text(), response.announces_close()), ("alive".into(), true));
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn r52_an_upstream_that_answers_early_is_not_used_again() {
    let peer = Peer::script(|mut talk| {
        while let Some(head) = talk.head() {
            talk.send(HELLO);
            if head.method() == "POST" {
                // Bytes of the body are no request.
                talk.rest();
                return;
            }
        }
    });
    let site = Site::with(peer, "proxy_request_buffering off;");
    let mut client = site.client();
    client.send(post("Content-Length: 100000\r\n") + "first part");
    let response = client.response();
    assert_eq!(response.text(), "hello");
    assert_eq!(site.ask(GET).text(), "hello");
    assert_eq!(site.peer.connections(), 2);
    assert!(site.peer.received(1).starts_with(b"GET / "));
    let lines = site.gateway.access_lines(1);
    assert!(lines[0].contains("closed=request body not fully sent"), "{lines:?}");
}

/// The bytes after each of these show whether the connection continues.
#[test]
fn r00_a_connection_goes_on_as_its_limits_and_the_client_say() {
    for (directive, fields, closes) in [
        ("", "", [false, false, false]),
        ("keepalive_requests 2;", "", [false, true, true]),
        ("keepalive_timeout 0;", "", [true, true, true]),
        ("", "Connection: close\r\n", [true, true, true]),
        ("", "Connection: keep-alive\r\n", [false, false, false]),
    ] {
        let site = Site::with(Peer::saying(HELLO), directive);
        let mut client = site.client();
        for (number, closes) in closes.into_iter().enumerate() {
            client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let response = client.response();
            assert_eq!((response.text(), response.announces_close()), ("hello".into(), closes), "{directive}{fields}");
            if closes {
                // The response announced the close, and the gateway closes.
                assert_eq!(client.end(), End::Fin);
                break;
            }
        }
    }
}
