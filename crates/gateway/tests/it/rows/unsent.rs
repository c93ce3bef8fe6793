//! P3 with `retry_unsent on`: peers that close, reset and half-close a reused connection while a POST is in flight,
//! some of them after executing it. Each race runs often, with delays that shift one event past the other. The tests
//! assert what holds in every outcome, and use the peer's own count.

use crate::site::{GET, HELLO, text};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use testkit::{Gateway, Peer, Talk};

/// Number of runs of each race.
const ROUNDS: usize = 250;
/// The delays go up to this: longer than the gateway needs from a request to its answer.
const DELAY_MAX_US: u64 = 400;

/// Waits for an exact time, which sleeping cannot do.
fn spin(us: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(us) {
        std::hint::spin_loop();
    }
}

/// A delay that differs from round to round but is the same in every run.
fn delay_us(seed: usize) -> u64 {
    ((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % DELAY_MAX_US
}

/// Answers the first request of each connection and then applies the fault.
fn answers_once_then(fault: fn(&mut Talk)) -> Peer {
    Peer::script(move |mut talk| {
        if talk.request().is_some() {
            talk.send(HELLO);
            spin(delay_us(talk.serial() * 7 + 1));
            fault(&mut talk);
        }
    })
}

/// The results of the POSTs of a race; each has its own target.
struct Tally {
    served: usize,
    failed: usize,
    /// Failed although executed.
    failed_executed: usize,
}

fn race(fault: fn(&mut Talk)) -> Tally {
    let peer = answers_once_then(fault);
    // Otherwise the gateway would learn that this peer serves one request per connection, and there would be no race.
    let conf = text(1, "keepalive_learn off;", "retry_unsent on;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let mut client = gateway.client();
    let mut answered = Vec::new();
    for round in 0..ROUNDS {
        client.send(GET);
        assert_eq!(client.response().text(), "hello", "a GET never fails");
        spin(delay_us(round));
        client.send(format!("POST /{round} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld"));
        answered.push(client.response().status());
    }
    let mut executed = HashMap::<String, usize>::new();
    for (_, request) in peer.requests() {
        if request.method() == "POST" {
            assert_eq!(request.text(), "world");
            *executed.entry(request.target().to_owned()).or_default() += 1;
        }
    }
    let mut tally = Tally { served: 0, failed: 0, failed_executed: 0 };
    for (round, status) in answered.into_iter().enumerate() {
        let times = executed.get(&format!("/{round}")).copied().unwrap_or_default();
        assert!(times <= 1, "POST /{round} was executed {times} times");
        match status {
            200 => {
                assert_eq!(times, 1);
                tally.served += 1;
            }
            502 => {
                tally.failed += 1;
                tally.failed_executed += times;
            }
            other => panic!("status {other}"),
        }
    }
    tally
}

#[test]
fn p03_closing_peer_loses_no_unreceived_post() {
    let tally = race(Talk::close);
    // If the request arrived before the close, the peer's kernel resets without a FIN, which proves nothing.
    assert_eq!(tally.failed_executed, 0);
    assert!(tally.served > 0, "{} failed", tally.failed);
}

#[test]
fn p03_a_peer_that_executes_and_resets_never_sees_it_twice() {
    let tally = race(|talk| {
        talk.request();
        talk.reset();
    });
    assert_eq!((tally.served, tally.failed), (0, ROUNDS));
    assert_eq!(tally.failed_executed, ROUNDS);
}

#[test]
fn p03_a_peer_that_executes_and_closes_never_sees_it_twice() {
    let tally = race(|talk| {
        talk.request();
        talk.close();
    });
    assert_eq!((tally.served, tally.failed_executed), (0, ROUNDS));
}

#[test]
fn p03_half_closed_peer_never_gets_a_post_twice() {
    race(|talk| {
        talk.half_close();
        talk.request();
        talk.close();
    });
    race(|talk| {
        talk.half_close();
        talk.request();
        talk.reset();
    });
}
