//! Generated retry tests: each cause × method with its body × list of peers × `proxy_next_upstream`, in clear and a part
//! of them under TLS, compared with nginx. Each combination has its own group, so that no failure remains from another one. The number of requests to
//! each peer, the status, and `$upstream_addr` with `$upstream_status` must be equal, or be listed in `accepted.txt` as
//! `retries/…`.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::accepted;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{Authority, Deaf, Talk};
use tls::{OneServer, Pair, ServerSide, Session};

/// What the first peer does with every request. The second one answers 200.
const CAUSES: [&str; 14] = [
    "refused",
    "deaf",
    "stale-fin",
    "stale-rst",
    "fin",
    "rst",
    "inside",
    "silence",
    "garbage",
    "s500",
    "s503",
    "s403",
    "s404",
    "s429",
];

/// The same for peers under TLS.
const SECURE_CAUSES: [&str; 8] = ["refused", "deaf", "stale-fin", "no handshake", "fin", "rst", "inside", "s503"];

/// Method, how the body arrives, and whether it is buffered.
const REQUESTS: [(&str, Body, bool); 9] = [
    ("GET", Body::None, true),
    ("POST", Body::Length, true),
    ("POST", Body::File, true),
    ("PUT", Body::File, true),
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
    /// Larger than the buffer in memory.
    File,
    /// Half of it; the rest never arrives.
    Coming,
}

/// The same for peers under TLS.
const SECURE_REQUESTS: [(&str, Body, bool); 4] =
    [("GET", Body::None, true), ("POST", Body::Length, true), ("POST", Body::File, true), ("PUT", Body::Length, false)];

/// Length of [`Body::File`]. The configuration has a buffer of 1 KB.
const FILE_BYTES: usize = 20_000;

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

/// The lists for peers under TLS.
const SECURE_LISTS: [&str; 5] = ["single", "doubled", "backup", "down", "resolved"];

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

/// The peers of all combinations.
struct Servers {
    dead: SocketAddr,
    deaf: SocketAddr,
    failing: SocketAddr,
    well: SocketAddr,
    /// The same under TLS.
    failing_secure: SocketAddr,
    well_secure: SocketAddr,
}

impl Servers {
    /// The address of `A`, and that of `B`.
    fn of(&self, cause: &str, secure: bool) -> (SocketAddr, SocketAddr) {
        let failing = match cause {
            "refused" => self.dead,
            "deaf" => self.deaf,
            // Its answer is no handshake.
            _ if !secure || cause == "no handshake" => self.failing,
            _ => self.failing_secure,
        };
        (failing, if secure { self.well_secure } else { self.well })
    }
}

/// A peer that fails as the path says, or one that does not fail.
struct Server {
    address: SocketAddr,
}

impl Server {
    fn start(name: &'static str, tls: Option<&Arc<OneServer>>, counts: &Counts) -> Self {
        let tls = tls.cloned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::clone(counts);
        // Both end with the process, so nothing waits for them.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counts, tls) = (Arc::clone(&counts), tls.clone());
                std::thread::spawn(move || serve(stream, name, tls, &counts));
            }
        });
        Self { address }
    }
}

/// Serves a connection: a request that only opens it, if there is one, and the one under test. A peer that fails on purpose
/// ignores I/O errors.
fn serve(stream: TcpStream, name: &'static str, tls: Option<Arc<OneServer>>, counts: &Counts) -> Option<()> {
    let mut talk = Talk::of(stream);
    if let Some(tls) = tls {
        talk.secure(Session::server(tls)).ok()?;
    }
    let mut received = Vec::new();
    let (mut cause, is_kept) = match request(&mut talk, &mut received, name, counts)?.as_str() {
        "opens" => {
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            (request(&mut talk, &mut received, name, counts)?, true)
        }
        cause => (cause.to_owned(), false),
    };
    if name == "B" || (cause.starts_with("stale") && !is_kept) {
        "ok".clone_into(&mut cause);
    }
    let answer = match cause.as_str() {
        "fin" | "stale-fin" => String::new(),
        "rst" | "stale-rst" => {
            talk.reset();
            return None;
        }
        "inside" => "HTTP/1.1 200 OK\r\nContent-".to_owned(),
        "garbage" => "HTTP/1.1 200 OK\r\nX-A: \0\r\n\r\n".to_owned(),
        "silence" => {
            talk.rest();
            return None;
        }
        "ok" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_owned(),
        status => format!("HTTP/1.1 {} X\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwhy", &status[1..]),
    };
    talk.send(answer);
    talk.half_close();
    // Unread bytes would turn the close into a reset.
    talk.rest();
    None
}

