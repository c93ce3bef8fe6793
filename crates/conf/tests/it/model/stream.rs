//! `stream`: what servers inherit, what they need, and which directives are refused by name.

use super::lowered;
use crate::support::Files;
use conf::diagnostic::Severity;
use conf::model::{Balance, ProxyGreeting, Stream, StreamContent};
use std::time::Duration;

/// The body of `stream`, which must have no findings.
fn stream(body: &str) -> Stream {
    let (model, found, _) = lowered(&format!("events {{}} stream {{ {body} }}"));
    assert!(found.is_empty(), "{body}: {found:?}");
    model.stream.expect("the text has a stream block")
}

/// The errors of a body, from the checks and from lowering.
fn errors(body: &str) -> Vec<String> {
    let text = format!("events {{}} stream {{ {body} }}");
    let loaded = Files::new([("/etc/nginx/nginx.conf", text.as_str())]).load();
    let mut found = conf::check(&loaded, conf::table::all());
    found.extend(conf::model::lower(&loaded.tree, &loaded.sources).1);
    found.into_iter().filter(|found| found.severity == Severity::Error).map(|found| found.message).collect()
}

#[test]
fn defaults_match_nginx_and_servers_inherit_from_stream() {
    let stream = stream(
        "proxy_timeout 1h; allow all; \
         upstream db { least_conn; server 10.0.0.1:5432 weight=3; } \
         server { listen 5432; proxy_pass db; } \
         server { listen 127.0.0.1:6379; proxy_pass 10.0.0.2:6379; proxy_timeout 5s; proxy_protocol v2; deny all; }",
    );
    let [first, second] = [&stream.servers[0], &stream.servers[1]];
    let proxy = &first.settings.proxy;
    assert_eq!((proxy.timeout, proxy.connect_timeout), (Duration::from_hours(1), Duration::from_mins(1)));
    assert_eq!((proxy.buffer_size, proxy.next_upstream, proxy.half_close), (16 << 10, true, false));
    assert_eq!(
        (second.settings.proxy.timeout, second.settings.proxy.greeting),
        (Duration::from_secs(5), ProxyGreeting::Version2)
    );
    assert!(first.settings.session.access[0].allow && !second.settings.session.access[0].allow);
    let groups = &stream.declared.upstreams;
    assert_eq!((groups[0].name.as_str(), groups[0].servers[0].weight), ("db", 3));
    assert_eq!(groups[0].settings.balance, Balance::LeastConn);
    assert_eq!((groups[1].name.as_str(), groups[1].implicit), ("10.0.0.2:6379", true));
    assert!(matches!(&first.content, Some(StreamContent::Proxy(pass)) if pass.upstream.is_some()));
    assert_eq!(stream.listeners.len(), 2);
}

#[test]
fn names_of_http_mean_nothing_in_stream() {
    let text = "events {} \
        http { log_format line x; upstream db { server 10.0.0.1; } server { listen 80; } } \
        stream { log_format line y; upstream db { server 10.0.0.1:5432; } server { listen 1; proxy_pass db; access_log s line; } }";
    let (model, found, _) = lowered(text);
    assert!(found.is_empty(), "{found:?}");
    let (http, stream) = (model.http.unwrap(), model.stream.unwrap());
    assert_eq!((http.upstreams.len(), stream.declared.upstreams.len()), (1, 1));
    assert_eq!(stream.declared.upstreams[0].servers[0].address.address.port, 5432);
    assert_eq!((http.log_formats.len(), stream.declared.log_formats.len()), (2, 1));
}

#[test]
fn missing_and_misplaced_words_are_errors() {
    for (body, message) in [
        ("server { listen 1; }", "no handler for server"),
        ("server { return x; }", "no \"listen\" is defined for server"),
        ("server { listen 127.0.0.1; return x; }", "no port in \"127.0.0.1\" of the \"listen\" directive"),
        ("server { listen 1; proxy_pass 10.0.0.1; }", "no port in upstream \"10.0.0.1\""),
        ("server { listen 1; proxy_pass 10.0.0.1:2/x; }", "invalid host in upstream \"10.0.0.1:2/x\""),
        ("upstream u { server 10.0.0.1; } server { listen 1; proxy_pass u; }", "no port in upstream \"10.0.0.1\""),
        (
            "upstream u { server 10.0.0.1:1 route=a; } server { listen 1; proxy_pass u; }",
            "invalid parameter \"route=a\"",
        ),
        ("upstream u { keepalive 4; server 10.0.0.1:1; }", "\"keepalive\" directive is not allowed here"),
        ("upstream u { sticky cookie a; server 10.0.0.1:1; }", "\"sticky\" directive is not allowed here"),
        ("upstream u { least_time header; server 10.0.0.1:1; }", "invalid parameter \"header\""),
        ("access_log s; server { listen 1; return x; }", "log format is not specified"),
        ("server { listen 1 http2; return x; }", "invalid parameter \"http2\""),
        ("server { listen 1; listen 1; return x; }", "a duplicate listen 0.0.0.0:1"),
        ("server { listen 1 udp; listen 1 udp; return x; }", "a duplicate listen 0.0.0.0:1"),
        (
            "server { listen 1 udp backlog=5; return x; }",
            "\"listen\" directive \"backlog\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 fastopen=5 udp; return x; }",
            "\"listen\" directive \"fastopen\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp deferred; return x; }",
            "\"listen\" directive \"deferred\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp so_keepalive=on; return x; }",
            "\"listen\" directive \"so_keepalive\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 udp proxy_protocol; return x; }",
            "\"listen\" directive \"proxy_protocol\" parameter is incompatible with \"udp\"",
        ),
        (
            "server { listen 1 ssl; return x; }",
            "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
        ),
        (
            "server { listen 1 ssl; return x; ssl_certificate a; }",
            "no \"ssl_certificate_key\" is defined for certificate \"a\"",
        ),
        (
            "server { listen 1 ssl; return x; ssl_certificate a; ssl_certificate_key a; ssl_verify_client on; }",
            "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
        ),
        ("server { listen 1; return x; ssl_buffer_size 4k; }", "\"ssl_buffer_size\" directive is not allowed here"),
        ("server { listen 1; return x; ssl_alpn \"\"; }", "invalid protocol \"\" in \"ssl_alpn\""),
    ] {
        let found = errors(body);
        assert!(found.iter().any(|found| found == message), "{body}: {found:?}");
    }
}

