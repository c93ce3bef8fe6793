//! A gateway with TLS upstreams.

use std::net::SocketAddr;
use testkit::{Gateway, Response};

pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A group `app` of these upstreams, and a location that passes everything to it over TLS.
pub(crate) fn text(peers: usize, group: &str, location: &str) -> String {
    let servers: String = (0..peers).map(|index| format!("server {{upstream:{index}}}; ")).collect::<Vec<_>>().concat();
    format!(
        "events {{}} http {{
            log_format line '$status tries=$upstream_status connect=$upstream_connect_time reused=$upstream_reused \
             closed=$upstream_close_reason';
            access_log access.log line;
            upstream app {{ {servers} {group} }}
            server {{ listen {{listen}}; location / {{ proxy_pass https://app; {location} }} }} }}"
    )
}

pub(crate) fn site(peer: SocketAddr, location: &str) -> Gateway {
    Gateway::start(&text(1, "", location), &[peer])
}

/// One request on a new connection, and its response.
#[track_caller]
pub(crate) fn ask(gateway: &Gateway, target: &str) -> Response {
    let mut client = gateway.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.response()
}

/// The request gets this status, and the error log contains this phrase.
#[track_caller]
pub(crate) fn fails(gateway: &Gateway, status: u16, phrase: &str) {
    assert_eq!(ask(gateway, "/").status(), status);
    let line = gateway.logged(phrase);
    assert!(line.contains("upstream: \"https://127.0.0.1:"), "{line}");
}
