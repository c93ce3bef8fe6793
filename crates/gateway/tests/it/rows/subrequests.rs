//! Faults during subrequests: clients leave, upstreams are silent, the process drains; and their log lines. The
//! differential suite compares their responses with nginx.

use crate::site::{HELLO, post};
use testkit::{Gateway, Peer, Signal, Talk};

/// A gateway that asks the first upstream about requests for the second.
fn text(location: &str) -> String {
    format!(
        "worker_processes 1;
        events {{ worker_connections 64; }}
        http {{
            log_format line '$status $uri tries=$upstream_status reused=$upstream_reused \"$request\"';
            access_log access.log line;
            client_max_body_size 100m;
            upstream auth {{ server {{upstream:0}}; keepalive 4; }}
            upstream app {{ server {{upstream:1}}; keepalive 4; }}
            server {{
                listen {{listen}};
                location = /alive {{ return 200 alive; }}
                location = /auth {{
                    internal;
                    proxy_pass http://auth;
                    proxy_pass_request_body off;
                }}
                location = /copy {{ internal; proxy_pass http://auth; }}
                location / {{ proxy_pass http://app; {location} }}
            }}
        }}"
    )
}

struct Pair {
    gateway: Gateway,
    auth: Peer,
    app: Peer,
}

fn pair(auth: Peer, app: Peer, location: &str) -> Pair {
    let gateway = Gateway::start(&text(location), &[auth.address(), app.address()]);
    Pair { gateway, auth, app }
}

/// Gives every request the same answer.
fn always(answer: &'static str) -> Peer {
    Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send(answer);
        }
    })
}

/// Does not answer, and raises the second signal when its client has left.
fn silent(asked: &Signal, left: &Signal) -> Peer {
    let (asked, left) = (asked.clone(), left.clone());
    Peer::script(move |mut talk| {
        if talk.request().is_some() {
            asked.raise();
            assert!(talk.request().is_none());
            left.raise();
        }
    })
}

fn get(client: &mut Talk) -> u16 {
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response().status()
}

#[test]
fn a_client_that_leaves_ends_the_auth_request_too() {
    for leave in [Talk::reset, Talk::close] {
        let (asked, left) = (Signal::new(), Signal::new());
        let pair = pair(silent(&asked, &left), always(HELLO), "auth_request /auth;");
        let mut client = pair.gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        asked.wait();
        leave(&mut client);
        left.wait();
        let lines = pair.gateway.access_lines(1);
        assert!(lines[0].starts_with("499 / "), "{lines:?}");
        assert_eq!(pair.app.connections(), 0);
        pair.gateway.until_totals("nothing is left", |totals| (totals.active, totals.writing) == (0, 0));
    }
}

#[test]
fn auth_requests_reuse_connections_and_leave_no_line_in_the_log() {
    let bodies = [
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nallowed",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ];
    for auth in bodies {
        let pair = pair(always(auth), always(HELLO), "auth_request /auth;");
        let mut client = pair.gateway.client();
        for _ in 0..5 {
            assert_eq!(get(&mut client), 200);
        }
        assert_eq!((pair.auth.connections(), pair.app.connections()), (1, 1), "{auth:?}");
        let lines = pair.gateway.access_lines(5);
        assert!(lines.iter().all(|line| line.starts_with("200 / tries=200 ")), "{lines:?}");
    }
}

#[test]
fn auth_request_reads_only_part_of_an_unneeded_body() {
    let endless = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.send("HTTP/1.1 200 OK\r\n\r\n");
            talk.flood_until_the_end(1 << 30);
        }
    });
    let pair = pair(endless, always(HELLO), "auth_request /auth;");
    let mut client = pair.gateway.client();
    assert_eq!([get(&mut client), get(&mut client)], [200, 200]);
}

#[test]
fn silent_auth_upstream_is_an_error_after_its_timeout() {
    let (asked, left) = (Signal::new(), Signal::new());
    let pair = pair(silent(&asked, &left), always(HELLO), "auth_request /auth; proxy_read_timeout 100s;");
    drop(pair);
    let text = text("auth_request /auth;")
        .replace("proxy_pass http://auth;", "proxy_pass http://auth; proxy_read_timeout 200ms;");
    let (auth, app) = (silent(&asked, &left), always(HELLO));
    let gateway = Gateway::start(&text, &[auth.address(), app.address()]);
    let mut client = gateway.client();
    assert_eq!(get(&mut client), 500);
    let line = gateway.logged("auth request unexpected status: 504");
    assert!(line.contains("request: \"GET / HTTP/1.1\"") && !line.contains("subrequest: "), "{line}");
    let line = gateway.logged("upstream timed out");
    assert!(line.contains("request: \"GET / HTTP/1.1\", subrequest: \"/auth\", upstream: "), "{line}");
}

