//! What several processes count, show and do as one: figures, `holdfast ctl`, limits, descriptors, logs.

use super::{Kept, SERVERS, Scene, THREE, by_process, goes_through, tunnel};
use crate::support::numbered::Echo;
use crate::support::{Instance, fetch, pid, until};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use std::fs;
use std::net::UdpSocket;
use testkit::{DatagramPeer, DatagramTalk};

/// A counter of the metrics, from any process.
fn metric(scene: &Scene, name: &str) -> u64 {
    let page = scene.instance.fetch("/status?format=prometheus").expect("an answer");
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {page}")).parse().expect("a number")
}

#[test]
fn metrics_sum_all_processes_and_never_fall() {
    let scene = Scene::started(THREE);
    let processes = scene.until_serving(3);
    let kept: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    // Each process gets some, whichever had more connections before: it leaves them to one with clearly fewer.
    let tunnels: Vec<Kept> = (0..48).map(|_| tunnel(&scene)).collect();
    assert_eq!((by_process(&kept).len(), by_process(&tunnels).len()), (3, 3));
    until("all tunnels are counted, whichever process is asked", || {
        (0..9).all(|_| metric(&scene, "holdfast_tunnels") == 48)
    });
    assert_eq!((metric(&scene, "holdfast_processes"), metric(&scene, "holdfast_workers")), (3, 3));
    for _ in 0..10 {
        assert!(kept.iter().all(Kept::lives));
    }
    // 30 first ones, 300 more, and 48 for the tunnels.
    until("all requests are counted", || metric(&scene, "holdfast_requests_total") >= 378);
    let mut last = 0;
    let mut grows = || {
        let now = metric(&scene, "holdfast_requests_total");
        assert!(now > last, "{last} {now}");
        last = now;
    };
    for victim in processes {
        kill(pid(victim), Signal::SIGKILL).expect("it lives");
        (0..20).for_each(|_| grows());
        until("it is replaced", || scene.children().len() == 3 && !scene.children().contains(&victim));
        (0..20).for_each(|_| grows());
    }
    // Processes that end in order leave their counters as well.
    scene.configure("worker_processes 2; worker_groups 2;", "");
    scene.send_signal(Signal::SIGHUP);
    until("two have taken over", || {
        grows();
        scene.children().len() == 2
    });
    drop((kept, tunnels));
    until("no tunnel is left", || metric(&scene, "holdfast_tunnels") == 0);
    until("two processes are left", || metric(&scene, "holdfast_processes") == 2);
    grows();
}

/// Two threads of a process that publish at once must not publish the older figures last.
#[test]
fn counters_never_fall_while_many_clients_ask_at_once() {
    fn of_page(page: &str) -> Option<&str> {
        page.lines().find_map(|line| line.strip_prefix("holdfast_requests_total "))
    }
    fn of_stub(page: &str) -> Option<&str> {
        page.lines().rev().nth(1)?.split(' ').nth(3)
    }
    let mut scene = Scene::new(THREE);
    scene.configure(THREE, "location = /stub { stub_status; }");
    scene.instance.start();
    scene.until_children(3);
    let port = scene.instance.port;
    let ask = |path: &str, number: fn(&str) -> Option<&str>| {
        let mut last = 0;
        for _ in 0..60 {
            let page = fetch(port, path).expect("an answer");
            let now: u64 = number(&page).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{page}"));
            // At least its own request has come since.
            assert!(now > last, "{path}: {now} after {last}");
            last = now;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| ask("/status?format=prometheus", of_page));
            scope.spawn(|| ask("/stub", of_stub));
        }
    });
}

