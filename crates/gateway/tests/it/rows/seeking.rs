//! P9: a request that found no idle connection opens one, and takes another one that comes free first. The peers here
//! delay connects, so that there is time for that.

use crate::site::{GET, HELLO, post, text};
use testkit::{Gateway, Peer, Queued, Signal, Talk, Then, until};

/// The first request of the first connection is answered when `answer` is raised, everything else at once.
struct Scene {
    gateway: Gateway,
    peer: Peer,
    answer: Signal,
    go_on: Signal,
    /// The client that waits for its response.
    one: Talk,
    queued: Option<Queued>,
}

/// `servers` names the peer, and other servers.
fn scene(then: Then, servers: &str, others: &[&Peer]) -> Scene {
    let (answer, asked, go_on) = (Signal::new(), Signal::new(), Signal::new());
    let peer = Peer::pausing(&go_on, then, {
        let (answer, asked) = (answer.clone(), asked.clone());
        move |mut talk| {
            while talk.request().is_some() {
                if talk.serial() == 0 && talk.requests_here() == 1 {
                    asked.raise();
                    talk.wait(&answer);
                }
                talk.send(HELLO);
            }
        }
    });
    let conf = text(1, "", "")
        .replace("server {upstream:0};", servers)
        .replace("reused=$upstream_reused", "reused=$upstream_reused connect=$upstream_connect_time")
        .replace("location = /alive", "location = /status { status_page; access_log off; } location = /alive");
    let addresses: Vec<_> = std::iter::once(&peer).chain(others.iter().copied()).map(Peer::address).collect();
    let gateway = Gateway::start(&conf, &addresses);
    let mut one = gateway.client();
    one.send(GET);
    asked.wait();
    let queued = Some(peer.fill_queue());
    Scene { gateway, peer, answer, go_on, one, queued }
}

impl Scene {
    /// Sends a request whose connect does not complete.
    fn connecting(&self, request: &str) -> Talk {
        let mut client = self.gateway.client();
        client.send(request);
        self.until_pool("connecting", 1);
        client
    }

    /// Waits until this many of the group's connections are in this state.
    fn until_pool(&self, state: &str, count: usize) {
        let wanted = format!("state=\"{state}\"}} {count}");
        until("the pool's state", || {
            let mut client = self.gateway.client();
            client.send("GET /status?format=prometheus HTTP/1.1\r\nHost: a\r\n\r\n");
            let metrics = client.response().text();
            let is_there = |line: &str| line.starts_with("holdfast_upstream_connections{") && line.ends_with(&wanted);
            metrics.lines().any(is_there).then_some(())
        });
    }

    fn ask(&self, request: &str) -> testkit::Response {
        let mut client = self.gateway.client();
        client.send(request);
        client.response()
    }

    /// The connections on which requests were read, in order.
    fn serials(&self) -> Vec<usize> {
        self.peer.requests().iter().map(|(serial, _)| *serial).collect()
    }
}

#[test]
fn p09_request_takes_a_released_connection_before_its_own() {
    for request in [GET.to_owned(), post("Content-Length: 5\r\n") + "world"] {
        let mut scene = scene(Then::Accepts, "server {upstream:0};", &[]);
        let mut two = scene.connecting(&request);
        scene.answer.raise();
        assert_eq!(scene.one.response().text(), "hello");
        assert_eq!(two.response().text(), "hello");
        assert_eq!(scene.serials(), [0, 0], "both on the only connection that the peer has accepted");
        let lines = scene.gateway.access_lines(2);
        let is_of_two = |line: &String| line.contains("tries=200 reused=1 connect=0.000 ");
        assert_eq!(lines.iter().filter(|line| is_of_two(line)).count(), 1, "{lines:?}");

        // The connection being opened is pooled once it is established.
        scene.queued = None;
        scene.go_on.raise();
        scene.until_pool("idle", 2);
        assert_eq!(scene.gateway.error_log(), "");
    }
}

#[test]
fn p09_unneeded_connection_serves_the_next_request() {
    let mut scene = scene(Then::Accepts, "server {upstream:0};", &[]);
    let mut two = scene.connecting(GET);
    scene.answer.raise();
    assert_eq!(two.response().text(), "hello");
    scene.queued = None;
    scene.go_on.raise();
    scene.until_pool("idle", 2);
    assert_eq!(scene.ask(GET).text(), "hello");
    // The number of connections that the peer accepted proves nothing: it still accepts those that had filled its
    // queue.
    let lines = scene.gateway.access_lines(3);
    assert_eq!(
        lines.iter().filter(|line| line.contains(" reused=1 ")).count(),
        2,
        "nothing was opened for it: {lines:?}"
    );
    let served = scene.serials();
    assert!(served.last() > Some(&0), "the newest of the idle ones is the one that was opened last: {served:?}");
}

#[test]
fn p09_failed_connect_counts_although_its_request_was_served() {
    let second = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond");
    let mut scene = scene(Then::Refuses, "server {upstream:0} max_fails=1; server {upstream:1} backup;", &[&second]);
    let mut two = scene.connecting(GET);
    scene.answer.raise();
    assert_eq!(two.response().text(), "hello");
    scene.queued = None;
    scene.go_on.raise();
    scene.gateway.logged("for a request served otherwise");
    scene.gateway.logged("temporarily disabled");
    assert_eq!(scene.ask(GET).text(), "second");
}

#[test]
fn p09_leaving_seeker_leaks_nothing() {
    let mut scene = scene(Then::Accepts, "server {upstream:0};", &[]);
    let mut two = scene.connecting(GET);
    two.reset();
    scene.until_pool("connecting", 0);
    scene.answer.raise();
    assert_eq!(scene.one.response().text(), "hello");
    scene.until_pool("idle", 1);
    assert_eq!(scene.serials(), [0]);
    scene.queued = None;
    scene.go_on.raise();
}
