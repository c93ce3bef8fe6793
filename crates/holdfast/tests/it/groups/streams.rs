//! `stream` and FastCGI in several processes: sessions of TCP and UDP, their limits, a reload, what an operator sees.

use super::{Scene, THREE};
use crate::support::{pid, until};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use testkit::{DatagramPeer, DatagramTalk, End, Peer, Talk, free_port};

/// A peer that sends back what it gets.
fn echo() -> Peer {
    Peer::script(|mut talk| {
        while let Some(bytes) = talk.whatever_came() {
            talk.send(bytes);
        }
    })
}

/// Addresses for TCP and UDP, and the peers behind them.
struct Ends {
    tcp: SocketAddr,
    udp: SocketAddr,
    peer: Peer,
    datagrams: DatagramPeer,
}

impl Ends {
    fn new() -> Self {
        let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("bound").port();
        let (tcp, udp) = (([127, 0, 0, 1], free_port()).into(), ([127, 0, 0, 1], port).into());
        Self { tcp, udp, peer: echo(), datagrams: DatagramPeer::echo() }
    }

    /// `stream` with both addresses; `words` is in each server.
    fn stream(&self, words: &str) -> String {
        let Self { tcp, udp, peer, datagrams } = self;
        let (peer, datagrams) = (peer.address(), datagrams.address());
        format!(
            "stream {{ log_format line '$pid $protocol $status'; access_log logs/stream.log line;
             limit_conn_zone $binary_remote_addr zone=each:1m;
             server {{ listen {tcp}; {words} proxy_pass {peer}; }}
             server {{ listen {udp} udp; {words} proxy_pass {datagrams}; proxy_timeout 60s; }} }}"
        )
    }

    /// A session of TCP; `None` if it is refused.
    fn session(&self) -> Option<Talk> {
        let mut client = Talk::connect(self.tcp);
        goes_on(&mut client).then_some(client)
    }

    /// A session of UDP that is served.
    fn datagrams(&self) -> DatagramTalk {
        let client = DatagramTalk::connect(self.udp);
        client.send("ping");
        client.expect("ping");
        client
    }
}

fn goes_on(client: &mut Talk) -> bool {
    // A refused session may be closed already.
    let sent = client.socket().write_all(b"ping");
    sent.is_ok() && client.whatever_came().is_some_and(|bytes| bytes == b"ping")
}

fn sessions(scene: &Scene) -> u64 {
    scene.ctl(&["tunnels"])["matching"].as_u64().expect("a number")
}

#[test]
fn sessions_spread_and_appear_as_one_installation() {
    let ends = Ends::new();
    let scene = Scene::started(&format!("{THREE} {}", ends.stream("")));
    scene.until_children(3);
    // More than two processes take: one leaves connections to another that has six fewer.
    let tcp: Vec<Talk> = (0..24).map(|_| ends.session().expect("served")).collect();
    let udp: Vec<DatagramTalk> = (0..4).map(|_| ends.datagrams()).collect();
    assert_eq!(sessions(&scene), 28);
    until("all are counted, whichever process is asked", || {
        let page = scene.instance.fetch("/status?format=prometheus").expect("an answer");
        page.lines().any(|line| line == "holdfast_tunnels 28")
    });
    let peers = scene.ctl(&["peers"]);
    let rows = peers["peers"].as_array().expect("rows");
    let attempts = |peer: SocketAddr| {
        let row = rows.iter().find(|row| row["peer"] == peer.to_string()).expect("a row of the peer");
        (row["group"].clone(), row["attempts"].as_u64(), row["active"].as_u64())
    };
    let group = |peer: SocketAddr| Value::from(format!("stream:{peer}"));
    let (peer, datagrams) = (ends.peer.address(), ends.datagrams.address());
    assert_eq!(attempts(peer), (group(peer), Some(24), Some(24)));
    assert_eq!(attempts(datagrams), (group(datagrams), Some(4), Some(4)));
    drop((tcp, udp));
    until("the lines are written", || scene.instance.text("logs/stream.log").lines().count() == 24);
    let text = scene.instance.text("logs/stream.log");
    let processes: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(processes.len(), 3, "{text}");
}

