//! `queue`: requests without an available peer wait, in order and with a limit; and the log lines about that.

use crate::site::HELLO;
use testkit::{Gateway, Peer, Signal, Talk};

/// A group with the given servers and directives, and a log of the waiting times.
fn text(group: &str) -> String {
    format!(
        "events {{ worker_connections 64; }}
        http {{
            log_format line '$status tries=$upstream_status addr=$upstream_addr queue=$upstream_queue_time \
             pool=$pool_wait_time \"$request\"';
            access_log access.log line;
            upstream peers {{ {group} keepalive 4; }}
            server {{ listen {{listen}}; location / {{ proxy_pass http://peers; }} }}
        }}"
    )
}

/// Answers `/slow…` after the signal, and everything else at once.
fn slow_on_demand(go: &Signal, asked: &Signal) -> Peer {
    let (go, asked) = (go.clone(), asked.clone());
    Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            if request.target().starts_with("/slow") {
                asked.raise();
                talk.wait(&go);
            }
            talk.send(HELLO);
        }
    })
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A client that has sent its request.
fn asking(gateway: &Gateway, target: &str) -> Talk {
    let mut client = gateway.client();
    client.send(get(target));
    client
}

fn until_busy(gateway: &Gateway, exchanges: u64) {
    gateway.until_totals("this many exchanges under way", |totals| totals.writing == exchanges);
}

/// The seconds after a word of a log line; `None` for a hyphen.
fn seconds(line: &str, word: &str) -> Option<f64> {
    let value = line.split(&format!("{word}=")).nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    value.parse().ok()
}

#[test]
fn requests_queue_in_order_and_overflow_is_502() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peer = slow_on_demand(&go, &asked);
    let conf = text("server {upstream:0} max_conns=1; queue 3 timeout=20s;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let mut clients = vec![asking(&gateway, "/slow")];
    asked.wait();
    for (others, target) in (1..).zip(["/1", "/2", "/3"]) {
        clients.push(asking(&gateway, target));
        until_busy(&gateway, others + 1);
    }
    assert_eq!(asking(&gateway, "/4").response().status(), 502);
    let line = gateway.logged("no live upstreams, and 3 requests are queued already while connecting to upstream");
    assert!(line.contains("\"GET /4 HTTP/1.1\""), "{line}");
    assert_eq!(peer.requests().len(), 1);
    go.raise();
    for client in &mut clients {
        assert_eq!(client.response().text(), "hello");
    }
    let targets: Vec<String> = peer.requests().iter().map(|(_, request)| request.target().to_owned()).collect();
    assert_eq!(targets, ["/slow", "/1", "/2", "/3"]);
    let mut lines = gateway.access_lines(5);
    lines.sort_by_key(|line| line.split('"').nth(1).map(str::to_owned));
    let [one, _, _, refused, slow] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(refused.starts_with("502 tries=502 addr=peers queue=- pool=0.000 "), "{refused}");
    assert!(slow.contains(" queue=- pool="), "{slow}");
    let waited = seconds(one, "queue").unwrap();
    assert!(one.starts_with("200 tries=200 ") && seconds(one, "pool").unwrap() >= waited, "{one}");
}

#[test]
fn waiting_ends_at_its_time_and_when_the_client_leaves() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peer = slow_on_demand(&go, &asked);
    let conf = text("server {upstream:0} max_conns=1; queue 1 timeout=200ms;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let mut slow = asking(&gateway, "/slow");
    asked.wait();
    assert_eq!(asking(&gateway, "/late").response().status(), 502);
    gateway.logged("no live upstreams, and the request was queued for 200ms while connecting to upstream");
    let line = gateway.access_lines(1).remove(0);
    assert!(line.starts_with("502 tries=502 addr=peers "), "{line}");
    assert!(seconds(&line, "queue").unwrap() >= 0.2 && seconds(&line, "pool") == seconds(&line, "queue"), "{line}");
    // A request that leaves the line makes room in it.
    let patient = text("server {upstream:0} max_conns=1; queue 1 timeout=20s;");
    let mut gateway = gateway;
    gateway.reload(&patient.replace("location /", "location = /new { return 204; } location /"));
    testkit::until("the new configuration", || (asking(&gateway, "/new").response().status() == 204).then_some(()));
    let mut leaver = asking(&gateway, "/leaver");
    until_busy(&gateway, 2);
    leaver.reset();
    until_busy(&gateway, 1);
    let mut next = asking(&gateway, "/next");
    until_busy(&gateway, 2);
    go.raise();
    assert_eq!(slow.response().text(), "hello");
    assert_eq!(next.response().text(), "hello");
    let targets: Vec<String> = peer.requests().iter().map(|(_, request)| request.target().to_owned()).collect();
    assert_eq!(targets, ["/slow", "/next"]);
}

#[test]
fn a_seat_that_another_worker_frees_is_noticed() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peers = [slow_on_demand(&go, &asked), slow_on_demand(&go, &asked)];
    let conf = text("server {upstream:0} max_conns=1; server {upstream:1} max_conns=1; queue 20 timeout=20s;");
    let gateway = Gateway::start_workers(2, &conf, &[peers[0].address(), peers[1].address()]);
    let mut clients: Vec<Talk> = (0..12).map(|_| asking(&gateway, "/slow")).collect();
    until_busy(&gateway, 12);
    asked.wait();
    go.raise();
    for client in &mut clients {
        assert_eq!(client.response().text(), "hello");
    }
    for peer in &peers {
        assert_eq!(peer.connections(), 1, "never two exchanges at a time");
    }
}

#[test]
fn connections_above_max_connections_wait_in_the_same_line() {
    let (go, asked) = (Signal::new(), Signal::new());
    let peer = slow_on_demand(&go, &asked);
    let conf = text("server {upstream:0}; max_connections 1; queue 1 timeout=20s;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let mut slow = asking(&gateway, "/slow");
    asked.wait();
    let mut next = asking(&gateway, "/next");
    until_busy(&gateway, 2);
    assert_eq!(asking(&gateway, "/full").response().status(), 502);
    go.raise();
    assert_eq!(slow.response().text(), "hello");
    assert_eq!(next.response().text(), "hello");
    assert_eq!(peer.connections(), 1);
    let lines = gateway.access_lines(3);
    let next = lines.iter().find(|line| line.contains("/next")).unwrap();
    assert!(seconds(next, "queue").is_some(), "{next}");
}

#[test]
fn peers_that_have_failed_are_waited_for() {
    // The first connection of each peer is reset: both are unavailable for two seconds.
    let failing_once = || {
        Peer::script(|mut talk| {
            while talk.request().is_some() {
                if talk.serial() == 0 {
                    return talk.reset();
                }
                talk.send(HELLO);
            }
        })
    };
    let peers = [failing_once(), failing_once()];
    let server = |index| format!("server {{upstream:{index}}} fail_timeout=2s;");
    let conf = text(&format!("{}{} queue 5 timeout=20s;", server(0), server(1)));
    let gateway = Gateway::start(&conf, &[peers[0].address(), peers[1].address()]);
    assert_eq!(asking(&gateway, "/").response().status(), 502);
    // A request that has tried all peers does not wait: no peer is left for it.
    assert!(gateway.access_lines(1)[0].starts_with("502 tries=502, 502 addr="), "{}", gateway.access_log());
    assert_eq!(asking(&gateway, "/").response().text(), "hello");
    let line = gateway.access_lines(2).remove(1);
    assert!(line.starts_with("200 tries=200 ") && seconds(&line, "queue").is_some(), "{line}");
}
