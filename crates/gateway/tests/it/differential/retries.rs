//! Generated retry tests: each cause × method with its body × list of peers × `proxy_next_upstream`, compared with
//! nginx. Each combination has its own group, so that no failure remains from another one. The number of requests to
//! each peer, the status, and `$upstream_addr` with `$upstream_status` must be equal, or be listed in `accepted.txt` as
//! `retries/…`.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::accepted;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};

/// What the first peer does with every request. The second one answers 200.
const CAUSES: [&str; 11] =
    ["refused", "fin", "rst", "inside", "silence", "garbage", "s500", "s503", "s403", "s404", "s429"];

/// Method, how the body arrives, and whether it is buffered.
const REQUESTS: [(&str, Body, bool); 7] = [
    ("GET", Body::None, true),
    ("POST", Body::Length, true),
    ("POST", Body::Length, false),
    ("POST", Body::Chunked, false),
    ("POST", Body::Coming, false),
    ("PUT", Body::Length, false),
    ("PUT", Body::Coming, false),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Body {
    None,
    /// Together with the head.
    Length,
    Chunked,
    /// Half of it; the rest never arrives.
    Coming,
}

/// Lists of peers: `A` fails, `B` does not.
const LISTS: [(&str, &str); 11] = [
    ("single", "server A;"),
    ("doubled", "server A; server A;"),
    ("tripled", "server A; server A; server A; server B;"),
    ("doubled backup", "server A; server A backup;"),
    ("backup", "server A; server B backup;"),
    ("two", "server A; server B backup; server A down;"),
    ("down", "server A; server B down;"),
    ("all down but backup", "server A down; server A backup; server A backup;"),
    ("patient", "server A max_fails=0; server A max_fails=0; server A down;"),
    ("resolved", "server LOCALHOST;"),
    ("resolved twice", "server LOCALHOST; server LOCALHOST; server B down;"),
];

/// `proxy_pass` to a host that the request names.
const RUN_TIME: &str = "run time";

const POLICIES: [(&str, &str); 4] = [
    ("default", "error timeout"),
    ("all", "error timeout invalid_header http_500 http_503 http_403 http_404 http_429"),
    ("any method", "error timeout invalid_header http_500 http_503 http_404 non_idempotent"),
    ("off", "off"),
];

struct Combination {
    name: String,
    /// Its name among the counts, and its group.
    place: String,
    path: String,
    cause: &'static str,
    method: &'static str,
    body: Body,
    /// A peer that the request names, at run time.
    named: Option<SocketAddr>,
}

/// Requests by side, place and peer.
type Counts = Arc<Mutex<HashMap<(String, String, &'static str), usize>>>;

/// A peer that fails as the path says, or one that does not fail.
struct Server {
    address: SocketAddr,
}

impl Server {
    fn start(name: &'static str, counts: &Counts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::clone(counts);
        // Both end with the process, so nothing waits for them.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || serve(stream, name, &counts));
            }
        });
        Self { address }
    }
}

/// Serves one request on a connection. A peer that fails on purpose ignores I/O errors.
fn serve(mut stream: TcpStream, name: &'static str, counts: &Counts) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let mut received = Vec::new();
    let head_end = loop {
        if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        receive(&mut stream, &mut received)?;
    };
    let head = String::from_utf8_lossy(&received[..head_end]).into_owned();
    let field = |wanted: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned())
    };
    let (side, cause, place) = (field("X-Side")?, field("X-Cause")?, field("X-Place")?);
    if field("X-Body").is_none_or(|body| body != "Coming") {
        let length: usize = field("Content-Length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let is_chunked = field("Transfer-Encoding").is_some();
        while received.len() < head_end + length || (is_chunked && !received.ends_with(b"0\r\n\r\n")) {
            receive(&mut stream, &mut received)?;
        }
    }
    *counts.lock().unwrap().entry((side, place, name)).or_default() += 1;
    let cause = if name == "B" { "ok" } else { &cause };
    let answer = match cause {
        "fin" => String::new(),
        "rst" => {
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).ok()?;
            return None;
        }
        "inside" => "HTTP/1.1 200 OK\r\nContent-".to_owned(),
        "garbage" => "HTTP/1.1 200 OK\r\nX-A: \0\r\n\r\n".to_owned(),
        "silence" => {
            while receive(&mut stream, &mut received).is_some() {}
            return None;
        }
        "ok" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_owned(),
        status => format!("HTTP/1.1 {} X\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwhy", &status[1..]),
    };
    stream.write_all(answer.as_bytes()).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    // Unread bytes would turn the close into a reset.
    while receive(&mut stream, &mut received).is_some() {}
    None
}

fn receive(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
    received.extend_from_slice(&buffer[..count]);
    Some(())
}

