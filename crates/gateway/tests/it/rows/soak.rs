//! A short soak test: clients with pauses of all lengths, and peers that close after an idle time or after some
//! requests, that half-close, or that execute a request and then reset. `cargo xtask bench soak` is the long one, with
//! nginx and `HAProxy` for comparison.

use crate::site::{HELLO, text};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use testkit::{Gateway, Peer, Talk};

/// Concurrent clients, more than some of the peers keep idle connections for.
const CLIENTS: usize = 12;
/// Requests of each.
const REQUESTS: usize = 150;

/// Numbers that look random but are the same in every run.
fn mixed(seed: usize, below: u64) -> u64 {
    let mut bits = (seed as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 32;
    bits = bits.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (bits ^ (bits >> 32)) % below
}

/// What a peer does when a connection has served some requests, or has been idle for some time.
type Fault = fn(&mut Talk);

/// A peer that ends its connections with a fault, after a number of requests or of idle milliseconds.
fn peer(requests_max: u64, idle_max_ms: u64, fault: Fault) -> Peer {
    Peer::script(move |mut talk| {
        let requests = 2 + mixed(talk.serial(), requests_max);
        for _ in 0..requests {
            if !talk.receives_within(Duration::from_millis(idle_max_ms)) {
                break;
            }
            if talk.request().is_none() {
                return;
            }
            talk.send(HELLO);
        }
        fault(&mut talk);
    })
}

fn half_closes_and_executes(talk: &mut Talk) {
    talk.half_close();
    talk.request();
}

fn executes_and_resets(talk: &mut Talk) {
    talk.request();
    talk.reset();
}

#[test]
fn p03_soak_no_get_fails_and_no_post_is_executed_twice() {
    let peers = [
        peer(10_000, 40, Talk::close),
        peer(8, 1500, Talk::close),
        peer(12, 60, half_closes_and_executes),
        peer(12, 1500, executes_and_resets),
        peer(10_000, 1500, Talk::close),
    ];
    let addresses: Vec<_> = peers.iter().map(Peer::address).collect();
    let conf = text(peers.len(), "", "retry_unsent on;").replace("keepalive 4;", "keepalive 32;");
    let gateway = Gateway::start_workers(2, &conf, &addresses);
    let posted = Mutex::new(HashMap::<String, u16>::new());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (gateway, posted) = (&gateway, &posted);
            scope.spawn(move || {
                let mut talk = gateway.client();
                for request in 0..REQUESTS {
                    let seed = client * REQUESTS + request;
                    // Most requests follow at once, some after a pause about as long as the peers' idle timeout.
                    if mixed(seed, 10) == 0 {
                        let pause = Duration::from_millis(30 + mixed(seed + 7, 40));
                        assert!(!talk.receives_within(pause), "no peer was asked");
                    }
                    if mixed(seed + 3, 2) == 0 {
                        talk.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                        assert_eq!(talk.response().text(), "hello", "a GET failed");
                    } else {
                        let target = format!("/{seed}");
                        talk.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld"));
                        posted.lock().unwrap().insert(target, talk.response().status());
                    }
                }
            });
        }
    });
    let mut executed = HashMap::<String, usize>::new();
    for (_, request) in peers.iter().flat_map(Peer::requests) {
        if request.method() == "POST" {
            *executed.entry(request.target().to_owned()).or_default() += 1;
        }
    }
    for (target, status) in posted.lock().unwrap().iter() {
        let times = executed.get(target).copied().unwrap_or_default();
        assert!(times <= 1, "{target} was executed {times} times");
        assert!((*status, times) == (200, 1) || *status == 502, "{target}: {status}, executed {times} times");
    }
}
