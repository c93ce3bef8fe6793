//! L1, L2, L4, L9 and L10: exhausted resources of the machine. Real processes, because such limits belong to a process.

use crate::support;
use crate::support::{Instance, children, threads_stopped, until};
use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::{End, Peer, Signal, Talk};

/// A small answer of the gateway itself, and a proxied one.
fn site(upstream: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:PORT; keepalive_timeout 60s;
             location = /alive {{ return 200 alive; }}
             location / {{ proxy_pass http://{upstream}; proxy_connect_timeout 5s; }} }}"
    )
}

/// Runs the program with this many descriptors at most.
fn with_descriptors(count: u32, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {count}; exec \"$0\" \"$@\"")]).arg(command.get_program());
    limited.args(command.get_args());
    limited
}

/// A small answer of the gateway itself on a kept connection.
fn is_alive(client: &mut Talk) -> bool {
    client.get("/alive", "").status() == 200
}

/// Processor time of a process so far, in clock ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields: Vec<&str> = text.rsplit_once(") ").expect("a name").1.split_ascii_whitespace().collect();
    [11, 12].iter().map(|&at: &usize| fields[at].parse::<u64>().expect("a number")).sum()
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

const FEW: u32 = 48;

/// Opens requests without their bodies until the process has no descriptor left. A client that has sent a whole head is
/// not closed to make room, and each head is read before the next client connects.
fn take_all(instance: &Instance) -> Vec<Talk> {
    let is_full = || instance.text("logs/error.log").contains("accept4() failed (24: Too many open files)");
    let mut taken = Vec::new();
    while !is_full() {
        assert!(taken.len() < 2 * FEW as usize, "there are descriptors left");
        let mut client = instance.client();
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n");
        let patience = Duration::from_millis(20);
        until("it is told to go on, or not accepted", || client.receives_within(patience) || is_full());
        taken.push(client);
    }
    taken
}

#[test]
fn l01_accept_pauses_without_descriptors_and_resumes() {
    let go = Signal::new();
    let peer = Peer::script({
        let go = go.clone();
        move |mut talk| {
            talk.request();
            talk.wait(&go);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let mut instance = Instance::new("", &site(&peer.address().to_string()));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let child = children(instance.pid())[0];
    let mut kept = instance.client();
    kept.send_get("/x", "");
    until("the request is passed on", || peer.requests().len() == 1);
    let taken = take_all(&instance);
    let mut waiting = instance.client();
    waiting.send_get("/alive", "");
    // A busy loop would use all of the processor; ten ticks a second are far above what a few timers need.
    let (begun, before) = (Instant::now(), ticks(child));
    while begun.elapsed() < Duration::from_secs(1) {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let used = ticks(child) - before;
    assert!(used <= 10, "{used} ticks of 10 ms in a second of waiting");
    go.raise();
    assert_eq!(kept.response().status(), 200, "connected clients are served");
    drop(taken);
    assert_eq!(waiting.response().status(), 200, "a client that waited is served");
    assert!(instance.fetch("/alive").is_ok_and(|response| response.ends_with("alive")));
    let lines = instance.text("logs/error.log");
    let told: Vec<&str> = lines.lines().filter(|line| line.contains("accept4()")).collect();
    assert!(told.len() == 1 && told[0].contains(" [crit] "), "{told:?}");
}

#[test]
fn l01_a_connection_without_a_request_makes_room() {
    let mut instance = Instance::new("", &site("127.0.0.1:1"));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let mut silent = instance.client();
    silent.send("GET /alive HTTP/1.1\r\nHo");
    let mut others: Vec<Talk> = (0..2 * FEW).map(|_| instance.client()).collect();
    assert_eq!(silent.end(), End::Fin, "the oldest gives way");
    assert!(is_alive(others.last_mut().expect("there are some")));
}

#[test]
fn l01_an_idle_connection_makes_room() {
    let mut instance = Instance::new("", &site("127.0.0.1:1"));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let mut idle = instance.client();
    assert!(is_alive(&mut idle));
    let _taken = take_all(&instance);
    assert_eq!(idle.end(), End::Fin);
}

#[test]
fn l02_without_a_descriptor_for_the_upstream_the_answer_is_503() {
    let peer = Peer::saying_once("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let mut instance = Instance::new("", &site(&peer.address().to_string()));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let child = children(instance.pid())[0];
    let mut client = instance.client();
    // It was accepted before the others and has an open request.
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    let taken = take_all(&instance);
    client.send("b");
    assert_eq!(client.response().status(), 503);
    instance.wait_for_line("socket() failed (24: Too many open files) while connecting to upstream");
    drop(taken);
    until("descriptors are free", || descriptors(child) < FEW as usize / 2);
    // The peer is not marked as failed for an error on our side.
    assert!(instance.fetch("/x").is_ok_and(|response| response.ends_with("ok")));
}

#[test]
fn l04_overflowing_accept_queue_is_reported() {
    let servers = "server { listen 127.0.0.1:PORT backlog=1; return 200 served; }";
    let mut instance = Instance::new("", servers);
    instance.start();
    let child = children(instance.pid())[0];
    let stopped = |signal| nix::sys::signal::kill(support::pid(child), signal).expect("it lives");
    stopped(nix::sys::signal::Signal::SIGSTOP);
    until("all of it has stopped", || threads_stopped(child));
    // Two connections fit, and no process accepts: the kernel drops further ones.
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], instance.port));
    let clients: Vec<_> =
        (0..6).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()).collect();
    stopped(nix::sys::signal::Signal::SIGCONT);
    assert!(clients.contains(&false), "the queue did not overflow");
    instance.wait_for_line("connections were dropped because an accept queue was full");
    let text = instance.text("logs/error.log");
    let line = text.lines().find(|line| line.contains("accept queue was full")).expect("a line");
    assert!(line.contains(" [warn] ") && line.contains(&format!("127.0.0.1:{}: ", instance.port)), "{line}");
    assert!(line.contains("backlog is 1 ") && line.contains("net.core.somaxconn ("), "{line}");
    assert!(!line.contains("ListenOverflows +0"), "{line}");
    assert!(instance.fetch("/").is_ok_and(|response| response.ends_with("served")));
}

#[test]
fn l09_a_full_log_disk_costs_lines_and_no_request() {
    let servers = "access_log /dev/full; server { listen 127.0.0.1:PORT; return 200 served; }";
    let mut instance = Instance::new("", servers);
    instance.start();
    let alerts = || instance.text("logs/error.log").lines().filter(|line| line.contains(" [alert] ")).count();
    for _ in 0..20 {
        assert!(instance.fetch("/").is_ok_and(|response| response.ends_with("served")));
    }
    instance.wait_for_line("write() to \"/dev/full\" failed (28: No space left on device)");
    // Several more writes fail within the minute.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(600) {
        assert!(instance.fetch("/").is_ok_and(|response| response.ends_with("served")));
    }
    assert_eq!(alerts(), 1, "{}", instance.text("logs/error.log"));
}

