//! External programs as upstreams: nginx with and without TLS, and our own origin.

use crate::upstream_tls::peer::{Authority, Files};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use testkit::{Gateway, Http2Talk, free_port, peer_program, until};

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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
    command.args(["-e", "/dev/null", "-c", &path]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    until("nginx listens", || TcpStream::connect(address).ok());
    (running, address)
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
    let streams: Vec<u32> = (0..50).map(|_| many.open("GET", "/large", &[], true)).collect();
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
fn h67_one_group_serves_both_protocols_on_connections_of_their_own() {
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
