//! HTTP/2: what servers inherit from `http`, the deprecated parameter of `listen`, and refused values.

use super::{found, http};

#[test]
fn defaults_match_nginx_and_servers_inherit_from_http() {
    let http = http(
        "http2 on; http2_chunk_size 4k; server { server_name a; } server { server_name b; http2 off; http2_max_concurrent_streams 5; }",
    );
    let [first, second] = [0, 1].map(|at| http.servers[at].settings.http2.clone());
    assert_eq!((first.enabled, first.max_concurrent_streams, first.body_preread_size), (true, 128, 64 << 10));
    assert_eq!((second.enabled, second.max_concurrent_streams), (false, 5));
    assert_eq!(http.servers[0].location.client.http2_chunk_size, 4 << 10);
}

#[test]
fn listen_http2_applies_to_the_address_with_a_warning() {
    let both = "server { listen 80 http2; server_name a; } server { listen 80 http2; server_name b; }";
    let messages = found(both);
    let warning = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
    let warned = messages.iter().filter(|found| found.contains(warning)).count();
    assert_eq!((warned, messages.len()), (2, 2), "{messages:?}");
}

#[test]
fn values_that_nginx_refuses_are_refused() {
    for (words, message) in [
        ("http2_chunk_size 0", "the http2 chunk size cannot be zero"),
        ("http2_body_preread_size 2147483648", "the maximum body preread buffer size is 2147483647"),
        ("http2_streams_index_size 3", "\"http2_streams_index_size\" directive must be a power of two"),
    ] {
        let messages = found(&format!("{words}; server {{ }}"));
        assert!(messages.iter().any(|found| found.contains(message)), "{words}: {messages:?}");
    }
}