#[test]
fn ctl_asks_all_processes_and_answers_once() {
    let servers = "upstream u { server UPSTREAM; } server { listen 127.0.0.1:PORT; location = /pid { return 200 $pid; }
        location / { proxy_pass http://u; proxy_set_header Connection upgrade; proxy_set_header Upgrade $http_upgrade;
        add_header X-Pid $pid always; } }";
    let mut scene = Scene { instance: Instance::new("", ""), echo: Echo::start() };
    scene.instance.configure(THREE, &servers.replace("UPSTREAM", &scene.echo.address.to_string()));
    scene.instance.start();
    let processes = scene.until_serving(3);
    // More than two processes take: one leaves connections to another that has six fewer.
    let mut tunnels: Vec<Kept> = (0..24).map(|_| tunnel(&scene)).collect();
    assert_eq!(by_process(&tunnels).len(), 3);
    let status = scene.ctl(&["status"]);
    assert_eq!(status["master"]["worker_pids"], json!(processes));
    let text = String::from_utf8(scene.ctl_output(&["status"]).stdout).expect("text");
    assert!(text.contains("3 of 3 worker groups serve: pid "), "{text}");
    let list = scene.ctl(&["tunnels"]);
    assert_eq!((list["matching"].as_u64(), list["rows"].as_array().map(Vec::len)), (Some(24), Some(24)));
    let mut numbers: Vec<u64> =
        list["rows"].as_array().into_iter().flatten().filter_map(|row| row["connection"].as_u64()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 24, "the number of a connection names it in all processes");
    let closed = scene.ctl(&["tunnels", "close", &numbers[5].to_string()]);
    assert_eq!(closed["closed"].as_u64(), Some(numbers[5]));
    until("one tunnel is closed", || {
        tunnels.iter_mut().filter_map(|one| goes_through(one).then_some(())).count() == 23
    });
    let peer = scene.echo.address.to_string();
    let mode = |answer: &Value| answer["peers"][0]["mode"].as_str().map(str::to_owned);
    assert_eq!(mode(&scene.ctl(&["peers", "down", "u", &peer])), Some("down".to_owned()));
    let is_down = |scene: &Scene| scene.instance.fetch("/").is_ok_and(|answer| answer.starts_with("HTTP/1.1 502 "));
    assert!((0..30).all(|_| is_down(&scene)), "in all processes");
    // A process that takes the place of a dead one knows it, too.
    kill(pid(processes[0]), Signal::SIGKILL).expect("it lives");
    let new = |scene: &Scene| scene.children().into_iter().find(|process| !processes.contains(process));
    let mut kept = Vec::new();
    until("it is replaced, and serves", || {
        kept.push(Kept::open(&scene));
        new(&scene).is_some_and(|new| kept.last().is_some_and(|one| one.process == new))
    });
    let asked = |scene: &Scene| scene.ctl(&["peers"])["peers"].as_array().map(Vec::len);
    assert_eq!(asked(&scene), Some(1));
    assert!((0..30).all(|_| is_down(&scene)));
}

#[test]
fn limit_conn_counts_the_connections_of_all_processes() {
    let scene = Scene::new(THREE);
    scene.configure(THREE, "limit_conn all 12;");
    let text =
        scene.instance.text("nginx.conf").replace("server {", "limit_conn_zone $server_port zone=all:1m; server {");
    fs::write(scene.instance.path("nginx.conf"), text).expect("written");
    let mut scene = scene;
    scene.instance.start();
    scene.until_serving(3);
    let refused = |scene: &Scene| scene.instance.fetch("/").is_ok_and(|answer| answer.starts_with("HTTP/1.1 503 "));
    let mut tunnels: Vec<Kept> = (0..12).map(|_| tunnel(&scene)).collect();
    assert!(by_process(&tunnels).len() > 1);
    assert!((0..10).all(|_| refused(&scene)), "whichever process is asked");
    let killed = tunnels[0].process;
    kill(pid(killed), Signal::SIGKILL).expect("it lives");
    scene.instance.wait_for_line("has died and is started again");
    let lost = tunnels.len();
    tunnels.retain(|one| one.process != killed);
    // The connections of the dead process do not count.
    let more: Vec<Kept> = (tunnels.len()..lost).map(|_| tunnel(&scene)).collect();
    assert!(!more.is_empty() && (0..10).all(|_| refused(&scene)));
    assert!(tunnels.iter_mut().all(goes_through));
    // A reload keeps the counts.
    scene.send_signal(Signal::SIGHUP);
    scene.instance.wait_for_line("the new configuration holds");
    assert!((0..10).all(|_| refused(&scene)));
    drop(more);
    until("others may come", || !refused(&scene));
}

