//! Messages on a stream: heads, bodies, trailers, interim responses.

use crate::h2_upstream::{gateway, peer};
use http2::Config;
use testkit::{Http2Service, Http2Talk, Peer, Signal};

#[test]
fn h50_a_request_becomes_a_stream() {
    let peer = peer(|mut service| {
        while let Some((stream, asked)) = service.whole_request() {
            let text = format!(
                "{} {}://{}{} {} {:?}",
                asked.method,
                asked.scheme,
                asked.authority,
                asked.path,
                asked.value("x-a").unwrap_or("-"),
                asked.value("connection").or(asked.value("x-b")).or(asked.value("host"))
            );
            service.answer(stream, &text);
        }
    });
    let gateway = gateway("", "proxy_set_header Host $host:81;", &[&peer]);
    let mut client = gateway.client();
    for turn in 0..3 {
        let response = client.get(&format!("/a%20b?{turn}"), "X-A: 1\r\nConnection: x-b\r\nX-B: 2\r\n");
        assert_eq!((response.status(), response.text()), (200, format!("GET http://a:81/a%20b?{turn} 1 None")));
    }
    assert_eq!(peer.connections(), 1);
}

#[test]
fn h50_heads_without_bodies_end_their_streams() {
    let peer = peer(|mut service| {
        while let Some((stream, asked)) = service.whole_request() {
            match &*asked.path {
                "/head" => service.respond(stream, 200, &[("content-length", "5")], true),
                "/204" => service.respond(stream, 204, &[], true),
                "/304" => service.respond(stream, 304, &[("etag", "\"a\"")], true),
                // The end comes in a frame of its own.
                "/late" => {
                    service.respond(stream, 200, &[("content-length", "2")], false);
                    service.send(stream, b"ok", false);
                    service.send(stream, b"", true);
                }
                _ => service.respond(stream, 200, &[], true),
            }
        }
    });
    let gateway = gateway("", "", &[&peer]);
    let mut client = gateway.client();
    client.send("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response_to_head();
    assert_eq!((response.status(), response.value("Content-Length")), (200, Some("5")));
    for (path, status, text) in [("/204", 204, ""), ("/304", 304, ""), ("/late", 200, "ok"), ("/empty", 200, "")] {
        let response = client.get(path, "");
        assert_eq!((response.status(), response.text()), (status, text.to_owned()), "{path}");
    }
    assert_eq!(peer.connections(), 1);
}

#[test]
fn h51_uploads_arrive_whole_buffered_or_streamed() {
    let peer = peer(|mut service| {
        while let Some((stream, asked)) = service.whole_request() {
            let is_sound = asked.body.iter().enumerate().all(|(at, byte)| *byte == (at / 7) as u8);
            let text = format!("{} {is_sound} {:?}", asked.body.len(), asked.value("content-length"));
            service.answer(stream, &text);
        }
    });
    for words in ["client_body_buffer_size 2m;", "client_body_buffer_size 8k;", "proxy_request_buffering off;"] {
        let gateway = gateway("", words, &[&peer]);
        let body: Vec<u8> = (0..1_500_000).map(|at| (at / 7) as u8).collect();
        let mut client = Http2Talk::connect(gateway.address());
        for length in [Some("1500000"), None] {
            let fields: Vec<(&str, &str)> = length.map(|length| ("content-length", length)).into_iter().collect();
            let stream = client.open("POST", "/", &fields, false);
            client.send(stream, &body, true);
            let answer = client.answer(stream);
            let buffers = words.starts_with("client");
            let known = length.or(buffers.then_some("1500000"));
            assert_eq!(answer.text(), format!("1500000 true {known:?}"), "{words}");
        }
    }
}

#[test]
fn h52_an_upload_waits_for_the_window_of_its_stream() {
    let go = Signal::new();
    let wait = go.clone();
    let peer = Peer::script(move |talk| {
        let config = Config { stream_window: 0, ..Config::default() };
        let mut service = Http2Service::with(talk, config);
        // The next request uses the window from the settings.
        let (first, _) = service.whole_request().unwrap();
        service.answer(first, "first");
        let stream = service.request().unwrap();
        // Another request on the connection is not blocked.
        let (other, _) = service.whole_request().unwrap();
        service.answer(other, "other");
        assert_eq!(service.so_far(stream).body.len(), 0, "no window, no body");
        while !wait.is_raised() {
            service.step();
        }
        service.grow_window(stream, 100_000);
        service.until("the body", |service| service.so_far(stream).is_whole);
        let text = service.so_far(stream).body.len().to_string();
        service.answer(stream, &text);
        service.end();
    });
    let gateway = gateway("", "", &[&peer]);
    let mut client = gateway.client();
    assert_eq!(client.get("/", "").text(), "first");
    client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n{}", "u".repeat(50_000)));
    testkit::until("the first request", || {
        (super::metric(&gateway, "holdfast_upstream_http2_streams") == 1).then_some(())
    });
    assert_eq!(gateway.client().get("/b", "").text(), "other");
    go.raise();
    assert_eq!(client.response().text(), "50000");
}

#[test]
fn h53_trailers_pass_in_both_directions() {
    let peer = peer(|mut service| {
        while let Some((stream, asked)) = service.whole_request() {
            service.respond(stream, 200, &[], false);
            service.send(stream, &asked.body, false);
            let sum = asked.trailers.iter().find(|(name, _)| name == "x-sum").map_or("none", |(_, value)| value);
            service.send_trailers(stream, &[("x-got", sum), ("x-end", "1")]);
        }
    });
    let gateway = gateway("", "proxy_pass_trailers on; proxy_request_buffering off;", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let stream = client.open("POST", "/", &[("te", "trailers")], false);
    client.send(stream, b"body", false);
    client.send_trailers(stream, &[("x-sum", "7"), ("content-length", "9")]);
    let answer = client.answer(stream);
    assert_eq!(answer.text(), "body");
    assert_eq!(answer.trailers, [("x-got".to_owned(), "7".to_owned()), ("x-end".to_owned(), "1".to_owned())]);
    // An HTTP/1.1 client that accepts trailers gets them after its chunks.
    let mut old = gateway.client();
    old.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n");
    let (bytes, _) = old.rest();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.ends_with("0\r\nx-got: none\r\nx-end: 1\r\n\r\n"), "{text}");
}

#[test]
fn h54_early_hints_are_passed_and_other_interim_heads_dropped() {
    let peer = peer(|mut service| {
        while let Some((stream, _)) = service.whole_request() {
            service.respond(stream, 100, &[], false);
            service.respond(stream, 103, &[("link", "</a.css>")], false);
            service.answer(stream, "hello");
        }
    });
    let gateway = gateway("", "early_hints 1;", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let answer = client.get("/");
    assert_eq!((answer.status, answer.text()), (200, "hello".to_owned()));
    assert_eq!(answer.interims, [(103, vec![("link".to_owned(), "</a.css>".to_owned())])]);
}

#[test]
fn h54_many_interim_heads_do_not_stop_the_response() {
    let peer = peer(|mut service| {
        while let Some((stream, _)) = service.whole_request() {
            for _ in 0..12 {
                service.respond(stream, 103, &[("link", "</a.css>")], false);
            }
            service.answer(stream, "hello");
        }
    });
    let gateway = gateway("", "early_hints 1;", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let answer = client.get("/");
    assert_eq!((answer.status, answer.text(), answer.interims.len()), (200, "hello".to_owned(), 12));
}

#[test]
fn h55_early_response_flows_beside_the_request_body() {
    let peer = peer(|mut service| {
        let Some(stream) = service.request() else { return };
        // The head and each answer come before the body has ended, as with a gRPC stream.
        service.respond(stream, 200, &[], false);
        let mut heard = 0;
        while !service.so_far(stream).is_whole {
            service.step();
            let body = service.so_far(stream).body.clone();
            if body.len() > heard {
                service.send(stream, &body[heard..].to_ascii_uppercase(), false);
                heard = body.len();
            }
        }
        service.send(stream, b".", true);
        service.end();
    });
    let gateway = gateway("", "proxy_request_buffering off; proxy_buffering off;", &[&peer]);
    let mut client = Http2Talk::connect(gateway.address());
    let stream = client.open("POST", "/", &[], false);
    client.until("the head", |client| client.so_far(stream).status == 200);
    for (turn, said) in ["one ", "two ", "three"].into_iter().enumerate() {
        client.send(stream, said.as_bytes(), turn == 2);
        let so_far = ["ONE ", "TWO ", "THREE"][..=turn].concat();
        client.until("an answer", |client| client.so_far(stream).text().starts_with(&so_far));
    }
    assert_eq!(client.answer(stream).text(), "ONE TWO THREE.");
}

#[test]
fn h56_slow_client_stalls_only_its_stream() {
    let (whole, sent) = (20_000_000, std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let counter = sent.clone();
    let peer = peer(move |mut service| {
        let Some(stream) = service.request() else { return };
        service.respond(stream, 200, &[("content-length", &whole.to_string())], false);
        let piece = [b'x'; 16_384];
        let mut left = whole;
        while left > 0 && !service.is_closed() {
            let sent = service.send_some(stream, &piece[..piece.len().min(left)]);
            left -= sent;
            counter.store(whole - left, std::sync::atomic::Ordering::Relaxed);
            if sent == 0 {
                service.step();
            }
            if let Some(other) = service.next_request() {
                service.answer(other, "other");
            }
        }
        service.send(stream, b"", true);
        service.end();
    });
    let gateway = gateway("", "", &[&peer]);
    let mut slow = gateway.client();
    slow.send_get("/slow", "");
    // Windows and socket buffers fill up; then the peer sends nothing more.
    let mut before = usize::MAX;
    testkit::until("the stream stops", || {
        let now = sent.load(std::sync::atomic::Ordering::Relaxed);
        let is_still = now > 0 && now == before;
        before = now;
        // Checked again after the sockets have had time to accept more.
        std::thread::park_timeout(std::time::Duration::from_millis(300));
        is_still.then_some(())
    });
    assert!(sent.load(std::sync::atomic::Ordering::Relaxed) < 12_000_000, "nothing holds the peer back");
    assert_eq!(gateway.client().get("/b", "").text(), "other");
    let response = slow.response();
    assert_eq!((response.status(), response.body.len()), (200, whole));
    assert_eq!(peer.connections(), 1);
}
