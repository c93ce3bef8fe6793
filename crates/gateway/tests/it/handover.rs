//! Tunnels that one process hands over to another. Both are gateways in this process, with the same upstream; what the
//! program does with messages and descriptors is done here by hand, so that each step can fail.

use gateway::handover::{FreezeLimit, FrozenId, HandedOver};
use std::time::{Duration, Instant};
use testkit::{Authority, End, Gateway, Peer, Signal, Talk};

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
const LIMIT: FreezeLimit = FreezeLimit { tunnels: 64, bytes: 1 << 20 };
/// A log by its name alone: the test reads its lines from memory.
const LOG: &str =
    "log_format counts '$bytes_sent $upstream_bytes_sent $request_time $msec'; access_log /tunnels.log counts;";

/// A gateway that passes upgrades on.
fn gateway(http: &str, location: &str, peer: &Peer) -> Gateway {
    // The default log is in the directory of each gateway, and a tunnel stays where its log is.
    let log = if http.contains("access_log") { "" } else { "access_log off;" };
    let text = format!(
        "events {{}} http {{ {log} {http} upstream u {{ server {{upstream:0}}; }} upstream one {{ server {{upstream:0}} max_conns=1; }}
         server {{ listen {{listen}}; location / {{ {location}
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }} }}"
    );
    Gateway::start(&text, &[peer.address()])
}

/// An upstream that switches protocols and then runs the script.
fn switching(script: impl Fn(Talk) + Send + Sync + 'static) -> Peer {
    Peer::script(move |mut talk| {
        if talk.request().is_some() {
            talk.send(SWITCHING);
            script(talk);
        }
    })
}

/// Sends every byte back, and the end.
fn echo(mut talk: Talk) {
    while let Some(bytes) = talk.whatever_came() {
        talk.send(bytes);
    }
}

fn tunnelled(gateway: &Gateway) -> Talk {
    let mut client = gateway.client();
    client.send(UPGRADE);
    assert_eq!(client.response().status(), 101);
    client
}

/// Freezes all tunnels that could be handed over.
pub(crate) fn freeze(gateway: &Gateway) -> (Vec<FrozenId>, Vec<HandedOver>) {
    let frozen = gateway.shared().freeze_tunnels(0, 0, LIMIT).unwrap();
    assert_eq!(frozen.next, None);
    frozen.tunnels.into_iter().unzip()
}

/// Hands all tunnels of a gateway over to another, or to itself; returns how many.
pub(crate) fn move_tunnels(from: &Gateway, to: &Gateway) -> usize {
    let (ids, tunnels) = freeze(from);
    let held: Vec<_> = to.shared().hold_tunnels(tunnels).into_iter().flatten().collect();
    assert_eq!(held.len(), ids.len(), "the other one can continue all of them");
    from.shared().release_tunnels(&ids);
    to.shared().thaw_tunnels(&held, false);
    held.len()
}

/// The same for another gateway, after which this one has no connections.
fn hand_over(from: &Gateway, to: &Gateway) -> usize {
    let moved = move_tunnels(from, to);
    from.until_totals("the tunnels have left", |totals| totals.tunnels == 0 && totals.active == 0);
    to.until_totals("the tunnels have come", |totals| totals.tunnels == moved as u64);
    moved
}

