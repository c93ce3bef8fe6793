//! Error logs of a real nginx in which each fault was provoked. The doctor distinguishes each phrase from similar ones,
//! and quotes the configuration lines that belong to it. Runs in its own network namespace with very few ports. A
//! namespace needs root; without it the test is reported as skipped.

use crate::disk;
use doctor::log::{Log, causes};
use doctor::{Facts, System};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::{DEADLINE, Peer, Running, peer_program, until, with_own_network};

/// The range of `connect()` here: so few ports that a test can take all of them.
const PORTS: std::ops::RangeInclusive<u16> = 40_000..=40_003;

/// The file of the namespace that writes it.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Causes provoked besides [`faults`]: by a client that leaves, by killed workers, and by limits.
const FURTHER: [&str; 6] = [
    "log-client-gone",
    "log-worker-killed",
    "log-worker-crashed",
    "log-worker-connections-exhausted",
    "log-address-in-use",
    "log-descriptors-exhausted",
];

/// Number of causes provoked here, as stated in the guide.
const PROVOKED: usize = 30;

/// What an upstream does after it has read a request.
#[derive(Clone, Copy)]
enum Upstream {
    Answers(&'static str),
    AnswersLarge,
    Closes,
    Resets,
    StaysSilent,
    StaysSilentAfter(&'static str),
}

/// A TCP upstream. It lives as long as the test's process.
fn upstream(port: u16, does: Upstream) -> SocketAddr {
    let peer = Peer::script_at(([127, 0, 0, 1], port).into(), move |mut talk| {
        // One read is enough for a request of a few hundred bytes, or a TLS hello.
        talk.came_within(DEADLINE);
        match does {
            Upstream::Answers(bytes) => talk.send(bytes),
            Upstream::AnswersLarge => {
                let body = "x".repeat(4 << 20);
                talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
            }
            Upstream::Closes => {}
            Upstream::Resets => talk.reset(),
            Upstream::StaysSilent => talk.sits_still(),
            Upstream::StaysSilentAfter(bytes) => {
                talk.send(bytes);
                talk.sits_still();
            }
        }
    });
    let address = peer.address();
    std::mem::forget(peer);
    address
}

/// A socket with a full accept queue: no process accepts, and its backlog is 0.
fn full_queue(domain: Domain, address: &SockAddr) -> (Socket, Vec<Socket>) {
    let listener = Socket::new(domain, Type::STREAM, None).expect("made");
    listener.bind(address).expect("bound");
    listener.listen(0).expect("listening");
    let there = listener.local_addr().expect("bound");
    let waiting = (0..3).map(|number| {
        let client = Socket::new(domain, Type::STREAM, None).expect("made");
        client.set_nonblocking(true).expect("set");
        if domain == Domain::IPV4 {
            client.bind(&SocketAddr::from(([127, 0, 2, 1], 50_000 + number)).into()).expect("bound");
        }
        let _ = client.connect(&there);
        client
    });
    let waiting = waiting.collect();
    (listener, waiting)
}

/// An nginx with its folder, ended with the test.
struct Nginx {
    /// It ends before its folder is removed.
    running: Running,
    folder: tempfile::TempDir,
    text: String,
}

impl Nginx {
    /// `main` is at the top level, `http` in it.
    fn start(main: &str, connections: u32, http: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The workers run as another user and need access to the files in here.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
        let path = folder.path().display();
        let text = format!(
            "user nobody nogroup;\ndaemon off;\nworker_processes 1;\npid {path}/pid;\nerror_log {path}/error.log info;\n{main}\n\
             events {{ worker_connections {connections}; }}\nhttp {{\naccess_log off;\nclient_body_temp_path {path}/body;\n\
             proxy_temp_path {path}/proxy;\nfastcgi_temp_path {path}/f;\nuwsgi_temp_path {path}/u;\nscgi_temp_path {path}/s;\n{http}\n}}\n"
        );
        fs::write(folder.path().join("nginx.conf"), &text).expect("written");
        let running = Self::run(folder.path());
        let nginx = Self { running, folder, text };
        until("nginx starts", || nginx.log().contains("start worker process").then_some(()));
        nginx
    }

    fn run(folder: &Path) -> Running {
        let mut command = Command::new(peer_program("nginx"));
        command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf")).arg("-e").arg(folder.join("error.log"));
        Running::start(&mut command)
    }

    fn log(&self) -> String {
        let bytes = fs::read(self.folder.path().join("error.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn worker(&self) -> Pid {
        let master = self.running.id();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap_or_default();
        Pid::from_raw(children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("it has a worker"))
    }

    /// Waits until the log names the cause.
    fn wait_for(&self, rule: &str) {
        let begun = Instant::now();
        while !rules(&self.log()).iter().any(|named| named == rule) {
            assert!(begun.elapsed() < DEADLINE, "{rule} is not in the log:\n{}", self.log());
            // The log belongs to another process, which cannot notify this one.
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

fn read(text: &str) -> Log {
    let mut log = Log::default();
    for line in text.lines() {
        log.read_line(line.as_bytes());
    }
    log
}

fn rules(text: &str) -> Vec<String> {
    read(text).findings("error.log", &Facts::default()).into_iter().map(|finding| finding.rule).collect()
}

/// A connection to nginx from a fixed port outside the range: `connect()` does not choose a port that `bind()` was
/// given.
fn client(nginx: SocketAddr, number: u8) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("made");
    socket.bind(&SocketAddr::from(([127, 0, 1, number], 50_000 + u16::from(number))).into()).expect("bound");
    socket.connect(&nginx.into()).expect("nginx listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(DEADLINE)).expect("set");
    stream
}

fn ask(nginx: SocketAddr, number: u8, path: &str) -> TcpStream {
    let mut stream = client(nginx, number);
    // In one write: nginx may answer and close before a second one.
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// Runs in a network with so few ports that a test can take all of them, and with a destination that cannot be reached.
fn with_few_ports(work: impl FnOnce() + Send) {
    with_own_network(|| {
        let words = ["route", "add", "unreachable", "10.8.8.0/24"];
        let added = Command::new("ip").args(words).status().expect("iproute2 is installed");
        assert!(added.success());
        fs::write(RANGE, format!("{} {}", PORTS.start(), PORTS.end())).expect("written");
        work();
    });
}

/// The faults between nginx and an upstream: the path that provokes it, its target, and the cause that the log must
/// name.
fn faults(folder: &Path) -> Vec<(&'static str, String, &'static str)> {
    let http = |address: SocketAddr| format!("proxy_pass http://{address};");
    let ok = "HTTP/1.1 200 OK\r\n";
    let silent_dns = UdpSocket::bind("127.0.0.1:5353").expect("bound");
    std::mem::forget(silent_dns);
    let deaf = full_queue(Domain::IPV4, &SocketAddr::from(([127, 0, 0, 1], 9100)).into());
    let full = full_queue(Domain::UNIX, &SockAddr::unix(folder.join("full.sock")).expect("a short path"));
    let forbidden = std::os::unix::net::UnixListener::bind(folder.join("forbidden.sock")).expect("bound");
    let mode =
        |name: &str, mode: u32| fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).expect("set");
    mode("full.sock", 0o777);
    mode("forbidden.sock", 0o600);
    // The test itself holds every port towards this upstream.
    let held = upstream(9101, Upstream::StaysSilent);
    let holders: Vec<_> = PORTS.map(|_| TcpStream::connect(held).expect("it listens")).collect();
    std::mem::forget((deaf, full, forbidden, holders));
    let folder = folder.display();
    let unix = |name: &str| format!("proxy_pass http://unix:{folder}/{name};");
    let answers = |port: u16, bytes| upstream(port, Upstream::Answers(bytes));
    let large: &'static str = format!("{ok}X: {}\r\n\r\n", "x".repeat(20_000)).leak();
    vec![
        ("/refused", "proxy_pass http://127.0.0.1:9001;".to_owned(), "log-upstream-refused"),
        ("/deaf", "proxy_pass http://127.0.0.1:9100;".to_owned(), "log-upstream-connect-timeout"),
        ("/unreachable", "proxy_pass http://10.8.8.8:80;".to_owned(), "log-upstream-unreachable"),
        ("/no-route", "proxy_pass http://10.7.7.7:80;".to_owned(), "log-network-unreachable"),
        ("/ports", http(held), "log-ports-exhausted"),
        ("/source", format!("proxy_bind 10.9.9.9; {}", http(held)), "log-source-address-not-here"),
        ("/missing", unix("missing.sock"), "log-upstream-socket-missing"),
        ("/forbidden", unix("forbidden.sock"), "log-upstream-forbidden"),
        ("/full", unix("full.sock"), "log-upstream-queue-full"),
        ("/silent", http(upstream(9102, Upstream::StaysSilent)), "log-upstream-read-timeout"),
        (
            "/stops",
            http(upstream(9103, Upstream::StaysSilentAfter("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"))),
            "log-upstream-read-timeout-inside",
        ),
        ("/closes", http(upstream(9104, Upstream::Closes)), "log-upstream-closed-early"),
        ("/resets", http(upstream(9105, Upstream::Resets)), "log-upstream-reset"),
        ("/truncates", http(answers(9106, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")), "log-upstream-truncated"),
        ("/large-head", http(answers(9107, large)), "log-upstream-head-too-large"),
        ("/bad-head", http(answers(9108, "HTTP/1.1 200 OK\r\nContent Length: 3\r\n\r\n")), "log-upstream-head-invalid"),
        ("/ssh", http(answers(9109, "SSH-2.0-OpenSSH_9.2\r\n")), "log-upstream-no-http"),
        (
            "/chunks",
            http(answers(9110, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")),
            "log-upstream-chunks-broken",
        ),
        ("/tls", "proxy_pass https://127.0.0.1:9109;".to_owned(), "log-upstream-handshake-failed"),
        (
            "/name",
            "resolver 127.0.0.1:5353; resolver_timeout 1s; proxy_pass http://$arg_to.test;".to_owned(),
            "log-name-not-resolved",
        ),
        ("/no-resolver", "set $to a.test; proxy_pass http://$to;".to_owned(), "log-no-resolver"),
        ("/dead", "proxy_pass http://dead;".to_owned(), "log-no-live-upstreams"),
        ("/disk", http(upstream(9111, Upstream::AnswersLarge)), "log-response-to-disk"),
        ("/limited", "limit_req zone=one; proxy_pass http://127.0.0.1:9001;".to_owned(), "log-request-limited"),
    ]
}

#[test]
fn every_fault_that_nginx_was_provoked_into_is_named() {
    with_few_ports(|| {
        let sockets = tempfile::tempdir().expect("a folder");
        fs::set_permissions(sockets.path(), fs::Permissions::from_mode(0o755)).expect("set");
        let faults = faults(sockets.path());
        let [gone, killed, crashed, ..] = FURTHER;
        let named: BTreeSet<&str> = faults.iter().map(|(_, _, rule)| *rule).chain(FURTHER).collect();
        assert_eq!(named.len(), PROVOKED);
        let unknown: Vec<_> = named.iter().filter(|rule| !causes().any(|cause| cause == **rule)).collect();
        assert_eq!(unknown, [&""; 0]);
        let locations: Vec<String> =
            faults.iter().map(|(path, inside, _)| format!("location {path} {{ {inside} }}")).collect();
        let http = format!(
            "limit_req_zone $host zone=one:64k rate=1r/m;\nupstream dead {{ server 127.0.0.1:9001; server 127.0.0.1:9002; }}\n\
             server {{ listen 127.0.0.1:9000 sndbuf=8k;\nproxy_connect_timeout 1s; proxy_read_timeout 1s;\n{}\n\
             location /gone {{ proxy_read_timeout 60s; proxy_pass http://127.0.0.1:9102; }} }}",
            locations.join("\n")
        );
        let nginx = Nginx::start("", 128, &http);
        let address: SocketAddr = "127.0.0.1:9000".parse().expect("an address");
        let mut asked = Vec::new();
        for (number, (path, ..)) in faults.iter().enumerate() {
            let path = if *path == "/name" { "/name?to=a" } else { path };
            asked.push(ask(address, number as u8 + 1, path));
        }
        // These need a second request, sent without waiting for an answer: both peers are marked dead by then, and the
        // rate is used up.
        nginx.wait_for("log-upstream-refused");
        asked.push(ask(address, 200, "/dead"));
        asked.push(ask(address, 201, "/limited"));
        drop(ask(address, 202, "/gone"));
        for (_, _, rule) in &faults {
            nginx.wait_for(rule);
        }
        nginx.wait_for(gone);
        kill(nginx.worker(), Signal::SIGKILL).expect("it runs");
        nginx.wait_for(killed);
        until("another worker runs", || nginx.log().matches("start worker process ").nth(1).map(drop));
        kill(nginx.worker(), Signal::SIGSEGV).expect("it runs");
        nginx.wait_for(crashed);

        // Every error has a cause, and each finding has all parts that readers need, with the configuration.
        let text = nginx.log();
        let unknown: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("[error]") || line.contains("[crit]"))
            .filter(|line| rules(line).is_empty())
            .collect();
        assert_eq!(unknown, [""; 0]);
        let facts =
            Facts { configuration: Some(disk::parsed(&nginx.text)), system: System::default(), ..Facts::default() };
        let findings = read(&text).findings("error.log", &facts);
        for finding in &findings {
            assert!(!finding.evidence.is_empty() && !finding.fix.is_empty() && !finding.why.is_empty(), "{finding:?}");
        }
        let late = findings.iter().find(|finding| finding.rule == "log-upstream-read-timeout").expect("found above");
        assert!(late.evidence.iter().any(|line| line.ends_with("proxy_read_timeout 1s")), "{late:?}");
        assert!(late.evidence.iter().any(|line| line.contains("http://127.0.0.1:9102 (1)")), "{late:?}");
        drop(asked);
    });
}

#[test]
fn limits_of_the_workers_and_a_taken_port_are_named() {
    with_few_ports(|| {
        let [.., connections, taken, descriptors] = FURTHER;
        let silent = upstream(9102, Upstream::StaysSilent);
        let server = format!("server {{ listen 127.0.0.1:9000; location / {{ proxy_pass http://{silent}; }} }}");
        let address: SocketAddr = "127.0.0.1:9000".parse().expect("an address");
        let few = Nginx::start("", 6, &server);
        let asked: Vec<_> = (1..8).map(|number| ask(address, number, "/")).collect();
        few.wait_for(connections);
        // The port is in use now: a second nginx does not start.
        let mut second = Nginx::run(few.folder.path());
        few.wait_for(taken);
        second.wait();
        drop((asked, few));

        fs::write(RANGE, "40000 49999").expect("written");
        let poor = Nginx::start("worker_rlimit_nofile 14;", 64, &server);
        let asked: Vec<_> = (10..24).map(|number| ask(address, number, "/")).collect();
        poor.wait_for(descriptors);
        drop((asked, poor));
    });
}

#[test]
fn guide_counts_known_and_provoked_causes() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/doctor.md");
    let guide = fs::read_to_string(guide).expect("the guide is there");
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("It knows {} causes by nginx's phrases", causes().count()),
        format!("make a real nginx write {PROVOKED} of them"),
    ] {
        assert!(guide.contains(&said), "{said}");
    }
}
