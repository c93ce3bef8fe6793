//! HTTP/2 towards upstreams (`proxy_http_version 2`): the rows of section H of the catalogue about upstreams, with
//! their numbers in the test names. The upstreams run scripts on the engine; `real_peers` uses external programs.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod ends;
mod messages;
mod real_peers;
mod retries;
mod sharing;

use testkit::{Gateway, Http2Service, Peer, Talk};

/// A peer whose connections are HTTP/2 services.
fn peer(script: impl Fn(Http2Service) + Send + Sync + 'static) -> Peer {
    Peer::script(move |talk: Talk| script(Http2Service::new(talk)))
}

/// A peer that answers each request with the number of its connection.
fn telling_peer() -> Peer {
    peer(|mut service| {
        while let Some((stream, _)) = service.whole_request() {
            let text = format!("connection {}", service.serial());
            service.answer(stream, &text);
        }
    })
}

/// A gateway with these peers.
fn gateway(group: &str, location: &str, peers: &[&Peer]) -> Gateway {
    let servers: Vec<_> = (0..peers.len()).map(|index| format!("server {{upstream:{index}}};")).collect();
    let servers = servers.concat();
    let keepalive = if group.contains("keepalive ") { "" } else { "keepalive 4;" };
    let text = format!(
        "worker_processes 1; events {{ worker_connections 256; }}
         http {{
             log_format line '$status side=$close_side tries=$upstream_status reused=$upstream_reused \
              closed=$upstream_close_reason \"$request\"';
             access_log access.log line;
             client_max_body_size 100m;
             upstream peers {{ {servers} {keepalive} {group} }}
             server {{
                 listen {{listen}}; http2 on;
                 location = /metrics {{ access_log off; status_page; }}
                 location / {{ proxy_pass http://peers; proxy_http_version 2; {location} }}
             }}
         }}"
    );
    let addresses: Vec<_> = peers.iter().map(|peer| peer.address()).collect();
    Gateway::start(&text, &addresses)
}

/// The value of a metric; 0 if it is absent.
fn metric(gateway: &Gateway, name: &str) -> u64 {
    let text = gateway.client().get("/metrics?format=prometheus", "").text();
    let line = text.lines().find(|line| line.starts_with(name) && line.as_bytes().get(name.len()) == Some(&b' '));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}