#[test]
fn moved_tunnel_continues_and_is_logged_once() {
    let peer = switching(echo);
    let [old, new] = [(); 2].map(|()| gateway(LOG, "proxy_pass http://u;", &peer));
    let mut client = tunnelled(&old);
    // The request has begun before, and ends later than the time is read: a busy machine only adds to what the log says.
    let began = Instant::now();
    client.send("one");
    client.expect("one");
    let (ids, tunnels) = freeze(&old);
    assert_eq!(ids.len(), 1);
    client.send("two");
    let held: Vec<_> = new.shared().hold_tunnels(tunnels).into_iter().flatten().collect();
    assert_eq!(held.len(), 1);
    // Both processes have the sockets, and neither reads.
    assert!(!client.receives_within(Duration::from_millis(100)));
    old.shared().release_tunnels(&ids);
    new.shared().thaw_tunnels(&held, false);
    client.expect("two");
    old.until_totals("it has left", |totals| totals.tunnels == 0 && totals.active == 0);
    // And back, and forth.
    assert_eq!(hand_over(&new, &old), 1);
    client.send("three");
    client.expect("three");
    assert_eq!(hand_over(&old, &new), 1);
    client.send("four");
    client.expect("four");
    let lasted = began.elapsed().as_secs_f64();
    client.half_close();
    assert_eq!(client.end(), End::Fin);
    let lines = new.access_lines(1);
    let values: Vec<f64> = lines[0].split(' ').map(|value| value.parse().unwrap()).collect();
    let [head, request] = [SWITCHING.len() as f64, 100.0];
    assert!(values[0] >= head && values[0] < head + 200.0, "the head and 15 bytes: {lines:?}");
    assert!(values[1] > 15.0 && values[1] < request + 100.0, "the request and 15 bytes: {lines:?}");
    assert!(values[2] >= lasted - 0.01, "the time since the request, {lasted} s: {lines:?}");
    assert_eq!((lines.len(), old.access_log().as_str()), (1, ""));
}

#[test]
fn unaccepted_bytes_arrive_in_order_after_the_move() {
    const FLOOD: usize = 96 << 20;
    let stuck = Signal::new();
    let peer = switching({
        let stuck = stuck.clone();
        move |mut talk| {
            let numbers: Vec<u8> = (0..1_u64 << 20).flat_map(u64::to_be_bytes).collect();
            let _ = talk.socket().set_nonblocking(true);
            let mut sent = 0;
            // Until all buffers between the two ends are full.
            let deadline = Instant::now() + Duration::from_millis(500);
            while Instant::now() < deadline {
                match std::io::Write::write(&mut talk.socket(), &numbers[sent % numbers.len()..]) {
                    Ok(count) => sent += count,
                    Err(_) => std::thread::yield_now(),
                }
            }
            assert!(sent < FLOOD);
            let _ = talk.socket().set_nonblocking(false);
            stuck.raise();
            let rest = numbers.len() - sent % numbers.len();
            talk.send(&numbers[numbers.len() - rest..]);
            talk.half_close();
            talk.whatever_came();
        }
    });
    let [old, new] = [(); 2].map(|()| gateway("", "proxy_pass http://u;", &peer));
    let mut client = tunnelled(&old);
    stuck.wait();
    assert_eq!(hand_over(&old, &new), 1);
    let (bytes, end) = client.rest();
    assert_eq!(end, End::Fin);
    let (numbers, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty() && numbers.len() >= 1 << 20, "{} numbers", numbers.len());
    for (place, number) in numbers.iter().enumerate() {
        assert_eq!(u64::from_be_bytes(*number), place as u64 % (1 << 20), "at {place}");
    }
}

#[test]
fn a_half_closed_tunnel_stays_half_closed() {
    let (closed, over) = (Signal::new(), Signal::new());
    let peer = switching({
        let (closed, over) = (closed.clone(), over.clone());
        move |mut talk| {
            talk.expect("request");
            assert_eq!(talk.end(), End::Fin);
            closed.raise();
            over.wait();
            talk.send("response");
        }
    });
    let [old, new] = [(); 2].map(|()| gateway("", "proxy_pass http://u;", &peer));
    let mut client = tunnelled(&old);
    client.send("request");
    client.half_close();
    closed.wait();
    assert_eq!(hand_over(&old, &new), 1);
    over.raise();
    client.expect("response");
    assert_eq!(client.end(), End::Fin);
    new.until_totals("no tunnel is left", |totals| totals.active == 0);
}

