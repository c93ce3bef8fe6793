//! Row L11 of the catalogue: the byte budget of all buffers. The conversations fill the kernel's buffers.

use gateway::CloseReason;
use std::time::Duration;
use testkit::site::{GET, HELLO, Site, is_alive, post, text};
use testkit::{Authority, DEADLINE, End, Gateway, Http2Talk, Peer, Signal, Talk, until};

const ALIVE: &str = "GET /alive HTTP/1.1\r\nHost: a\r\n\r\n";
const MB: u64 = 1 << 20;

/// A gateway with a budget, before one upstream; small buffers of the kernel on the client's side.
fn with_budget(budget: &str, peer: Peer, location: &str) -> Site {
    let conf = text(1, "", location)
        .replace("worker_processes 1;", &format!("worker_processes 1; memory_budget {budget};"))
        .replace("worker_connections 64", "worker_connections 1024")
        .replace("listen {listen};", "listen {listen} sndbuf=64k;");
    Site { gateway: Gateway::start(&conf, &[peer.address()]), peer }
}

/// Bytes of a response that a stalled client leaves behind.
const LARGE: usize = 1_000_000;
/// In total four times the budget.
const READERS: usize = 100;

fn large() -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
    [head.as_bytes(), &vec![b'x'; LARGE]].concat()
}

/// Answers `/` after the signal, with more than the client reads.
fn peer_with_large_responses(go: &Signal) -> Peer {
    let go = go.clone();
    Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.wait(&go);
            talk.send(large());
        }
    })
}

fn slow_reader(site: &Site) -> Talk {
    let mut client = site.client();
    client.receive_buffer(128 * 1024);
    client.send(GET);
    client
}

#[test]
fn l11_sheds_in_order_and_never_exceeds_the_budget() {
    let go = Signal::new();
    let site = with_budget("8m", peer_with_large_responses(&go), "proxy_buffers 16 16k; proxy_busy_buffers_size 32k;");
    let shared = site.gateway.shared();
    let mut idle = site.client();
    idle.send(ALIVE);
    assert_eq!(idle.response().text(), "alive");
    let mut silent = site.client();
    let mut readers: Vec<Talk> = (0..READERS).map(|_| slow_reader(&site)).collect();
    site.gateway.until_totals("all requests are under way", |totals| totals.writing == READERS as u64);
    assert!(shared.memory().held < 4 * MB, "{:?}", shared.memory());
    // All clients get an answer at once, and none reads it.
    go.raise();
    // First, idle connections are closed.
    assert_eq!((silent.end(), idle.end()), (End::Fin, End::Fin));
    site.gateway.logged("connections without a request are closed");
    until("it is counted", || (shared.closed(CloseReason::MemoryBudget) >= 1).then_some(()));
    // Then new connections are refused.
    site.gateway.logged("nothing is accepted");
    let mut outside = site.client();
    outside.send(ALIVE);
    assert!(!outside.receives_within(Duration::from_millis(300)), "it was accepted");
    let used = shared.memory();
    assert!(used.held > 6 * MB && used.claimed_most <= 8 * MB, "{used:?}");
    // Clients that read get everything, and the pressure ends. All read at the same time: the kernel sends a dropped
    // segment again only after a pause as long as the previous one, and one after the other those pauses add up.
    std::thread::scope(|scope| {
        for reader in &mut readers {
            scope.spawn(|| {
                let response = reader.response();
                assert_eq!((response.status(), response.body.len()), (200, LARGE));
            });
        }
        until("the pressure goes", || (shared.memory().held < 4 * MB).then_some(()));
        assert!(outside.receives_within(DEADLINE), "it is still not accepted");
    });
    // Accepting resumes before requests are served again, so the waiting connection may come between the two.
    assert!(matches!(outside.response().status(), 200 | 503));
    until("requests are served again", || {
        let mut client = site.client();
        client.send(ALIVE);
        (client.response().text() == "alive").then_some(())
    });
    is_alive(&site.gateway);
    let used = shared.memory();
    assert!(used.claimed_most <= 8 * MB, "{used:?}");
    assert!(used.accept_pauses >= 1 && used.connections_closed >= 2, "{used:?}");
    drop((readers, outside));
    site.gateway.until_totals("every client has left", |totals| totals.active == 0);
}

