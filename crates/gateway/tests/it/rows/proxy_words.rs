//! Directives that change requests to upstreams and their responses, as a client and a peer see them.

use crate::site::{GET, HELLO, Site, post, text};
use sockdiag::{Census, Question, Socket, State, Timer};
use testkit::{Gateway, Peer, Talk};

/// Chunks with three trailer fields.
const WITH_TRAILERS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
     5\r\nhello\r\n0\r\nX-Sum: 5\r\nX-Secret: s\r\nContent-Length: 9\r\n\r\n";

fn with_log(format: &str, conf: &str) -> String {
    conf.replace("log_format line '$status", &format!("log_format line '{format} $status"))
}

#[test]
fn trailers_are_a_variable_and_optionally_forwarded() {
    for (words, expected) in [
        ("", &[][..]),
        ("proxy_pass_trailers on;", &[("X-Sum", "5"), ("X-Secret", "s")][..]),
        ("proxy_pass_trailers on; proxy_hide_header X-Secret;", &[("X-Sum", "5")]),
        ("add_trailer X-Copy $upstream_trailer_x_sum;", &[("X-Copy", "5")]),
        (
            "proxy_pass_trailers on; add_trailer X-Secret ours;",
            &[("X-Sum", "5"), ("X-Secret", "s"), ("X-Secret", "ours")],
        ),
    ] {
        let peer = Peer::saying(WITH_TRAILERS);
        let conf = with_log("sum=$upstream_trailer_x_sum", &text(1, "", words));
        let gateway = Gateway::start(&conf, &[peer.address()]);
        let mut client = gateway.client();
        for _ in 0..2 {
            client.send(GET);
            let response = client.response();
            assert_eq!(response.text(), "hello", "{words}");
            // Fields that frame the message are never passed on (R44).
            let trailers: Vec<_> = response.trailers.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(trailers, expected, "{words}");
        }
        assert!(gateway.access_lines(2).iter().all(|line| line.starts_with("sum=5 200 ")), "{words}");
    }
}

#[test]
fn trailers_follow_the_inheritance_rule_of_the_location() {
    for (words, expected) in [
        ("", &[("X-Inner", "2")][..]),
        ("add_trailer_inherit merge;", &[("X-Inner", "2"), ("X-Outer", "1")]),
        ("add_trailer_inherit off;", &[("X-Inner", "2")]),
    ] {
        let peer = Peer::saying(HELLO);
        let conf = text(1, "", &format!("{words} add_trailer X-Inner 2;"))
            .replace("listen {listen};", "listen {listen}; add_trailer X-Outer 1;");
        let gateway = Gateway::start(&conf, &[peer.address()]);
        let mut client = gateway.client();
        client.send(GET);
        let response = client.response();
        let trailers: Vec<_> = response.trailers.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(trailers, expected, "{words}");
    }
}

#[test]
fn trailers_do_not_go_to_clients_that_know_no_chunks() {
    let site = Site::with(Peer::saying(WITH_TRAILERS), "proxy_pass_trailers on;");
    let response = site.ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!((response.text(), response.trailers.len()), ("hello".into(), 0));
    let mut client = site.client();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().status(), 200);
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
}

#[test]
fn a_type_that_is_empty_is_left_out() {
    let site = Site::of(Peer::saying("HTTP/1.1 200 OK\r\nContent-Type:\r\nContent-Length: 5\r\n\r\nhello"));
    let response = site.ask(GET);
    assert_eq!((response.text(), response.value("Content-Type")), ("hello".into(), None));
}

#[test]
fn the_method_that_is_sent_is_the_one_written() {
    let site = Site::with(Peer::saying(HELLO), "proxy_method POST;");
    assert_eq!(site.ask(GET).text(), "hello");
    assert_eq!(site.peer.requests()[0].1.method(), "POST");
    let site = Site::with(Peer::saying(HELLO), "proxy_method $arg_method;");
    for (target, sent) in [("/?method=PURGE", "PURGE"), ("/", "GET")] {
        assert_eq!(site.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).status(), 200);
        assert_eq!(site.peer.requests().pop().unwrap().1.method(), sent, "{target}");
    }
    let seen = site.peer.requests().len();
    for method in ["a/b", "GET@", "\u{e4}"] {
        assert_eq!(site.ask(format!("GET /?method={method} HTTP/1.1\r\nHost: a\r\n\r\n")).status(), 500, "{method}");
    }
    site.gateway.logged("the value of \"proxy_method\" is no method, from $arg_method; the request is not sent");
    assert_eq!(site.peer.requests().len(), seen);
}

#[test]
fn distinguishes_head_requests_from_sent_bodies() {
    // The client asks for the head, the upstream is asked for everything.
    let site = Site::with(Peer::saying(HELLO), "proxy_method GET;");
    let mut client = site.client();
    for _ in 0..2 {
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.response_to_head();
        assert_eq!((response.status(), response.value("Content-Length")), (200, Some("5")));
    }
    assert_eq!(site.peer.connections(), 1, "a body that came whole costs no connection");
    // The client asks for everything, the upstream is asked for the head.
    let site = Site::with(Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"), "proxy_method HEAD;");
    let mut client = site.client();
    for _ in 0..2 {
        client.send(GET);
        let response = client.response();
        assert_eq!((response.text(), response.value("Content-Length")), (String::new(), Some("0")));
    }
    assert_eq!(site.peer.requests()[1].1.method(), "HEAD");
}

#[test]
fn request_changed_to_post_is_not_repeated() {
    let failing = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.reset();
        }
    });
    let other = Peer::saying(HELLO);
    let gateway = Gateway::start(&text(2, "", "proxy_method POST;"), &[failing.address(), other.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().status(), 502);
    assert_eq!(other.connections(), 0);
}