/// Reads a request and counts it. Returns its cause.
fn request(talk: &mut Talk, received: &mut Vec<u8>, name: &'static str, counts: &Counts) -> Option<String> {
    received.clear();
    let head_end = loop {
        if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        received.extend(talk.whatever_came()?);
        // Not HTTP: the first message of TLS.
        if received[0] == 22 {
            talk.send("HTTP/1.1 400 X\r\n\r\n");
            return None;
        }
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
            received.extend(talk.whatever_came()?);
        }
    }
    *counts.lock().unwrap().entry((side, place, name)).or_default() += 1;
    Some(cause)
}

/// All combinations, and the inside of `http {}` for them.
fn combinations(servers: &Servers) -> (Vec<Combination>, String) {
    let mut text = Text::default();
    let lists = LISTS.into_iter().chain([(RUN_TIME, "")]);
    for cause in CAUSES {
        for request in REQUESTS {
            for policy in POLICIES {
                for list in lists.clone() {
                    text.add(servers, cause, request, policy, list, false);
                }
            }
        }
    }
    for cause in SECURE_CAUSES {
        for request in SECURE_REQUESTS {
            for policy in [POLICIES[0], POLICIES[2]] {
                for list in LISTS.into_iter().filter(|(name, _)| SECURE_LISTS.contains(name)) {
                    text.add(servers, cause, request, policy, list, true);
                }
            }
        }
    }
    let Text { all, groups, locations, .. } = text;
    let text = format!(
        "access_log off; proxy_http_version 1.1; proxy_set_header Connection close; proxy_read_timeout 1s;
         client_body_buffer_size 1k; client_header_buffer_size 1k;
         {groups}
         server {{
             listen {{listen}};
             add_header X-Tries '$upstream_addr|$upstream_status' always;
             {locations}
         }}"
    );
    (all, text)
}

/// The combinations, and their groups and locations.
#[derive(Default)]
struct Text {
    all: Vec<Combination>,
    groups: String,
    locations: String,
    /// Locations of hosts that requests name.
    named: HashSet<String>,
}

