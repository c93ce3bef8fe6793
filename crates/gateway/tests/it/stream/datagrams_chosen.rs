//! Where sessions of UDP go, beside nginx: `split_clients` and `geo` by the client's address, `random` among peers, and
//! `proxy_bind … transparent` with the client's own address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{DatagramPeer, DatagramTalk};

const BOTH: [Side; 2] = [Side::Nginx, Side::Ours];

/// An address of the loopback.
fn own(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// Sends a datagram from this address and returns the answer.
fn ask(from: IpAddr, address: SocketAddr) -> String {
    let client = DatagramTalk::connect_from(from, address);
    client.send("ping");
    String::from_utf8(client.receive()).unwrap()
}

#[test]
fn clients_are_split_and_placed_as_in_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let peers = ["one", "two", "three"].map(|name| DatagramPeer::script(|_| vec![name.as_bytes().to_vec()]));
    let text = "\
        split_clients \"$remote_addr salt\" $share { 30% one; 30% two; * three; }\n\
        geo $place { default far; 127.0.0.0/27 near; 127.0.0.30 apart; }\n\
        upstream one { server {upstream:0}; }\n\
        upstream two { server {upstream:1}; }\n\
        upstream three { server {upstream:2}; }\n\
        server { listen {listen}; return ''; }\n\
        server { listen {listen:1} udp; return \"$share $place\"; }\n\
        server { listen {listen:2} udp; proxy_pass $share; proxy_responses 1; }\n";
    let addresses: Vec<SocketAddr> = peers.iter().map(DatagramPeer::address).collect();
    let sides = Sides::start_stream(&nginx, text, &addresses);
    let mut shares = [0; 3];
    for last in 20..60 {
        let [theirs, ours] = BOTH.map(|side| ask(own(last), sides.address(side, 1)));
        assert_eq!(theirs, ours, "127.0.0.{last}");
        let (share, place) = ours.split_once(' ').unwrap();
        let expected = if last == 30 {
            "apart"
        } else if last < 32 {
            "near"
        } else {
            "far"
        };
        assert_eq!(place, expected, "127.0.0.{last}");
        shares[["one", "two", "three"].iter().position(|name| *name == share).unwrap()] += 1;
        let [theirs, ours] = BOTH.map(|side| ask(own(last), sides.address(side, 2)));
        assert_eq!((theirs.as_str(), ours.as_str()), (share, share), "127.0.0.{last}");
    }
    assert!(shares.iter().all(|count| *count > 0), "{shares:?}");
}

#[test]
fn peers_are_chosen_at_random() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let peers = ["heavy", "light"].map(|name| DatagramPeer::script(|_| vec![name.as_bytes().to_vec()]));
    let text = "\
        upstream any { random; server {upstream:0} weight=3; server {upstream:1}; }\n\
        upstream fewest { random two least_conn; server {upstream:0}; server {upstream:1}; }\n\
        upstream down { random; server {upstream:0} down; server {upstream:1}; }\n\
        server { listen {listen}; return ''; }\n\
        server { listen {listen:1} udp; proxy_pass any; proxy_responses 1; }\n\
        server { listen {listen:2} udp; proxy_pass fewest; proxy_responses 1; }\n\
        server { listen {listen:3} udp; proxy_pass down; proxy_responses 1; }\n";
    let addresses: Vec<SocketAddr> = peers.iter().map(DatagramPeer::address).collect();
    let sides = Sides::start_stream(&nginx, text, &addresses);
    for side in BOTH {
        for listener in 1..3 {
            // 60 sessions all at one of two peers happen once in a hundred million runs.
            let heavy = (0..60).filter(|_| ask(own(1), sides.address(side, listener)) == "heavy").count();
            assert!((1..60).contains(&heavy), "{side:?} {listener}: {heavy}");
        }
        assert!((0..10).all(|_| ask(own(1), sides.address(side, 3)) == "light"), "{side:?}");
    }
}

#[test]
fn a_transparent_source_is_that_of_the_client() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return testkit::skip("IP_TRANSPARENT needs CAP_NET_RAW");
    }
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let peer = DatagramPeer::echo();
    let text = "\
        log_format line '$server_port|$remote_addr|$status|$bytes_sent|$bytes_received|';\n\
        access_log {side}.log line;\n\
        server { listen {listen}; return ''; }\n\
        server { listen {listen:1} udp; proxy_pass {upstream:0}; proxy_responses 1; proxy_bind $remote_addr transparent; }\n";
    let sides = Sides::start_stream(&nginx, text, &[peer.address()]);
    for (last, side) in [(71, Side::Nginx), (72, Side::Ours)] {
        let client = DatagramTalk::connect_from(own(last), sides.address(side, 1));
        client.send("ping");
        let answer = client.within(testkit::DEADLINE);
        let seen = peer.clients();
        assert_eq!(answer.as_deref(), Some(&b"ping"[..]), "{side:?} {}: {seen:?}\n{}", client.address(), sides.logs());
        assert_eq!(seen.last().unwrap().ip(), own(last), "{side:?}: {seen:?}");
        let mark = format!("{}|127.0.0.{last}|200|4|4|", sides.address(side, 1).port());
        assert_eq!(sides.log_lines(side, &mark).last().unwrap(), &mark);
    }
}