#[test]
fn log_subrequest_writes_subrequests_before_the_request() {
    let pair = pair(always(HELLO), always(HELLO), "auth_request /auth; log_subrequest on;");
    assert_eq!(get(&mut pair.gateway.client()), 200);
    // The location of the subrequest decides, as in nginx.
    assert!(pair.gateway.access_lines(1)[0].starts_with("200 / "));
    let text = text("auth_request /auth;").replace("internal;\n", "internal; log_subrequest on;\n");
    let (auth, app) = (always(HELLO), always(HELLO));
    let gateway = Gateway::start(&text, &[auth.address(), app.address()]);
    assert_eq!(get(&mut gateway.client()), 200);
    let lines = gateway.access_lines(2);
    assert!(lines[0].starts_with("200 /auth tries=200 ") && lines[0].ends_with("\"GET / HTTP/1.1\""), "{lines:?}");
    assert!(lines[1].starts_with("200 / tries=200 "), "{lines:?}");
}

/// Keeps every body that it receives, and answers after the signal.
fn recorder(go: &Signal, sender: std::sync::mpsc::Sender<Vec<u8>>) -> Peer {
    let go = go.clone();
    let sender = std::sync::Mutex::new(sender);
    Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            let _ = sender.lock().unwrap().send(request.body.clone());
            talk.wait(&go);
            talk.send(HELLO);
        }
    })
}

#[test]
fn a_mirror_gets_the_body_and_delays_no_client() {
    let large = vec![b'y'; 300_000];
    for (body, words) in [
        (b"small".to_vec(), ""),
        (large.clone(), ""),
        (large.clone(), "client_body_buffer_size 1k;"),
        (large, "proxy_request_buffering off;"),
    ] {
        let (go, (sender, bodies)) = (Signal::new(), std::sync::mpsc::channel());
        let pair = pair(recorder(&go, sender), always(HELLO), &format!("mirror /copy; {words}"));
        let mut client = pair.gateway.client();
        let head = format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        for _ in 0..2 {
            client.send([head.as_bytes(), &body].concat());
            assert_eq!(client.response().status(), 200, "{words}");
        }
        assert_eq!(bodies.recv_timeout(testkit::DEADLINE).unwrap(), body, "{words}");
        assert_eq!(bodies.recv_timeout(testkit::DEADLINE).unwrap(), body, "{words}");
        go.raise();
    }
}

#[test]
fn a_mirror_outlives_its_client_and_a_drain_waits_for_it() {
    let (go, (sender, bodies)) = (Signal::new(), std::sync::mpsc::channel());
    let pair = pair(recorder(&go, sender), always(HELLO), "mirror /copy;");
    let mut client = pair.gateway.client();
    client.send(format!("{}a body", post("Content-Length: 6\r\n")));
    assert_eq!(client.response().status(), 200);
    client.close();
    assert_eq!(bodies.recv_timeout(testkit::DEADLINE).unwrap(), b"a body");
    pair.gateway.until_totals("the client is gone", |totals| totals.active == 0);
    let asked = pair.auth.connections();
    go.raise();
    assert_eq!(asked, 1);
}

#[test]
fn leaving_client_frees_added_content() {
    let (asked, left) = (Signal::new(), Signal::new());
    let words = "add_before_body /copy; addition_types *;";
    let pair = pair(silent(&asked, &left), always(HELLO), words);
    let mut client = pair.gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // The head does not wait for the response that is added before the body.
    assert_eq!(client.head().unwrap().status(), 200);
    asked.wait();
    client.reset();
    left.wait();
    pair.gateway.until_totals("nothing is left", |totals| (totals.active, totals.writing) == (0, 0));
}

#[test]
fn added_bodies_stream_within_bounds() {
    const BYTES: usize = 30_000_000;
    let stuck = Signal::new();
    let raised = stuck.clone();
    let large = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"));
            let taken = talk.flood(BYTES);
            raised.raise();
            talk.send(vec![b'x'; BYTES - taken]);
        }
    });
    let words = "add_before_body /copy; add_after_body /copy; addition_types *;";
    let pair = pair(large, always(HELLO), words);
    let mut client = pair.gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.head().unwrap().status(), 200);
    // The client reads nothing more: the bytes held for it are bounded.
    stuck.wait();
    let held = pair.gateway.shared().memory().held;
    assert!(held < 2_000_000, "{held}");
    let body = client.rest().0.len();
    assert!(body > 2 * BYTES, "{body}");
}

#[cfg(debug_assertions)] // releases have no place to make a panic
#[test]
fn x07_panic_in_a_subrequest_ends_only_the_subrequest() {
    let slow = Peer::script(|mut talk| {
        while talk.request().is_some() {
            // Only a body that did not come with its head is relayed, and the panic is in the relay.
            let is_cut = talk.serial() == 0;
            talk.send(if is_cut { "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello" } else { HELLO });
        }
    });
    let mut pair = pair(slow, always(HELLO), "auth_request /auth;");
    pair.gateway.expect_bugs();
    pair.gateway.shared().panic_once_at(gateway::Fault::Relay);
    let mut client = pair.gateway.client();
    assert_eq!(get(&mut client), 500);
    let line = pair.gateway.logged("bug in holdfast");
    assert!(line.contains("; a subrequest of connection *"), "{line}");
    assert_eq!(get(&mut pair.gateway.client()), 200);
    pair.gateway.until_totals("nothing is left over", |totals| totals.writing == 0);
}
