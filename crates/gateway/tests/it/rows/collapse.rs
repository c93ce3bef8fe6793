//! K5, K10–K12: concurrent misses of one key under `proxy_cache_lock`, answered while the response is being stored.

use super::caches::{cached, files, get, status_and_body};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Gateway, Peer, Signal, Talk, until};

pub(super) const LOCK: &str = "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;";

/// A body in which each byte depends on its position.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 23) as u8).collect()
}

/// An upstream that sends `head` and half of the body, and the other half after the signal. It counts requests.
fn in_halves(head: &'static str, body: Vec<u8>) -> (Peer, Signal, Arc<AtomicUsize>) {
    let (go_on, count) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let (held, asked) = (go_on.clone(), Arc::clone(&count));
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            asked.fetch_add(1, Ordering::SeqCst);
            let (first, second) = body.split_at(body.len() / 2);
            talk.send(head);
            send(&mut talk, head, first);
            talk.wait(&held);
            send(&mut talk, head, second);
            if head.contains("chunked") {
                talk.send("0\r\n\r\n");
            }
        }
    });
    (peer, go_on, count)
}

fn send(talk: &mut Talk, head: &str, part: &[u8]) {
    if head.contains("chunked") {
        talk.send(format!("{:x}\r\n", part.len()));
        talk.send(part);
        talk.send("\r\n");
    } else {
        talk.send(part);
    }
}

/// Sends a request, and waits for the head of its response.
fn begin(gateway: &Gateway, fields: &str) -> (Talk, testkit::Message) {
    let mut client = gateway.client();
    client.send_get("/a", fields);
    let head = client.head().unwrap();
    (client, head)
}

