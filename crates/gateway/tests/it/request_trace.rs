//! `request_trace_secret`: the phases of one request, for clients with the secret.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use testkit::{Gateway, Http2Talk, Peer, Refusing, Talk};

const SECRET: &str = "0123456789abcdef";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn gateway(server: &str, peers: &[&Peer]) -> Gateway {
    let addresses: Vec<_> = peers.iter().map(|peer| peer.address()).collect();
    start("", server, &addresses)
}

fn start(http: &str, server: &str, addresses: &[std::net::SocketAddr]) -> Gateway {
    let text = format!(
        "events {{}} http {{ log_format trace '$status $request_trace'; access_log access.log trace; {http}
         server {{ listen {{listen}}; http2 on; request_trace_secret {SECRET}; {server} }} }}"
    );
    Gateway::start(&text, addresses)
}

fn field(secret: &str) -> String {
    format!("X-Holdfast-Trace: {secret}\r\n")
}

/// The names of the items of a line.
fn names(line: &str) -> Vec<&str> {
    line.split("; ").map(|item| item.split_once('=').map_or(item, |(name, _)| name)).collect()
}

#[test]
fn request_with_the_secret_gets_its_phases() {
    let peer = Peer::saying(OK);
    let gateway = gateway("location /shop { proxy_pass http://{upstream:0}; }", &[&peer]);
    let response = gateway.client().get("/shop/a", &field(SECRET));
    let shown = response.value("X-Holdfast-Trace").expect("the phases").to_owned();
    assert_eq!(names(&shown), ["location", "route", "admit", "body", "attempt", "head"], "{shown}");
    let attempt = format!("attempt={} new wait=0 connect=", peer.address());
    assert!(shown.starts_with("location=/shop; route=") && shown.contains(&attempt), "{shown}");
    assert!(shown.contains(" status=200 "), "{shown}");
    assert_eq!(peer.only_request().value("X-Holdfast-Trace"), None);
    let line = gateway.access_lines(1).remove(0);
    let whole = line.strip_prefix("200 ").unwrap();
    let last = ["total", "status", "received", "sent", "close"];
    assert_eq!(
        names(whole),
        [&["location", "route", "admit", "body", "attempt", "head"][..], &last].concat(),
        "{whole}"
    );
    assert!(whole.contains(" done=") && whole.contains("received=") && whole.ends_with("close=-"), "{whole}");
}

#[test]
fn wrong_secret_shows_nothing_and_removes_the_field() {
    let peer = Peer::saying(OK);
    let gateway = gateway(
        "location / { proxy_pass http://{upstream:0}; } location /own { request_trace_secret off; proxy_pass http://{upstream:0}; }",
        &[&peer],
    );
    let mut client: Talk = gateway.client();
    for given in ["", "0123456789abcdeF", "0123456789abcdef0", "0123456789abcde"] {
        assert_eq!(client.get("/a", &field(given)).value("X-Holdfast-Trace"), None, "{given}");
    }
    let twice = format!("{}{}", field("x"), field(SECRET));
    assert_eq!(client.get("/a", &twice).value("X-Holdfast-Trace"), None, "the first one counts");
    assert!(peer.requests().iter().all(|(_, request)| request.value("X-Holdfast-Trace").is_none()));
    assert_eq!(gateway.access_lines(5)[4], "200 -");
    // Where it is off, the field is one like any other.
    assert_eq!(client.get("/own", &field(SECRET)).value("X-Holdfast-Trace"), None);
    let last = peer.requests().pop().unwrap().1;
    assert_eq!(last.value("X-Holdfast-Trace"), Some(SECRET));
}

#[test]
fn failed_attempts_reuse_and_redirects_are_shown() {
    let (dead, peer) = (Refusing::new(), Peer::saying(OK));
    let http = "upstream app { server {upstream:0} max_fails=0; server {upstream:1} backup; keepalive 2; }";
    let server = "location / { proxy_pass http://app; } location /old { error_page 404 = /new; return 404; }
                  location /old2 { rewrite ^ /a; }";
    let gateway = start(http, server, &[dead.address(), peer.address()]);
    let mut client = gateway.client();
    let traced = |client: &mut Talk, target: &str| {
        client.get(target, &field(SECRET)).value("X-Holdfast-Trace").unwrap_or_default().to_owned()
    };
    let first = traced(&mut client, "/a");
    assert!(first.contains(&format!("attempt={} none wait=", dead.address())), "{first}");
    assert!(first.contains("failure=connect_failed") && first.contains(&format!("{} new", peer.address())), "{first}");
    let second = traced(&mut client, "/old2");
    assert!(second.contains(&format!("attempt={} reused wait=0 head=", peer.address())), "{second}");
    assert!(second.starts_with("location=/; "), "{second}");
    assert!(traced(&mut client, "/old/x").starts_with("location="), "an answer of our own");
}

#[test]
fn it_works_over_http2() {
    let peer = Peer::saying(OK);
    let gateway = gateway("location / { proxy_pass http://{upstream:0}; }", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let stream = client.open("GET", "/a", &[("x-holdfast-trace", SECRET)], true);
    let answer = client.answer(stream);
    assert!(answer.value("x-holdfast-trace").is_some_and(|shown| shown.contains("attempt=")), "{answer:?}");
    assert_eq!(peer.only_request().value("X-Holdfast-Trace"), None);
}