#[test]
fn a_hand_over_that_fails_at_any_step_changes_nothing() {
    let peer = switching(echo);
    let [old, new] = [(); 2].map(|()| gateway(LOG, "proxy_pass http://u;", &peer));
    let mut client = tunnelled(&old);
    // The other process dies before it gets them.
    let (ids, tunnels) = freeze(&old);
    client.send("one");
    drop(tunnels);
    old.shared().thaw_tunnels(&ids, false);
    client.expect("one");
    // It does not understand them.
    let (ids, mut tunnels) = freeze(&old);
    client.send("two");
    tunnels[0].state.truncate(20);
    assert_eq!(new.shared().hold_tunnels(tunnels), [None]);
    old.shared().thaw_tunnels(&ids, false);
    client.expect("two");
    // It dies while it holds them: without a commit it gives them up.
    let (ids, tunnels) = freeze(&old);
    client.send("three");
    let held: Vec<_> = new.shared().hold_tunnels(tunnels).into_iter().flatten().collect();
    new.shared().release_tunnels(&held);
    old.shared().thaw_tunnels(&ids, false);
    client.expect("three");
    new.until_totals("nothing is held", |totals| totals.tunnels == 0 && totals.active == 0);
    assert_eq!(hand_over(&old, &new), 1, "the next attempt succeeds");
    client.send("four");
    client.expect("four");
    client.half_close();
    assert_eq!(client.end(), End::Fin);
    assert_eq!((new.access_lines(1).len(), old.access_log().as_str()), (1, ""));
}

#[test]
fn tunnel_with_an_unknown_log_is_not_moved() {
    let peer = switching(echo);
    let old = gateway(LOG, "proxy_pass http://u;", &peer);
    let new = gateway("", "proxy_pass http://u;", &peer);
    let mut client = tunnelled(&old);
    let (ids, tunnels) = freeze(&old);
    assert_eq!(new.shared().hold_tunnels(tunnels), [None]);
    old.shared().thaw_tunnels(&ids, true);
    client.send("one");
    client.expect("one");
    assert_eq!(freeze(&old).0.len(), 0, "it is not tried again");
}

#[test]
fn limits_count_a_tunnel_where_it_is() {
    const ZONE: &str = "limit_conn_zone $http_host zone=z:1m;";
    let peer = switching(echo);
    for (http, location, refusal) in
        [(ZONE, "limit_conn z 1; proxy_pass http://u;", 503), ("", "proxy_pass http://one;", 502)]
    {
        let [old, new] = [(); 2].map(|()| gateway(http, location, &peer));
        let status = |gateway: &Gateway| {
            let mut client = gateway.client();
            client.send(UPGRADE);
            client.response().status()
        };
        let mut client = tunnelled(&old);
        assert_eq!(status(&old), refusal);
        assert_eq!(hand_over(&old, &new), 1);
        assert_eq!(status(&new), refusal, "{location}");
        let pools = |gateway: &Gateway| gateway.shared().pool_rows().iter().map(|row| row.leased).sum::<u64>();
        assert_eq!((pools(&old), pools(&new)), (0, 1));
        assert_eq!(status(&old), 101, "{location}: its place is free");
        client.half_close();
        assert_eq!(client.end(), End::Fin);
        new.until_totals("it has ended", |totals| totals.active == 0);
        assert_eq!(status(&new), 101, "{location}");
    }
}

#[test]
fn pings_go_on_between_frames() {
    let whole = Signal::new();
    let peer = switching({
        let whole = whole.clone();
        move |mut talk| {
            // The first half of a frame.
            talk.send(b"\x81\x04ab");
            whole.wait();
            talk.send("cd");
            while talk.whatever_came().is_some() {}
        }
    });
    let [old, new] =
        [(); 2].map(|()| gateway("", "proxy_pass http://u; tunnel_ping 500ms; tunnel_timeout 30s;", &peer));
    let mut client = tunnelled(&old);
    client.expect(b"\x81\x04ab");
    assert_eq!(hand_over(&old, &new), 1);
    // Several intervals: a ping would be inside of the frame.
    assert!(!client.receives_within(Duration::from_millis(1200)));
    whole.raise();
    client.expect("cd");
    client.expect(b"\x89\x08holdfast");
}

/// The state of the only tunnel of a gateway. Without the marks of its route: these gateways listen on different addresses.
fn state(tunnels: &[HandedOver]) -> handover::Tunnel {
    let [tunnel] = tunnels else { panic!("{} tunnels", tunnels.len()) };
    let mut state = handover::Tunnel::decode(&tunnel.state).unwrap();
    state.settings.marks.clear();
    state
}