#[test]
fn k05_misses_of_a_slow_response_begin_before_its_end() {
    let body = pattern(64 * 1024);
    let (peer, go_on, count) = in_halves("HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n", body.clone());
    let gateway = cached("", LOCK, &peer);
    let mut clients: Vec<_> = (0..1000).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send_get("/a", "");
    }
    let (first, second) = body.split_at(body.len() / 2);
    let mut statuses: Vec<String> = clients
        .iter_mut()
        .map(|client| {
            let head = client.head().unwrap();
            assert!(client.read(first.len()) == first);
            head.value("X-Cache").unwrap_or_default().to_owned()
        })
        .collect();
    go_on.raise();
    for client in &mut clients {
        assert!(client.read(second.len()) == second);
    }
    statuses.sort();
    assert_eq!((statuses.iter().filter(|status| *status == "MISS").count(), &*statuses[0]), (1, "HIT"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_response_in_chunks_is_followed() {
    let body = pattern(300_000);
    let (peer, go_on, count) = in_halves("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body.clone());
    let gateway = cached("", LOCK, &peer);
    let clients = [begin(&gateway, ""), begin(&gateway, "")];
    go_on.raise();
    for (mut client, head) in clients {
        assert_eq!(head.value("Transfer-Encoding"), Some("chunked"));
        assert!(client.response_behind(head).body == body);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn heads_conditions_and_ranges_are_answered_before_it_is_whole() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nAccept-Ranges: bytes\r\nETag: \"e\"\r\n\r\n";
    let body = pattern(1000);
    let (peer, go_on, count) = in_halves(head, body.clone());
    let gateway = cached("", LOCK, &peer);
    let (mut first, _) = begin(&gateway, "");
    let (_, unchanged) = begin(&gateway, "If-None-Match: \"e\"\r\n");
    assert_eq!((unchanged.status(), unchanged.value("X-Cache")), (304, Some("HIT")));
    let mut client = gateway.client();
    client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response_to_head().value("Content-Length"), Some("1000"));
    let (mut part, said) = begin(&gateway, "Range: bytes=100-299\r\n");
    assert_eq!((said.status(), said.value("Content-Range")), (206, Some("bytes 100-299/1000")));
    assert!(part.read(200) == body[100..300]);
    let (mut late, said) = begin(&gateway, "Range: bytes=-100\r\n");
    assert_eq!(said.value("Content-Range"), Some("bytes 900-999/1000"));
    go_on.raise();
    assert!(late.read(100) == body[900..]);
    assert!(first.read(1000) == body);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn k10_truncated_response_is_cut_for_all_and_not_stored() {
    let (go_on, count) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let (held, asked) = (go_on.clone(), Arc::clone(&count));
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            if asked.fetch_add(1, Ordering::SeqCst) > 0 {
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                continue;
            }
            talk.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
            talk.wait(&held);
            return;
        }
    });
    let gateway = cached("", LOCK, &peer);
    let mut clients: Vec<_> = (0..10)
        .map(|_| {
            let (mut client, _) = begin(&gateway, "");
            client.expect("4\r\nhalf\r\n");
            client
        })
        .collect();
    go_on.raise();
    for client in &mut clients {
        let (rest, _) = client.rest();
        assert!(rest.is_empty(), "no end of the chunks: {}", rest.escape_ascii());
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    gateway.logged("the request that gets this response for the cache has failed while reading upstream");
    until("no file is left", || files(&gateway).is_empty().then_some(()));
    assert_eq!(get(&mut gateway.client(), "/a"), status_and_body("MISS", "ok"));
}

#[test]
fn k10_readers_get_everything_when_the_first_client_leaves() {
    let body = pattern(100_000);
    let (peer, go_on, count) = in_halves("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", body.clone());
    let gateway = cached("", LOCK, &peer);
    let (mut first, said) = begin(&gateway, "");
    assert_eq!(said.value("X-Cache"), Some("MISS"));
    let (mut second, said) = begin(&gateway, "");
    assert_eq!(said.value("X-Cache"), Some("HIT"));
    first.reset();
    assert!(second.read(50_000) == body[..50_000]);
    go_on.raise();
    assert!(second.read(50_000) == body[50_000..]);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    until("a hit", || (get(&mut gateway.client(), "/a").0 == "HIT").then_some(()));
}

#[test]
fn k11_a_client_that_reads_nothing_holds_no_other_back() {
    const BYTES: usize = 30 << 20;
    let body = Arc::new(pattern(BYTES));
    let (sent, count) = (Arc::clone(&body), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::clone(&count);
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            asked.fetch_add(1, Ordering::SeqCst);
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"));
            talk.send(&**sent);
        }
    });
    let gateway = cached("", LOCK, &peer);
    // Neither the client that fetches the response nor one that follows reads it.
    let (mut first, said) = begin(&gateway, "");
    assert_eq!(said.value("X-Cache"), Some("MISS"));
    let (mut idle, _) = begin(&gateway, "");
    let (mut second, said) = begin(&gateway, "");
    assert_eq!(said.value("X-Cache"), Some("HIT"));
    assert!(second.read(BYTES) == *body);
    until("the response is stored", || (files(&gateway).len() == 1).then_some(()));
    assert!(first.read(BYTES) == *body, "out of the file");
    assert!(idle.read(BYTES) == *body);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn k12_another_variant_is_not_followed() {
    let (go_on, count) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let (held, asked) = (go_on.clone(), Arc::clone(&count));
    let peer = Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            asked.fetch_add(1, Ordering::SeqCst);
            let accept = request.value("Accept").unwrap_or_default().to_owned();
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nVary: Accept\r\n\r\n");
            talk.send(&accept);
            talk.wait(&held);
            talk.send("!!");
        }
    });
    let gateway = cached("", LOCK, &peer);
    let mut clients: Vec<_> = ["a", "b", "a", "b"]
        .map(|accept| {
            let (mut client, said) = begin(&gateway, &format!("Accept: {accept}\r\n"));
            client.expect(accept);
            (client, said.value("X-Cache").unwrap_or_default().to_owned())
        })
        .into();
    let statuses: Vec<_> = clients.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!(statuses, ["MISS", "MISS", "HIT", "HIT"]);
    go_on.raise();
    for (client, _) in &mut clients {
        client.expect("!!");
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
    assert_eq!(gateway.client().get("/a", "Accept: b\r\n").text(), "b!!");
}

#[test]
fn silent_upstream_ends_all_readers() {
    let peer = Peer::script(|mut talk| {
        while talk.request().is_some() {
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
            let _ = talk.rest();
        }
    });
    let gateway = cached("", &format!("{LOCK} proxy_read_timeout 300ms;"), &peer);
    let (mut first, _) = begin(&gateway, "");
    let (mut second, _) = begin(&gateway, "");
    for client in [&mut first, &mut second] {
        assert_eq!(client.rest().0, b"half");
    }
    until("no file is left", || files(&gateway).is_empty().then_some(()));
}

#[test]
fn trickling_response_reaches_all_readers() {
    let body = pattern(80_000);
    let sent = body.clone();
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 80000\r\n\r\n");
            talk.send(&sent);
        }
    });
    // The whole transfer takes more than twice the timeout between two bytes.
    let gateway = cached("", &format!("{LOCK} proxy_limit_rate 30k; proxy_read_timeout 1s;"), &peer);
    let mut clients = [begin(&gateway, ""), begin(&gateway, "")];
    assert_eq!(clients[1].1.value("X-Cache"), Some("HIT"));
    for (client, _) in &mut clients {
        assert!(client.read(body.len()) == body);
    }
}
