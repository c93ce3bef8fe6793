//! Hand-overs between two gateways in one process, over a real pair of sockets.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use testkit::{Gateway, Peer, Talk};

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

fn echo() -> Peer {
    Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.send(SWITCHING);
            while let Some(bytes) = talk.whatever_came() {
                talk.send(bytes);
            }
        }
    })
}

fn gateway(peer: &Peer) -> Gateway {
    gateway_with("", peer)
}

fn gateway_with(top: &str, peer: &Peer) -> Gateway {
    let text = "events {} http { access_log off; server { listen {listen}; location / { proxy_pass http://{upstream:0};
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } } }";
    Gateway::start_workers(2, &format!("{top} {text}"), &[peer.address()])
}

fn tunnelled(gateway: &Gateway) -> Talk {
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(client.response().status(), 101);
    client
}

fn goes_through(client: &mut Talk) {
    client.send("ping");
    client.expect("ping");
}

/// A gateway that begins to hand over, and the end of its successor.
fn begun(gateway: &Gateway) -> Channel {
    let (giver, taker) = Channel::ends().unwrap();
    drop(hand_over(gateway.shared(), giver).unwrap());
    Channel::over(taker).unwrap()
}

#[test]
fn pauses_count_by_the_tunnels_that_had_them() {
    let ms = Duration::from_millis;
    let mut pauses = [(ms(90), 1), (ms(2), 64), (ms(5), 35)];
    assert_eq!([0.64, 0.65, 0.99, 1.0].map(|share| pause_of(&mut pauses, share)), [ms(2), ms(5), ms(5), ms(90)]);
    assert_eq!(pause_of(&mut [], 0.99), Duration::ZERO);
}

#[test]
fn all_tunnels_move_including_those_opened_later() {
    let peer = echo();
    let [old, new] = [(); 2].map(|()| gateway(&peer));
    let mut clients: Vec<Talk> = (0..BATCH.tunnels * 2 + 3).map(|_| tunnelled(&old)).collect();
    let (giver, taker) = Channel::ends().unwrap();
    take_over(new.shared(), taker).unwrap();
    let giving = hand_over(old.shared(), giver).unwrap();
    let count = clients.len() as u64;
    new.until_totals("they have come", |totals| totals.tunnels == count);
    clients.iter_mut().for_each(goes_through);
    // A request may become a tunnel while the process finishes.
    clients.push(tunnelled(&old));
    new.until_totals("it has come, too", |totals| totals.tunnels == count + 1);
    old.until_totals("none is left", |totals| totals.tunnels == 0 && totals.active == 0);
    clients.iter_mut().for_each(goes_through);
    giving.end();
    let line = old.logged("tunnels were handed over");
    assert!(
        line.contains(&format!(" {count} tunnels were handed over to another process, paused for at most ")),
        "{line}"
    );
}

/// A peer that answers the first requests when there are `TOGETHER` of them, and counts the connections that have ended.
fn counting() -> (Peer, Arc<AtomicUsize>) {
    let (ended, first) = (Arc::new(AtomicUsize::new(0)), Barrier::new(TOGETHER));
    let count = Arc::clone(&ended);
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            if talk.requests_here() == 1 {
                first.wait();
            }
            talk.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
        count.fetch_add(1, Ordering::Relaxed);
    });
    (peer, ended)
}

const TOGETHER: usize = 3;

fn pooling(peer: &Peer) -> Gateway {
    let text = "events {} http { access_log off; upstream u { server {upstream:0}; keepalive 8; }
        server { listen {listen}; location / { proxy_pass http://u; proxy_http_version 1.1;
        proxy_set_header Connection ''; } } }";
    Gateway::start_workers(2, text, &[peer.address()])
}

/// Lets `TOGETHER` connections to the peer become idle.
fn with_idle(gateway: &Gateway) {
    let mut clients: Vec<Talk> = (0..TOGETHER).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send_get("/", "");
    }
    for client in &mut clients {
        assert_eq!(client.response().status(), 204);
    }
    until_idle(gateway);
}

/// A client has its response before the connection is in the pool, and a message before it is acted on.
fn until_idle(gateway: &Gateway) {
    testkit::until("they are idle", || (gateway.shared().pool_rows()[0].idle == TOGETHER as u64).then_some(()));
}

#[test]
fn idle_upstream_connections_move() {
    let (peer, ended) = counting();
    let [old, new] = [(); 2].map(|()| pooling(&peer));
    with_idle(&old);
    let (giver, taker) = Channel::ends().unwrap();
    take_over(new.shared(), taker).unwrap();
    let giving = hand_over(old.shared(), giver).unwrap();
    let line = old.logged("idle upstream connections were handed over");
    assert!(line.contains(" 3 idle upstream connections were handed over to another process"), "{line}");
    until_idle(&new);
    for _ in 0..2 * TOGETHER {
        assert_eq!(new.client().get("/", "").status(), 204);
    }
    assert_eq!((peer.connections(), ended.load(Ordering::Relaxed)), (TOGETHER, 0), "{}", new.error_log());
    giving.end();
}