#[test]
fn limit_req_counts_the_requests_of_all_processes() {
    let mut scene = Scene::new("");
    let zone = "limit_req_zone $server_port zone=all:1m rate=1r/m; server {";
    let servers = SERVERS.replace("location = /text {", "location = /text { limit_req zone=all burst=19 nodelay;");
    let servers =
        servers.replace("server {", zone).replace("MORE", "").replace("UPSTREAM", &scene.echo.address.to_string());
    // `return` answers before limits.
    let servers = servers.replace("return 200 one;", "try_files /nothing =404;");
    scene.instance.configure(THREE, &servers);
    scene.instance.start();
    scene.until_serving(3);
    let kept: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    assert_eq!(by_process(&kept).len(), 3);
    let status =
        |one: &Kept| testkit::ask(&one.stream, "GET /text HTTP/1.1\r\nHost: a\r\n\r\n").expect("an answer").status();
    let statuses: Vec<u16> = kept.iter().map(status).collect();
    let of = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((of(404), of(503)), (20, 10), "one, and a burst of nineteen");
}

#[test]
fn process_without_descriptors_leaves_clients_to_others() {
    let scene = Scene::started(THREE);
    let processes = scene.until_children(3);
    let victim = processes[0];
    let kept: Vec<Kept> = (0..9).map(|_| Kept::open(&scene)).collect();
    let limit = |soft: u64| {
        let process = rustix::process::Pid::from_raw(i32::try_from(victim).expect("pids are small"));
        let limit = rustix::process::Rlimit { current: Some(soft), maximum: Some(4096) };
        rustix::process::prlimit(process, rustix::process::Resource::Nofile, limit).expect("set");
    };
    limit(3);
    let more: Vec<Kept> = (0..60).map(|_| Kept::open(&scene)).collect();
    assert!(more.iter().all(|one| one.process != victim));
    assert!(kept.iter().all(Kept::lives), "what it has goes on");
    // With descriptors again, it takes part.
    limit(4096);
    let mut later = Vec::new();
    until("it serves again", || {
        later.push(Kept::open(&scene));
        later.last().is_some_and(|one| one.process == victim)
    });
}

#[test]
fn sessions_of_datagrams_belong_to_one_process() {
    let peer = DatagramPeer::echo();
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("bound").port();
    let stream = format!("stream {{ server {{ listen 127.0.0.1:{port} udp; proxy_pass {}; }} }}", peer.address());
    let scene = Scene::started(&format!("{THREE} {stream}"));
    let processes = scene.until_children(3);
    let talk = || {
        let client = DatagramTalk::connect(([127, 0, 0, 1], port).into());
        client.send("ping");
        client.expect("ping");
        client
    };
    let clients: Vec<DatagramTalk> = (0..8).map(|_| talk()).collect();
    for client in &clients {
        client.send("pong");
        client.expect("pong");
    }
    // Its successor reads what the socket has kept meanwhile.
    kill(pid(processes[0]), Signal::SIGKILL).expect("it lives");
    scene.instance.wait_for_line("worker group 1 of 3 has died");
    drop(talk());
}