#[test]
fn l11_refuses_requests_when_no_connection_can_give_way() {
    let go = Signal::new();
    let site = with_budget("8m", peer_with_large_responses(&go), "proxy_buffers 16 16k; proxy_busy_buffers_size 32k;");
    let shared = site.gateway.shared();
    // Each holds 261 KB of unread response: together more than 90 % of the budget, and less than 95 %.
    let readers: Vec<Talk> = (0..29).map(|_| slow_reader(&site)).collect();
    site.gateway.until_totals("all requests are under way", |totals| totals.writing == 29);
    go.raise();
    until("memory is short", || (shared.memory().claimed >= 8 * MB * 91 / 100).then_some(()));
    let mut newcomer = site.client();
    newcomer.send(ALIVE);
    let response = newcomer.response();
    assert_eq!((response.status(), response.announces_close()), (503, true));
    let line = site.gateway.logged("new requests are answered 503");
    assert!(line.contains(" [alert] ") && line.contains("memory_budget of 8388608 bytes"), "{line}");
    let used = shared.memory();
    assert!(used.requests_refused >= 1 && used.accept_pauses == 0, "{used:?}");
    drop(readers);
    until("the pressure goes", || (shared.memory().held < 4 * MB).then_some(()));
    is_alive(&site.gateway);
}

#[test]
fn l11_memory_returns_to_the_kept_buffers() {
    let go = Signal::new();
    let site = with_budget("off", peer_with_large_responses(&go), "");
    let shared = site.gateway.shared();
    assert_eq!(shared.memory().budget, None);
    go.raise();
    let mut readers: Vec<Talk> = (0..10).map(|_| slow_reader(&site)).collect();
    until("something is held", || (shared.memory().held > 10 * 16 * 1024).then_some(()));
    for reader in &mut readers {
        assert_eq!(reader.response().body.len(), LARGE);
    }
    drop(readers);
    site.gateway.until_totals("every client has left", |totals| totals.active == 0);
    // Ten recycled exchanges of a few small buffers each.
    let held = shared.memory().held;
    assert!(held < 10 * 64 * 1024, "{held} bytes are still held");
}

#[test]
fn l11_memory_of_a_burst_is_given_back() {
    let go = Signal::new();
    let peer = Peer::script({
        let go = go.clone();
        move |mut talk| {
            while talk.request().is_some() {
                talk.wait(&go);
                talk.send(HELLO);
            }
        }
    });
    let site = with_budget("off", peer, "");
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", format!("X: {}\r\n", "y".repeat(4000)).repeat(7));
    let mut clients: Vec<Talk> = (0..200)
        .map(|_| {
            let mut client = site.client();
            client.send(&head);
            client
        })
        .collect();
    site.gateway.until_totals("the burst", |totals| totals.writing == 200);
    go.raise();
    for client in &mut clients {
        assert_eq!(client.response().text(), "hello");
    }
    drop(clients);
    site.gateway.until_totals("every client has left", |totals| totals.active == 0);
    assert!(site.gateway.shared().memory().held > 8 * MB, "it is kept for the next burst");
    until("it is given back", || (site.gateway.shared().memory().held < MB).then_some(()));
    is_alive(&site.gateway);
}

#[test]
fn l11_bodies_go_to_the_disk_when_memory_is_short() {
    let site = with_budget("2m", Peer::saying(HELLO), "client_body_buffer_size 1m;");
    let body = "b".repeat(900_000);
    let mut clients: Vec<Talk> = (0..8).map(|_| site.client()).collect();
    for client in &mut clients {
        // All but the last byte: eight bodies wait at the same time.
        client.send(post(&format!("Content-Length: {}\r\n", body.len())));
        client.send(&body[1..]);
    }
    site.gateway.until_totals("all are under way", |totals| totals.writing == 8);
    for client in &mut clients {
        client.send("b");
        assert_eq!(client.response().text(), "hello");
    }
    for (_, request) in site.peer.requests() {
        assert!(request.body == body.as_bytes());
    }
    let used = site.gateway.shared().memory();
    assert!(used.claimed_most <= 2 * MB && used.requests_refused == 0, "{used:?}");
}

