//! `memcached_pass` with a real memcached, and with peers that answer badly.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Gateway, Response, Running, peer_program};

/// A memcached that runs as long as the test.
struct Memcached {
    _running: Running,
    port: u16,
}

impl Memcached {
    fn start(port: u16) -> Self {
        let mut command = Command::new(peer_program("memcached"));
        command.args(["-l", "127.0.0.1", "-U", "0", "-m", "64", "-I", "4m", "-p", &port.to_string()]);
        if std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0 {
            command.args(["-u", "root"]);
        }
        Self { _running: Running::listening(&mut command, ([127, 0, 0, 1], port)), port }
    }

    fn command(&self, bytes: &[u8], end: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(bytes).unwrap();
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.contains(end) {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        text
    }

    fn set(&self, key: &str, flags: u32, value: &[u8]) {
        let line = format!("set {key} {flags} 0 {}\r\n", value.len());
        self.command(&[line.as_bytes(), value, b"\r\n"].concat(), "STORED\r\n");
    }

    /// A number of `stats`.
    fn number(&self, name: &str) -> u64 {
        let text = self.command(b"stats\r\n", "END\r\n");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} "))).unwrap();
        line.trim().parse().unwrap()
    }
}

fn gateway(http: &str, location: &str, upstreams: &[SocketAddr]) -> Gateway {
    let text = format!(
        "events {{}} http {{ access_log off; default_type text/plain; types {{ text/html html; }} {http} \
         server {{ listen {{listen}}; set $memcached_key $uri$is_args$args; {location} }} }}"
    );
    Gateway::start(&text, upstreams)
}

fn ask(gateway: &Gateway, head: &str) -> Response {
    let mut client = gateway.client();
    client.send(format!("{head}\r\nHost: a\r\n\r\n"));
    client.response()
}

fn get(gateway: &Gateway, target: &str) -> Response {
    ask(gateway, &format!("GET {target} HTTP/1.1"))
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * at % 251) as u8).collect()
}

#[test]
fn values_come_from_memcached_over_few_connections() {
    let memcached = Memcached::start(testkit::free_port());
    let address = SocketAddr::from(([127, 0, 0, 1], memcached.port));
    let large = pattern(3_000_000);
    memcached.set("/page.html", 0, b"<p>from memcached\n");
    memcached.set("/large", 0, &large);
    memcached.set("/empty", 0, b"");
    memcached.set("/a?b=c%20d", 0, b"with a query");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    packed.write_all(b"a packed value").unwrap();
    memcached.set("/packed", 6, &packed.finish().unwrap());
    let http = "upstream cached { server {upstream:0}; keepalive 4; }";
    let location = "location / { memcached_gzip_flag 2; gunzip on; memcached_pass cached; error_page 404 = @origin; } \
                    location @origin { return 200 'from the origin'; }";
    let gateway = gateway(http, location, &[address]);
    let before = memcached.number("total_connections");
    let page = get(&gateway, "/page.html");
    assert_eq!(
        (page.status(), page.value("Content-Type"), page.text()),
        (200, Some("text/html"), "<p>from memcached\n".into())
    );
    assert!(get(&gateway, "/large").body == large);
    assert_eq!(get(&gateway, "/empty").body, b"");
    assert_eq!(get(&gateway, "/none").text(), "from the origin");
    assert_eq!(get(&gateway, "/packed").text(), "a packed value");
    let mut client = gateway.client();
    client.send("HEAD /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.response_to_head();
    assert_eq!((head.status(), head.value("Content-Length")), (200, Some("18")));
    for _ in 0..50 {
        assert_eq!(get(&gateway, "/page.html").status(), 200);
    }
    // One of them asks for this number.
    let opened = memcached.number("total_connections") - before;
    assert!(opened <= 4, "{opened} connections");
    assert!(memcached.number("get_hits") >= 54 && memcached.number("get_misses") == 1);
}

#[test]
fn many_clients_get_their_own_values() {
    let memcached = Memcached::start(testkit::free_port());
    let address = SocketAddr::from(([127, 0, 0, 1], memcached.port));
    for number in 0..20 {
        memcached.set(&format!("/v{number}"), 0, format!("value {number} ").repeat(number * 100).as_bytes());
    }
    let http = "upstream cached { server {upstream:0}; keepalive 8; }";
    let gateway = gateway(http, "location / { memcached_pass cached; }", &[address]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let gateway = &gateway;
            scope.spawn(move || {
                for round in 0..40 {
                    let number = (thread * 7 + round * 3) % 20;
                    let value = get(gateway, &format!("/v{number}"));
                    assert!(value.text() == format!("value {number} ").repeat(number * 100), "{number}");
                }
            });
        }
    });
}

#[test]
fn a_restarted_memcached_is_asked_again() {
    let memcached = Memcached::start(testkit::free_port());
    let port = memcached.port;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    memcached.set("/k", 0, b"old");
    let http = "upstream cached { server {upstream:0} max_fails=0; keepalive 4; }";
    let gateway = gateway(http, "location / { memcached_pass cached; }", &[address]);
    assert_eq!(get(&gateway, "/k").text(), "old");
    drop(memcached);
    let memcached = Memcached::start(port);
    memcached.set("/k", 0, b"new");
    assert_eq!(get(&gateway, "/k").text(), "new");
}

