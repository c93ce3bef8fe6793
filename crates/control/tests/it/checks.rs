//! Active health checks: peers that answer 500, refuse, hang, close early, or send garbage; recovery, `mandatory`,
//! backups, reloads, changed names.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use control::Control;
use serde_json::Value;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use testkit::name_server::{A, SRV};
use testkit::{
    Gateway, Http2Service, NameServer, Peer, Refusing, Response, Running, assert_metrics_are_sound, peer_or_skip, until,
};

/// A gateway with its control plane. The control plane ends first.
struct Site {
    _control: Control,
    gateway: Gateway,
}

fn text(upstream: &str) -> String {
    format!(
        "events {{}} http {{ access_log off;
            upstream app {{ {upstream} }}
            server {{ listen {{listen}}; location / {{ proxy_pass http://app; }} location /status {{ status_page; }} }} }}"
    )
}

impl Site {
    /// With these directives in a group.
    fn start(upstream: &str, peers: &[SocketAddr]) -> Self {
        let gateway = Gateway::start(&text(upstream), peers);
        let control = Control::start(gateway.shared()).unwrap();
        Self { _control: control, gateway }
    }

    fn reload(&mut self, upstream: &str) {
        self.gateway.reload(&text(upstream));
    }

    #[track_caller]
    fn ask(&self, target: &str) -> Response {
        let mut client = self.gateway.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response()
    }

    /// The checks of a peer on the status page.
    #[track_caller]
    fn check(&self, peer: SocketAddr) -> Value {
        let status: Value = serde_json::from_slice(&self.ask("/status?format=json").body).unwrap();
        let peers = status["groups"][0]["peers"].as_array().cloned().unwrap_or_default();
        let own = peers.into_iter().find(|one| one["address"] == peer.to_string());
        own.map_or(Value::Null, |one| one["check"].clone())
    }

    #[track_caller]
    fn until_state(&self, peer: SocketAddr, state: &str) -> Value {
        until(&format!("{peer} to be {state}"), || Some(self.check(peer)).filter(|check| check["state"] == state))
    }

    /// Waits until `more` further checks were made.
    #[track_caller]
    fn until_checked(&self, peer: SocketAddr, more: u64) -> Value {
        let made = |check: &Value| check["passed"].as_u64().unwrap() + check["failed"].as_u64().unwrap();
        let before = made(&self.check(peer));
        until("further checks", || Some(self.check(peer)).filter(|check| made(check) >= before + more))
    }

    /// How often the error log contains a phrase.
    fn logged(&self, phrase: &str) -> usize {
        self.gateway.error_log().matches(phrase).count()
    }
}

fn said(name: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).into_bytes()
}

/// A peer that answers requests with its name, and checks with the status that a test sets.
fn moody(name: &'static str, status: &Arc<AtomicU16>) -> Peer {
    let status = Arc::clone(status);
    Peer::answering(move |request| {
        if request.target() != "/healthz" {
            return said(name);
        }
        format!("HTTP/1.1 {} x\r\nContent-Length: 0\r\n\r\n", status.load(Ordering::Relaxed)).into_bytes()
    })
}

fn status(code: u16) -> Arc<AtomicU16> {
    Arc::new(AtomicU16::new(code))
}

const CHECKED: &str = "server {upstream:0}; server {upstream:1}; health_check interval=10ms uri=/healthz";

#[test]
fn failing_peer_gets_no_requests_until_it_recovers() {
    let mood = status(200);
    let (one, two) = (moody("one", &mood), moody("two", &status(200)));
    let site = Site::start(&format!("{CHECKED} fails=3 passes=2;"), &[one.address(), two.address()]);
    let mut answers = [site.ask("/").text(), site.ask("/").text()];
    answers.sort();
    assert_eq!(answers, ["one", "two"]);
    let request = until("a check", || one.requests().into_iter().find(|(_, request)| request.target() == "/healthz"));
    assert_eq!(request.1.value("Host"), Some("app"));
    assert_eq!(request.1.value("Connection"), Some("close"));

    mood.store(503, Ordering::Relaxed);
    let ill = site.until_state(one.address(), "unhealthy");
    assert_eq!((&ill["last"]["result"], &ill["last"]["detail"]), (&"status".into(), &"status 503".into()));
    assert!(ill["results"]["status"].as_u64() >= Some(3), "{ill}");
    for _ in 0..6 {
        assert_eq!(site.ask("/").text(), "two");
    }
    site.until_checked(one.address(), 3);
    let line = format!(
        "peer is unhealthy while checking status code, health check of peer {} in upstream \"app\": status 503; failed \
         checks in a row: 3",
        one.address()
    );
    assert_eq!(site.logged(&line), 1, "{}", site.gateway.error_log());
    assert_eq!(site.logged("peer is unhealthy"), 1);

    mood.store(204, Ordering::Relaxed);
    site.until_state(one.address(), "healthy");
    assert_eq!(site.logged("passed checks in a row: 2; was unhealthy for "), 1, "{}", site.gateway.error_log());
    until("the peer to be used again", || (site.ask("/").text() == "one").then_some(()));
}

#[test]
fn every_failed_check_has_a_reason() {
    let early = Peer::script(|mut talk| {
        talk.request();
        talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all");
    });
    let silent = Peer::script(|mut talk| {
        talk.request();
        talk.sits_still();
    });
    let mute = Peer::script(|mut talk| {
        talk.request();
    });
    let garbage = Peer::script(|mut talk| {
        talk.request();
        talk.send("SSH-2.0-OpenSSH_9.2\r\n");
    });
    let endless = Peer::script(|mut talk| {
        talk.request();
        talk.send("HTTP/1.1 200 OK\r\n");
        talk.send("X-Field: and another one\r\n".repeat(4096));
    });
    let reset = Peer::script(|mut talk| {
        talk.request();
        talk.reset();
    });
    let refusing = Refusing::new();
    let all = [
        (early.address(), "broken", "upstream prematurely closed connection after 7 bytes of the body"),
        (silent.address(), "timed_out", "upstream timed out, 3 s for the whole check"),
        (mute.address(), "broken", "upstream prematurely closed connection"),
        (garbage.address(), "invalid", "upstream sent no valid HTTP/1.0 header: "),
        (endless.address(), "invalid", "upstream sent too big header: "),
        (reset.address(), "broken", "recv() failed (104: Connection reset by peer)"),
        (refusing.address(), "connect", "connect() failed (111: Connection refused)"),
    ];
    let addresses: Vec<SocketAddr> = all.iter().map(|(address, ..)| *address).collect();
    let servers: Vec<String> = (0..all.len()).map(|place| format!("server {{upstream:{place}}};")).collect();
    let site = Site::start(&format!("{} health_check interval=20ms timeout=3s;", servers.concat()), &addresses);
    for (address, result, detail) in all {
        let check = site.until_state(address, "unhealthy");
        assert_eq!(check["last"]["result"], result, "{check}");
        let said = check["last"]["detail"].as_str().unwrap();
        assert!(said.starts_with(detail), "{said}");
        let whom = format!("health check of peer {address} in upstream \"app\": {detail}");
        assert_eq!(site.logged(&whom), 1, "{}", site.gateway.error_log());
    }
    // As in nginx.
    assert_eq!(site.ask("/").status(), 502);
    site.gateway.logged("no live upstreams");
    promtool_agrees(&site.ask("/status").text(), refusing.address());
    let page = site.ask("/status?format=html").text();
    assert!(
        page.contains("\">Health checks of app</h2>") && page.contains("upstream sent no valid HTTP/1.0 header"),
        "{page}"
    );
}

/// Tests the metrics of checks with promtool.
fn promtool_agrees(metrics: &str, peer: SocketAddr) {
    let state = format!("holdfast_peer_check_state{{group=\"app\",peer=\"{peer}\",state=\"unhealthy\"}} 1");
    assert!(metrics.lines().any(|line| line == state), "{metrics}");
    assert_metrics_are_sound(metrics);
}

#[test]
fn a_mandatory_peer_is_not_used_before_it_has_passed() {
    let opened = Arc::new(AtomicBool::new(false));
    let one = Peer::script({
        let opened = Arc::clone(&opened);
        move |mut talk| {
            let Some(request) = talk.request() else { return };
            if request.target() == "/healthz" {
                until("the test to let it pass", || opened.load(Ordering::Acquire).then_some(()));
            }
            talk.send(said("one"));
        }
    });
    let site = Site::start(
        "server {upstream:0}; health_check interval=10ms timeout=15s uri=/healthz mandatory;",
        &[one.address()],
    );
    assert_eq!(site.ask("/").status(), 502);
    // The control plane applies the change after a while.
    site.until_state(one.address(), "pending");
    opened.store(true, Ordering::Release);
    site.until_state(one.address(), "healthy");
    assert_eq!(site.ask("/").text(), "one");
    assert_eq!(site.logged("was not known for "), 1);
}

#[test]
fn serves_waiting_requests_when_a_peer_passes_again() {
    let mood = status(500);
    let (one, two) = (moody("one", &mood), moody("two", &mood));
    let site = Site::start(&format!("{CHECKED}; queue 5 timeout=15s;"), &[one.address(), two.address()]);
    for peer in [&one, &two] {
        site.until_state(peer.address(), "unhealthy");
    }
    let mut client = site.gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the request to wait", || (site.gateway.totals().writing == 1).then_some(()));
    mood.store(200, Ordering::Relaxed);
    assert_eq!(client.response().status(), 200);
}

#[test]
fn backup_serves_when_checks_of_the_others_fail() {
    let mood = status(500);
    let (one, backup) = (moody("one", &mood), moody("backup", &status(200)));
    let group = "server {upstream:0}; server {upstream:1} backup; health_check interval=10ms uri=/healthz;";
    let site = Site::start(group, &[one.address(), backup.address()]);
    site.until_state(one.address(), "unhealthy");
    assert_eq!(site.ask("/").text(), "backup");
    mood.store(200, Ordering::Relaxed);
    site.until_state(one.address(), "healthy");
    assert_eq!(site.ask("/").text(), "one");
}

#[test]
fn a_reload_changes_nothing_about_peers_that_stay() {
    let mood = status(500);
    let (one, two) = (moody("one", &mood), moody("two", &status(200)));
    let addresses = [one.address(), two.address()];
    let mut site = Site::start(&format!("{CHECKED};"), &addresses);
    let before = site.until_state(one.address(), "unhealthy");
    site.until_checked(two.address(), 1);

    // `mandatory` applies to new peers only: a healthy peer stays healthy.
    site.reload(&format!("{CHECKED} mandatory passes=3;"));
    until("the new configuration", || {
        let status: Value = serde_json::from_slice(&site.ask("/status?format=json").body).unwrap();
        assert_eq!(site.ask("/").text(), "two");
        (status["generation"] == 2).then_some(())
    });
    let after = site.until_checked(one.address(), 2);
    assert_eq!(after["state"], "unhealthy");
    assert!(after["failed"].as_u64() > before["failed"].as_u64(), "its counts began anew");
    assert_eq!((site.logged("peer is unhealthy"), site.logged("peer is healthy")), (1, 0));

    mood.store(200, Ordering::Relaxed);
    site.until_state(one.address(), "healthy");
    assert_eq!(site.logged("passed checks in a row: 3"), 1, "{}", site.gateway.error_log());
}

#[test]
fn a_peer_without_checks_counts_as_healthy() {
    let (one, two) = (moody("one", &status(500)), moody("two", &status(200)));
    let addresses = [one.address(), two.address()];
    let mut site = Site::start(&format!("{CHECKED};"), &addresses);
    site.until_state(one.address(), "unhealthy");
    site.reload("server {upstream:0}; server {upstream:1};");
    until("the peer to be used", || (site.ask("/").text() == "one").then_some(()));
    assert_eq!(site.check(one.address()), Value::Null);
}

#[test]
fn checks_follow_the_peers_of_a_name() {
    let (good, bad) = (moody("good", &status(200)), moody("bad", &status(500)));
    let targets = Arc::new(Mutex::new(vec![bad.address().port()]));
    let server = NameServer::script({
        let targets = Arc::clone(&targets);
        move |question| match question.kind {
            SRV => {
                let all: Vec<_> = targets.lock().unwrap().iter().map(|port| (1, 1, *port, "host.test")).collect();
                vec![question.services(1, &all)]
            }
            A => vec![question.addresses(1, &["127.0.0.1"])],
            _ => vec![question.absent(1)],
        }
    });
    let site = Site::start(
        &format!(
            "zone app 64k; resolver {} valid=1s ipv6=off; server app.test service=http resolve;
             health_check interval=10ms uri=/healthz mandatory;",
            server.address()
        ),
        &[],
    );
    site.until_state(bad.address(), "unhealthy");
    assert_eq!(site.ask("/").status(), 502);
    targets.lock().unwrap().push(good.address().port());
    site.until_state(good.address(), "healthy");
    assert_eq!(site.ask("/").text(), "good");
    assert_eq!(site.check(bad.address())["state"], "unhealthy");
    targets.lock().unwrap().remove(0);
    until("the bad one to leave", || site.check(bad.address()).is_null().then_some(()));
    assert_eq!(site.ask("/").text(), "good");
}

#[test]
fn conditions_are_on_status_fields_and_body() {
    let ready = Arc::new(AtomicBool::new(false));
    let one = Peer::answering({
        let ready = Arc::clone(&ready);
        move |request| match (request.target(), ready.load(Ordering::Relaxed)) {
            ("/healthz", true) => {
                b"HTTP/1.1 418 x\r\nX-Role: leader\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nready\r\n0\r\n\r\n"
                    .to_vec()
            }
            ("/healthz", false) => b"HTTP/1.1 418 x\r\nX-Role: leader\r\nContent-Length: 8\r\n\r\nstarting".to_vec(),
            _ => said("one"),
        }
    });
    let site = Site::start(
        "server {upstream:0}; health_check interval=10ms uri=/healthz host=other.example status=200,418
         \"header=X-Role = leader\" header=!X-Down body=~^ready$ mandatory;",
        &[one.address()],
    );
    let check = site.until_state(one.address(), "unhealthy");
    assert_eq!(check["last"]["detail"], "no match of \"^ready$\" in 8 bytes");
    ready.store(true, Ordering::Relaxed);
    site.until_state(one.address(), "healthy");
    assert_eq!(one.requests()[0].1.value("Host"), Some("other.example"));
}

#[test]
fn another_port_may_be_asked_and_connecting_may_be_enough() {
    let one = Peer::saying(said("one"));
    let side = Peer::script(|mut talk| {
        // The check connects, but sends nothing.
        assert_eq!(talk.whatever_came(), None);
    });
    let group =
        format!("server {{upstream:0}}; health_check type=tcp interval=10ms mandatory port={};", side.address().port());
    let site = Site::start(&group, &[one.address()]);
    site.until_state(one.address(), "healthy");
    assert_eq!(site.ask("/").text(), "one");
    // The kernel accepts the check's connection before the peer does.
    until("the check at the other port", || (side.connections() > 0).then_some(()));
    assert_eq!(one.connections(), 1);
}

#[test]
fn checks_a_unix_socket_and_no_peer_that_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer");
    let listener = UnixListener::bind(&path).unwrap();
    let down = Peer::saying(said("down"));
    let group =
        format!("server unix:{}; server {{upstream:0}} down; health_check type=tcp interval=10ms;", path.display());
    let site = Site::start(&group, &[down.address()]);
    let checks = "holdfast_peer_checks_total{group=\"app\",peer=\"unix:";
    until("the socket to be checked", || {
        let metrics = site.ask("/status").text();
        let line = metrics.lines().find(|line| line.starts_with(checks) && line.contains("\"passed\""))?;
        (!line.ends_with(" 0")).then_some(())
    });
    listener.accept().unwrap();
    assert_eq!(down.connections(), 0);
    assert_eq!(site.check(down.address()), Value::Null);
}

/// A gRPC server that reports its health: the number of `HealthCheckResponse.status`.
fn grpc_server(health: &Arc<AtomicU16>) -> Peer {
    let health = Arc::clone(health);
    Peer::script(move |talk| {
        let mut service = Http2Service::new(talk);
        while let Some((stream, asked)) = service.whole_request() {
            assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/grpc.health.v1.Health/Check"));
            assert_eq!((asked.authority.as_str(), asked.value("te")), ("app", Some("trailers")));
            assert_eq!(asked.body, b"\0\0\0\0\x0d\x0a\x0bshop.Orders");
            let status = health.load(Ordering::SeqCst) as u8;
            service.respond(stream, 200, &[("content-type", "application/grpc")], false);
            service.send(stream, &[0, 0, 0, 0, 2, 8, status], false);
            service.send_trailers(stream, &[("grpc-status", "0")]);
        }
    })
}

#[test]
fn asks_grpcs_own_health_protocol() {
    let health = Arc::new(AtomicU16::new(1));
    let peer = grpc_server(&health);
    let group = "server {upstream:0}; health_check type=grpc grpc_service=shop.Orders interval=10ms;";
    let site = Site::start(group, &[peer.address()]);
    site.until_state(peer.address(), "healthy");
    site.until_checked(peer.address(), 2);
    health.store(2, Ordering::SeqCst);
    site.until_state(peer.address(), "unhealthy");
    assert!(site.logged("the service is NOT_SERVING") > 0, "{}", site.gateway.error_log());
    health.store(1, Ordering::SeqCst);
    site.until_state(peer.address(), "healthy");
}

/// A server of Python's grpcio, with the standard health service.
struct RealServer {
    running: Running,
    address: SocketAddr,
}

impl RealServer {
    fn start(python: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/health_server.py");
        let mut command = Command::new(python);
        let running = Running::start_with_input(command.arg(script));
        let port: u16 = running.wait_for_output("").parse().expect("the server prints its port");
        Self { running, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    fn becomes(&self, state: &str) {
        writeln!(self.running.input(), "{state}").unwrap();
    }
}

#[test]
fn asks_a_real_grpc_server_for_its_health() {
    let Some(python) = peer_or_skip(&["python-grpc"]) else { return };
    let server = RealServer::start(&python);
    let group = "server {upstream:0}; health_check type=grpc grpc_service=shop.Orders interval=10ms;";
    let site = Site::start(group, &[server.address]);
    site.until_state(server.address, "healthy");
    site.until_checked(server.address, 2);
    server.becomes("NOT_SERVING");
    site.until_state(server.address, "unhealthy");
    assert!(site.logged("the service is NOT_SERVING") > 0, "{}", site.gateway.error_log());
    server.becomes("SERVING");
    site.until_state(server.address, "healthy");
    server.becomes("leave");
    site.until_state(server.address, "unhealthy");

    let other = RealServer::start(&python);
    let group = "server {upstream:0}; health_check type=grpc grpc_service=shop.Carts interval=10ms;";
    let site = Site::start(group, &[other.address]);
    site.until_state(other.address, "unhealthy");
}
