//! The resolver's timeouts, servers, aliases and address families: name servers that are slow, that fail while others
//! answer, and that answer in pieces.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::{Site, peer};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::name_server::{A, AAAA, DnsCode, SRV};
use testkit::{NameServer, Signal, until};

/// `proxy_pass` to the host that a request names.
fn variable(resolver: &str) -> String {
    format!("server {{ listen {{listen}}; resolver {resolver}; location / {{ proxy_pass http://$arg_to; }} }}")
}

/// Waits as part of a script.
fn pause(length: Duration) {
    let begun = Instant::now();
    while let Some(left) = length.checked_sub(begun.elapsed()) {
        std::thread::park_timeout(left);
    }
}

/// A server that delays all its answers by this time.
fn slow(delay: Duration) -> NameServer {
    NameServer::script(move |question| {
        pause(delay);
        vec![question.addresses(30, &["127.0.0.1"])]
    })
}

#[test]
fn an_answer_that_takes_half_of_the_resolvers_time_counts() {
    let one = peer("one");
    let server = slow(Duration::from_millis(2500));
    let site = Site::start(&variable("{dns} ipv6=off; resolver_timeout 5s"), &server, &[]);
    assert_eq!(site.ask(&format!("/?to=slow.test:{}", one.address().port())).text(), "one");
}

#[test]
#[ignore = "its answer takes 15.5 s; the test above has the same with a configured time"]
fn default_of_30_s_does_not_end_at_half() {
    let one = peer("one");
    let server = slow(Duration::from_millis(15_500));
    let site = Site::start(&variable("{dns} ipv6=off"), &server, &[]);
    assert_eq!(site.ask(&format!("/?to=slow.test:{}", one.address().port())).text(), "one");
    assert!(server.questions().len() > 1, "it is asked again, and the answer to the first question counts");
}

#[test]
fn addresses_from_one_server_beat_the_error_of_another() {
    let one = peer("one");
    for code in [DnsCode::ServerFailure, DnsCode::Refused, DnsCode::NameError] {
        let failed = Signal::new();
        let failing = NameServer::script({
            let failed = failed.clone();
            move |question| {
                failed.raise();
                vec![question.code(code)]
            }
        });
        let knowing = NameServer::script(move |question| {
            failed.wait();
            // The error has arrived by then.
            pause(Duration::from_millis(100));
            vec![question.addresses(30, &["127.0.0.1"])]
        });
        for servers in ["{dns} OTHER", "OTHER {dns}"] {
            let text = variable(&format!("{servers} ipv6=off")).replace("OTHER", &failing.address().to_string());
            let site = Site::start(&text, &knowing, &[]);
            assert_eq!(
                site.ask(&format!("/?to=one.test:{}", one.address().port())).text(),
                "one",
                "{code:?} {servers}"
            );
        }
    }
}

#[test]
fn the_third_server_is_asked_when_the_first_two_fail() {
    let one = peer("one");
    let failing: Vec<_> =
        (0..2).map(|_| NameServer::script(|question| vec![question.code(DnsCode::ServerFailure)])).collect();
    let knowing = NameServer::script(|question| vec![question.addresses(30, &["127.0.0.1"])]);
    let servers = format!("{} {} {{dns}} ipv6=off", failing[0].address(), failing[1].address());
    let site = Site::start(&variable(&servers), &knowing, &[]);
    for name in ["a", "b", "c"] {
        assert_eq!(site.ask(&format!("/?to={name}.test:{}", one.address().port())).text(), "one");
    }
}

#[test]
fn one_family_is_enough_when_the_other_never_comes() {
    let one = peer("one");
    for silent in [A, AAAA] {
        let server = NameServer::script(move |question| match question.kind {
            kind if kind == silent => Vec::new(),
            A => vec![question.addresses(30, &["127.0.0.1"])],
            _ => vec![question.addresses(30, &["::1"])],
        });
        let site = Site::start(&variable("{dns}; resolver_timeout 3s"), &server, &[]);
        let response = site.ask(&format!("/?to=one.test:{}", one.address().port()));
        if silent == AAAA {
            assert_eq!(response.text(), "one");
        } else {
            // The peer does not listen there; but the name was resolved.
            site.gateway.logged("while connecting to upstream");
        }
        assert!(!site.gateway.error_log().contains("could not be resolved"), "{}", site.gateway.error_log());
    }
}

/// A group with the targets of a service as peers.
const SERVICE: &str = "
    upstream app { zone app 64k; resolver {dns} ipv6=off; resolver_timeout 20s;
                   server app.test service=http resolve max_conns=1; }
    server { listen {listen}; location / { proxy_pass http://app; } location /status { status_page; } }";

#[test]
fn alias_is_followed_in_one_answer_or_two() {
    let one = peer("one");
    let port = one.address().port();
    for in_one in [true, false] {
        let server = NameServer::script(move |question| {
            let targets = [(1, 1, port, "host.test")];
            vec![match (question.kind, &*question.name) {
                (SRV, "_http._tcp.app.test") if in_one => {
                    question.alias_of_services(30, "_http._tcp.real.test", &targets)
                }
                (SRV, "_http._tcp.app.test") => question.alias(30, "_http._tcp.real.test"),
                (SRV, "_http._tcp.real.test") => question.services(30, &targets),
                (A, "host.test") => question.alias(30, "machine.test"),
                (A, "machine.test") => question.addresses(30, &["127.0.0.1"]),
                _ => question.absent(30),
            }]
        });
        let site = Site::start(SERVICE, &server, &[]);
        assert_eq!(site.ask("/").text(), "one", "in one answer: {in_one}");
    }
}

#[test]
fn an_alias_that_goes_around_in_a_circle_ends() {
    let asked = AtomicUsize::new(0);
    let server = NameServer::script(move |question| {
        let names = ["one.test", "two.test"];
        vec![question.alias(30, names[asked.fetch_add(1, Ordering::Relaxed) % 2])]
    });
    let site = Site::start(&variable("{dns} ipv6=off; resolver_timeout 10s"), &server, &[]);
    assert_eq!(site.ask("/?to=two.test").status(), 502);
    site.gateway.logged("two.test could not be resolved (2: Server failure)");
}

#[test]
fn equal_targets_of_a_service_are_two_peers() {
    let (go, busy) = (Signal::new(), Signal::new());
    let slow = testkit::Peer::script({
        let (go, busy) = (go.clone(), busy.clone());
        move |mut talk| {
            while talk.request().is_some() {
                busy.raise();
                talk.wait(&go);
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
            }
        }
    });
    let port = slow.address().port();
    let server = NameServer::script(move |question| match question.kind {
        SRV => vec![question.services(30, &[(1, 1, port, "host.test"), (1, 1, port, "host.test")])],
        _ => vec![question.addresses(30, &["127.0.0.1"])],
    });
    let site = Site::start(SERVICE, &server, &[]);
    let mut clients: Vec<_> = (0..2).map(|_| site.gateway.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    until("two exchanges at the peer", || (slow.requests().len() == 2).then_some(()));
    assert_eq!(site.ask("/").status(), 502, "each of the two has its max_conns=1");
    let text = site.ask("/status").text();
    for label in [format!("peer=\"{}\"", slow.address()), format!("peer=\"{}#2\"", slow.address())] {
        assert!(text.contains(&label), "{label} is not in\n{text}");
    }
    busy.wait();
    go.raise();
    for client in &mut clients {
        assert_eq!(client.response().text(), "slow");
    }
}
