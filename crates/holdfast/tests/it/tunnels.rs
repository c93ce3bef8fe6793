//! Open tunnels when a child is replaced, and when another program takes over: they go on in the process that follows.

use crate::support;
use crate::support::numbered::{Echo, Outcome, Traffic};
use crate::support::{Instance, children, lives, pid, threads_stopped, until};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const SERVERS: &str = "log_format counts '$status $upstream_bytes_sent $request_time'; access_log logs/tunnels.log counts;
    server { listen 127.0.0.1:PORT; location = /alive { access_log off; return 200 alive; }
    location / { proxy_pass http://UPSTREAM; proxy_set_header Connection upgrade; proxy_set_header Upgrade $http_upgrade;
        tunnel_timeout 120s; } }";

fn servers(echo: &Echo) -> String {
    SERVERS.replace("UPSTREAM", &echo.address.to_string())
}

/// Starts a daemon, for which WINCH has an effect; returns its master.
fn daemon(instance: &Instance) -> u32 {
    let output = instance.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    instance.pid_file().expect("written before the command returns")
}

fn signal(process: u32, signal: Signal) {
    kill(pid(process), signal).expect("it runs");
}

fn tunnel(port: u16) -> TcpStream {
    upgraded(port, "/", "x")
}

fn upgraded(port: u16, path: &str, protocol: &str) -> TcpStream {
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
    support::upgraded(port, &head).0
}

fn tunnels(instance: &Instance, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| tunnel(instance.port)).collect()
}

fn goes_through(tunnel: &mut TcpStream) {
    tunnel.write_all(b"ping").expect("sent");
    let mut back = [0; 4];
    tunnel.read_exact(&mut back).expect("it lives");
    assert_eq!(&back, b"ping");
}

/// Sums of the lines in the log about tunnels that were handed over.
fn handed_over(instance: &Instance) -> usize {
    let log = instance.text("logs/error.log");
    let counts = log.lines().filter_map(|line| {
        let (before, _) = line.split_once(" tunnels were handed over")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    counts.sum()
}

/// Replaces the child by one with another number of workers, and waits until the old one has ended.
fn replace_child(instance: &Instance, servers: &str, workers: usize) {
    let master = instance.pid_file().expect("it runs");
    let old = children(master);
    instance.configure(&format!("worker_processes {workers};"), servers);
    grant_connections(instance);
    signal(master, Signal::SIGHUP);
    until("the child is replaced, and has ended", || {
        let now = children(master);
        now.len() == 1 && now != old
    });
}

/// Enough connections for the long form.
fn grant_connections(instance: &Instance) {
    let text = instance.text("nginx.conf").replace("worker_connections 256;", "worker_connections 8192;");
    fs::write(instance.path("nginx.conf"), text).expect("written");
}

/// Replaces the program, and waits until the old one has ended; returns the new master.
fn upgrade(instance: &Instance, old: u32) -> u32 {
    let before = instance.text("logs/error.log").matches("holdfast serves").count();
    signal(old, Signal::SIGUSR2);
    until("another master serves", || {
        instance.text("logs/error.log").matches("holdfast serves").count() > before
            && instance.pid_file().is_some_and(|new| new != old)
    });
    signal(old, Signal::SIGQUIT);
    until("the old program has ended", || !lives(old));
    instance.pid_file().expect("written")
}

fn stop(instance: &Instance, master: u32) {
    signal(master, Signal::SIGTERM);
    until("the last one has ended", || !lives(master));
    assert_ne!(instance.pid_file(), Some(master));
}

#[track_caller]
fn nothing_was_lost(outcome: &Outcome, instance: &Instance) {
    let log = instance.text("logs/error.log");
    assert!(outcome.faults.is_empty(), "{} faults: {:?}\n{log}", outcome.faults.len(), outcome.faults.first());
    assert!(outcome.numbers > 0);
}

/// Checks that every tunnel has one line, with all its bytes; the request before them is below 200 bytes.
fn each_is_logged_once(instance: &Instance, count: usize, outcome: &Outcome) {
    let lines = || instance.text("logs/tunnels.log").lines().map(str::to_owned).collect::<Vec<_>>();
    until("all lines are written", || lines().len() >= count);
    let lines = lines();
    assert_eq!(lines.len(), count);
    let bytes: Vec<u64> = lines
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[0], "101", "{line}");
            words[1].parse::<u64>().expect("a number")
        })
        .collect();
    let (total, payload) = (bytes.iter().sum::<u64>(), outcome.numbers * 8);
    assert!(total > payload && total < payload + 200 * count as u64, "{total} logged, {payload} sent");
}