#[test]
fn limit_conn_counts_the_sessions_of_all_processes() {
    let ends = Ends::new();
    let scene = Scene::started(&format!("{THREE} {}", ends.stream("limit_conn each 8;")));
    let processes = scene.until_children(3);
    let datagrams = [ends.datagrams(), ends.datagrams()];
    let mut clients: Vec<Talk> = (0..6).map(|_| ends.session().expect("below the limit")).collect();
    assert!((0..9).all(|_| ends.session().is_none()), "whichever process is asked");
    let refused = DatagramTalk::connect(ends.udp);
    refused.send("ping");
    refused.expect_silence();
    // The sessions of a process that dies do not count, over TCP and over UDP.
    kill(pid(processes[0]), Signal::SIGKILL).expect("it lives");
    scene.instance.wait_for_line("worker group 1 of 3 has died");
    scene.until_children(3);
    clients.retain_mut(goes_on);
    drop(datagrams);
    let more: Vec<Talk> = (clients.len()..8).map(|_| ends.session().expect("places of the dead process")).collect();
    assert!((0..9).all(|_| ends.session().is_none()));
    drop(more);
    until("a place is free", || ends.session().is_some());
    assert!(clients.iter_mut().all(goes_on));
}

#[test]
fn sessions_survive_reload_and_process_count_changes() {
    let ends = Ends::new();
    let scene = Scene::started(&format!("{THREE} {}", ends.stream("")));
    scene.until_children(3);
    let mut clients: Vec<Talk> = (0..9).map(|_| ends.session().expect("served")).collect();
    let datagrams: Vec<DatagramTalk> = (0..3).map(|_| ends.datagrams()).collect();
    scene.configure(&format!("{THREE} {}", ends.stream("deny all;")), "");
    scene.send_signal(Signal::SIGHUP);
    scene.instance.wait_for_line("the new configuration holds");
    assert!((0..9).all(|_| ends.session().is_none()), "every process has the new configuration");
    assert!(clients.iter_mut().all(goes_on));
    for client in &datagrams {
        client.send("pong");
        client.expect("pong");
    }
    scene.configure(&format!("worker_processes 2; worker_groups 2; {}", ends.stream("")), "");
    scene.send_signal(Signal::SIGHUP);
    until("the new processes serve", || ends.session().is_some());
    assert!(clients.iter_mut().all(goes_on));
    // A session of UDP stays in the old process for its answers; what the client sends begins another one in the new process.
    for client in &datagrams {
        client.send("again");
        client.expect("again");
    }
    for mut client in clients {
        client.half_close();
        assert_eq!(client.end(), End::Fin);
    }
}

/// Every process has its part of the connections that the application can serve, and keeps them.
#[test]
fn an_application_is_asked_by_all_processes_on_kept_connections() {
    let options = origin::Options { fastcgi: true, ..origin::Options::default() };
    let application = origin::Origin::bind(options).and_then(origin::Origin::start).expect("it starts");
    let scene = Scene::new(THREE);
    let location = "location /app/ { fastcgi_pass app; fastcgi_keep_conn on; fastcgi_param REQUEST_METHOD GET; \
                    fastcgi_param REQUEST_URI /bytes/10; add_header X-Pid $pid; }";
    scene.configure(THREE, location);
    let group = format!(
        "upstream app {{ server {}; max_connections 6 queue=64; keepalive 6; }} server {{",
        application.address()
    );
    let text = scene.instance.text("nginx.conf").replacen("server {", &group, 1);
    std::fs::write(scene.instance.path("nginx.conf"), text).expect("written");
    let mut scene = scene;
    scene.instance.start();
    scene.until_all_serve(3);
    // More than two processes take.
    let mut clients: Vec<Talk> = (0..24).map(|_| Talk::connect(([127, 0, 0, 1], scene.instance.port).into())).collect();
    let mut processes = BTreeSet::new();
    for _ in 0..10 {
        for client in &mut clients {
            let response = client.get("/app/x", "");
            assert_eq!((response.status(), response.body.len()), (200, 10), "{response:?}");
            processes.insert(response.value("X-Pid").expect("the process").to_owned());
        }
    }
    assert_eq!(processes.len(), 3, "{processes:?}");
    let counts = application.counts();
    assert_eq!(counts.requests, 240);
    assert!(counts.connections_accepted <= 6, "{counts:?}");
    let peers = scene.ctl(&["peers"]);
    let row = peers["peers"].as_array().expect("rows").iter().find(|row| row["group"] == "app").expect("a row").clone();
    assert_eq!(row["attempts"], 240, "{row}");
}