#[test]
fn tcp_and_udp_have_addresses_of_their_own() {
    let text = "events {} stream { server { listen 53; listen 53 udp reuseport rcvbuf=1m sndbuf=64k; \
        proxy_responses 1; proxy_requests 2; return x; } server { listen 53 udp; server_name b; return y; } }";
    let (model, found, _) = lowered(text);
    assert!(found.is_empty(), "{found:?}");
    let stream = model.stream.unwrap();
    let seen: Vec<_> = stream
        .listeners
        .iter()
        .map(|listener| {
            (listener.options.udp, listener.options.reuseport, listener.options.rcvbuf, listener.servers.len())
        })
        .collect();
    assert_eq!(seen, [(false, false, None, 1), (true, true, Some(1 << 20), 2)]);
    let proxy = &stream.servers[0].settings.proxy;
    assert_eq!((proxy.responses, proxy.requests), (1, 2));
    assert_eq!(stream.servers[1].settings.proxy.responses, conf::model::RESPONSES_UNLIMITED);
}

/// An unsupported directive is refused by its name, not ignored.
#[test]
fn refuses_unsupported_directives_by_name() {
    let found = errors("server { listen unix:/s udp; return x; }");
    let message = "\"udp\" on a Unix socket is known but not supported by holdfast";
    assert!(found.iter().any(|found| found == message), "{found:?}");
}

#[test]
fn a_zone_of_http_cannot_be_one_of_stream() {
    let text = "events {} \
        http { limit_conn_zone $binary_remote_addr zone=one:1m; server { listen 80; } } \
        stream { limit_conn_zone $binary_remote_addr zone=one:1m; server { listen 1; return x; } }";
    let (_, found, _) = lowered(text);
    let message = "the shared memory zone \"one\" is already declared for a different use";
    assert!(found.iter().any(|found| found.message == message), "{found:?}");
}

#[test]
fn tls_in_stream_has_two_additional_settings() {
    let stream = stream(
        "ssl_certificate a.pem; ssl_certificate_key a.key; ssl_session_cache shared:S:1m; \
         server { listen 1 ssl; pass 127.0.0.1:2; ssl_alpn mqtt x; ssl_handshake_timeout 5s; } \
         server { listen 2 ssl; return x; ssl_session_timeout 1h; proxy_ssl_alpn h2; }",
    );
    let [first, second] = stream.servers.as_slice() else { panic!("two servers") };
    assert!(matches!(&first.content, Some(StreamContent::Pass(_))));
    assert_eq!(first.settings.session.alpn, ["mqtt", "x"]);
    assert_eq!(first.settings.session.handshake_timeout, Duration::from_secs(5));
    assert_eq!(second.settings.session.handshake_timeout, Duration::from_mins(1));
    assert_eq!(
        (second.settings.tls.certificates.len(), second.settings.tls.session_timeout),
        (1, Duration::from_hours(1))
    );
    assert_eq!(second.settings.proxy_tls.alpn, ["h2"]);
    assert!(stream.listeners.iter().all(|listener| listener.options.ssl));
}

#[test]
fn a_cache_of_sessions_belongs_to_one_block() {
    let tls = "ssl_certificate a; ssl_certificate_key a; ssl_session_cache shared:S:1m;";
    let text = format!(
        "events {{}} http {{ server {{ listen 1 ssl; {tls} }} }} stream {{ server {{ listen 2 ssl; {tls} return x; }} }}"
    );
    let (_, found, _) = lowered(&text);
    let message = "the shared memory zone \"S\" is already declared for a different use";
    assert!(found.iter().any(|found| found.message == message), "{found:?}");
}

#[test]
fn missing_zone_must_be_defined_in_the_same_block() {
    let (_, found, _) = lowered("events {} stream { limit_conn each 1; server { listen 1; return x; } }");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].hint.as_deref(), Some("define it in `stream` with `limit_conn_zone`"));
}
