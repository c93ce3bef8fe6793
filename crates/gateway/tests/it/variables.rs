//! Variables that have values only in a running gateway.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use testkit::{Gateway, Peer, Refusing};

#[test]
fn request_id_is_stable_within_a_request_only() {
    let gateway = Gateway::start(
        "events {}\nhttp { access_log off; server { listen {listen}; return 200 \"$request_id $request_id\"; } }\n",
        &[],
    );
    let mut client = gateway.client();
    let mut seen = Vec::new();
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let body = client.response().text().clone();
        let (first, second) = body.split_once(' ').unwrap();
        assert_eq!(first, second);
        assert!(first.len() == 32 && first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{first}");
        seen.push(first.to_owned());
    }
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn without_a_peer_the_group_is_named() {
    let refusing = Refusing::new();
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let gateway = Gateway::start(
        "events {} http {
            log_format line '$upstream_addr|$upstream_status|$upstream_connect_time|$upstream_header_time|'
                            '$upstream_response_length|$upstream_reused|$upstream_queue_time|$proxy_port';
            access_log access.log line;
            upstream none { server {upstream:0} down; server {upstream:1} down; }
            server {
                listen {listen};
                location /other { proxy_pass http://{upstream:1}; }
                location /none { proxy_pass http://none; }
            }
        }",
        &[refusing.address(), peer.address()],
    );
    let mut client = gateway.client();
    client.send("GET /other HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    client.send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 502);
    let lines = gateway.access_lines(2);
    let fields: Vec<&str> = lines[0].split('|').collect();
    assert_eq!(fields[0], peer.address().to_string());
    assert_eq!((fields[1], fields[4], fields[5], fields[6]), ("200", "5", "0", "-"));
    assert_eq!(fields[7], peer.address().port().to_string());
    assert!(lines[1].starts_with("none|502|-|-|0|0|-|"), "{lines:?}");
}

#[test]
fn lists_a_failed_attempt_before_the_next_one() {
    let refusing = Refusing::new();
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let gateway = Gateway::start(
        "events {} http {
            log_format line '$upstream_addr|$upstream_status|$upstream_header_time|$upstream_local_addr|$pool_wait_time';
            access_log access.log line;
            upstream two { server {upstream:0} max_fails=0; server {upstream:1}; }
            server { listen {listen}; location / { proxy_pass http://two; } }
        }",
        &[refusing.address(), peer.address()],
    );
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    let lines = gateway.access_lines(1);
    let fields: Vec<&str> = lines[0].split('|').collect();
    assert_eq!(fields[0], format!("{}, {}", refusing.address(), peer.address()));
    assert_eq!(fields[1], "502, 200");
    assert!(fields[2].starts_with("-, 0."), "{lines:?}");
    assert!(fields[3].starts_with("-, 127.0.0.1:"), "{lines:?}");
    assert!(fields[4].starts_with("0.000, "), "{lines:?}");
}

#[test]
fn an_error_page_at_another_proxy_is_behind_a_colon() {
    let refusing = Refusing::new();
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let gateway = Gateway::start(
        "events {} http {
            log_format line '$upstream_addr|$upstream_status';
            access_log access.log line;
            server {
                listen {listen};
                location / { proxy_pass http://{upstream:0}; error_page 502 = /other; }
                location /other { proxy_pass http://{upstream:1}; }
            }
        }",
        &[refusing.address(), peer.address()],
    );
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    let expected = format!("{} : {}|502 : 200", refusing.address(), peer.address());
    assert_eq!(gateway.access_lines(1), [expected]);
}

#[test]
fn a_body_is_seen_where_it_was_read() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(
        "events {} http {
            log_format line '$request_body|$request_body_file|$trailer_x_sum|$is_request_port$request_port';
            access_log access.log line;
            server {
                listen {listen};
                location / { proxy_pass http://{upstream:0}; }
                location /file { client_body_in_file_only on; proxy_pass http://{upstream:0}; }
                location /unread { return 200; }
            }
        }",
        &[peer.address()],
    );
    let mut client = gateway.client();
    let mut say = |request: &str| {
        client.send(request);
        assert_eq!(client.response().status(), 200);
    };
    say("POST / HTTP/1.1\r\nHost: a:8080\r\nContent-Length: 3\r\n\r\nabc");
    say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\nX-Sum: 7\r\n\r\n");
    say("POST /file HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    say("POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    let lines = gateway.access_lines(4);
    assert_eq!(lines[0], "abc|-|-|:8080");
    assert_eq!(lines[1], "de|-|7|");
    let path = lines[2].strip_prefix("-|").and_then(|line| line.strip_suffix("|-|")).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"abc", "the file has the body, and stays");
    assert_eq!(lines[3], "-|-|-|");
}

#[test]
fn the_root_is_shown_as_it_is_and_without_its_links() {
    let gateway = Gateway::start(
        "events {} http { access_log off; server { listen {listen}; root current;
            location / { return 200 '$document_root|$realpath_root'; } } }",
        &[],
    );
    let prefix = gateway.prefix();
    let shown = || {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response().text().clone()
    };
    for release in ["one", "two"] {
        std::fs::create_dir(prefix.join(release)).unwrap();
        let _ = std::fs::remove_file(prefix.join("current"));
        std::os::unix::fs::symlink(release, prefix.join("current")).unwrap();
        let real = std::fs::canonicalize(prefix.join(release)).unwrap();
        assert_eq!(shown(), format!("{}|{}", prefix.join("current").display(), real.display()));
    }
    std::fs::remove_file(prefix.join("current")).unwrap();
    assert_eq!(shown(), format!("{}|", prefix.join("current").display()));
    gateway.logged("realpath() \"");
}

#[test]
fn a_variable_with_nothing_to_act_on_is_empty_and_noted_once() {
    let gateway = Gateway::start(
        "events {} http {
            log_format line '$ssl_protocol|$http3|$ancient_browser';
            access_log access.log line;
            server { listen {listen}; location / { return 200 $ssl_protocol$geoip_city; } }
        }",
        &[],
    );
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().body, b"");
    assert_eq!(gateway.access_lines(1), ["-||1"]);
    let mut notes = gateway.warnings();
    notes.sort();
    let expected = [
        "\"$ancient_browser\" variable is always the same here",
        "\"$geoip_city\" variable is always empty here",
        "\"$http3\" variable is always empty here",
        "\"$ssl_protocol\" variable is always empty here",
    ];
    assert_eq!(notes, expected);
}
