//! The sequence in which peers are chosen, compared with a real nginx with one worker.

use crate::field::{Named, peers, sequence};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use testkit::Talk;

use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};

/// Groups by name: the method and the servers.
const GROUPS: [(&str, &str); 21] = [
    ("equal", "server {0}; server {1}; server {2};"),
    ("weighted", "server {0} weight=5; server {1}; server {2} weight=2;"),
    ("down", "server {0} weight=3; server {1} down; server {2};"),
    ("backup", "server {dead} max_fails=1 fail_timeout=1000s; server {1} backup weight=2; server {2} backup;"),
    ("failing", "server {0} weight=3; server {dead} weight=4 max_fails=2 fail_timeout=1000s; server {2} weight=2;"),
    ("patient", "server {0}; server {dead} max_fails=0; server {2};"),
    ("least", "least_conn; server {0}; server {1} weight=3; server {2};"),
    ("least-failing", "least_conn; server {0} weight=2; server {dead} max_fails=3 fail_timeout=1000s; server {2};"),
    ("ip", "ip_hash; server {0}; server {1} weight=2; server {2}; server {3};"),
    ("ip-down", "ip_hash; server {0}; server {1} down; server {2} weight=3; server {3};"),
    ("hash", "hash $arg_key; server {0}; server {1} weight=2; server {2};"),
    (
        "hash-failing",
        "hash $arg_key; server {0}; server {dead} fail_timeout=1000s; server {2} weight=2; server {3} down;",
    ),
    ("ring", "hash $arg_key consistent; server {0}; server {1} weight=3; server {2}; server {3};"),
    (
        "ring-failing",
        "hash $arg_key consistent; server {0}; server {dead} fail_timeout=1000s; server {2} weight=2; server {3} down;",
    ),
    ("ring-prefix", "hash a$arg_key$uri consistent; server {0}; server {1}; server {2}; server {3};"),
    ("single", "server {0} max_fails=1;"),
    ("nobody", "server {0} down; server {1} down;"),
    ("twice", "server {0}; server {0} weight=2; server {1};"),
    ("twice-dead", "server {dead} fail_timeout=1000s; server {1}; server {dead} fail_timeout=1000s;"),
    (
        "dead-backup",
        "server {dead} fail_timeout=1000s; server {dead} backup fail_timeout=1000s; server {1} backup; server {1} backup;",
    ),
    ("dead-patient", "server {dead} max_fails=0; server {dead} max_fails=0; server {2} backup;"),
];

/// The configuration for both sides: a location for each group.
fn text(addresses: &[SocketAddr], dead: SocketAddr) -> String {
    let (mut groups, mut locations) = (String::new(), String::new());
    for (name, servers) in GROUPS {
        let mut servers = servers.replace("{dead}", &dead.to_string());
        for (index, address) in addresses.iter().enumerate() {
            servers = servers.replace(&format!("{{{index}}}"), &address.to_string());
        }
        writeln!(groups, "upstream {name} {{ {servers} keepalive 8; }}").unwrap();
        writeln!(locations, "location /{name} {{ proxy_pass http://{name}; }}").unwrap();
    }
    format!(
        "access_log off; keepalive_requests 100000;
        proxy_http_version 1.1; proxy_set_header Connection '';
        {groups}
        server {{ listen {{listen}}; {locations} }}"
    )
}

/// An address without a listener.
fn dead() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// Sends the same requests to both sides and compares the answers.
fn compare(sides: &Sides, what: &str, ask: impl Fn(SocketAddr) -> String) {
    let theirs = ask(sides.address(Side::Nginx, 0));
    let ours = ask(sides.address(Side::Ours, 0));
    assert_eq!(ours, theirs, "{what}: ours is not nginx's\n{}", sides.logs());
}

#[test]
fn peers_are_chosen_in_nginxs_sequence() {
    for generation in [Nginx::Old, Nginx::New] {
        if let Some(nginx) = nginx_or_skip(generation) {
            compare_sequences(&nginx);
        }
    }
}

fn compare_sequences(nginx: &Path) {
    let (_peers, addresses) = peers(4);
    let (_socket, dead) = dead();
    let sides = Sides::start(nginx, &text(&addresses, dead), &[], &[]);

    for name in
        ["equal", "weighted", "down", "failing", "backup", "patient", "least", "least-failing", "single", "nobody"]
            .into_iter()
            .chain(["twice", "twice-dead", "dead-backup", "dead-patient"])
    {
        compare(&sides, name, |address| sequence(&mut Talk::connect(address), &format!("/{name}"), 40));
    }
    for name in ["ip", "ip-down"] {
        compare(&sides, name, |address| {
            let from = |network: u16| Ipv4Addr::new(127, (network >> 8) as u8 + 1, network as u8, 9);
            (0..300)
                .map(|network| Talk::connect_from(from(network * 7), address).get(&format!("/{name}"), "").peer())
                .collect()
        });
    }
    for (name, keys) in
        [("hash", 300), ("hash-failing", 300), ("ring", 1200), ("ring-failing", 300), ("ring-prefix", 300)]
    {
        compare(&sides, name, |address| {
            let mut client = Talk::connect(address);
            (0..keys).map(|key| client.get(&format!("/{name}?key=k{key}"), "").peer()).collect()
        });
    }
    // An empty key counts as none: the peers take turns.
    for name in ["hash", "ring"] {
        compare(&sides, name, |address| sequence(&mut Talk::connect(address), &format!("/{name}"), 20));
    }
}
