//! Local ports: the source of connections, and what happens when no port is left. Exhaustion is tested in network
//! namespaces with 64 ports, which needs root and iproute2; without them those tests print that they were skipped,
//! unless `CI` is set.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end
#![allow(clippy::print_stdout)] // prints what was skipped

mod namespace;
mod origin;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use namespace::{enter, narrow_range, set, waiting_in_kernel};
use origin::Origin;
use testkit::{Gateway, Talk, until};

/// A gateway that closes each upstream connection after its response, and so closes first.
fn start(location: &str, upstream: SocketAddr) -> (Gateway, String) {
    let text = format!(
        "events {{}} http {{ access_log off; keepalive_requests 100000;
        upstream app {{ server {{upstream:0}} max_fails=1 fail_timeout=1000s; keepalive 0; }}
        server {{ listen {{listen}}; location / {{ proxy_pass http://app; {location} }} }} }}"
    );
    (Gateway::start(&text, &[upstream]), text)
}

/// A gateway in a namespace: all listeners are bound before the range is reduced to 64 ports, or they would occupy some
/// of them.
fn start_narrow(location: &str, reuse: &str, at: IpAddr) -> (Gateway, Origin) {
    let origin = Origin::start(at);
    let (mut gateway, text) = start(location, origin.address());
    narrow_range();
    set("tcp_tw_reuse", reuse);
    gateway.reload(&text);
    (gateway, origin)
}

/// Number of requests served until one fails.
fn served(client: &mut Talk) -> usize {
    (0..1000).take_while(|_| client.get("/", "").status() == 200).count()
}

/// The only pair's ports in use, in TIME_WAIT and free, of 64.
fn port_usage(gateway: &Gateway) -> (u32, u32, u32) {
    let stands = gateway.shared().ports();
    match stands.as_slice() {
        [] => (0, 0, 64),
        [stand] => (stand.used, stand.time_wait, stand.free),
        _ => panic!("more than one pair: {stands:?}"),
    }
}

/// All 64 ports are used before one request fails; the ledger matches the kernel; the log names the addresses.
fn exhaust_ports(at: IpAddr, reuse: &str) -> (Gateway, Origin, Talk) {
    let (gateway, origin) = start_narrow("", reuse, at);
    let mut client = Talk::connect(gateway.address());
    let served = served(&mut client);
    let all_wait = port_usage(&gateway) == (0, 64, 0) && waiting_in_kernel(origin.address()) == 64;
    let is_reused = reuse == "1" || (reuse == "2" && at.is_loopback());
    // If 64 requests take a second on a loaded machine, the first ports are reused before the last is taken.
    assert!(served == 64 && all_wait || is_reused && served > 64, "{served} served, {:?}", port_usage(&gateway));
    if served > 64 {
        return (gateway, origin, client);
    }
    let line = gateway.logged("connect() failed (99: Cannot assign requested address), no local port is free");
    let tuple = format!("from any address to {} (of 64 ports 0 are in use and 64 in TIME_WAIT)", origin.address());
    assert!(line.contains(&tuple), "{line}");
    assert!(!gateway.error_log().contains("temporarily disabled"), "{}", gateway.error_log());
    (gateway, origin, client)
}

/// Waits longer than `tcp_tw_reuse` requires a port to wait.
fn until_reuse_would_help() {
    let begun = Instant::now();
    until("a second and a bit", || (begun.elapsed() > Duration::from_millis(1200)).then_some(()));
}

/// After a second every port in TIME_WAIT is reused, as the ledger says.
fn goes_on_after_a_second(gateway: &Gateway, client: &mut Talk) {
    until("all ports to be free again", || (port_usage(gateway).2 == 64).then_some(()));
    for request in 0..64 {
        assert_eq!(client.get("/", "").status(), 200, "request {request} of 64; {:?}", port_usage(gateway));
    }
}

#[test]
fn without_reuse_a_full_tuple_stays_full() {
    if !enter("without_reuse_a_full_tuple_stays_full") {
        return;
    }
    let (gateway, _origin, mut client) = exhaust_ports([127, 0, 0, 1].into(), "0");
    until_reuse_would_help();
    assert_eq!(client.get("/", "").status(), 503, "no second helps where the kernel does not reuse");
    assert_eq!(port_usage(&gateway), (0, 64, 0));
    let stands = gateway.shared().ports();
    assert!(stands[0].exhausted_in_s.is_some_and(|left| left == 0.0), "{stands:?}");
}

#[test]
fn with_reuse_ports_come_back_after_a_second() {
    if !enter("with_reuse_ports_come_back_after_a_second") {
        return;
    }
    let (gateway, _origin, mut client) = exhaust_ports([10, 99, 0, 1].into(), "1");
    goes_on_after_a_second(&gateway, &mut client);
}

#[test]
fn with_reuse_2_ports_come_back_on_loopback() {
    if !enter("with_reuse_2_ports_come_back_on_loopback") {
        return;
    }
    let (gateway, _origin, mut client) = exhaust_ports([127, 0, 0, 1].into(), "2");
    goes_on_after_a_second(&gateway, &mut client);
}

#[test]
fn with_reuse_2_ports_stay_taken_elsewhere() {
    if !enter("with_reuse_2_ports_stay_taken_elsewhere") {
        return;
    }
    let (gateway, _origin, mut client) = exhaust_ports([10, 99, 0, 1].into(), "2");
    until_reuse_would_help();
    assert_eq!(client.get("/", "").status(), 503);
    assert_eq!(port_usage(&gateway), (0, 64, 0));
}

#[test]
fn ports_of_open_connections_are_counted_until_they_end() {
    if !enter("ports_of_open_connections_are_counted_until_they_end") {
        return;
    }
    let (gateway, origin) = start_narrow("", "0", [127, 0, 0, 1].into());
    let mut held: Vec<Talk> = (0..63).map(|_| Talk::connect(gateway.address())).collect();
    for client in &mut held {
        client.send_get("/hold", "");
    }
    until("all of them to be connected", || (port_usage(&gateway) == (63, 0, 1)).then_some(()));
    let mut last = Talk::connect(gateway.address());
    assert_eq!((last.get("/", "").status(), last.get("/", "").status()), (200, 503));
    assert_eq!(port_usage(&gateway), (63, 1, 0));
    // Here the upstream closes first, so TIME_WAIT is on its side.
    origin.end_held();
    for client in &mut held {
        assert_eq!(client.response().status(), 200);
    }
    until("the ports to be free", || (port_usage(&gateway) == (0, 1, 63)).then_some(()));
    assert_eq!(waiting_in_kernel(origin.address()), 1);
    assert_eq!(served(&mut last), 63);
}

#[test]
fn source_pool_is_used_evenly_to_its_end() {
    if !enter("source_pool_is_used_evenly_to_its_end") {
        return;
    }
    let (gateway, origin) = start_narrow("proxy_bind_pool 127.0.0.2 127.0.0.3;", "0", [127, 0, 0, 1].into());
    let mut client = Talk::connect(gateway.address());
    let from: Vec<String> = (0..4).map(|_| client.get("/", "").value("X-From").unwrap().to_owned()).collect();
    assert_eq!(from, ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"]);
    assert_eq!(served(&mut client), 124);
    assert_eq!(waiting_in_kernel(origin.address()), 128);
    let stands = gateway.shared().ports();
    let counts: Vec<_> =
        stands.iter().map(|stand| (stand.pair.source.to_string(), stand.time_wait, stand.free)).collect();
    assert_eq!(counts, [("127.0.0.2".to_owned(), 64, 0), ("127.0.0.3".to_owned(), 64, 0)]);
    for source in ["127.0.0.2", "127.0.0.3"] {
        gateway.logged(&format!("no local port is free from {source} to {}", origin.address()));
    }
}

#[test]
fn exhausted_source_yields_to_the_next() {
    if !enter("exhausted_source_yields_to_the_next") {
        return;
    }
    let origin = Origin::start([127, 0, 0, 1].into());
    let (mut other, text) = start("proxy_bind 127.0.0.2;", origin.address());
    let (gateway, _) = start("proxy_bind_pool 127.0.0.2 127.0.0.3;", origin.address());
    narrow_range();
    other.reload(&text);
    // The ledger of one gateway does not include another one's connections.
    let mut held: Vec<Talk> = (0..64).map(|_| Talk::connect(other.address())).collect();
    for client in &mut held {
        client.send_get("/hold", "");
    }
    until("all of them to be connected", || (port_usage(&other).0 == 64).then_some(()));
    let mut client = Talk::connect(gateway.address());
    for _ in 0..3 {
        assert_eq!(client.get("/", "").value("X-From"), Some("127.0.0.3"));
    }
    gateway.logged(&format!("no local port is free from 127.0.0.2 to {}", origin.address()));
    origin.end_held();
}

#[test]
fn a_transparent_source_need_not_be_ours() {
    if !enter("a_transparent_source_need_not_be_ours") {
        return;
    }
    let origin = Origin::start([127, 0, 0, 1].into());
    let (gateway, _) = start("proxy_bind $arg_from; proxy_connect_timeout 200ms;", origin.address());
    let (transparent, _) = start("proxy_bind $arg_from transparent; proxy_connect_timeout 200ms;", origin.address());
    let ask = |gateway: &Gateway| Talk::connect(gateway.address()).get("/?from=203.0.113.7", "");
    assert_eq!(ask(&gateway).status(), 503);
    gateway.logged("bind(203.0.113.7) failed (99: Cannot assign requested address), no interface has this address");
    // The upstream receives its segments, but has no route to answer.
    assert_eq!(ask(&transparent).status(), 504);
    namespace::run("ip", &["route", "add", "local", "203.0.113.0/24", "dev", "lo"]);
    assert_eq!(ask(&transparent).value("X-From"), Some("203.0.113.7"));
}

#[test]
fn variable_source_address_separates_connections() {
    let origin = Origin::start([127, 0, 0, 1].into());
    let text = "events {} http { access_log off; upstream app { server {upstream:0}; keepalive 8; }
        server { listen {listen}; location / { proxy_pass http://app; proxy_bind $arg_from; }
        location /fixed { proxy_pass http://app; proxy_bind 127.0.0.8; }
        location /off { proxy_bind off; proxy_pass http://app; } proxy_bind 127.0.0.7; } }";
    let gateway = Gateway::start(text, &[origin.address()]);
    let mut client = Talk::connect(gateway.address());
    let mut from = |target: &str| {
        let answer = client.get(target, "");
        (answer.value("X-From").unwrap().to_owned(), answer.value("X-Connection").unwrap().to_owned())
    };
    let [first, second] = [from("/?from=127.0.0.9"), from("/?from=127.0.0.9")];
    assert_eq!((first.0.as_str(), second.0.as_str()), ("127.0.0.9", "127.0.0.9"));
    assert_ne!(first.1, second.1, "a connection of the request's own source is not pooled");
    assert_eq!(from("/?from=127.0.0.10:0").0, "127.0.0.10");
    assert_eq!(from("/").0, "127.0.0.1", "an empty text binds nothing");
    assert_eq!(from("/?from=nonsense").0, "127.0.0.1");
    gateway.logged("invalid local address \"nonsense\"");
    let [first, second] = [from("/fixed"), from("/fixed")];
    assert_eq!((&first, first.0.as_str()), (&second, "127.0.0.8"), "a fixed source's connection is used again");
    assert_eq!(from("/off").0, "127.0.0.1");
}

#[test]
fn foreign_source_address_is_named_without_blaming_the_peer() {
    let origin = Origin::start([127, 0, 0, 1].into());
    let (gateway, _) = start("proxy_bind 192.0.2.1;", origin.address());
    let mut client = Talk::connect(gateway.address());
    assert_eq!(client.get("/", "").status(), 503);
    gateway.logged("bind(192.0.2.1) failed (99: Cannot assign requested address), no interface has this address");
    assert!(!gateway.error_log().contains("temporarily disabled"), "{}", gateway.error_log());
}
