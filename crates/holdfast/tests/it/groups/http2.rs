//! HTTP/2 in several processes: connections have a process each, streams share the limits of all.

use super::{Scene, THREE, goes_through, tunnel};
use crate::support::{children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use testkit::{Http2Talk, Peer, Signal as Flag, Talk};

/// An instance of several processes that accept HTTP/2 from clients.
fn started(top: &str, more: &str) -> Scene {
    let mut scene = Scene::new(top);
    scene.configure(top, &format!("http2 on; {more}"));
    scene.instance.start();
    scene
}

/// A connection, and the process that has it.
struct Client {
    talk: Http2Talk,
    process: u32,
}

impl Client {
    fn open(scene: &Scene) -> Self {
        let mut talk = Http2Talk::connect(SocketAddr::from(([127, 0, 0, 1], scene.instance.port)));
        let process = talk.get("/pid").text().parse().expect("a process id");
        Self { talk, process }
    }

    /// A connection to each of this number of processes.
    fn one_of_each(scene: &Scene, processes: usize) -> Vec<Self> {
        let mut clients: Vec<Self> = Vec::new();
        let mut others = Vec::new();
        until("each process has a client", || {
            let client = Self::open(scene);
            let is_new = clients.iter().all(|other| other.process != client.process);
            if is_new {
                clients.push(client);
            } else {
                others.push(client);
            }
            clients.len() == processes
        });
        clients
    }
}

/// A peer that answers when it is told to.
fn slow(asked: &Flag, go: &Flag) -> Peer {
    let (asked, go) = (asked.clone(), go.clone());
    Peer::script(move |mut talk: Talk| {
        while talk.request().is_some() {
            asked.raise();
            talk.wait(&go);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    })
}

fn slow_location(peer: &Peer) -> String {
    format!("location = /slow {{ proxy_pass http://{}; }}", peer.address())
}

#[test]
fn reload_keeps_connections_and_new_streams_use_it() {
    let (asked, go) = (Flag::new(), Flag::new());
    let peer = slow(&asked, &go);
    let scene = started(THREE, &slow_location(&peer));
    let mut clients = Client::one_of_each(&scene, 3);
    let open: Vec<u32> = clients.iter_mut().map(|client| client.talk.open("GET", "/slow", &[], true)).collect();
    asked.wait();
    let text = scene.instance.text("nginx.conf").replace("return 200 one", "return 200 two");
    fs::write(scene.instance.path("nginx.conf"), text).expect("written");
    scene.send_signal(Signal::SIGHUP);
    for client in &mut clients {
        until("the new configuration", || client.talk.get("/text").text() == "two");
        assert_eq!(client.talk.goaways, 0);
    }
    go.raise();
    for (client, stream) in clients.iter_mut().zip(open) {
        assert_eq!(client.talk.answer(stream).text(), "hello");
    }
}

#[test]
fn processes_that_end_send_goaway_and_finish_their_streams() {
    let (asked, go) = (Flag::new(), Flag::new());
    let peer = slow(&asked, &go);
    let mut scene = started(THREE, &slow_location(&peer));
    let mut clients = Client::one_of_each(&scene, 3);
    let open: Vec<u32> = clients.iter_mut().map(|client| client.talk.open("GET", "/slow", &[], true)).collect();
    asked.wait();
    scene.instance.signal("quit");
    for client in &mut clients {
        client.talk.until("the first GOAWAY", |talk| talk.goaway.is_some());
    }
    go.raise();
    for (client, stream) in clients.iter_mut().zip(open) {
        assert_eq!(client.talk.answer(stream).text(), "hello");
        client.talk.end();
        assert_eq!(client.talk.goaways, 2);
    }
    assert_eq!(scene.instance.wait(), Some(0), "{}", scene.log());
}

#[test]
fn replaced_processes_send_goaway() {
    let (asked, go) = (Flag::new(), Flag::new());
    let peer = slow(&asked, &go);
    let scene = started(THREE, &slow_location(&peer));
    let before = scene.until_children(3);
    let mut clients = Client::one_of_each(&scene, 3);
    let open: Vec<u32> = clients.iter_mut().map(|client| client.talk.open("GET", "/slow", &[], true)).collect();
    asked.wait();
    scene.configure("worker_processes 3; worker_groups 2;", &format!("http2 on; {}", slow_location(&peer)));
    scene.send_signal(Signal::SIGHUP);
    for client in &mut clients {
        client.talk.until("GOAWAY", |talk| talk.goaway.is_some());
    }
    let next = Client::open(&scene);
    assert!(!before.contains(&next.process), "{} of {before:?}", next.process);
    go.raise();
    for (client, stream) in clients.iter_mut().zip(open) {
        assert_eq!(client.talk.answer(stream).text(), "hello");
        client.talk.end();
    }
    until("the old processes have ended", || before.iter().all(|process| !lives(*process)));
}

#[test]
fn an_upgrade_ends_connections_in_two_steps_and_loses_no_stream() {
    let (asked, go) = (Flag::new(), Flag::new());
    let peer = slow(&asked, &go);
    let scene = Scene::new(THREE);
    scene.configure(THREE, &format!("http2 on; {}", slow_location(&peer)));
    let output = scene.instance.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let old = scene.master();
    let before = scene.until_children(3);
    let mut clients = Client::one_of_each(&scene, 3);
    let mut tunnel = tunnel(&scene);
    let open: Vec<u32> = clients.iter_mut().map(|client| client.talk.open("GET", "/slow", &[], true)).collect();
    asked.wait();
    scene.send_signal(Signal::SIGUSR2);
    until("another program serves", || {
        scene.log().matches("holdfast serves").count() == 2 && scene.master() != old && scene.children().len() == 3
    });
    for client in &mut clients {
        assert_eq!(client.talk.get("/text").text(), "one", "the old program serves until it is told to quit");
    }
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    for client in &mut clients {
        client.talk.until("GOAWAY", |talk| talk.goaway.is_some());
    }
    let next = Client::open(&scene);
    assert!(children(scene.master()).contains(&next.process));
    go.raise();
    for (client, stream) in clients.iter_mut().zip(open) {
        assert_eq!(client.talk.answer(stream).text(), "hello");
        client.talk.end();
        assert_eq!(client.talk.goaways, 2);
    }
    until("the old program has ended", || !lives(old) && before.iter().all(|process| !lives(*process)));
    assert!(goes_through(&mut tunnel), "{}", scene.log());
    let new = scene.master();
    scene.instance.signal("stop");
    until("the new program has ended", || !lives(new));
}

#[test]
fn killed_process_loses_only_its_connections() {
    let scene = started(THREE, "");
    let mut clients = Client::one_of_each(&scene, 3);
    kill(pid(clients[1].process), Signal::SIGKILL).expect("it lives");
    clients[1].talk.end();
    assert_eq!(clients[1].talk.goaways, 0);
    for at in [0, 2] {
        assert_eq!(clients[at].talk.get("/text").text(), "one");
    }
    scene.until_children(3);
    let known: BTreeSet<u32> = clients.iter().map(|client| client.process).collect();
    let mut held = Vec::new();
    until("the new process serves", || {
        held.push(Client::open(&scene));
        held.last().is_some_and(|client| !known.contains(&client.process))
    });
}

#[test]
fn limits_count_the_streams_of_all_processes() {
    let (asked, go) = (Flag::new(), Flag::new());
    let peer = slow(&asked, &go);
    let location = format!("location = /slow {{ limit_conn all 3; proxy_pass http://{}; }}", peer.address());
    let mut scene = Scene::new(THREE);
    let zone = "limit_conn_zone $server_port zone=all:1m;\n";
    scene.configure(THREE, &format!("http2 on; {location}"));
    let text = scene.instance.text("nginx.conf").replace("http {\n", &format!("http {{ {zone}"));
    fs::write(scene.instance.path("nginx.conf"), text).expect("written");
    scene.instance.start();
    let mut clients = Client::one_of_each(&scene, 3);
    let open: Vec<u32> = clients.iter_mut().map(|client| client.talk.open("GET", "/slow", &[], true)).collect();
    for client in &mut clients {
        // What comes behind a stream is answered after that one was taken.
        assert_eq!(client.talk.get("/text").text(), "one");
    }
    for client in &mut clients {
        assert_eq!(client.talk.get("/slow").status, 503);
    }
    go.raise();
    for (client, stream) in clients.iter_mut().zip(open) {
        assert_eq!(client.talk.answer(stream).text(), "hello");
    }
    assert_eq!(clients[0].talk.get("/slow").text(), "hello", "the places are free again");
}