/// All combinations, and the inside of `http {}` for them.
fn combinations(failing: SocketAddr, dead: SocketAddr, well: SocketAddr) -> (Vec<Combination>, String) {
    let (mut all, mut groups, mut locations) = (Vec::new(), String::new(), String::new());
    let mut named = HashSet::new();
    for cause in CAUSES {
        let first = if cause == "refused" { dead } else { failing };
        for (method, body, buffered) in REQUESTS {
            for (policy, words) in POLICIES {
                // A timeout takes time; with half a body it is the client's timeout.
                if cause == "silence" && (policy == "all" || body == Body::Coming) {
                    continue;
                }
                for (list, servers) in LISTS.into_iter().chain([(RUN_TIME, "")]) {
                    let place = format!("c{}", all.len());
                    let stated = if buffered { "" } else { " unbuffered" };
                    let target = if list == RUN_TIME { "$arg_to" } else { &place };
                    // One location for all hosts that a request names: it knows every group.
                    let shared = format!("named{}{}", if buffered { "" } else { "-off" }, policy.replace(' ', "-"));
                    let location = if list == RUN_TIME { &shared } else { &place };
                    let line = format!(
                        "location /{location}/ {{ proxy_next_upstream {words}; proxy_request_buffering {}; \
                         proxy_pass http://{target}; }}\n",
                        if buffered { "on" } else { "off" }
                    );
                    if list != RUN_TIME || named.insert(line.clone()) {
                        locations.push_str(&line);
                    }
                    let path = format!("/{location}/x");
                    if list != RUN_TIME {
                        let servers = servers
                            .replace("LOCALHOST", &format!("localhost:{}", first.port()))
                            .replace("server A", &format!("server {first}"))
                            .replace("server B", &format!("server {well}"));
                        writeln!(groups, "upstream {place} {{ {servers} }}").unwrap();
                    }
                    all.push(Combination {
                        name: format!("{cause}: {method} {body:?}{stated}, {list}, {policy}"),
                        place,
                        path,
                        cause,
                        method,
                        body,
                        named: Some(first).filter(|_| list == RUN_TIME),
                    });
                }
            }
        }
    }
    let text = format!(
        "access_log off; proxy_http_version 1.1; proxy_set_header Connection close; proxy_read_timeout 1s;
         {groups}
         server {{
             listen {{listen}};
             add_header X-Tries '$upstream_addr|$upstream_status' always;
             {locations}
         }}"
    );
    (all, text)
}

/// The result of a combination at one side.
fn run(address: SocketAddr, side: Side, combination: &Combination, counts: &Counts) -> String {
    let Combination { place, path, cause, method, body, named, .. } = combination;
    let named = named.map(|peer| format!("?to={peer}")).unwrap_or_default();
    let mut request = format!(
        "{method} {path}{named} HTTP/1.1\r\nHost: retries.test\r\nConnection: close\r\n\
         X-Side: {side:?}\r\nX-Cause: {cause}\r\nX-Place: {place}\r\nX-Body: {body:?}\r\n"
    );
    request.push_str(match body {
        Body::None => "\r\n",
        Body::Length => "Content-Length: 5\r\n\r\nhello",
        Body::Chunked => "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Body::Coming => "Content-Length: 10\r\n\r\nhello",
    });
    let mut stream = TcpStream::connect(address).expect("both sides listen");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A connection with an incomplete request may stay open after the answer.
    while !is_whole(&answer) && receive(&mut stream, &mut answer).is_some() {}
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12).unwrap_or("none");
    let tries = answer.lines().find_map(|line| line.strip_prefix("X-Tries: ")).unwrap_or("none");
    let counts = counts.lock().unwrap();
    let count = |peer| counts.get(&(format!("{side:?}"), place.clone(), peer)).copied().unwrap_or(0);
    format!("status {status}, requests {}+{}, tries {tries}", count("A"), count("B"))
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

/// Conversations between two reads of the error log, which keeps some thousand lines.
const LOG_EVERY: usize = 64;

/// Concurrent conversations. Those with a silent peer only wait for the read timeout.
const THREADS: usize = 24;
const SILENT_THREADS: usize = 120;

fn compare(sides: &Sides, combinations: Vec<Combination>, counts: &Counts) -> Vec<(String, String)> {
    let (silent, others): (Vec<_>, Vec<_>) = combinations.into_iter().partition(|one| one.cause == "silence");
    let mut wrong = compare_at_once(SILENT_THREADS, sides, &silent, counts);
    wrong.extend(compare_at_once(THREADS, sides, &others, counts));
    wrong.sort();
    wrong
}

fn compare_at_once(
    threads: usize,
    sides: &Sides,
    combinations: &[Combination],
    counts: &Counts,
) -> Vec<(String, String)> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(combination) = combinations.get(at) else { break };
                    if at % LOG_EVERY == 0 {
                        // Our error log is bounded: uncollected lines would be dropped, which is a failure.
                        let _ = sides.our_log();
                    }
                    let [theirs, ours] =
                        [Side::Nginx, Side::Ours].map(|side| run(sides.address(side, 0), side, combination, counts));
                    if theirs != ours {
                        wrong.lock().unwrap().push((combination.name.clone(), format!("{theirs} -> {ours}")));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn every_cause_and_method_is_retried_as_in_nginx() {
    for generation in [Nginx::Old, Nginx::New] {
        if let Some(nginx) = nginx_or_skip(generation) {
            compare_with(generation, &nginx);
        }
    }
}

fn compare_with(generation: Nginx, nginx: &Path) {
    let counts = Counts::default();
    let (failing, well) = (Server::start("A", &counts), Server::start("B", &counts));
    let dead = super::dead_port();
    let dead = dead.local_addr().unwrap().as_socket().unwrap();
    let (all, text) = combinations(failing.address, dead, well.address);
    let sides = Sides::start(nginx, &text, &[], &[]);
    let accepted = accepted::read(include_str!("accepted.txt"), generation);
    let (mut report, mut differing, number) = (String::new(), 0, all.len());
    for (name, difference) in compare(&sides, all, &counts) {
        if accepted.iter().filter(|line| line.covers("retries", &name, &difference)).count() == 0 {
            differing += 1;
            let _ = writeln!(report, "    retries/{name} :: {difference}");
        }
    }
    for line in accepted.iter().filter_map(|line| line.unused("retries")) {
        let _ = writeln!(report, "    no difference any more, take it out of accepted.txt: {line}");
    }
    let name = generation.program();
    assert!(report.is_empty(), "{differing} of {number} combinations differ ({name}'s -> ours):\n{report}");
}