#[test]
fn l11_half_heads_do_not_fill_the_memory() {
    let site = with_budget("1m", Peer::saying(HELLO), "");
    // 100 × 20 KB of heads that never end.
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", format!("X: {}\r\n", "y".repeat(4000)).repeat(5));
    let mut clients: Vec<Talk> = (0..100)
        .map(|_| {
            let mut client = site.client();
            client.send(&head);
            client
        })
        .collect();
    site.gateway.logged("memory_budget of 1048576 bytes");
    let mut heard =
        clients.iter_mut().filter_map(|client| client.receives_within(Duration::from_millis(20)).then_some(client));
    assert_eq!(heard.next().unwrap().end(), End::Fin, "the oldest give way without an answer");
    let used = site.gateway.shared().memory();
    assert!(used.claimed_most <= MB, "{used:?}");
    drop(clients);
    site.gateway.until_totals("every client has left", |totals| totals.active == 0);
    is_alive(&site.gateway);
}

#[test]
fn l11_half_handshakes_do_not_fill_the_memory() {
    let (authority, folder) = (Authority::new("Test Authority"), tempfile::tempdir().unwrap());
    let (chain, key) = authority.issue(&["a.test"]).write(folder.path(), "a");
    let conf = format!(
        "worker_processes 1; memory_budget 1m; events {{ worker_connections 1024; }} http {{ access_log off;
             server {{ listen {{listen}} ssl; server_name a.test; ssl_certificate {}; ssl_certificate_key {};
                 return 200 alive; }} }}",
        chain.display(),
        key.display()
    );
    let gateway = Gateway::start(&conf, &[]);
    // 100 × 15 KB of first messages that never end.
    let hello = [&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc][..], &[0; 15_000]].concat();
    let clients: Vec<Talk> = (0..100)
        .map(|_| {
            let mut client = gateway.client();
            client.send(&hello);
            client
        })
        .collect();
    gateway.logged("memory_budget of 1048576 bytes");
    until("some gave way", || (gateway.shared().closed(CloseReason::MemoryBudget) > 0).then_some(()));
    let used = gateway.shared().memory();
    assert!(used.claimed_most <= MB, "{used:?}");
    drop(clients);
    gateway.until_totals("every client has left", |totals| totals.active == 0);
    let mut client = Talk::connect_secure(gateway.address(), &authority.client(), "a.test").unwrap();
    client.send(ALIVE.replace("Host: a", "Host: a.test"));
    assert_eq!(client.response().text(), "alive");
}

#[test]
fn l11_half_heads_give_way_before_anybody_is_refused() {
    let site = with_budget("2m", Peer::saying(HELLO), "");
    let mut idle = site.client();
    idle.send(ALIVE);
    assert_eq!(idle.response().text(), "alive");
    // As much as the whole budget, in heads that never end; slowly enough that requests are not refused before the next
    // check.
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", format!("X: {}\r\n", "y".repeat(4000)).repeat(2));
    let held = || site.gateway.shared().memory().held;
    let mut clients = Vec::new();
    for _ in 0..250 {
        until("room for another head", || (held() < 2 * MB * 85 / 100).then_some(()));
        let mut client = site.client();
        client.send(&head);
        clients.push(client);
    }
    site.gateway.logged("connections without a request are closed");
    assert_eq!(clients[0].end(), End::Fin, "the oldest goes first, without an answer");
    idle.send(ALIVE);
    assert_eq!(idle.response().text(), "alive", "who is idle is not touched before");
    until("room", || (held() < 2 * MB * 80 / 100).then_some(()));
    is_alive(&site.gateway);
    assert_eq!(site.gateway.shared().memory().requests_refused, 0);
    drop(clients);
    site.gateway.until_totals("the heads are gone", |totals| totals.active <= 1 && totals.reading == 0);
}

