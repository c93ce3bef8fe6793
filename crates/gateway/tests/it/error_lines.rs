//! Lines of the error log that requests cause: how many are written, and of which clients.

use std::net::Ipv4Addr;
use testkit::{Gateway, Talk, until};

/// A program that bans clients, such as fail2ban, sees the lines of each.
#[test]
fn a_flood_of_one_client_hides_no_lines_of_others() {
    const OTHERS: std::ops::Range<u8> = 10..20;
    let text = "events {} http { server { listen {listen}; keepalive_requests 10000; root nowhere; } }";
    let gateway = Gateway::start(text, &[]);
    let ask_from = |host: u8, count: usize| {
        let mut client = Talk::connect_from(Ipv4Addr::new(127, 0, 0, host), gateway.address());
        client.send("GET /missing HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count));
        (0..count).for_each(|_| assert_eq!(client.response().status(), 404));
    };
    // One second has room for fifty lines of all clients: the flood takes them in every second.
    for other in OTHERS {
        ask_from(9, 60);
        ask_from(other, 5);
    }
    let lines = |host: u8| gateway.error_log().matches(&format!(", client: 127.0.0.{host}, ")).count();
    for other in OTHERS {
        until("each line of a client that sends few", || (lines(other) == 5).then_some(()));
    }
    assert!(lines(9) < OTHERS.len() * 60, "the flood is counted: {}", lines(9));
    until("the count names its client", || {
        let log = gateway.error_log();
        let counts = |line: &str| line.contains(" suppressed ") && line.ends_with(", clients: 127.0.0.9");
        log.lines().any(counts).then_some(())
    });
}
