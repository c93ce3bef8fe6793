//! HTTP/2 towards clients: the rows of section H of the catalogue, with their numbers in the test names, and external
//! clients.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod abuse;
mod clients;
mod ends;
mod full_disk;
pub(crate) mod grpc;
mod includes;
mod messages;
mod priorities;
mod smuggling;
mod tunnels;
mod words;

use testkit::{Gateway, Http2Talk};

/// A gateway with HTTP/2 without TLS, with this text in its `server`, and an access log.
fn gateway(server: &str, upstreams: &[std::net::SocketAddr]) -> Gateway {
    gateway_with("", server, upstreams)
}

/// The same with text in `http`.
fn gateway_with(http: &str, server: &str, upstreams: &[std::net::SocketAddr]) -> Gateway {
    let format =
        "'$status $server_protocol \"$request\" $http2 $connection_requests $body_bytes_sent $request_completion'";
    let text = format!(
        "events {{ worker_connections 512; }} http {{ log_format line {format}; access_log access.log line; {http} \
         server {{ listen {{listen}}; http2 on; {server} }} }}"
    );
    Gateway::start(&text, upstreams)
}

fn connect(gateway: &Gateway) -> Http2Talk {
    Http2Talk::connect(gateway.address())
}