#[test]
fn l11_without_memory_responses_go_uncompressed() {
    const HELD: &str = "GET /held HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let page = "the same line again and again\n".repeat(300);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}", page.len());
    let go = Signal::new();
    let peer = Peer::script({
        let go = go.clone();
        move |mut talk| {
            while let Some(request) = talk.request() {
                if request.target() == "/held" {
                    talk.wait(&go);
                    talk.send(&answer);
                } else {
                    talk.send(large());
                }
            }
        }
    });
    let words = "gzip on; gzip_vary on; proxy_buffers 16 16k; proxy_busy_buffers_size 32k;";
    let site = with_budget("2m", peer, words);
    let packed = |response: &testkit::Response| {
        assert_eq!(response.status(), 200);
        // In either case, caches must distinguish the two.
        assert_eq!(response.value("Vary"), Some("Accept-Encoding"));
        let packed = response.value("Content-Encoding") == Some("gzip");
        assert_eq!(response.text() == page, !packed);
        packed
    };
    let mut client = site.client();
    client.send(HELD);
    site.gateway.until_totals("it is under way", |totals| totals.writing == 1);
    // Then other clients, which do not read, fill the memory.
    let readers: Vec<Talk> = (0..30).map(|_| slow_reader(&site)).collect();
    let shared = site.gateway.shared();
    until("the memory is full", || (shared.memory().held > 2 * MB * 9 / 10).then_some(()));
    go.raise();
    assert!(!packed(&client.response()));
    drop(readers);
    until("the memory is free again", || {
        let response = site.ask(HELD);
        (response.status() == 200 && packed(&response)).then_some(())
    });
    let used = shared.memory();
    assert!(used.claimed_most <= 2 * MB, "{used:?}");
}

#[test]
fn l11_a_policy_of_nothing_only_counts() {
    let go = Signal::new();
    let site = with_budget("1m shed=none", peer_with_large_responses(&go), "proxy_buffers 16 16k;");
    let mut idle = site.client();
    idle.send(ALIVE);
    assert_eq!(idle.response().text(), "alive");
    go.raise();
    let mut readers: Vec<Talk> = (0..20).map(|_| slow_reader(&site)).collect();
    let shared = site.gateway.shared();
    until("the budget is exceeded", || (shared.memory().held > MB).then_some(()));
    idle.send(ALIVE);
    assert_eq!(idle.response().text(), "alive");
    is_alive(&site.gateway);
    for reader in &mut readers {
        assert_eq!(reader.response().body.len(), LARGE);
    }
    assert_eq!(shared.memory().requests_refused, 0);
}

#[test]
fn l11_closed_stream_windows_stay_within_the_budget() {
    let peer = Peer::saying(large());
    let conf = text(1, "", "proxy_buffers 16 16k; proxy_busy_buffers_size 32k;")
        .replace("worker_processes 1;", "worker_processes 1; memory_budget 8m;")
        .replace("listen {listen};", "listen {listen}; http2 on;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let shared = gateway.shared();
    // Each of 300 streams leaves 261 KB behind: together nine times the budget.
    let config = http2::Config { stream_window: 100, ..http2::Config::default() };
    let mut clients: Vec<Http2Talk> = (0..3).map(|_| Http2Talk::connect_with(gateway.address(), config)).collect();
    // All are accepted before memory is short.
    clients.iter_mut().for_each(Http2Talk::ping);
    let mut refused = 0;
    // When memory is short, a new stream gets an error page, which also stays in memory, or a reset: its client may ask again.
    for count in [100, 20] {
        let mut streams = Vec::new();
        for (at, client) in clients.iter_mut().enumerate() {
            client.holds_windows = true;
            streams.extend((0..count).map(|_| (at, client.open("GET", "/", &[], true))));
        }
        for (at, stream) in streams {
            let is_answered =
                |talk: &Http2Talk| !talk.so_far(stream).body.is_empty() || talk.so_far(stream).reset.is_some();
            clients[at].until("an answer", is_answered);
            let reset = clients[at].so_far(stream).reset;
            assert!(reset.is_none_or(|code| code == http2::ErrorCode::REFUSED_STREAM), "{reset:?}");
            refused += u32::from(reset.is_some());
        }
        until("memory is short", || (shared.memory().claimed >= 8 * MB * 90 / 100).then_some(()));
    }
    gateway.logged("memory_budget of 8388608 bytes");
    gateway.logged("new HTTP/2 streams are refused");
    assert!(refused > 0 && shared.memory().requests_refused >= refused.into(), "{refused} {:?}", shared.memory());
    let used = shared.memory();
    assert!(used.held_by_exchanges > 4 * MB && used.claimed_most <= 8 * MB, "{used:?}");
    drop(clients);
    until("the pressure goes", || (shared.memory().held < 4 * MB).then_some(()));
    is_alive(&gateway);
    assert!(shared.memory().claimed_most <= 8 * MB, "{:?}", shared.memory());
}
