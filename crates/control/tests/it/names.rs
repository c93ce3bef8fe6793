//! Names with changing addresses: groups with `resolve` and `service=`, variables in `proxy_pass`, and name servers
//! that answer, fail, stay silent, truncate and forge.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::{Site, peer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use testkit::name_server::{A, AAAA, DnsCode, DnsQuestion, SRV};
use testkit::{NameServer, Peer, Running, Signal, Talk, peer_program, until};

/// A group with the targets of a service as peers, and its status.
const SERVICE: &str = "
    upstream app { zone app 64k; resolver {dns} valid=1s ipv6=off; server app.test service=http resolve; keepalive 4; }
    server { listen {listen}; location / { proxy_pass http://app; } location /status { status_page; } }";

/// A name server for a service. The test changes its targets; each target is this machine.
fn service(targets: &Arc<Mutex<Vec<u16>>>) -> NameServer {
    let targets = Arc::clone(targets);
    NameServer::script(move |question| match question.kind {
        SRV if question.name == "_http._tcp.app.test" => {
            let ports = targets.lock().unwrap().clone();
            let all: Vec<_> = ports.iter().map(|port| (1, 1, *port, "host.test")).collect();
            vec![question.services(1, &all)]
        }
        A if question.name == "host.test" => vec![question.addresses(1, &["127.0.0.1"])],
        _ => vec![question.absent(1)],
    })
}

#[test]
fn the_first_request_waits_for_the_first_lookup() {
    let one = peer("one");
    let asked = Signal::new();
    let server = NameServer::script({
        let asked = asked.clone();
        let port = one.address().port();
        move |question| {
            asked.wait();
            match question.kind {
                SRV => vec![question.services(30, &[(1, 1, port, "host.test")])],
                _ => vec![question.addresses(30, &["127.0.0.1"])],
            }
        }
    });
    let site = Site::start(SERVICE, &server, &[]);
    let mut client = site.gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the request to be under way", || (site.gateway.totals().writing == 1).then_some(()));
    asked.raise();
    assert_eq!(client.response().text(), "one");
    assert_eq!(site.gateway.access_lines(1), [format!("200 {}", one.address())]);
}

#[test]
fn peers_change_without_touching_other_connections() {
    let (one, two) = (peer("one"), peer("two"));
    let targets = Arc::new(Mutex::new(vec![one.address().port()]));
    let server = service(&targets);
    let site = Site::start(SERVICE, &server, &[]);
    for _ in 0..3 {
        assert_eq!(site.ask("/").text(), "one");
    }
    assert_eq!(one.connections(), 1);

    targets.lock().unwrap().push(two.address().port());
    until("the second peer to be asked", || (site.ask("/").text() == "two").then_some(()));
    until("the first peer to be asked again", || (site.ask("/").text() == "one").then_some(()));
    assert_eq!(one.connections(), 1, "its idle connection was not kept");

    targets.lock().unwrap().remove(0);
    until("the first peer's idle connection to be drained", || {
        let text = site.ask("/status").text();
        text.contains("holdfast_upstream_discarded_total{group=\"app\",reason=\"reload\"} 1\n").then_some(())
    });
    for _ in 0..4 {
        assert_eq!(site.ask("/").text(), "two");
    }
    let text = site.ask("/status").text();
    assert!(text.contains(&format!("peer=\"{}\"", two.address())), "{text}");
    assert!(!text.contains(&format!("peer=\"{}\"", one.address())), "a peer that is gone is still shown");
}

#[test]
fn a_floor_follows_the_name_without_a_request() {
    let (one, two) = (peer("one"), peer("two"));
    let targets = Arc::new(Mutex::new(vec![one.address().port()]));
    let server = service(&targets);
    let site = Site::start(&SERVICE.replace("keepalive 4;", "keepalive 8 floor=2;"), &server, &[]);
    until("the first peer's floor", || (one.connections() == 2).then_some(()));
    targets.lock().unwrap()[0] = two.address().port();
    until("the second peer's floor", || (two.connections() == 2).then_some(()));
    // The connections of the removed peer are closed, and none is opened for it again.
    let status = format!("\"address\":\"{}\"", one.address());
    until("the first peer to be gone", || (!site.ask("/status?format=json").text().contains(&status)).then_some(()));
    for _ in 0..4 {
        assert_eq!(site.ask("/").text(), "two");
    }
    assert_eq!((one.connections(), two.connections()), (2, 2), "the requests found warm connections");
}

#[test]
fn waiting_request_gets_a_peer_added_meanwhile() {
    let (go, asked) = (Signal::new(), Signal::new());
    let busy = Peer::script({
        let (go, asked) = (go.clone(), asked.clone());
        move |mut talk| {
            while talk.request().is_some() {
                asked.raise();
                talk.wait(&go);
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbusy");
            }
        }
    });
    let two = peer("two");
    let targets = Arc::new(Mutex::new(vec![busy.address().port()]));
    let server = service(&targets);
    let text = SERVICE.replace("resolve; keepalive 4;", "resolve max_conns=1; queue 5 timeout=20s; keepalive 4;");
    let site = Site::start(&text, &server, &[]);
    let mut first = site.gateway.client();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    asked.wait();
    let mut second = site.gateway.client();
    second.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("two exchanges", || (site.gateway.totals().writing == 2).then_some(()));
    targets.lock().unwrap().push(two.address().port());
    assert_eq!(second.response().text(), "two");
    go.raise();
    assert_eq!(first.response().text(), "busy");
}

#[test]
fn an_exchange_with_a_peer_that_leaves_is_finished() {
    let (begun, finish) = (Signal::new(), Signal::new());
    let slow = Peer::script({
        let (begun, finish) = (begun.clone(), finish.clone());
        move |mut talk| {
            talk.request().unwrap();
            begun.raise();
            talk.wait(&finish);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
            talk.end();
        }
    });
    let two = peer("two");
    let targets = Arc::new(Mutex::new(vec![slow.address().port()]));
    let server = service(&targets);
    let site = Site::start(SERVICE, &server, &[]);
    let mut client = site.gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    begun.wait();
    *targets.lock().unwrap() = vec![two.address().port()];
    site.gateway.logged(&format!("app.test now has 1 addresses, +{}, -{}", two.address(), slow.address()));
    assert_eq!(site.ask("/").text(), "two");
    finish.raise();
    assert_eq!(client.response().text(), "slow");
}

#[test]
fn a_higher_priority_is_backup_and_weights_share() {
    let (light, heavy, backup) = (peer("light"), peer("heavy"), peer("backup"));
    let ports = [light.address().port(), heavy.address().port(), backup.address().port()];
    let server = NameServer::script(move |question| match question.kind {
        SRV => {
            let targets = [(1, 1, ports[0], "host.test"), (1, 3, ports[1], "host.test"), (2, 9, ports[2], "host.test")];
            vec![question.services(30, &targets)]
        }
        _ => vec![question.addresses(30, &["127.0.0.1"])],
    });
    let site = Site::start(SERVICE, &server, &[]);
    let mut answers: Vec<String> = (0..8).map(|_| site.ask("/").text()).collect();
    answers.sort();
    assert_eq!(answers, ["heavy", "heavy", "heavy", "heavy", "heavy", "heavy", "light", "light"]);
    assert_eq!(backup.connections(), 0);
}

#[test]
fn u12_dns_failure_at_run_time_keeps_the_last_answer() {
    let one = peer("one");
    let fails = Arc::new(AtomicBool::new(false));
    let server = NameServer::script({
        let (fails, port) = (Arc::clone(&fails), one.address().port());
        move |question| match question.kind {
            _ if fails.load(Ordering::Relaxed) => vec![question.code(DnsCode::ServerFailure)],
            SRV => vec![question.services(1, &[(1, 1, port, "host.test")])],
            _ => vec![question.addresses(1, &["127.0.0.1"])],
        }
    });
    let text = SERVICE.replace("ipv6=off", "ipv6=off status_zone=dns");
    let site = Site::start(&text, &server, &[]);
    assert_eq!(site.ask("/").text(), "one");
    fails.store(true, Ordering::Relaxed);
    let zone = "holdfast_resolver_lookups_total{zone=\"dns\",result=\"servfail\"} 0\n";
    until("a lookup to fail", || (!site.ask("/status").text().contains(zone)).then_some(()));
    assert_eq!(site.ask("/").text(), "one");
}

/// `proxy_pass` with a variable, and a group besides.
const VARIABLE: &str = "
    upstream app { server {upstream:0}; }
    server {
        listen {listen};
        resolver {dns} ipv6=off;
        resolver_timeout 15s;
        location / { proxy_pass http://$arg_to; }
        location /fixed { proxy_pass http://$arg_to/other?x=1; }
    }";

#[test]
fn one_lookup_serves_all_waiting_requests() {
    let one = peer("one");
    let answer = Signal::new();
    let server = NameServer::script({
        let answer = answer.clone();
        move |question| {
            answer.wait();
            vec![question.addresses(30, &["127.0.0.1"])]
        }
    });
    let site = Site::start(VARIABLE, &server, &[one.address()]);
    let to = format!("/path?to=one.test:{}", one.address().port());
    let mut clients: Vec<Talk> = (0..3).map(|_| site.gateway.client()).collect();
    for client in &mut clients {
        client.send(format!("GET {to} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    until("all requests to wait", || (site.gateway.totals().writing == 3).then_some(()));
    answer.raise();
    for client in &mut clients {
        assert_eq!(client.response().text(), "one");
    }
    assert_eq!(site.ask(&to).text(), "one");
    let questions = server.questions();
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert_eq!((&*questions[0].name, questions[0].kind), ("one.test", A));
    let (_, request) = one.requests().pop().unwrap();
    assert_eq!(request.target(), to);
    assert_eq!(request.value("Host"), Some(&*format!("one.test:{}", one.address().port())));
    assert!(one.connections() <= 3, "connections to a name are pooled");
}

#[test]
fn variable_may_name_group_address_and_uri() {
    let one = peer("one");
    let server = NameServer::script(|question| vec![question.absent(30)]);
    let site = Site::start(VARIABLE, &server, &[one.address()]);
    assert_eq!(site.ask("/a?to=APP").text(), "one");
    assert_eq!(site.ask(&format!("/b?to={}", one.address())).text(), "one");
    assert_eq!(site.ask("/fixed/c?to=app").text(), "one");
    let targets: Vec<String> = one.requests().iter().map(|(_, request)| request.target().to_owned()).collect();
    assert_eq!(targets, ["/a?to=APP", &*format!("/b?to={}", one.address()), "/other?x=1"]);
    assert!(server.questions().is_empty());
    let lines = site.gateway.access_lines(3);
    assert!(lines.iter().all(|line| *line == format!("200 {}", one.address())), "{lines:?}");
}

#[test]
fn peers_from_variables_are_not_remembered_as_failed() {
    let fails = Arc::new(AtomicBool::new(true));
    let peer = Peer::script({
        let fails = Arc::clone(&fails);
        move |mut talk| {
            while talk.request().is_some() {
                if fails.load(Ordering::Relaxed) {
                    return talk.close();
                }
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell");
            }
        }
    });
    // The second address has no listener.
    let server = NameServer::script(|question| vec![question.addresses(30, &["127.0.0.1", "127.0.0.9"])]);
    let site = Site::start(VARIABLE, &server, &[peer.address()]);
    let port = peer.address().port();
    for _ in 0..3 {
        assert_eq!(site.ask(&format!("/?to=one.test:{port}")).status(), 502);
    }
    fails.store(false, Ordering::Relaxed);
    for _ in 0..4 {
        for name in ["one.test", "other.test"] {
            assert_eq!(site.ask(&format!("/?to={name}:{port}")).text(), "well");
        }
    }
    let log = site.gateway.error_log();
    assert!(!log.contains("no live upstreams") && !log.contains("temporarily disabled"), "{log}");
}

#[test]
fn missing_name_is_not_looked_up_again_at_once() {
    let one = peer("one");
    let server = NameServer::script(|question| vec![question.absent(30)]);
    let site = Site::start(VARIABLE, &server, &[one.address()]);
    for _ in 0..2 {
        assert_eq!(site.ask("/?to=gone.test").status(), 502);
    }
    site.gateway.logged("gone.test could not be resolved (3: Host not found)");
    assert_eq!(server.questions().len(), 1);
}

#[test]
fn silent_name_server_costs_resolver_timeout() {
    let one = peer("one");
    let server = NameServer::script(|_| Vec::new());
    let site = Site::start(&VARIABLE.replace("15s", "300ms"), &server, &[one.address()]);
    assert_eq!(site.ask("/?to=slow.test").status(), 502);
    site.gateway.logged("slow.test could not be resolved (110: Operation timed out)");
    assert_eq!(site.ask(&format!("/?to={}", one.address())).text(), "one");
}

#[test]
fn a_truncated_answer_is_asked_for_over_tcp() {
    let one = peer("one");
    let server = NameServer::script(|question| {
        vec![if question.tcp { question.addresses(30, &["127.0.0.1"]) } else { question.truncated() }]
    });
    let site = Site::start(VARIABLE, &server, &[one.address()]);
    assert_eq!(site.ask(&format!("/?to=big.test:{}", one.address().port())).text(), "one");
    let ways: Vec<bool> = server.questions().iter().map(|question: &DnsQuestion| question.tcp).collect();
    assert_eq!(ways, [false, true]);
}

#[test]
fn an_answer_with_a_wrong_number_is_not_believed() {
    let one = peer("one");
    // The forger's address has no listener.
    let server =
        NameServer::script(|question| vec![question.forged(&["127.0.0.9"]), question.addresses(30, &["127.0.0.1"])]);
    let site = Site::start(VARIABLE, &server, &[one.address()]);
    assert_eq!(site.ask(&format!("/?to=one.test:{}", one.address().port())).text(), "one");
}

#[test]
fn without_a_resolver_a_name_cannot_be_looked_up() {
    let one = peer("one");
    let server = NameServer::script(|_| Vec::new());
    let site = Site::start(&VARIABLE.replace("resolver {dns} ipv6=off;", ""), &server, &[one.address()]);
    assert_eq!(site.ask("/?to=one.test").status(), 502);
    site.gateway.logged("no resolver defined to resolve one.test");
    assert_eq!(site.ask("/?to=app").text(), "one");
    assert_eq!(site.ask("/").status(), 500);
    site.gateway.logged("no host in upstream");
}

#[test]
fn asks_only_for_the_resolvers_families() {
    let one = peer("one");
    let server = NameServer::script(|question| vec![question.addresses(30, &["127.0.0.1"])]);
    let both = VARIABLE.replace(" ipv6=off", "");
    let site = Site::start(&both, &server, &[one.address()]);
    assert_eq!(site.ask(&format!("/?to=one.test:{}", one.address().port())).text(), "one");
    let mut kinds: Vec<u16> = server.questions().iter().map(|question| question.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [A, AAAA]);
}

/// Below the ports that the system assigns.
const DNSMASQ_PORT: u16 = 5300;

/// dnsmasq with a hosts file that it reads again on a signal.
struct Dnsmasq {
    running: Running,
    hosts: PathBuf,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Dnsmasq {
    fn start(hosts: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, hosts).unwrap();
        // dnsmasq does not accept port 0, and another test may take a free port meanwhile. So each test has its own
        // address.
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = SocketAddr::from(([127, 53, high, low], DNSMASQ_PORT));
        let mut command = Command::new(peer_program("dnsmasq"));
        command
            .args(["--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=", "--group="])
            .args(["--bind-interfaces", "--no-resolv", "--no-hosts", "--local-ttl=1"])
            .args(["--local=/test/", "--srv-host=_http._tcp.app.test,host.test,80"])
            .arg(format!("--listen-address={}", address.ip()))
            .arg(format!("--port={DNSMASQ_PORT}"))
            .arg(format!("--addn-hosts={}", file.display()));
        Self { running: Running::listening(&mut command, address), hosts: file, address, _folder: folder }
    }

    fn set_hosts(&self, hosts: &str) {
        std::fs::write(&self.hosts, hosts).unwrap();
        let told = Command::new("kill").args(["-HUP", &self.running.id().to_string()]).status().unwrap();
        assert!(told.success());
    }
}

#[test]
fn a_real_name_server_is_followed() {
    let one = peer("one");
    let dnsmasq = Dnsmasq::start("127.0.0.9 host.test\n");
    let text = format!(
        "upstream app {{ zone app 64k; server host.test:{} resolve max_fails=0; }}
         resolver {} valid=1s;
         server {{
             listen {{listen}};
             proxy_connect_timeout 1s;
             location / {{ proxy_pass http://app; }}
             location /name {{ proxy_pass http://$arg_to:{}; }}
         }}",
        one.address().port(),
        dnsmasq.address,
        one.address().port()
    );
    let silent = NameServer::script(|_| Vec::new());
    let site = Site::start(&text, &silent, &[]);
    until("the first address", || {
        let log = site.gateway.error_log();
        log.contains("host.test now has 1 addresses, +127.0.0.9").then_some(())
    });
    // No process listens on that port.
    assert_eq!(site.ask("/").status(), 502);
    dnsmasq.set_hosts("127.0.0.1 host.test\n");
    until("the new address to be used", || (site.ask("/").status() == 200).then_some(()));
    assert_eq!(site.ask("/name?to=host.test").text(), "one");
    assert_eq!(site.ask("/name?to=unknown.test").status(), 502);
    site.gateway.logged("unknown.test could not be resolved (3: Host not found)");
}