#[test]
fn all_processes_write_to_the_logs_that_were_opened_again() {
    let scene = Scene::started(THREE);
    scene.until_children(3);
    let asked = scene.until_all_serve(3) + 30;
    let kept: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    assert_eq!(by_process(&kept).len(), 3);
    let log = scene.instance.path("logs/access.log");
    until("all lines are written", || scene.instance.text("logs/access.log").lines().count() == asked);
    fs::rename(&log, scene.instance.path("logs/access.old")).expect("renamed");
    scene.send_signal(Signal::SIGUSR1);
    until("the log is there again", || log.exists());
    assert!(kept.iter().all(Kept::lives));
    until("no line is lost", || {
        let lines = |name: &str| scene.instance.text(name).lines().count();
        lines("logs/access.log") + lines("logs/access.old") == asked + 30
    });
    assert!(kept.iter().all(Kept::lives));
    until("all write to the new one", || scene.instance.text("logs/access.log").lines().count() >= 30);
}

#[test]
fn a_stopped_process_keeps_no_new_connection() {
    let scene = Scene::started(THREE);
    let processes = scene.until_children(3);
    let stopped = processes[1];
    // The others have more connections, so they leave the next ones to this process.
    let first: Vec<Kept> = (0..60).map(|_| Kept::open(&scene)).collect();
    kill(pid(stopped), Signal::SIGKILL).expect("it lives");
    let new = || scene.children().into_iter().find(|process| !processes.contains(process));
    until("another one runs", || new().is_some());
    let empty = new().expect("it runs");
    kill(pid(empty), Signal::SIGSTOP).expect("it lives");
    let more: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    assert!(more.iter().all(|one| one.process != empty));
    kill(pid(empty), Signal::SIGCONT).expect("it lives");
    drop((first, more));
}

/// Three processes that answer with their pid over TLS, and the authority of their certificate.
fn over_tls() -> (Instance, testkit::Authority) {
    let mut instance = Instance::new("", "");
    let authority = testkit::Authority::new("Test Authority");
    authority.issue(&["a.test"]).write(&instance.path(""), "a");
    let server = "server { listen 127.0.0.1:PORT ssl; server_name a.test; ssl_certificate a.crt; ssl_certificate_key a.key; \
                  return 200 $pid; }";
    instance.configure(THREE, server);
    instance.start();
    (instance, authority)
}

#[test]
fn sessions_of_tls_are_resumed_in_every_process() {
    let (instance, authority) = over_tls();
    let (side, address) = (authority.client(), std::net::SocketAddr::from(([127, 0, 0, 1], instance.port)));
    // Open connections, so that the next ones go to other processes.
    let clients = (0..30).map(|_| {
        let mut client = testkit::Talk::connect_secure(address, &side, "a.test").expect("a handshake");
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let process = client.response().text().clone();
        (client.session().is_resumed(), process, client)
    });
    let clients: Vec<_> = clients.collect();
    let processes: std::collections::BTreeSet<&String> = clients.iter().map(|(_, process, _)| process).collect();
    assert_eq!(processes.len(), 3);
    let full = clients.iter().filter(|(is_resumed, ..)| !is_resumed).count();
    assert_eq!(full, 1, "only the first handshake is a full one");
}

#[test]
fn a_new_certificate_is_used_in_every_process() {
    let (instance, authority) = over_tls();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], instance.port));
    // The processes that show each certificate to clients without a session. Open connections, so that the next ones go to other processes.
    let shown = || {
        let mut shown = std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
        let clients = (0..30).map(|_| {
            let mut client =
                testkit::Talk::connect_secure(address, &authority.client(), "a.test").expect("a handshake");
            client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
            let serial = client.session().peer_certificate().expect("a certificate").serial().expect("a number");
            shown.entry(serial).or_default().insert(client.response().text());
            client
        });
        let clients: Vec<_> = clients.collect();
        drop(clients);
        shown
    };
    let before = shown();
    assert!(before.len() == 1 && before.values().all(|processes| processes.len() == 3), "{before:?}");
    authority.issue(&["a.test"]).write(&instance.path(""), "a");
    until("each process shows the new certificate", || {
        let now = shown();
        now.len() == 1 && now.keys().ne(before.keys()) && now.values().all(|processes| processes.len() == 3)
    });
}
