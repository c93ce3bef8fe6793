//! Limits of heads, how refused connections end, and delayed packets. The differential test compares `X-Accel-*` with
//! nginx.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use testkit::{End, Gateway, Talk};

#[test]
fn more_fields_than_max_headers_are_refused() {
    let gateway = Gateway::start(
        "events {} http { access_log off; max_headers 5; server { listen {listen}; return 204; } }",
        &[],
    );
    let ask = |fields: usize| {
        let lines = "X-Field: x\r\n".repeat(fields - 1);
        let mut client = gateway.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        client.response().status()
    };
    assert_eq!((ask(5), ask(6)), (204, 400));
}

#[test]
fn unanswered_connection_is_reset_where_configured() {
    let gateway = Gateway::start(
        "events {} http { access_log off; server { listen {listen};
            location /reset { reset_timedout_connection on; return 444; }
            location /closed { return 444; }
        } }",
        &[],
    );
    for (target, end) in [("/reset", End::Reset), ("/closed", End::Fin)] {
        let mut client = gateway.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.end(), end, "{target}");
    }
}

#[test]
fn location_without_nodelay_serves_equally() {
    let gateway = Gateway::start(
        "events {} http { access_log off; server { listen {listen};
            location /delayed { tcp_nodelay off; return 200 delayed; }
            location / { return 200 usual; }
        } }",
        &[],
    );
    let mut client = gateway.client();
    for (target, text) in [("/delayed", "delayed"), ("/", "usual"), ("/delayed", "delayed")] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.response().text(), text);
    }
}

#[test]
fn a_trusted_proxy_may_be_known_by_its_name() {
    let text = "events {} http { access_log off; server { listen {listen}; set_real_ip_from localhost; \
                location / { return 200 $remote_addr; } } }";
    let gateway = Gateway::start(text, &[]);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Real-IP: 192.0.2.7\r\n\r\n");
    assert_eq!(client.response().text(), "192.0.2.7");
}

#[test]
#[should_panic(expected = "host not found in set_real_ip_from \"nowhere\"")]
fn a_trusted_proxy_without_an_address_is_refused() {
    let text = "events {} http { access_log off; server { listen {listen}; set_real_ip_from nowhere; return 204; } }";
    Gateway::start(text, &[]);
}

/// A client with a refused body, the rest of which is still to be sent.
fn refused(words: &str) -> (Gateway, Talk) {
    let text = "events {} http { access_log off; server { listen {listen}; client_max_body_size 10; WORDS
        location / { proxy_pass http://127.0.0.1:1; } } }";
    let gateway = Gateway::start(&text.replace("WORDS", words), &[]);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome of it");
    assert_eq!(client.response().status(), 413);
    (gateway, client)
}

#[test]
fn reads_a_refused_clients_rest_for_a_while() {
    // Time without input, and total time; or no lingering. An hour is longer than any test.
    for words in [
        "lingering_timeout 200ms; lingering_time 1h;",
        "lingering_timeout 1h; lingering_time 200ms;",
        "lingering_close off; lingering_timeout 1h; lingering_time 1h;",
    ] {
        let (gateway, _client) = refused(words);
        gateway.until_totals("it is closed", |totals| totals.active == 0);
    }
    let (gateway, mut client) = refused("lingering_timeout 1h; lingering_time 1h;");
    for _ in 0..20 {
        client.send("more of it".repeat(1000));
    }
    assert_eq!(gateway.totals().active, 1, "it is read, and the connection stays");
}

#[test]
fn idle_connection_survives_quit_for_its_promised_time() {
    // Five seconds by default: longer than this test.
    for (words, kept) in [("keepalive_min_timeout 1h;", true), ("", true), ("keepalive_min_timeout 0;", false)] {
        let (gateway, mut client) = idle_client(words);
        gateway.shared().send(0, gateway::Message::Drain);
        if kept {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let response = client.response();
            assert!(response.status() == 204 && response.announces_close(), "{words}: {}", response.text());
        }
        assert_eq!(client.end(), End::Fin, "{words}");
    }
    // A client that was told to come back within a second is not waited for any longer.
    let (gateway, mut client) = idle_client("keepalive_timeout 1s; keepalive_min_timeout 1h;");
    gateway.shared().send(0, gateway::Message::Drain);
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn a_request_that_came_before_a_gentle_end_is_answered() {
    for _ in 0..50 {
        let (gateway, mut client) = idle_client("keepalive_min_timeout 0;");
        // On loopback the request is in the gateway's socket when this returns.
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        gateway.shared().send(0, gateway::Message::Drain);
        assert_eq!(client.response().status(), 204);
    }
}

/// A gateway, and a client with an idle connection after a request.
fn idle_client(words: &str) -> (Gateway, Talk) {
    let text = format!("events {{}} http {{ access_log off; server {{ listen {{listen}}; {words} return 204; }} }}");
    let gateway = Gateway::start(&text, &[]);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 204);
    (gateway, client)
}
