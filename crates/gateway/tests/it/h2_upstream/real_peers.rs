//! External programs as upstreams: nginx with and without TLS, and our own origin.

use crate::h2_upstream::metric;
use crate::upstream_tls::peer::{Authority, Files};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use testkit::{Gateway, Http2Talk, Peer, Running, Signal, free_port, peer_program, until};

fn nginx(files: &Files, listen: &str, server: &str) -> (Running, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let folder = files.path();
    let conf = format!(
        "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
         http {{ access_log off; client_max_body_size 0; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
             fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
             server {{ listen {address} {listen}; http2 on; root {folder}; {server}
                 location = /told {{ return 200 \"$server_protocol|$http2|$host|$connection_requests|$ssl_alpn_protocol\"; }} }} }}"
    );
    let path = files.write("nginx.conf", &conf);
    let mut command = Command::new(peer_program("nginx-new"));
    command.args(["-e", "/dev/null", "-c", &path]);
    (Running::listening(&mut command, address), address)
}

fn site(address: SocketAddr, scheme: &str, location: &str) -> Gateway {
    let text = format!(
        "worker_processes 1; events {{ worker_connections 256; }} http {{ client_max_body_size 0; upstream peers {{ \
         server {{upstream:0}}; keepalive 8; }} server {{ listen {{listen}}; http2 on; location / {{ \
         proxy_pass {scheme}://peers; proxy_http_version 2; proxy_set_header Host a.test; {location} }} }} }}"
    );
    Gateway::start(&text, &[address])
}

#[test]
fn nginx_serves_streams_in_clear() {
    let files = Files::new();
    let (_nginx, address) = nginx(&files, "", "");
    files.write("large", &"0123456789abcdef".repeat(200_000));
    let gateway = site(address, "http", "");
    let mut client = gateway.client();
    for turn in 1..=3 {
        assert_eq!(client.get("/told", "").text(), format!("HTTP/2.0|h2c|a.test|{turn}|"));
    }
    let large = client.get("/large", "");
    assert_eq!((large.status(), large.body.len()), (200, 3_200_000));
    assert!(large.body.chunks(16).all(|chunk| chunk == b"0123456789abcdef"));
    let mut many = Http2Talk::connect(gateway.address());
    let streams: Vec<u32> = (0..12).map(|_| many.open("GET", "/large", &[], true)).collect();
    for stream in streams {
        assert_eq!(many.answer(stream).body.len(), 3_200_000);
    }
}

#[test]
fn nginx_serves_streams_over_tls_and_sees_alpn() {
    let authority = Authority::new("Authority");
    let files = Files::new();
    let issued = authority.usual();
    let (chain, key) = (files.write("server.pem", &issued.chain), files.write("server.key", &issued.key));
    let words = format!("ssl_certificate {chain}; ssl_certificate_key {key};");
    let (_nginx, address) = nginx(&files, "ssl", &words);
    let trusted = files.write("ca.pem", &authority.pem);
    let location = format!(
        "proxy_ssl_verify on; proxy_ssl_trusted_certificate {trusted}; proxy_ssl_name a.test; proxy_ssl_server_name on;"
    );
    let gateway = site(address, "https", &location);
    let mut client = gateway.client();
    for turn in 1..=3 {
        assert_eq!(client.get("/told", "").text(), format!("HTTP/2.0|h2|a.test|{turn}|h2"));
    }
}

#[test]
fn nginx_that_ends_connections_after_some_requests_loses_none() {
    let files = Files::new();
    let (_nginx, address) = nginx(&files, "", "keepalive_requests 7;");
    let gateway = site(address, "http", "");
    let mut client = Http2Talk::connect(gateway.address());
    for _ in 0..10 {
        let streams: Vec<u32> = (0..5).map(|_| client.open("GET", "/told", &[], true)).collect();
        for stream in streams {
            assert_eq!(client.answer(stream).status, 200);
        }
    }
}

#[test]
fn h67_protocols_of_a_group_use_separate_connections() {
    let origin = origin::Origin::bind(origin::Options::default()).unwrap().start().unwrap();
    let text = "worker_processes 1; events { worker_connections 256; } http { upstream peers { server {upstream:0}; \
        keepalive 8; } server { listen {listen}; http2 on; location / { proxy_pass http://peers; proxy_http_version 2; } \
        location /old/ { proxy_pass http://peers/; } } }";
    let gateway = Gateway::start(text, &[origin.address()]);
    let mut client = Http2Talk::connect(gateway.address());
    for _ in 0..3 {
        let streams: Vec<u32> =
            (0..10).flat_map(|_| ["/", "/old/"]).map(|path| client.open("GET", path, &[], true)).collect();
        for stream in streams {
            assert_eq!(client.answer(stream).status, 200);
        }
    }
}

/// HAProxy that speaks HTTP/2 in clear, before a server of HTTP/1.1.
fn haproxy(files: &Files, name: &str, server: SocketAddr) -> (Running, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let conf = format!(
        "global\n maxconn 200\ndefaults\n mode http\n timeout connect 10s\n timeout client 20s\n timeout server 20s\n\
         frontend front\n bind {address} proto h2\n \
         http-request return status 200 content-type text/plain lf-string \"{name} %[req.ver] %[req.hdr(host)]\" if {{ path /told }}\n \
         default_backend back\nbackend back\n server s {server}\n"
    );
    let mut command = Command::new(peer_program("haproxy-new"));
    command.args(["-db", "-f", &files.write(&format!("{name}.cfg"), &conf)]);
    (Running::listening(&mut command, address), address)
}

/// A gateway before these, in this order.
fn before(addresses: &[SocketAddr], location: &str) -> Gateway {
    let servers: Vec<_> = (0..addresses.len()).map(|index| format!("server {{upstream:{index}}};")).collect();
    let text = format!(
        "worker_processes 1; events {{ worker_connections 256; }} http {{ client_max_body_size 0; access_log off; \
         upstream peers {{ {} keepalive 8; }} server {{ listen {{listen}}; http2 on; \
         location = /metrics {{ status_page; }} location / {{ proxy_pass http://peers; proxy_http_version 2; \
         proxy_set_header Host a.test; {location} }} }} }}",
        servers.concat()
    );
    Gateway::start(&text, addresses)
}

#[test]
fn h73_haproxy_serves_streams_with_bodies_and_trailers() {
    let peer = Peer::answering(|request| {
        let sum = request.trailers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-sum"));
        let sum = sum.map_or("none", |(_, value)| value);
        let (len, body) = (request.body.len(), "0123456789abcdef".repeat(request.body.len() / 16));
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-got\r\n\r\n";
        format!("{head}{len:x}\r\n{body}\r\n0\r\nx-got: {sum}\r\n\r\n").into_bytes()
    });
    let files = Files::new();
    let (_haproxy, address) = haproxy(&files, "one", peer.address());
    let gateway = before(&[address], "proxy_pass_trailers on; proxy_request_buffering off;");
    let mut client = Http2Talk::connect(gateway.address());
    for _ in 0..3 {
        assert_eq!(client.get("/told").text(), "one 2.0 a.test");
    }
    let streams: Vec<u32> = (0..20).map(|_| client.open("GET", "/told", &[], true)).collect();
    assert!(streams.into_iter().all(|stream| client.answer(stream).text() == "one 2.0 a.test"));
    let body = "0123456789abcdef".repeat(40_000);
    let stream = client.open("POST", "/echo", &[("te", "trailers")], false);
    client.send(stream, body.as_bytes(), false);
    client.send_trailers(stream, &[("x-sum", "7")]);
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.text() == body, answer.reset), (200, true, None));
    assert_eq!(answer.trailers, [("x-got".to_owned(), "7".to_owned())]);
}

/// HAProxy ends gently (SIGUSR1): it sends GOAWAY and finishes open streams.
#[test]
fn h74_haproxy_that_stops_loses_no_request() {
    let (go, files) = (Signal::new(), Files::new());
    let word = go.clone();
    let slow = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.wait(&word);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
        }
    });
    let (mut first, address) = haproxy(&files, "first", slow.address());
    let gateway = before(&[address], "");
    let mut client = Http2Talk::connect(gateway.address());
    assert_eq!(client.get("/told").text(), "first 2.0 a.test");
    let streams: Vec<u32> = (0..10).map(|_| client.open("GET", "/late", &[], true)).collect();
    until("all requests are with the peer", || (slow.requests().len() == 10).then_some(()));
    let stop = Command::new("kill").args(["-USR1", &first.id().to_string()]).status().unwrap();
    assert!(stop.success());
    until("HAProxy listens no more", || TcpStream::connect(address).is_err().then_some(()));
    go.raise();
    for stream in streams {
        let answer = client.answer(stream);
        assert_eq!((answer.status, answer.text().as_str()), (200, "late"));
    }
    // It ends only when the connection is closed, which our side does after GOAWAY.
    let ended = first.wait();
    assert!(ended.success(), "{ended}");
    let gone = "holdfast_upstream_discarded_total{group=\"peers\",reason=\"gone_away\"}";
    assert_eq!(metric(&gateway, gone), 1);
}