/// A peer that does not speak HTTP. It runs until the test program ends.
struct Scripted {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

/// Answers each line with these bytes, and closes where `closes`.
fn answering(bytes: &'static [u8], closes: bool) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, accepted) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    if stream.write_all(bytes).is_err() || closes {
                        return;
                    }
                }
            });
        }
    });
    Scripted { address, accepted }
}

const POOLED: &str = "upstream cached { server {upstream:0} max_fails=0; keepalive 4; }";

#[test]
fn s41_answer_for_another_key_or_kind_is_502() {
    for (answer, message) in [
        (&b"VALUE /other 0 5\r\nhello\r\nEND\r\n"[..], "memcached sent invalid key in response"),
        (b"SERVER_ERROR out of memory\r\n", "memcached sent invalid response: \"SERVER_ERROR out of memory\""),
        (b"ERROR\r\n", "memcached sent invalid response: \"ERROR\""),
        (b"VALUE /k 0 x\r\n", "memcached sent invalid length in response"),
        (b"\x81\x00\x00\x00\x00\x00\x00\x01\n", "memcached sent invalid response"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "memcached sent invalid response"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "memcached sent invalid response"),
    ] {
        let peer = answering(answer, false);
        let gateway = gateway(POOLED, "location / { memcached_pass cached; }", &[peer.address]);
        for _ in 0..2 {
            assert_eq!(get(&gateway, "/k").status(), 502, "{}", answer.escape_ascii());
        }
        gateway.logged(message);
        assert_eq!(
            peer.accepted.load(Ordering::Relaxed),
            2,
            "{}: the connection is not used again",
            answer.escape_ascii()
        );
    }
}

#[test]
fn s42_endless_line_is_bounded_and_a_partial_one_is_502() {
    let long: &'static [u8] = Box::leak(b"VALUE /k ".repeat(20_000).into_boxed_slice());
    for (answer, closes, message) in [
        (long, false, "upstream sent too big header"),
        (&b"VALUE /k 0"[..], true, "upstream prematurely closed connection"),
        (b"", true, "upstream prematurely closed connection"),
    ] {
        let peer = answering(answer, closes);
        let gateway = gateway(POOLED, "location / { memcached_pass cached; }", &[peer.address]);
        assert_eq!(get(&gateway, "/k").status(), 502, "{message}");
        gateway.logged(message);
    }
}

#[test]
fn s43_truncated_value_is_visibly_cut() {
    let peer = answering(b"VALUE /k 0 100\r\nnot all of it", true);
    let gateway = gateway(POOLED, "location / { memcached_pass cached; }", &[peer.address]);
    let mut client = gateway.client();
    client.send("GET /k HTTP/1.1\r\nHost: a\r\n\r\n");
    let (response, _) = client.cut_response();
    assert_eq!((response.status(), response.value("Content-Length")), (200, Some("100")));
    assert_eq!(response.body, b"not all of it");
    gateway.logged("upstream prematurely closed connection");
}

#[test]
fn s44_value_with_a_wrong_end_is_served_and_closes() {
    for (answer, closes) in [
        (&b"VALUE /k 0 5\r\nhello, and more than it said\r\nEND\r\n"[..], false),
        (b"VALUE /k 0 5\r\nhello\r\nEND\r\nVALUE /k 0 5\r\nextra\r\nEND\r\n", false),
        (b"VALUE /k 0 5\r\nhello\r\n", true),
        (b"VALUE /k 0 5\r\nhello", true),
    ] {
        let peer = answering(answer, closes);
        let gateway = gateway(POOLED, "location / { memcached_pass cached; }", &[peer.address]);
        for _ in 0..2 {
            assert_eq!(get(&gateway, "/k").text(), "hello", "{}", answer.escape_ascii());
        }
        assert_eq!(peer.accepted.load(Ordering::Relaxed), 2, "{}", answer.escape_ascii());
    }
}

#[test]
fn s45_peer_without_the_value_is_skipped() {
    for (bad, words) in [(&b"END\r\n"[..], "not_found"), (b"ERROR\r\n", "invalid_response"), (b"", "error")] {
        let (bad, good) = (answering(bad, bad.is_empty()), answering(b"VALUE /k 0 5\r\nhello\r\nEND\r\n", false));
        let http = "upstream cached { server {upstream:0} max_fails=0; server {upstream:1} backup; }";
        let location = format!("location / {{ memcached_next_upstream {words}; memcached_pass cached; }}");
        let gateway = gateway(http, &location, &[bad.address, good.address]);
        // A peer that lacks the value has answered, so the backup server is asked only after it.
        assert_eq!(get(&gateway, "/k").text(), "hello", "{words}");
    }
}

#[test]
fn a_key_cannot_carry_another_command() {
    let memcached = Memcached::start(testkit::free_port());
    let address = SocketAddr::from(([127, 0, 0, 1], memcached.port));
    let gateway = gateway("", "location / { set $memcached_key $uri; memcached_pass {upstream:0}; }", &[address]);
    assert_eq!(get(&gateway, "/x%0d%0aset%20/evil%200%200%203%0d%0abad%0d%0a").status(), 404);
    assert_eq!(get(&gateway, "/evil").status(), 404);
    assert_eq!(memcached.number("cmd_set"), 0);
    // memcached refuses a key of more than 250 bytes.
    assert_eq!(get(&gateway, &format!("/{}", "k".repeat(300))).status(), 502);
}
