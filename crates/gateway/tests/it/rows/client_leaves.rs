//! U13 and U14: a client that leaves, by a reset or by a FIN, and a client that has only finished sending, if a
//! directive permits that.

use crate::site::{GET, HELLO, Site, post, text};
use testkit::{Deaf, End, Gateway, Peer, Signal, Talk};

/// The two ways to leave.
const WAYS: [fn(&mut Talk); 2] = [Talk::reset, Talk::close];

/// A client that may close its sending side.
const HALF_CLOSE: &str = "client_half_close on;";

/// A peer that waits for the signal; then it answers, or notices that the client is gone.
fn slow_peer(asked: &Signal, go: &Signal, noticed: &Signal) -> Peer {
    let (asked, go, noticed) = (asked.clone(), go.clone(), noticed.clone());
    Peer::script(move |mut talk| {
        let Some(request) = talk.request() else { return };
        asked.raise();
        if request.target() == "/leaves" {
            assert!(talk.request().is_none());
            noticed.raise();
        } else {
            talk.wait(&go);
            talk.send(HELLO);
            talk.request();
        }
    })
}

fn site(location: &str) -> (Site, Signal, Signal, Signal) {
    let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
    (Site::with(slow_peer(&asked, &go, &noticed), location), asked, go, noticed)
}

#[test]
fn u13_leaving_client_is_499_and_closes_the_upstream() {
    let requests = [
        "GET /leaves HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /leaves HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld",
    ];
    for (request, leave) in requests.into_iter().flat_map(|request| WAYS.map(|leave| (request, leave))) {
        let (site, asked, _go, noticed) = site("");
        let mut client = site.client();
        client.send(request);
        asked.wait();
        leave(&mut client);
        noticed.wait();
        let lines = site.gateway.access_lines(1);
        assert!(lines[0].starts_with("499 side=client"), "{lines:?}");
        assert_eq!(site.peer.connections(), 1, "not tried again without a client");
        site.gateway.until_totals("the client's connection is gone", |totals| totals.active == 0);
        site.is_alive();
    }
}

#[test]
fn u13_with_ignore_client_abort_the_upstream_works_on() {
    for leave in WAYS {
        let (site, asked, go, _noticed) = site("proxy_ignore_client_abort on;");
        let mut client = site.client();
        client.send(GET);
        asked.wait();
        leave(&mut client);
        site.is_alive();
        go.raise();
        let lines = site.gateway.access_lines(2);
        assert!(lines.iter().any(|line| line.contains("tries=200 ")), "{lines:?}");
        assert_eq!(site.peer.connections(), 1);
    }
}

#[test]
fn u13_client_leaves_during_its_body() {
    for buffering in ["on", "off"] {
        let peer = Peer::script(|mut talk| {
            // The received bytes are no whole request.
            assert!(talk.request().is_none());
        });
        let site = Site::with(peer, &format!("proxy_request_buffering {buffering};"));
        let mut client = site.client();
        client.send(post("Content-Length: 10\r\n") + "half");
        site.gateway.until_totals("the exchange", |totals| totals.writing == 1);
        client.close();
        site.gateway.logged("client prematurely closed connection");
        site.gateway.until_totals("the client's connection is gone", |totals| totals.active == 0);
        site.is_alive();
    }
}

/// A peer that starts a long response, and notices when the client does not read the rest.
fn breaks_off(begun: &Signal, noticed: &Signal) -> Peer {
    let (begun, noticed) = (begun.clone(), noticed.clone());
    Peer::script(move |mut talk: Talk| {
        talk.request();
        talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\nhello");
        begun.raise();
        let (_, _) = talk.rest();
        noticed.raise();
    })
}

#[test]
fn u13_a_client_that_leaves_during_the_response() {
    for leave in [Talk::reset, Talk::close, Talk::half_close] {
        let (begun, noticed) = (Signal::new(), Signal::new());
        let site = Site::of(breaks_off(&begun, &noticed));
        let mut client = site.client();
        client.send(GET);
        begun.wait();
        client.read(5);
        leave(&mut client);
        noticed.wait();
        let lines = site.gateway.access_lines(1);
        assert!(lines[0].starts_with("200 side=client"), "{lines:?}");
        site.is_alive();
    }
}

