//! X10, and W8 for it: another program replaces this one during open requests, in nginx's steps.

use crate::support;
use crate::support::{DEADLINE, Instance, children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

const PROXY: &str = "server { listen 127.0.0.1:PORT; location = /alive { return 200 alive; }
    location / { proxy_pass http://UPSTREAM; proxy_set_header Connection upgrade;
        proxy_set_header Upgrade $http_upgrade; } }";

/// Answers an upgrade with 101 and then echoes, on any number of connections.
fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("passed on");
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).expect("a request");
                let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
                stream.write_all(head).expect("sent");
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn tunnel(instance: &Instance) -> TcpStream {
    support::upgraded(instance.port, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n").0
}

fn goes_through(tunnel: &mut TcpStream) {
    tunnel.write_all(b"ping").expect("sent");
    let mut back = [0; 4];
    tunnel.read_exact(&mut back).expect("it lives");
    assert_eq!(&back, b"ping");
}

fn signal(process: u32, signal: Signal) {
    kill(pid(process), signal).expect("it runs");
}

/// Starts a daemon, for which WINCH has an effect; returns its master.
fn daemon(instance: &Instance) -> u32 {
    let output = instance.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    instance.pid_file().expect("written before the command returns")
}

/// Waits until another program has replaced the old one; returns its master.
fn taken_over(instance: &Instance, old: u32) -> u32 {
    signal(old, Signal::SIGUSR2);
    until("another master serves", || {
        let new = instance.pid_file().filter(|new| *new != old);
        new.is_some_and(|new| !children(new).is_empty())
            && instance.text("logs/error.log").matches("holdfast serves").count() >= 2
    });
    let new = instance.pid_file().expect("written");
    assert_eq!(instance.text("logs/holdfast.pid.oldbin").trim_end(), old.to_string());
    new
}

fn is_alive(instance: &Instance) -> bool {
    instance.fetch("/alive").is_ok_and(|response| response.ends_with("alive"))
}

fn stop(instance: &Instance, master: u32) {
    signal(master, Signal::SIGTERM);
    until("the last one has ended", || !lives(master));
    assert_eq!(instance.pid_file(), None);
}

/// The same proxy under TLS, at an address of its own.
const SECURE: &str = "server { listen 127.0.0.1:SECURE ssl; ssl_certificate a.crt; ssl_certificate_key a.key;
    location / { proxy_pass http://UPSTREAM; proxy_set_header Connection upgrade;
        proxy_set_header Upgrade $http_upgrade; } }";

fn secure_tunnel(port: u16, authority: &testkit::Authority) -> testkit::Talk {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = testkit::Talk::connect_secure(address, &authority.client(), "a.test").expect("a handshake");
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(client.response().status(), 101);
    client
}

#[test]
fn x10_another_program_takes_over_and_no_connection_is_refused() {
    let instance = Instance::new("", "");
    let authority = testkit::Authority::new("Test Authority");
    authority.issue(&["a.test"]).write(&instance.path(""), "a");
    let secure = testkit::free_port();
    let servers = format!("{PROXY} {SECURE}").replace("UPSTREAM", &echo().to_string());
    instance.configure("worker_shutdown_timeout 5s;", &servers.replace("SECURE", &secure.to_string()));
    let old = daemon(&instance);
    let old_child = children(old)[0];
    let mut through = tunnel(&instance);
    goes_through(&mut through);
    // The keys of TLS are in the old process.
    let mut staying = secure_tunnel(secure, &authority);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while !done.load(Ordering::Relaxed) {
                        let response = instance.fetch("/alive").expect("no connection is refused or cut");
                        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let new = taken_over(&instance, old);
        // Both programs serve; the tunnels belong to the old one.
        goes_through(&mut through);
        signal(old, Signal::SIGWINCH);
        instance.wait_for_line("signal 28 (SIGWINCH) received, shutting down workers");
        goes_through(&mut through);
        instance.wait_for_line(" 1 tunnels were handed over to another process");
        staying.send("ping");
        staying.expect("ping");
        assert!(lives(old_child), "W8: it has a tunnel under TLS");
        signal(old, Signal::SIGQUIT);
        staying.send("ping");
        staying.expect("ping");
        // The worker ends at worker_shutdown_timeout, and with it this tunnel and the old master.
        let _ = staying.end();
        until("the old ones have ended", || !lives(old) && !lives(old_child));
        goes_through(&mut through);
        assert_eq!(instance.pid_file(), Some(new));
        assert!(!instance.path("logs/holdfast.pid.oldbin").exists());
        let served: u64 = {
            done.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().expect("no request failed")).sum()
        };
        assert!(served > 0);
        assert!(is_alive(&instance));
        let mut through = tunnel(&instance);
        goes_through(&mut through);
        drop(through);
        // The next upgrade works the same way.
        let newest = taken_over_again(&instance, new);
        signal(new, Signal::SIGQUIT);
        until("the second one has ended", || !lives(new));
        assert!(is_alive(&instance));
        stop(&instance, newest);
    });
}