fn survive(count: usize, replacements: usize, upgrades: usize, interval: Duration) {
    let echo = Echo::start();
    let servers = servers(&echo);
    let instance = Instance::new("worker_processes 2;", &servers);
    grant_connections(&instance);
    let mut master = daemon(&instance);
    let traffic = Traffic::start(tunnels(&instance, count), interval);
    for round in 0..replacements {
        replace_child(&instance, &servers, if round % 2 == 0 { 3 } else { 2 });
        assert_eq!(handed_over(&instance), count * (round + 1), "{}", instance.text("logs/error.log"));
    }
    for round in 0..upgrades {
        master = upgrade(&instance, master);
        assert_eq!(handed_over(&instance), count * (replacements + round + 1), "{}", instance.text("logs/error.log"));
    }
    let outcome = traffic.stop();
    nothing_was_lost(&outcome, &instance);
    each_is_logged_once(&instance, count, &outcome);
    stop(&instance, master);
    let (median, p99) = (outcome.longest_at(0.5).as_millis(), outcome.longest_at(0.99).as_millis());
    let log = instance.text("logs/error.log");
    let paused =
        log.lines().filter_map(|line| line.split_once("paused for at most ")?.1.split(' ').next()?.parse().ok());
    let paused: u64 = paused.max().unwrap_or_default();
    writeln!(
        std::io::stderr(),
        "{count} tunnels, {replacements} replacements, {upgrades} upgrades, {} numbers; the slowest number of a tunnel took \
         {median} ms (median of the tunnels), {p99} ms (p99); frozen for at most {paused} ms",
        outcome.numbers
    )
    .expect("written");
}

/// Starts another program and returns its master. Both programs serve.
fn start_another(instance: &Instance, old: u32) -> u32 {
    signal(old, Signal::SIGUSR2);
    until("another master serves", || {
        instance.text("logs/error.log").matches("holdfast serves").count() >= 2
            && instance.pid_file().is_some_and(|new| new != old)
    });
    instance.pid_file().expect("written")
}

#[test]
fn unread_bytes_and_half_closed_tunnels_survive_an_upgrade() {
    let echo = Echo::start();
    let instance = Instance::new("", &servers(&echo));
    let master = daemon(&instance);
    // This client writes until all buffers are full, and does not read.
    let mut full = tunnel(instance.port);
    full.set_nonblocking(true).expect("set");
    let numbers: Vec<u8> = (0..1_u64 << 16).flat_map(u64::to_be_bytes).collect();
    let (mut sent, mut stuck_since) = (0, std::time::Instant::now());
    while stuck_since.elapsed() < Duration::from_millis(500) {
        if let Ok(count) = full.write(&numbers[sent % numbers.len()..]) {
            sent += count;
            stuck_since = std::time::Instant::now();
        }
    }
    // This one has sent its end, which the upstream answers with its own once everything is sent back.
    let mut closing = tunnel(instance.port);
    closing.write_all(b"last words").expect("sent");
    let new = upgrade(&instance, master);
    closing.shutdown(std::net::Shutdown::Write).expect("sent");
    let mut words = Vec::new();
    closing.read_to_end(&mut words).expect("it lives");
    assert_eq!(words, b"last words");
    full.set_nonblocking(false).expect("set");
    full.shutdown(std::net::Shutdown::Write).expect("sent");
    let mut back = Vec::new();
    full.read_to_end(&mut back).expect("it lives");
    assert!(back.len() == sent, "{sent} bytes sent, {} came back", back.len());
    assert!(back.chunks(numbers.len()).all(|chunk| numbers.starts_with(chunk)), "in their order");
    assert_eq!(handed_over(&instance), 2);
    stop(&instance, new);
}

#[test]
fn tunnels_return_when_an_upgrade_is_taken_back() {
    let echo = Echo::start();
    let instance = Instance::new("", &servers(&echo));
    let old = daemon(&instance);
    let traffic = Traffic::start(tunnels(&instance, 20), Duration::from_millis(10));
    let new = start_another(&instance, old);
    signal(old, Signal::SIGWINCH);
    until("the old workers have ended", || children(old) == [new]);
    assert_eq!(handed_over(&instance), 20);
    signal(old, Signal::SIGHUP);
    until("they work again", || children(old).len() == 2);
    instance.wait_for_line("starting workers again");
    instance.wait_for_line("20 tunnels were taken over");
    signal(new, Signal::SIGQUIT);
    until("the new one has ended", || !lives(new));
    assert_eq!(handed_over(&instance), 40);
    nothing_was_lost(&traffic.stop(), &instance);
    stop(&instance, old);
}