/// A gateway that limits the rate and logs how much a client got.
fn paced(peer: &Peer, http: &str) -> Gateway {
    let conf = format!(
        "events {{ worker_connections 64; }} http {{ log_format line '$status [$request_completion] $body_bytes_sent';
        access_log access.log line; {http}
        server {{ listen {{listen}}; location / {{ proxy_pass http://{{upstream:0}}; }} }} }}"
    );
    Gateway::start(&conf, &[peer.address()])
}

#[test]
fn u13_cut_response_under_a_rate_is_logged_as_cut() {
    for leave in WAYS {
        let body = "x".repeat(10_000_000);
        let peer = Peer::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let gateway = paced(&peer, "limit_rate 1000;");
        let mut client = gateway.client();
        client.send(GET);
        gateway.until_totals("the exchange", |totals| totals.writing == 1);
        client.expect("HTTP/1.1 200 OK\r\n");
        leave(&mut client);
        let line = gateway.access_lines(1)[0].clone();
        let sent = line.strip_prefix("200 [] ").and_then(|bytes| bytes.parse::<u64>().ok());
        assert!(sent.is_some_and(|sent| sent < 100_000), "{line}");
        gateway.until_totals("no client", |totals| totals.active == 0);
    }
}

#[test]
fn u13_whole_response_under_a_rate_is_logged_as_whole() {
    let peer = Peer::saying(HELLO);
    let gateway = paced(&peer, "limit_rate 1000;");
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    assert_eq!(gateway.access_lines(1), ["200 [OK] 5"]);
}

#[test]
fn u13_leaving_client_frees_its_places_at_once() {
    for leave in WAYS {
        let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
        let peer = slow_peer(&asked, &go, &noticed);
        let conf = "events {} http {
            log_format line '$status'; access_log access.log line;
            limit_conn_zone $server_port zone=all:1m;
            upstream one { server {upstream:0} max_conns=1; }
            server { listen {listen}; location / { limit_conn all 1; proxy_pass http://one; } } }";
        let gateway = Gateway::start(conf, &[peer.address()]);
        let mut first = gateway.client();
        first.send("GET /leaves HTTP/1.1\r\nHost: a\r\n\r\n");
        asked.wait();
        leave(&mut first);
        noticed.wait();
        assert_eq!(gateway.access_lines(1), ["499"]);
        go.raise();
        let mut second = gateway.client();
        second.send(GET);
        assert_eq!(second.response().text(), "hello");
    }
}

#[test]
fn u13_a_client_that_leaves_a_line_is_noticed() {
    for (leave, group) in
        WAYS.into_iter().flat_map(|leave| [(leave, "max_connections 1 queue=9 timeout=60s;"), (leave, "queue 9;")])
    {
        let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
        let peer = slow_peer(&asked, &go, &noticed);
        let mut conf = text(1, group, "");
        if group.starts_with("queue") {
            conf = conf.replace("{upstream:0};", "{upstream:0} max_conns=1;");
        }
        let gateway = Gateway::start(&conf, &[peer.address()]);
        let mut first = gateway.client();
        first.send(GET);
        asked.wait();
        let mut second = gateway.client();
        second.send(GET);
        gateway.until_totals("the second waits", |totals| totals.writing == 2);
        leave(&mut second);
        gateway.until_totals("the second is gone", |totals| totals.writing == 1);
        assert!(gateway.access_lines(1)[0].starts_with("499 "));
        go.raise();
        assert_eq!(first.response().text(), "hello");
    }
}

#[test]
fn u13_a_client_that_leaves_with_its_request_is_noticed() {
    let (site, ..) = site("");
    for round in 1..=50 {
        let mut client = site.client();
        client.send("GET /leaves HTTP/1.1\r\nHost: a\r\n\r\n");
        // Request and FIN mostly arrive in the same turn of the loop: the FIN is known before the exchange waits.
        client.half_close();
        let lines = site.gateway.access_lines(round);
        assert!(lines.iter().all(|line| line.starts_with("499 ")), "{lines:?}");
        site.gateway.until_totals("the client is gone", |totals| totals.active == 0);
    }
}

#[test]
fn u14_half_closed_client_gets_its_response() {
    for request in [GET.to_owned(), post("Content-Length: 5\r\n") + "world"] {
        let (site, asked, go, _noticed) = site(HALF_CLOSE);
        let mut client = site.client();
        client.send(request);
        client.half_close();
        asked.wait();
        // Once the gateway has served another client, it has seen the FIN.
        site.is_alive();
        go.raise();
        assert_eq!(client.response().text(), "hello");
        assert_eq!(client.end(), End::Fin);
    }
}

#[test]
fn u14_pipelined_requests_before_a_half_close_are_answered() {
    let site = Site::with(Peer::saying(HELLO), HALF_CLOSE);
    let mut client = site.client();
    client.send(GET.repeat(3));
    client.half_close();
    for _ in 0..3 {
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn u14_fin_counts_after_earlier_requests_are_read() {
    let (site, asked, go, _noticed) = site("");
    let mut client = site.client();
    client.send(GET.repeat(2));
    client.half_close();
    asked.wait();
    // Once the gateway has served another client, it has seen the FIN.
    site.is_alive();
    go.raise();
    assert_eq!(client.response().text(), "hello");
    let lines = site.gateway.access_lines(3);
    assert!(lines[1].starts_with("200 ") && lines[2].starts_with("499 side=client"), "{lines:?}");
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn u14_a_long_response_to_a_client_that_half_closed() {
    let body = "x".repeat(3_000_000);
    let peer = Peer::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    let site = Site::with(peer, HALF_CLOSE);
    let mut client = site.client();
    client.send(GET);
    client.half_close();
    assert_eq!(client.response().body.len(), body.len());
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn u13_client_leaves_during_connect() {
    for leave in WAYS {
        let deaf = Deaf::new();
        let gateway = Gateway::start(&text(1, "", "proxy_connect_timeout 20s;"), &[deaf.address()]);
        let mut client = gateway.client();
        client.send(GET);
        gateway.until_totals("the exchange", |totals| totals.writing == 1);
        leave(&mut client);
        let lines = gateway.access_lines(1);
        assert!(lines[0].starts_with("499 side=client"), "{lines:?}");
        gateway.until_totals("no client", |totals| totals.active == 0);
    }
}

#[test]
fn w4_fin_before_the_switch_aborts_and_later_is_passed_on() {
    let peer = Peer::script(|mut talk: Talk| {
        let Some(request) = talk.request() else { return };
        if request.target() == "/tunnel" {
            talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
            assert_eq!(talk.rest(), (Vec::new(), End::Fin));
            talk.send("bye");
        } else {
            assert!(talk.request().is_none());
        }
    });
    let site = Site::with(peer, "proxy_set_header Connection upgrade; proxy_set_header Upgrade websocket;");
    let mut client = site.client();
    let ask =
        |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    client.send(ask("/tunnel"));
    assert_eq!(client.response().status(), 101);
    client.half_close();
    assert_eq!(client.rest(), (b"bye".to_vec(), End::Fin));
    let mut early = site.client();
    early.send(ask("/silent"));
    early.half_close();
    let lines = site.gateway.access_lines(2);
    assert!(lines[1].starts_with("499 side=client"), "{lines:?}");
}