fn taken_over_again(instance: &Instance, old: u32) -> u32 {
    let before = instance.text("logs/error.log").matches("holdfast serves").count();
    signal(old, Signal::SIGUSR2);
    until("a third master serves", || {
        instance.text("logs/error.log").matches("holdfast serves").count() > before
            && instance.pid_file().is_some_and(|new| new != old)
    });
    instance.pid_file().expect("written")
}

#[test]
fn x10_hup_takes_the_old_program_back() {
    let instance = Instance::new("", &PROXY.replace("UPSTREAM", "127.0.0.1:1"));
    let old = daemon(&instance);
    let new = taken_over(&instance, old);
    signal(old, Signal::SIGUSR2);
    instance.wait_for_line("the changing binary signal is ignored");
    signal(old, Signal::SIGWINCH);
    until("the old workers have ended", || children(old) == [new]);
    assert!(is_alive(&instance));
    signal(old, Signal::SIGHUP);
    until("they work again", || children(old).len() == 2);
    instance.wait_for_line("starting workers again");
    signal(new, Signal::SIGQUIT);
    until("the new one has ended", || !lives(new));
    until("the name is the old one's again", || instance.pid_file() == Some(old));
    assert!(!instance.path("logs/holdfast.pid.oldbin").exists());
    assert!(is_alive(&instance));
    stop(&instance, old);
}

#[test]
fn x10_a_second_upgrade_waits_until_the_first_is_complete() {
    let instance = Instance::new("", "");
    instance.configure("", &PROXY.replace("UPSTREAM", &echo().to_string()));
    let old = daemon(&instance);
    let mut through = tunnel(&instance);
    let new = taken_over(&instance, old);
    let ignored = || instance.text("logs/error.log").matches("the changing binary signal is ignored").count();
    for (master, count) in [(old, 1), (new, 2)] {
        signal(master, Signal::SIGUSR2);
        until("it is ignored", || ignored() == count);
    }
    assert_eq!(instance.text("logs/error.log").matches("start new binary process").count(), 1);
    assert!(is_alive(&instance));
    signal(old, Signal::SIGQUIT);
    until("the old program has ended", || !lives(old));
    goes_through(&mut through);
    // The first is complete, so another one may follow.
    let third = taken_over(&instance, new);
    signal(new, Signal::SIGQUIT);
    until("the second program has ended", || !lives(new));
    goes_through(&mut through);
    stop(&instance, third);
}

#[test]
fn x10_a_program_that_does_not_start_changes_nothing() {
    let instance = Instance::new("", &PROXY.replace("UPSTREAM", "127.0.0.1:1"));
    let old = daemon(&instance);
    let sound = instance.text("nginx.conf");
    fs::write(instance.path("nginx.conf"), sound.replace("return 200", "retrun 200")).expect("written");
    signal(old, Signal::SIGUSR2);
    instance.wait_for_line("start new binary process");
    until("its end is noted in nginx's words", || {
        let mut lines = instance.text("logs/error.log").lines().map(str::to_owned).collect::<Vec<_>>().into_iter();
        lines.any(|line| line.contains("new binary process ") && line.ends_with(" exited with code 1"))
    });
    until("the name is the old one's again", || instance.pid_file() == Some(old));
    assert!(is_alive(&instance));
    // While the workers are stopped, the end of the other program restarts them.
    fs::write(instance.path("nginx.conf"), sound).expect("written");
    let new = taken_over(&instance, old);
    signal(old, Signal::SIGWINCH);
    until("the old workers have ended", || children(old) == [new]);
    signal(new, Signal::SIGKILL);
    until("they work again", || children(old).first().is_some_and(|child| *child != new));
    until("it serves", || is_alive(&instance));
    stop(&instance, old);
}

#[test]
fn x10_a_unix_socket_stays_when_the_old_program_ends() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let socket = folder.path().join("socket");
    let servers = PROXY
        .replace("UPSTREAM", "127.0.0.1:1")
        .replace("location = /alive", &format!("listen unix:{}; location = /alive", socket.display()));
    let instance = Instance::new("", &servers);
    let old = daemon(&instance);
    let new = taken_over(&instance, old);
    signal(old, Signal::SIGQUIT);
    until("the old one has ended", || !lives(old));
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
    stop(&instance, new);
    assert!(!socket.exists());
}

/// A client that keeps its connection as long as possible and sends a request at least every 20 ms. Returns the number
/// of answers, and the errors.
fn keep_asking(port: u16, done: &AtomicBool) -> (u64, Vec<String>) {
    let (mut answered, mut lost) = (0, Vec::new());
    let mut connection: Option<TcpStream> = None;
    let mut pause = 0;
    while !done.load(Ordering::Relaxed) {
        let stream = connection.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(("127.0.0.1", port)).expect("no connection is refused");
            stream.set_read_timeout(Some(DEADLINE)).expect("set");
            stream
        });
        match ask(&stream) {
            Ok(closes) => {
                answered += 1;
                connection = Some(stream).filter(|_| !closes);
            }
            Err(error) => lost.push(error.to_string()),
        }
        // The pause between two requests varies from none to a few milliseconds, so that the connection may become
        // idle.
        pause = (pause + 7) % 20;
        std::thread::park_timeout(std::time::Duration::from_millis(pause / 4));
    }
    (answered, lost)
}