impl Text {
    fn add(
        &mut self,
        servers: &Servers,
        cause: &'static str,
        (method, body, buffered): (&'static str, Body, bool),
        (policy, words): (&str, &str),
        (list, peers): (&str, &str),
        secure: bool,
    ) {
        // A timeout takes time; with half a body it is the client's timeout. Connections of hosts that a request names are
        // not kept.
        let is_left_out = match cause {
            "silence" => policy == "all" || body == Body::Coming,
            _ => cause.starts_with("stale") && list == RUN_TIME,
        };
        if is_left_out {
            return;
        }
        let (first, well) = servers.of(cause, secure);
        let place = format!("c{}", self.all.len());
        let stated = if buffered { "" } else { " unbuffered" };
        let target = if list == RUN_TIME { "$arg_to" } else { &place };
        // One location for all hosts that a request names: it knows every group.
        let shared = format!("named{}{}", if buffered { "" } else { "-off" }, policy.replace(' ', "-"));
        let location = if list == RUN_TIME { &shared } else { &place };
        let mut others = "proxy_connect_timeout 500ms;";
        if cause.starts_with("stale") {
            others = "proxy_set_header Connection '';";
        }
        let line = format!(
            "location /{location}/ {{ proxy_next_upstream {words}; proxy_request_buffering {}; {others} \
             proxy_pass {}://{target}; }}\n",
            if buffered { "on" } else { "off" },
            if secure { "https" } else { "http" }
        );
        if list != RUN_TIME || self.named.insert(line.clone()) {
            self.locations.push_str(&line);
        }
        let path = format!("/{location}/x");
        if list != RUN_TIME {
            let peers = peers
                .replace("LOCALHOST", &format!("localhost:{}", first.port()))
                .replace("server A", &format!("server {first}"))
                .replace("server B", &format!("server {well}"));
            let kept = if cause.starts_with("stale") { "keepalive 4;" } else { "" };
            writeln!(self.groups, "upstream {place} {{ {peers} {kept} }}").unwrap();
        }
        let secured = if secure { " tls" } else { "" };
        self.all.push(Combination {
            name: format!("{cause}{secured}: {method} {body:?}{stated}, {list}, {policy}"),
            place,
            path,
            cause,
            method,
            body,
            named: Some(first).filter(|_| list == RUN_TIME),
        });
    }
}

/// The result of a combination at one side.
fn run(address: SocketAddr, side: Side, combination: &Combination, counts: &Counts) -> String {
    let Combination { place, path, cause, method, body, named, .. } = combination;
    let named = named.map(|peer| format!("?to={peer}")).unwrap_or_default();
    let head = |method: &str, cause: &str, body: Body| {
        format!(
            "{method} {path}{named} HTTP/1.1\r\nHost: retries.test\r\nConnection: close\r\n\
             X-Side: {side:?}\r\nX-Cause: {cause}\r\nX-Place: {place}\r\nX-Body: {body:?}\r\n"
        )
    };
    if cause.starts_with("stale") {
        let opened = ask(address, &(head("GET", "opens", Body::None) + "\r\n"));
        assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");
    }
    let request = head(method, cause, *body)
        + &match body {
            Body::None => "\r\n".to_owned(),
            Body::Length => "Content-Length: 5\r\n\r\nhello".to_owned(),
            Body::Chunked => "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned(),
            Body::File => format!("Content-Length: {FILE_BYTES}\r\n\r\n{}", "x".repeat(FILE_BYTES)),
            Body::Coming => "Content-Length: 10\r\n\r\nhello".to_owned(),
        };
    let answer = ask(address, &request);
    let status = answer.get(9..12).unwrap_or("none");
    let tries = answer.lines().find_map(|line| line.strip_prefix("X-Tries: ")).unwrap_or("none");
    let count = |peer| {
        let counts = counts.lock().unwrap();
        counts.get(&(format!("{side:?}"), place.clone(), peer)).copied().unwrap_or(0)
    };
    if *cause == "silence" {
        // On a busy machine a peer may read its request only after the proxy has given up.
        let statuses = tries.rsplit('|').next().unwrap_or_default().split([',', ':']).map(str::trim);
        let sent = statuses.filter(|status| matches!(*status, "504" | "200")).count();
        testkit::until("the peers have read what was sent", || (count("A") + count("B") >= sent).then_some(()));
    }
    format!("status {status}, requests {}+{}, tries {tries}", count("A"), count("B"))
}

/// The answer to a request on a connection of its own.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut client = Talk::connect(address);
    client.send(request);
    let mut answer = Vec::new();
    // A connection with an incomplete request may stay open after the answer.
    while !is_whole(&answer) {
        let Some(bytes) = client.whatever_came() else { break };
        answer.extend(bytes);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

/// Conversations between two reads of the error log, which keeps some thousand lines.
const LOG_EVERY: usize = 64;

/// Concurrent conversations. Those with a silent or deaf peer only wait for a timeout.
const THREADS: usize = 24;
const SILENT_THREADS: usize = 120;

fn compare(sides: &Sides, combinations: Vec<Combination>, counts: &Counts) -> Vec<(String, String)> {
    let (silent, others): (Vec<_>, Vec<_>) =
        combinations.into_iter().partition(|one| matches!(one.cause, "silence" | "deaf"));
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
fn every_cause_and_method_is_retried_as_in_the_newest_nginx() {
    compare_with(Nginx::New);
}

#[test]
fn every_cause_and_method_is_retried_as_in_the_systems_nginx() {
    compare_with(Nginx::Old);
}

fn compare_with(generation: Nginx) {
    let Some(nginx) = nginx_or_skip(generation) else { return };
    let counts = Counts::default();
    let issued = Authority::new("Retries").issue(&["retries.test"]);
    let pair = Pair::from_pem(issued.chain.as_bytes(), issued.key.as_bytes(), b"").unwrap();
    let tls = Arc::new(OneServer(Arc::new(ServerSide::new().pair(pair).build().unwrap())));
    let start = |name, tls| Server::start(name, tls, &counts).address;
    let (dead, deaf) = (super::dead_port(), Deaf::new());
    let servers = Servers {
        dead: dead.local_addr().unwrap().as_socket().unwrap(),
        deaf: deaf.address(),
        failing: start("A", None),
        well: start("B", None),
        failing_secure: start("A", Some(&tls)),
        well_secure: start("B", Some(&tls)),
    };
    let (all, text) = combinations(&servers);
    let sides = Sides::start(&nginx, &text, &[], &[]);
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