/// Timers, counts, settings, limits, and the parts of the log line.
#[test]
fn tunnel_state_survives_the_move() {
    let http =
        format!("{LOG} limit_conn_zone $http_host zone=z:1m; otel_exporter {{ endpoint 127.0.0.1:1; }} otel_trace on;");
    let location = "limit_conn z 5; proxy_pass http://one; tunnel_ping 30s; tunnel_timeout 90s; error_log /e.log;";
    let peer = switching(echo);
    let [old, new] = [(); 2].map(|()| gateway(&http, location, &peer));
    let mut client = tunnelled(&old);
    client.send(b"\x81\x05hel");
    client.expect(b"\x81\x05hel");
    let (ids, tunnels) = freeze(&old);
    let before = state(&tunnels);
    let held: Vec<_> = new.shared().hold_tunnels(tunnels).into_iter().flatten().collect();
    old.shared().release_tunnels(&ids);
    new.shared().thaw_tunnels(&held, false);
    let (_, tunnels) = freeze(&new);
    assert_eq!(state(&tunnels), before);
    let (record, peer) = (before.record.unwrap(), before.peer.unwrap());
    assert_eq!((record.lines.len(), record.limits.len(), record.attempts.len(), record.spans.len()), (1, 1, 1, 2));
    assert_eq!((&*peer.group, peer.ordinal, peer.has_port), ("one", Some(0), true));
    assert_eq!(before.settings.error_log.as_deref(), Some("error file /e.log"));
    assert!(before.heartbeat.is_some() && before.directions[0].bytes == 5);
}

#[test]
fn rates_of_a_session_go_on_in_the_next_process() {
    let peer = Peer::script(echo);
    let text = "events {} stream { server { listen {listen}; proxy_pass {upstream:0}; proxy_download_rate 100k;
        proxy_half_close on; } }";
    let [old, new] = [(); 2].map(|()| Gateway::start(text, &[peer.address()]));
    let mut client = old.client();
    client.send("one");
    client.expect("one");
    let (ids, tunnels) = freeze(&old);
    let before = state(&tunnels);
    let held: Vec<_> = new.shared().hold_tunnels(tunnels).into_iter().flatten().collect();
    old.shared().release_tunnels(&ids);
    new.shared().thaw_tunnels(&held, false);
    let (_, tunnels) = freeze(&new);
    assert_eq!(state(&tunnels), before);
    assert_eq!(before.settings.kind, handover::Kind::HalfClosingSession);
    assert_eq!(before.paces.map(|pace| pace.map(|pace| pace.rate)), [None, Some(102_400)]);
}

#[test]
fn a_session_of_stream_is_handed_over_like_a_tunnel() {
    let peer = Peer::script(echo);
    let text =
        "events {} stream { log_format counts '$bytes_sent $bytes_received $status'; access_log /stream.log counts;
        upstream u { server {upstream:0} max_conns=1; } server { listen {listen}; proxy_pass u; } }";
    let [old, new] = [(); 2].map(|()| Gateway::start(text, &[peer.address()]));
    let mut client = old.client();
    client.send("one");
    client.expect("one");
    assert_eq!(hand_over(&old, &new), 1);
    client.send("two");
    client.expect("two");
    assert_eq!(new.client().end(), End::Fin, "max_conns");
    client.half_close();
    assert_eq!(client.end(), End::Fin);
    let lines = new.access_lines(2);
    assert!(lines.iter().any(|line| line == "6 6 200"), "{lines:?}");
    assert_eq!(old.access_log(), "");
}

#[test]
fn tunnels_under_tls_and_other_connections_stay() {
    let authority = Authority::new("Test Authority");
    let folder = tempfile::tempdir().unwrap();
    authority.issue(&["a.test"]).write(folder.path(), "a");
    let peer = switching(echo);
    let text = format!(
        "events {{}} http {{ ssl_certificate {0}/a.crt; ssl_certificate_key {0}/a.key; server {{ listen {{listen}} ssl; location / {{
         proxy_pass http://{{upstream:0}}; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }} }}",
        folder.path().display()
    );
    let old = Gateway::start(&text, &[peer.address()]);
    let mut client = Talk::connect_secure(old.address(), &authority.client(), "a.test").unwrap();
    client.send(UPGRADE);
    assert_eq!(client.response().status(), 101);
    let _idle = Talk::connect(old.address());
    assert_eq!(freeze(&old).0.len(), 0);
    client.send("one");
    client.expect("one");
}
