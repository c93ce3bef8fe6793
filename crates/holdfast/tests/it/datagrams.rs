//! Sockets of datagrams through the processes: workers, reloads, upgrades, the end.

use crate::support::{Instance, children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use std::net::UdpSocket;
use testkit::{DatagramPeer, DatagramTalk};

/// A `stream` with one server of datagrams.
fn stream(port: u16, words: &str, server: &str) -> String {
    let server = format!("server {{ listen 127.0.0.1:{port} udp{words}; {server} }}");
    format!("worker_processes 2; worker_shutdown_timeout 5s;\nstream {{ {server} }}")
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port()
}

const HTTP: &str = "server { listen 127.0.0.1:PORT; return 200 alive; }";

fn goes_through(client: &DatagramTalk) {
    client.send("ping");
    client.expect("ping");
}

fn client(port: u16) -> DatagramTalk {
    DatagramTalk::connect(([127, 0, 0, 1], port).into())
}

#[test]
fn a_reload_keeps_sessions_with_two_workers() {
    let (old, new) = (DatagramPeer::echo(), DatagramPeer::echo());
    for words in ["", " reuseport"] {
        let port = free_port();
        let top = |peer: &DatagramPeer| stream(port, words, &format!("proxy_pass {};", peer.address()));
        let mut instance = Instance::new(&top(&old), HTTP);
        instance.start();
        let clients: Vec<_> = (0..8).map(|_| client(port)).collect();
        clients.iter().for_each(goes_through);
        instance.configure(&top(&new), HTTP);
        instance.signal("reload");
        until("the new peer serves another client", || {
            goes_through(&client(port));
            new.received() > 0
        });
        let before = new.received();
        clients.iter().for_each(goes_through);
        assert_eq!(new.received(), before, "open sessions keep their peer");
    }
}

#[test]
fn another_program_takes_over_the_sockets() {
    let peer = DatagramPeer::echo();
    let port = free_port();
    let top = stream(port, " reuseport", &format!("proxy_pass {}; proxy_timeout 1s;", peer.address()));
    let instance = Instance::new(&top, HTTP);
    let output = instance.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let old = instance.pid_file().expect("written before the command returns");
    let first = client(port);
    goes_through(&first);
    kill(pid(old), Signal::SIGUSR2).expect("it runs");
    until("another master serves", || {
        let new = instance.pid_file().filter(|new| *new != old);
        new.is_some_and(|new| !children(new).is_empty())
            && instance.text("logs/error.log").matches("holdfast serves").count() >= 2
    });
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    until("the old one has ended", || !lives(old));
    goes_through(&first);
    (0..8).map(|_| client(port)).for_each(|client| goes_through(&client));
    let new = instance.pid_file().expect("written");
    kill(pid(new), Signal::SIGTERM).expect("it runs");
    until("the last one has ended", || !lives(new));
}

#[test]
fn a_quit_lets_sessions_end_by_their_answers() {
    let quits = testkit::Signal::new();
    let after_quit = quits.clone();
    let peer = DatagramPeer::with_socket(move |socket, bytes, from| {
        if bytes == b"late" {
            let socket = socket.try_clone().expect("a socket");
            let after_quit = after_quit.clone();
            std::thread::spawn(move || {
                after_quit.wait();
                let _ = socket.send_to(b"answer", from);
            });
        } else {
            let _ = socket.send_to(bytes, from);
        }
    });
    let port = free_port();
    let server = format!("proxy_pass {}; proxy_responses 1; proxy_timeout 5s;", peer.address());
    let mut instance = Instance::new(&stream(port, "", &server), HTTP);
    instance.start();
    let late = client(port);
    late.send("late");
    until("the peer has it", || peer.received() == 1);
    instance.signal("quit");
    until("it shuts down", || instance.text("logs/error.log").contains("shutting down"));
    quits.raise();
    late.expect("answer");
    assert_eq!(instance.wait(), Some(0));
}

#[test]
fn an_address_in_use_is_named_with_its_holder() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let port = socket.local_addr().expect("bound").port();
    let instance = Instance::new(&stream(port, "", "return x;"), HTTP);
    let output = instance.run(&["-g", "daemon off;"]);
    assert!(!output.status.success());
    let log = instance.text("logs/error.log") + &String::from_utf8_lossy(&output.stderr);
    let holder = format!("(pid {}) listens on 127.0.0.1:{port}", std::process::id());
    assert!(log.contains(&format!("bind() to 127.0.0.1:{port} failed (98: ")) && log.contains(&holder), "{log}");
}