#[test]
fn l09_where_the_error_log_is_full_too() {
    let servers = "access_log /dev/full; server { listen 127.0.0.1:PORT; return 200 served; }";
    let mut instance = Instance::new("", servers);
    let text = instance.text("nginx.conf").replace("error_log logs/error.log info;", "error_log /dev/full info;");
    fs::write(instance.path("nginx.conf"), text).expect("written");
    instance.start_unseen();
    until("it serves", || instance.fetch("/").is_ok_and(|response| response.ends_with("served")));
    for _ in 0..20 {
        // Malformed requests write to the error log, too.
        let mut client = instance.client();
        client.send_get("/\0", "");
        assert_eq!(client.response().status(), 400);
        client.end();
        assert!(instance.fetch("/").is_ok_and(|response| response.ends_with("served")));
    }
    instance.signal("quit");
    assert_eq!(instance.wait(), Some(0));
}

/// Runs the program with this directory as a disk of 64 KB that no other process sees.
fn with_small_disk(at: &std::path::Path, command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    let mount = format!("mount -t tmpfs -o size=64k small {} && exec \"$0\" \"$@\"", at.display());
    inside.args(["--mount", "sh", "-c", &mount]).arg(command.get_program()).args(command.get_args());
    inside
}

#[test]
fn l10_full_temp_disk_fails_only_its_request() {
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip("only root can mount a disk");
    }
    let peer = Peer::saying_once("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let servers = site(&peer.address().to_string()).replace(
        "keepalive_timeout 60s;",
        "client_body_temp_path SMALL; client_body_buffer_size 1k; client_max_body_size 10m;",
    );
    let mut instance = Instance::new("", "");
    let small = instance.path("small");
    fs::create_dir(&small).expect("made");
    instance.configure("", &servers.replace("SMALL", &small.display().to_string()));
    instance.start_as(|command| with_small_disk(&small, &command));
    let post = |size: usize| {
        let mut client = instance.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"));
        // When the body is no longer read, the client notices through the answer.
        client.send(vec![b'x'; size]);
        client.response()
    };
    let mut other = instance.client();
    assert!(is_alive(&mut other));
    assert_eq!(post(4_000_000).status(), 500);
    instance.wait_for_line("failed (28: No space left on device) while reading client request body");
    assert!(is_alive(&mut other));
    // The space of the failed request is free again.
    assert_eq!(post(40_000).text(), "ok");
    assert_eq!(peer.only_request().body.len(), 40_000);
    assert_eq!(peer.connections(), 1, "the upstream has seen nothing of the other");
}

/// Resident memory of a process in KB.
fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// What a burst of bodies took is the kernel's again within a minute, not only in the account of the status page.
#[test]
fn l11_resident_memory_falls_after_a_burst() {
    const CLIENTS: u64 = 200;
    const BODY_BYTES: usize = 250_000;
    const RETURNED_WITHIN: Duration = Duration::from_mins(1);
    let servers = site("127.0.0.1:1").replace("keepalive_timeout 60s;", "client_body_buffer_size 256k;");
    let mut instance = Instance::new("worker_processes 1;", &servers);
    instance.start();
    let worker = children(instance.pid())[0];
    assert!(is_alive(&mut instance.client()));
    let before = resident_kb(worker);
    // All but the last byte: each body waits in memory.
    let send = || {
        let mut client = instance.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", BODY_BYTES + 1));
        client.send(vec![b'x'; BODY_BYTES]);
        client
    };
    let clients: Vec<Talk> = (0..CLIENTS).map(|_| send()).collect();
    let least = before + CLIENTS * BODY_BYTES as u64 / 1024 * 9 / 10;
    until("the bodies are held", || resident_kb(worker) > least);
    drop(clients);
    let begun = Instant::now();
    // A tenth may stay: pages that hold something else, too.
    let most = before + (least - before) / 10;
    while resident_kb(worker) > most {
        let now = resident_kb(worker);
        assert!(
            begun.elapsed() < RETURNED_WITHIN,
            "{before} KB before, more than {least} KB in the burst, {now} KB now"
        );
        std::thread::park_timeout(Duration::from_millis(100));
    }
    assert!(is_alive(&mut instance.client()));
}
