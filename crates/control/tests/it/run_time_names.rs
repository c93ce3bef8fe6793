//! Names from requests, compared with nginx: the same name server, the same peers, the same requests one after the
//! other. Each name has two addresses that fail in the same way, so the order does not matter.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end
#![allow(clippy::print_stdout)] // prints what was skipped

use control::Control;
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::name_server::A;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{DEADLINE, NameServer};

/// Requests by their `X-Key`.
type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// Serves one request on a connection; the path selects the behaviour.
fn serve(mut stream: TcpStream, counts: &Counts) -> Option<()> {
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    // These requests have a known end, and they arrive in one piece.
    while !received.ends_with(b"\r\n\r\n") && !received.ends_with(b"hello") {
        let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
        received.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8_lossy(&received).into_owned();
    let key = text.lines().find_map(|line| line.strip_prefix("X-Key: "))?;
    *counts.lock().unwrap().entry(key.to_owned()).or_default() += 1;
    let status = text.split(' ').nth(1)?.split(['/', '?']).nth(2)?;
    if status != "fin" {
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).ok()?;
    }
    stream.shutdown(Shutdown::Write).ok()?;
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    None
}

/// Peers at two addresses with one port.
fn peers(counts: &Counts) -> u16 {
    let (first, second) = testkit::until("a port that is free at both addresses", || {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        TcpListener::bind(("127.0.0.3", port)).ok().map(|second| (first, second))
    });
    let port = first.local_addr().unwrap().port();
    for listener in [first, second] {
        let counts = Arc::clone(counts);
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || serve(stream, &counts));
            }
        });
    }
    port
}

fn status(address: SocketAddr, request: &str) -> String {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE + Duration::from_secs(5))).unwrap();
    testkit::ask(&stream, request).map_or_else(|_| "none".to_owned(), |response| response.status().to_string())
}

#[test]
fn request_names_resolve_as_in_nginx_and_failures_expire() {
    for generation in [Nginx::Old, Nginx::New] {
        if let Some(nginx) = nginx_or_skip(generation) {
            compare_with(&nginx);
        }
    }
}

fn compare_with(nginx: &Path) {
    let server = NameServer::script(|question| match question.kind {
        A => vec![question.addresses(300, &["127.0.0.1", "127.0.0.3"])],
        _ => vec![question.absent(300)],
    });
    let text = format!(
        "access_log off; resolver {} ipv6=off; proxy_http_version 1.1; proxy_set_header Connection close;
         server {{
             listen {{listen}};
             location /default/ {{ proxy_pass http://$arg_to; }}
             location /all/ {{ proxy_next_upstream error http_503 http_404 non_idempotent; proxy_pass http://$arg_to; }}
             location /off/ {{ proxy_next_upstream off; proxy_pass http://$arg_to; }}
         }}",
        server.address()
    );
    let sides = Sides::start(nginx, &text, &[], &[]);
    let _control = Control::start(sides.gateway().shared()).unwrap();
    let counts = Counts::default();
    let port = peers(&counts);
    for (place, answer, method) in ["default", "all", "off"].into_iter().flat_map(|place| {
        let answers = ["fin", "503", "404", "200"].into_iter();
        answers.flat_map(move |answer| ["GET", "POST"].map(|method| (place, answer, method)))
    }) {
        // The second and third round run with the state of the first.
        let seen = [Side::Nginx, Side::Ours].map(|side| {
            let rounds = (0..3).map(|round| {
                let key = format!("{side:?}{round}{place}{answer}{method}");
                let body = if method == "POST" { "Content-Length: 5\r\n\r\nhello" } else { "\r\n" };
                let request = format!(
                    "{method} /{place}/{answer}?to=two.test:{port} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                     X-Key: {key}\r\n{body}"
                );
                let status = status(sides.address(side, 0), &request);
                (status, counts.lock().unwrap().get(&key).copied().unwrap_or(0))
            });
            rounds.collect::<Vec<_>>()
        });
        assert_eq!(seen[0], seen[1], "{place}, {answer}, {method}: nginx's and ours\n{}", sides.logs());
    }
}