/// Sends one request on a kept connection; returns whether the response announces a close.
fn ask(stream: &TcpStream) -> std::io::Result<bool> {
    let response = testkit::ask(stream, "GET /alive HTTP/1.1\r\nHost: a\r\n\r\n")?;
    assert_eq!(response.text(), "alive");
    Ok(response.announces_close())
}

/// `HOLDFAST_UPGRADES=20` makes the run longer.
#[test]
fn x10_upgrades_lose_no_request_on_kept_connections() {
    let upgrades = std::env::var("HOLDFAST_UPGRADES").ok().and_then(|count| count.parse().ok()).unwrap_or(3);
    let instance = Instance::new("worker_processes 2;", &PROXY.replace("UPSTREAM", "127.0.0.1:1"));
    let mut master = daemon(&instance);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16).map(|_| scope.spawn(|| keep_asking(instance.port, &done))).collect();
        for _ in 0..upgrades {
            let new = taken_over_again(&instance, master);
            signal(master, Signal::SIGQUIT);
            until("the old one has ended", || !lives(master));
            master = new;
        }
        done.store(true, Ordering::Relaxed);
        let outcomes: Vec<_> = clients.into_iter().map(|client| client.join().expect("no panic")).collect();
        let answered: u64 = outcomes.iter().map(|(answered, _)| answered).sum();
        let lost: Vec<_> = outcomes.iter().flat_map(|(_, lost)| lost).collect();
        assert!(lost.is_empty() && answered > 0, "{} lost, {answered} answered: {lost:?}", lost.len());
        writeln!(std::io::stderr(), "{upgrades} upgrades, {answered} requests answered, none lost").expect("written");
    });
    stop(&instance, master);
}

#[test]
fn sessions_of_tls_are_resumed_by_the_program_that_takes_over() {
    let instance = Instance::new("", "");
    let authority = testkit::Authority::new("Test Authority");
    authority.issue(&["a.test"]).write(&instance.path(""), "a");
    let server = "server { listen 127.0.0.1:PORT ssl; server_name a.test; ssl_certificate a.crt; ssl_certificate_key a.key; \
                  return 200 alive; }";
    instance.configure("", server);
    let old = daemon(&instance);
    let (side, address) = (authority.client(), std::net::SocketAddr::from(([127, 0, 0, 1], instance.port)));
    let is_resumed = || {
        let mut client = testkit::Talk::connect_secure(address, &side, "a.test").expect("a handshake");
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.response().text(), "alive");
        client.session().is_resumed()
    };
    assert_eq!([is_resumed(), is_resumed()], [false, true]);
    let new = taken_over(&instance, old);
    signal(old, Signal::SIGQUIT);
    until("the old one has ended", || !lives(old));
    assert!(is_resumed(), "the new program has the keys of the old one");
    stop(&instance, new);
}

/// A proxy that keeps its connections to UPSTREAM.
const POOLING: &str = "upstream u { server UPSTREAM; keepalive 4; } server { listen 127.0.0.1:PORT;
    location = /status { status_page; }
    location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ''; } }";

#[test]
fn idle_upstream_connections_survive_upgrade_and_reload() {
    let instance = Instance::new("", "");
    let peer = testkit::Peer::saying("HTTP/1.1 204 No Content\r\n\r\n");
    let servers = POOLING.replace("UPSTREAM", &peer.address().to_string());
    instance.configure("", &servers);
    let old = daemon(&instance);
    let idle = || {
        let page = instance.fetch("/status?format=prometheus").unwrap_or_default();
        page.lines()
            .any(|line| line.starts_with("holdfast_upstream_connections{") && line.ends_with("state=\"idle\"} 1"))
    };
    let asks = || {
        assert!(instance.fetch("/").is_ok_and(|response| response.contains("204")));
        until("the connection is idle", idle);
    };
    asks();
    let new = taken_over(&instance, old);
    signal(old, Signal::SIGQUIT);
    until("the old program has ended", || !lives(old));
    until("the new program has the connection", idle);
    asks();
    // A process setting changes, so another process replaces the one that serves.
    let child = children(new)[0];
    instance.configure("worker_processes 2;", &servers);
    signal(new, Signal::SIGHUP);
    until("another process serves", || !lives(child));
    until("it has the connection", idle);
    asks();
    let log = instance.text("logs/error.log");
    assert_eq!(peer.connections(), 1, "{log}");
    assert_eq!(log.matches(" 1 idle upstream connections were handed over to another process").count(), 2, "{log}");
    stop(&instance, new);
}
