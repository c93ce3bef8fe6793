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
fn defaults_are_those_of_nginx_and_servers_take_over_what_stream_says() {
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
        ("access_log s; server { listen 1; return x; }", "log format is not specified"),
        ("server { listen 1 http2; return x; }", "invalid parameter \"http2\""),
        ("server { listen 1; listen 1; return x; }", "a duplicate listen 0.0.0.0:1"),
    ] {
        let found = errors(body);
        assert!(found.iter().any(|found| found == message), "{body}: {found:?}");
    }
}

/// An unsupported directive is refused by its name, not ignored.
#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (body, name) in [
        ("server { listen 1 udp; return x; }", "the \"udp\" parameter of \"listen\""),
        ("server { listen 1; pass 127.0.0.1:2; }", "directive \"pass\""),
        ("server { listen 1; return x; proxy_responses 1; }", "directive \"proxy_responses\""),
        ("server { listen 1 ssl; return x; ssl_certificate a; }", "directive \"ssl_certificate\""),
        ("server { listen 1 ssl; return x; }", "the \"ssl\" parameter of \"listen\" in \"stream\""),
        ("upstream u { least_time connect; server 10.0.0.1:1; }", "directive \"least_time\""),
        (
            "upstream u { random two least_time=last_byte; server 10.0.0.1:1; }",
            "\"random two least_time\" in \"stream\"",
        ),
    ] {
        let message = format!("{name} is known but not supported by holdfast");
        let found = errors(body);
        assert!(found.contains(&message), "{body}: {found:?}");
    }
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