#[test]
fn the_body_that_is_sent_is_the_one_written() {
    let site = Site::with(Peer::saying(HELLO), "proxy_set_body '<$request_body>';");
    assert_eq!(site.ask(post("Content-Length: 5\r\n") + "world").text(), "hello");
    assert_eq!(site.ask(post("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n").text(), "hello");
    assert_eq!(site.ask(GET).text(), "hello");
    let bodies: Vec<String> = site.peer.requests().iter().map(|(_, request)| request.text()).collect();
    assert_eq!(bodies, ["<world>", "<abc>", "<>"]);
    let lengths: Vec<String> =
        site.peer.requests().iter().map(|(_, request)| request.values("Content-Length").join("|")).collect();
    assert_eq!(lengths, ["7", "5", "2"]);
    // A body that would otherwise be streamed is read first.
    let site = Site::with(Peer::saying(HELLO), "proxy_set_body $content_length; proxy_request_buffering off;");
    assert_eq!(site.ask(post("Content-Length: 5\r\n") + "world").text(), "hello");
    assert_eq!(site.peer.only_request().text(), "5");
}

#[test]
fn configured_body_is_resent_to_the_next_peer() {
    let failing = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.reset();
        }
    });
    let other = Peer::saying(HELLO);
    let gateway = Gateway::start(&text(2, "", "proxy_set_body again;"), &[failing.address(), other.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    assert_eq!(other.only_request().text(), "again");
}

#[test]
fn undesired_body_is_not_forwarded() {
    let site = Site::with(Peer::saying(HELLO), "proxy_pass_request_body off;");
    let mut client = site.client();
    for _ in 0..2 {
        client.send(post("Content-Length: 5\r\n") + "world");
        assert_eq!(client.response().text(), "hello");
    }
    for (_, request) in site.peer.requests() {
        assert_eq!((request.text(), request.values("Content-Length").len()), (String::new(), 0));
    }
}

#[test]
fn bytes_are_counted_attempt_by_attempt_and_through_a_tunnel() {
    let conf = |peers| with_log("received=$upstream_bytes_received sent=$upstream_bytes_sent", &text(peers, "", ""));
    let failing = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.send("HTTP/1.1 200");
            talk.reset();
        }
    });
    let other = Peer::saying(HELLO);
    let gateway = Gateway::start(&conf(2), &[failing.address(), other.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    let sent = other.received(0).len();
    let line = gateway.access_lines(1).remove(0);
    let (begun, whole) = ("HTTP/1.1 200".len(), HELLO.len());
    // A reset may overtake the bytes sent before it.
    let either = [begun, 0].map(|first| format!("received={first}, {whole} sent={sent}, {sent} 200 "));
    assert!(either.iter().any(|expected| line.starts_with(expected)), "{line}");

    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let peer = Peer::script(move |mut talk: Talk| {
        if talk.request().is_some() {
            talk.send(switching);
            talk.send("welcome");
            talk.expect("thanks");
            talk.close();
        }
    });
    let pass = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    let conf = conf(1).replace("proxy_pass ", &format!("{pass} proxy_pass "));
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(client.response().status(), 101);
    client.expect("welcome");
    client.send("thanks");
    client.end();
    client.close();
    let line = gateway.access_lines(1).remove(0);
    let (received, sent) = (switching.len() + "welcome".len(), peer.received(0).len());
    assert!(line.starts_with(&format!("received={received} sent={sent} 101 ")), "{line}");
}

/// Our socket to a peer, as the kernel sees it.
fn socket_to(peer: &Peer) -> Socket {
    let mut found = None;
    let mut census = Census::open().unwrap();
    census
        .for_each(&Question::default(), |socket| {
            if socket.remote == peer.address() && socket.state == State::Established {
                found = Some(*socket);
            }
        })
        .unwrap();
    found.expect("a connection to the peer")
}

#[test]
fn sockets_to_upstreams_are_set_up_as_written() {
    let plain = Site::of(Peer::saying(HELLO));
    let set =
        Site::with(Peer::saying(HELLO), "proxy_socket_keepalive on; proxy_socket_rcvbuf 16k; proxy_socket_sndbuf 32k;");
    for site in [&plain, &set] {
        assert_eq!(site.ask(GET).text(), "hello");
    }
    let (plain, set) = (socket_to(&plain.peer), socket_to(&set.peer));
    assert_eq!(plain.timer, Timer::Off);
    assert!(matches!(set.timer, Timer::Keepalive(_)), "{:?}", set.timer);
    // The kernel doubles the requested size, for its bookkeeping.
    let limits = set.memory.map(|memory| (memory.recv_limit, memory.send_limit));
    assert_eq!(limits, Some((32 << 10, 64 << 10)));
    assert_ne!(plain.memory.map(|memory| memory.recv_limit), Some(32 << 10));
}