#[test]
fn a_successor_that_dies_leaves_the_tunnels_where_they_are() {
    let echo = Echo::start();
    let instance = Instance::new("", &servers(&echo));
    let old = daemon(&instance);
    let old_child = children(old)[0];
    let mut through = tunnel(instance.port);
    let new = start_another(&instance, old);
    until("it has a child", || children(new).len() == 1);
    let new_child = children(new)[0];
    // It takes nothing any more, and then it dies.
    signal(new_child, Signal::SIGSTOP);
    until("it is stopped", || threads_stopped(new_child));
    signal(old, Signal::SIGWINCH);
    instance.wait_for_line("signal 28 (SIGWINCH) received, shutting down workers");
    goes_through(&mut through);
    signal(new_child, Signal::SIGKILL);
    instance.wait_for_line("1 open tunnels stay with this process");
    goes_through(&mut through);
    assert!(lives(old_child), "it has a tunnel");
    until("the new program has another child", || children(new).first().is_some_and(|child| *child != new_child));
    goes_through(&mut through);
    drop(through);
    until("the old child has ended", || !lives(old_child));
    stop(&instance, old);
    until("the name is that of the new one", || instance.pid_file() == Some(new));
    stop(&instance, new);
}

/// The frames of a WebSocket client, masked, and what comes back: the upstream sends everything back as it is.
const TEXT: &[u8] = b"\x81\x82\0\0\0\0ok";
/// 1012, from the gateway, and the client's answer.
const CLOSE: &[u8] = b"\x88\x02\x03\xf4";
const CLOSE_ANSWER: &[u8] = b"\x88\x82\0\0\0\0\x03\xf4";

#[track_caller]
fn gets(tunnel: &mut TcpStream, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    tunnel.read_exact(&mut bytes).expect("it lives");
    assert_eq!(bytes, expected, "{}", bytes.escape_ascii());
}

#[test]
fn moved_tunnels_drain_between_frames_at_a_later_reload() {
    let echo = Echo::start();
    let servers = |changed: &str| {
        format!(
            "server {{ listen 127.0.0.1:PORT; proxy_set_header Connection upgrade; proxy_set_header Upgrade $http_upgrade;
             location /kept {{ proxy_pass http://{0}; }} location /changed {{ proxy_pass http://{0}; {changed} }}
             location = /now {{ return 200 'now: {changed}'; }} }}",
            echo.address
        )
    };
    // With a rate, the end of a process drains the tunnels that it keeps.
    let top = |workers: usize| format!("drain_rate 1000; worker_processes {workers};");
    let instance = Instance::new(&top(1), &servers(""));
    let master = daemon(&instance);
    let [mut kept, mut changed] = ["/kept", "/changed"].map(|path| upgraded(instance.port, path, "websocket"));
    // The first part of a frame goes through the process that is replaced.
    let (first, second) = TEXT.split_at(3);
    changed.write_all(first).expect("sent");
    gets(&mut changed, first);
    let old = children(master);
    instance.configure(&top(2), &servers(""));
    signal(master, Signal::SIGHUP);
    until("the child is replaced, and has ended", || children(master).len() == 1 && children(master) != old);
    assert_eq!(handed_over(&instance), 2, "{}", instance.text("logs/error.log"));
    let new = children(master);
    instance.configure(&top(2), &servers("proxy_read_timeout 70s;"));
    signal(master, Signal::SIGHUP);
    until("the reload is done", || instance.fetch("/now").is_ok_and(|body| body.contains("70s")));
    changed.write_all(second).expect("sent");
    gets(&mut changed, second);
    gets(&mut changed, CLOSE);
    changed.write_all(CLOSE_ANSWER).expect("sent");
    let mut rest = Vec::new();
    changed.read_to_end(&mut rest).expect("a FIN");
    assert!(rest.is_empty(), "{}", rest.escape_ascii());
    kept.write_all(TEXT).expect("sent");
    gets(&mut kept, TEXT);
    assert_eq!(children(master), new, "the reload kept the process");
    stop(&instance, master);
}

#[test]
fn tunnels_survive_replacements_of_the_child_and_upgrades() {
    survive(200, 3, 2, Duration::from_millis(50));
}

#[test]
#[ignore = "the long form: 5,000 tunnels, ten upgrades"]
fn five_thousand_tunnels_survive_ten_upgrades() {
    survive(5000, 1, 10, Duration::from_millis(250));
}
