//! L1, L2, L4, L9 and L10: exhausted resources of the machine. Real processes, because such limits belong to a process.

use crate::support;
use crate::support::{DEADLINE, Instance, children, threads_stopped, until};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

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

fn connect(instance: &Instance) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", instance.port)).expect("the kernel accepts");
    stream.set_read_timeout(Some(DEADLINE)).expect("set");
    stream
}

/// Sends a request on an open connection; returns the whole answer.
fn ask(stream: &TcpStream, path: &str) -> String {
    testkit::ask(stream, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).expect("an answer").whole_text()
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
fn take_all(instance: &Instance) -> Vec<TcpStream> {
    let is_full = || instance.text("logs/error.log").contains("accept4() failed (24: Too many open files)");
    let mut taken = Vec::new();
    while !is_full() {
        assert!(taken.len() < 2 * FEW as usize, "there are descriptors left");
        let mut stream = connect(instance);
        let request = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(request).expect("sent");
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
        until("it is told to go on, or not accepted", || stream.read(&mut [0; 64]).is_ok() || is_full());
        taken.push(stream);
    }
    taken
}

#[test]
fn l01_accept_pauses_without_descriptors_and_resumes() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = upstream.local_addr().expect("bound");
    let mut instance = Instance::new("", &site(&address.to_string()));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let child = children(instance.pid())[0];
    let mut kept = connect(&instance);
    kept.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    let (mut peer, _) = upstream.accept().expect("the request is passed on");
    let taken = take_all(&instance);
    let mut waiting = connect(&instance);
    waiting.write_all(b"GET /alive HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    // A busy loop would use all of the processor; ten ticks a second are far above what a few timers need.
    let (begun, before) = (Instant::now(), ticks(child));
    while begun.elapsed() < Duration::from_secs(1) {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let used = ticks(child) - before;
    assert!(used <= 10, "{used} ticks of 10 ms in a second of waiting");
    peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("sent");
    let mut answer = [0; 12];
    kept.read_exact(&mut answer).expect("connected clients are served");
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(taken);
    waiting.read_exact(&mut answer).expect("who waited is served");
    assert_eq!(&answer, b"HTTP/1.1 200");
    assert!(instance.fetch("/alive").is_ok_and(|response| response.ends_with("alive")));
    let lines = instance.text("logs/error.log");
    let told: Vec<&str> = lines.lines().filter(|line| line.contains("accept4()")).collect();
    assert!(told.len() == 1 && told[0].contains(" [crit] "), "{told:?}");
}

#[test]
fn l01_a_connection_without_a_request_makes_room() {
    let mut instance = Instance::new("", &site("127.0.0.1:1"));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let mut silent = connect(&instance);
    silent.write_all(b"GET /alive HTTP/1.1\r\nHo").expect("sent");
    let mut others: Vec<TcpStream> = (0..2 * FEW).map(|_| connect(&instance)).collect();
    assert_eq!(silent.read(&mut [0; 1]).expect("a good end"), 0, "the oldest gives way");
    let newest = others.last_mut().expect("there are some");
    assert!(ask(newest, "/alive").starts_with("HTTP/1.1 200 "));
}

#[test]
fn l01_an_idle_connection_makes_room() {
    let mut instance = Instance::new("", &site("127.0.0.1:1"));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let mut idle = connect(&instance);
    assert!(ask(&idle, "/alive").starts_with("HTTP/1.1 200 "));
    let _taken = take_all(&instance);
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("a good end");
    assert!(rest.ends_with(b"alive") || rest.is_empty(), "{}", rest.escape_ascii());
}

#[test]
fn l02_without_a_descriptor_for_the_upstream_the_answer_is_503() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = upstream.local_addr().expect("bound");
    let mut instance = Instance::new("", &site(&address.to_string()));
    instance.start_as(|command| with_descriptors(FEW, &command));
    let child = children(instance.pid())[0];
    let mut client = connect(&instance);
    // It was accepted before the others and has an open request.
    client.write_all(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n").expect("sent");
    let taken = take_all(&instance);
    client.write_all(b"b").expect("sent");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 503");
    instance.wait_for_line("socket() failed (24: Too many open files) while connecting to upstream");
    drop(taken);
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = upstream.accept().expect("the request is passed on");
        assert!(stream.read(&mut [0; 1024]).expect("a request") > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").expect("sent");
    });
    until("descriptors are free", || descriptors(child) < FEW as usize / 2);
    // The peer is not marked as failed for an error on our side.
    assert!(instance.fetch("/x").is_ok_and(|response| response.ends_with("ok")));
    serving.join().expect("no panic");
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
        let mut client = connect(&instance);
        client.write_all(b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
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
    let upstream = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = upstream.local_addr().expect("bound");
    let servers = site(&address.to_string()).replace(
        "keepalive_timeout 60s;",
        "client_body_temp_path SMALL; client_body_buffer_size 1k; client_max_body_size 10m;",
    );
    let mut instance = Instance::new("", "");
    let small = instance.path("small");
    fs::create_dir(&small).expect("made");
    instance.configure("", &servers.replace("SMALL", &small.display().to_string()));
    instance.start_as(|command| with_small_disk(&small, &command));
    let (seen, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in upstream.incoming() {
            let mut stream = stream.expect("passed on");
            let mut request = Vec::new();
            let mut buffer = vec![0; 64 * 1024];
            while !request.ends_with(b"end") {
                let count = stream.read(&mut buffer).expect("a request");
                if count == 0 {
                    break;
                }
                request.extend_from_slice(&buffer[..count]);
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
            stream.write_all(answer).expect("sent");
            if seen.send(request.len()).is_err() {
                return;
            }
        }
    });
    let post = |size: usize| {
        let mut client = connect(&instance);
        write!(client, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n")
            .expect("sent");
        // When the body is no longer read, the client notices through the answer.
        let _ = client.write_all(&vec![b'x'; size - 3]).and_then(|()| client.write_all(b"end"));
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let other = connect(&instance);
    assert!(ask(&other, "/alive").starts_with("HTTP/1.1 200 "));
    assert!(post(4_000_000).starts_with("HTTP/1.1 500 "));
    instance.wait_for_line("failed (28: No space left on device) while reading client request body");
    assert!(ask(&other, "/alive").contains("200"));
    // The space of the failed request is free again.
    let answer = post(40_000);
    assert!(answer.ends_with("ok"), "{answer}");
    let length = requests.recv_timeout(DEADLINE).expect("one request");
    assert!((40_000..41_000).contains(&length), "{length}: the upstream has seen nothing of the other");
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
    assert!(ask(&connect(&instance), "/alive").contains("200"));
    let before = resident_kb(worker);
    // All but the last byte: each body waits in memory.
    let send = || {
        let mut client = connect(&instance);
        write!(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", BODY_BYTES + 1).expect("sent");
        client.write_all(&vec![b'x'; BODY_BYTES]).expect("sent");
        client
    };
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| send()).collect();
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
    assert!(ask(&connect(&instance), "/alive").contains("200"));
}