#[test]
fn idle_connections_to_unknown_upstreams_are_closed() {
    let ((peer, ended), (other, _)) = (counting(), counting());
    let (old, new) = (pooling(&peer), pooling(&other));
    with_idle(&old);
    let (giver, taker) = Channel::ends().unwrap();
    take_over(new.shared(), taker).unwrap();
    let giving = hand_over(old.shared(), giver).unwrap();
    old.logged("3 idle upstream connections were handed over");
    testkit::until("all are closed", || (ended.load(Ordering::Relaxed) == TOGETHER).then_some(()));
    giving.end();
}

#[test]
fn process_end_drains_tunnels_that_cannot_move() {
    let peer = echo();
    let old = gateway_with("drain_rate 1000; drain_timeout 50ms;", &peer);
    let mut client = tunnelled(&old);
    let successor = begun(&old);
    for worker in 0..2 {
        old.shared().send(worker, gateway::Message::Drain);
    }
    // Longer than the drain takes.
    assert!(!client.receives_within(Duration::from_millis(300)));
    goes_through(&mut client);
    drop(successor);
    assert_eq!(client.end(), testkit::End::Fin);
    old.logged("1 open tunnels stay with this process");
    old.logged("tunnel drained: the process ends");
}

#[test]
fn a_successor_that_fails_at_any_step_changes_nothing() {
    let peer = echo();
    let old = gateway(&peer);
    let mut client = tunnelled(&old);
    for step in 0..6 {
        let mut successor = begun(&old);
        let version = handover::VERSION.to_string();
        let say = |successor: &Channel, kind, text: &str| successor.send(kind, text).unwrap();
        let sent = |successor: &mut Channel| {
            let packet = next(successor, Some(HELLO_TIMEOUT)).unwrap();
            assert_eq!((packet.kind, packet.descriptors.len()), (Kind::Tunnels, 3), "two ends and the body");
            packet
        };
        match step {
            // It dies before it says anything.
            0 => {}
            // It knows another version.
            1 => {
                say(&successor, Kind::Hello, "0 4711");
                let ended = next(&mut successor, Some(HELLO_TIMEOUT)).unwrap_err();
                assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof, "it gets nothing");
            }
            // It dies with its first word.
            2 => say(&successor, Kind::Hello, &version),
            // It dies when it has the tunnels.
            3 => {
                say(&successor, Kind::Hello, &version);
                let packet = sent(&mut successor);
                client.send("ping");
                drop((packet, successor));
                client.expect("ping");
                continue;
            }
            // It dies before it hears that they are its own.
            4 => {
                say(&successor, Kind::Hello, &version);
                let packet = sent(&mut successor);
                client.send("ping");
                shutdown(successor.descriptor(), Shutdown::Read).unwrap();
                say(&successor, Kind::Held, "1");
                client.expect("ping");
                drop(packet);
            }
            // It answers too late.
            _ => {
                say(&successor, Kind::Hello, &format!("{version} 4711"));
                let packet = sent(&mut successor);
                client.send("ping");
                client.expect("ping");
                assert!(successor.send(Kind::Held, "1").is_err() || next(&mut successor, None).is_err());
                drop(packet);
            }
        }
        drop(successor);
        old.until_totals("the tunnel is where it was", |totals| totals.tunnels == 1);
        goes_through(&mut client);
    }
}

#[test]
fn predecessor_keeping_its_tunnels_duplicates_nothing() {
    let peer = echo();
    let [old, new] = [(); 2].map(|()| gateway(&peer));
    let mut client = tunnelled(&old);
    let (giver, taker) = Channel::ends().unwrap();
    take_over(new.shared(), taker).unwrap();
    let mut predecessor = Channel::over(giver).unwrap();
    assert_eq!(next(&mut predecessor, Some(HELLO_TIMEOUT)).unwrap().kind, Kind::Hello);
    let (ids, tunnels): (Vec<_>, Vec<_>) =
        (0..2).flat_map(|worker| old.shared().freeze_tunnels(worker, 0, BATCH).unwrap().tunnels).unzip();
    let states: Vec<&[u8]> = tunnels.iter().map(|tunnel| &*tunnel.state).collect();
    let ends: Vec<_> = tunnels.iter().flat_map(|tunnel| &tunnel.ends).map(|end| end.as_fd()).collect();
    predecessor.send_body(Kind::Tunnels, &handover::encode_batch(&states), &ends).unwrap();
    let held = next(&mut predecessor, Some(HELD_TIMEOUT)).unwrap();
    assert_eq!((held.kind, &*held.text), (Kind::Held, &b"1"[..]));
    client.send("ping");
    // No commit: the other process gives them up, and this one goes on.
    drop(predecessor);
    new.until_totals("it is given up", |totals| totals.tunnels == 0 && totals.active == 0);
    old.shared().thaw_tunnels(&ids, false);
    client.expect("ping");
    goes_through(&mut client);
}
