//! What spans show: nginx's attributes of an exchange, and the pool's decisions of its attempts.

use super::collector::Collector;
use super::{PARENT, STATE, Site, TRACE, traced};
use serde_json::{Value, json};
use std::time::SystemTime;
use testkit::{Http2Talk, Peer, Refusing, until};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The attribute of a span.
fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    &span["attributes"][name]
}

#[test]
fn spans_have_ids_parents_attributes_and_times() {
    let Some(collector) = Collector::start() else { return };
    let peer = Peer::saying(OK);
    let server = "location /shop { otel_trace_context propagate; proxy_pass http://{upstream:0}/inside; }";
    let site = Site::quick(collector, server, &[peer.address()]);
    let began = now_ns();
    let secrets = "Authorization: Bearer s3cret-a\r\nCookie: sid=s3cret-b\r\nX-Api-Key: s3cret-c\r\n";
    let fields = format!("User-Agent: test/1\r\n{secrets}{}", traced());
    assert_eq!(site.ask("/shop/a?token=s3cret-d&q=1", &fields).status(), 200);
    let call = site.collector.call();
    assert_eq!(
        (&call["resource"]["service.name"], &call["scope"]),
        (&json!("unknown_service:nginx"), &json!("holdfast"))
    );
    let [attempt, own] = &call["spans"].as_array().unwrap()[..] else { panic!("{call:#}") };
    assert_eq!((&own["trace"], &own["parent"], &own["state"]), (&json!(TRACE), &json!(PARENT), &json!(STATE)));
    assert_eq!((&own["name"], &own["kind"], &own["status"]), (&json!("/shop"), &json!(2), &json!(0)));
    let peer_port = attribute(own, "net.sock.peer.port").as_u64().unwrap();
    assert!(peer_port > 1023, "{own}");
    let expected = json!({
        "http.method": "GET",
        "http.target": "/shop/a?token=REDACTED&q=1",
        "http.route": "/shop",
        "http.scheme": "http",
        "http.flavor": "1.1",
        "http.user_agent": "test/1",
        "http.request_content_length": 0,
        "http.response_content_length": 5,
        "http.status_code": 200,
        "net.host.name": "a.test",
        "net.host.port": site.gateway.address().port(),
        "net.sock.peer.addr": "127.0.0.1",
        "net.sock.peer.port": peer_port,
    });
    assert_eq!(own["attributes"], expected);
    assert_eq!((&attempt["trace"], &attempt["parent"], &attempt["kind"]), (&own["trace"], &own["span"], &json!(3)));
    let upstream = peer.address().to_string();
    assert_eq!(attempt["name"], format!("upstream {upstream}"));
    for (name, value) in [
        ("holdfast.upstream", json!(upstream)),
        ("holdfast.attempt", json!(1)),
        ("holdfast.connection", json!("new")),
        ("holdfast.waited_in_line", json!(false)),
        ("server.address", json!("127.0.0.1")),
        ("server.port", json!(peer.address().port())),
        ("http.status_code", json!(200)),
    ] {
        assert_eq!(*attribute(attempt, name), value, "{name} of {attempt:#}");
    }
    assert!(attribute(attempt, "holdfast.connect_ms").is_u64() && attribute(attempt, "holdfast.header_ms").is_u64());
    // Milliseconds are what the gateway's clock knows; a span begins before its attempt, and ends behind it.
    let time = |span: &Value, which: &str| span[which].as_u64().unwrap();
    let slack = 20_000_000;
    assert!(time(own, "began") + slack >= began && time(own, "ended") <= now_ns() + slack, "{own}");
    assert!(time(own, "began") <= time(attempt, "began") && time(attempt, "ended") <= time(own, "ended") + slack);
    assert!(!call.to_string().contains("s3cret"), "{call}");
    // The upstream's spans belong below that of the exchange.
    let seen = peer.only_request();
    assert_eq!(seen.value("traceparent"), Some(format!("00-{TRACE}-{}-01", own["span"].as_str().unwrap()).as_str()));
    assert_eq!(seen.value("tracestate"), Some(STATE));
}

#[test]
fn retries_and_reuse_are_shown() {
    let Some(collector) = Collector::start() else { return };
    let (dead, peer) = (Refusing::new(), Peer::saying(OK));
    let http = "otel_trace on; upstream app { server {upstream:0}; server {upstream:1}; keepalive 4; }";
    let server = "location / { proxy_pass http://app; }";
    let site = Site::start(collector, "interval 20ms;", http, server, &[dead.address(), peer.address()]);
    assert_eq!(site.ask("/a", "").status(), 200);
    let spans = site.spans();
    let [failed, good, own] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((attribute(failed, "holdfast.failure"), &failed["status"]), (&json!("connect_failed"), &json!(2)));
    assert_eq!(
        (attribute(failed, "holdfast.upstream"), attribute(failed, "http.status_code")),
        (&json!("app"), &json!(502))
    );
    assert_eq!((attribute(good, "holdfast.attempt"), &good["status"]), (&json!(2), &json!(0)));
    assert_eq!([&failed["parent"], &good["parent"]], [&own["span"]; 2]);
    assert_eq!(site.ask("/b", "").status(), 200);
    let spans = site.spans();
    assert_eq!(attribute(&spans[0], "holdfast.connection"), "reused", "{spans:?}");
    assert!(attribute(&spans[0], "holdfast.connect_ms").is_null());
}

#[test]
fn span_has_errors_names_and_configured_attributes() {
    let Some(collector) = Collector::start() else { return };
    let http = "otel_trace on; otel_service_name shop; otel_resource_attr my.name 'my name';";
    let server = "location /err { return 500 ERR; }
        location /custom { otel_span_name 'custom $request_method'; otel_span_attr http.request $request;
            otel_span_attr http.response.header.content_type $sent_http_content_type; return 200 OK; }
        location ~ ^/re[x]$ { return 204; }
        location /off { otel_trace off; return 204; }
        location /some { otel_trace $arg_trace; return 204; }";
    let site = Site::start(collector, "interval 20ms;", http, server, &[]);
    assert_eq!(site.ask("/err", "").status(), 500);
    let call = site.collector.call();
    assert_eq!(call["resource"], json!({ "service.name": "shop", "my.name": "my name" }));
    assert_eq!(
        (&call["spans"][0]["status"], attribute(&call["spans"][0], "http.status_code")),
        (&json!(2), &json!(500))
    );
    site.ask("/custom", "");
    let custom = site.span();
    assert_eq!(custom["name"], "custom GET");
    assert_eq!(*attribute(&custom, "http.request"), "GET /custom HTTP/1.1");
    assert_eq!(*attribute(&custom, "http.response.header.content_type"), json!(["text/plain"]));
    for target in ["/off", "/some", "/some?trace=yes", "/some?trace=1"] {
        assert_eq!(site.ask(target, "").status(), 204);
    }
    assert_eq!(*attribute(&site.span(), "http.target"), "/some?trace=1");
    site.ask("/rex", "");
    assert_eq!(site.span()["name"], "^/re[x]$");
}

#[test]
fn streams_of_http2_are_traced_one_by_one() {
    let Some(collector) = Collector::start() else { return };
    let site = Site::quick(collector, "http2 on; location / { return 200 OK; }", &[]);
    let mut client = Http2Talk::connect(site.gateway.address());
    client.get("/a");
    let span = site.span();
    assert_eq!((attribute(&span, "http.flavor"), attribute(&span, "http.target")), (&json!("2.0"), &json!("/a")));
}

#[test]
fn the_span_of_a_tunnel_ends_with_it() {
    let Some(collector) = Collector::start() else { return };
    let peer = Peer::script(|mut talk| {
        talk.request();
        talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello");
        talk.expect("bye");
        talk.close();
    });
    let server = "location / { proxy_pass http://{upstream:0}; proxy_http_version 1.1; proxy_set_header Upgrade \
                  $http_upgrade; proxy_set_header Connection upgrade; }";
    let site = Site::quick(collector, server, &[peer.address()]);
    let mut client = site.gateway.client();
    client.send("GET /t HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.head().unwrap().status(), 101);
    client.expect("hello");
    assert!(!site.collector.has_more());
    client.send("bye");
    // A tunnel ends when both sides have.
    drop(client);
    let spans = site.spans();
    let [attempt, own] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(
        (attribute(own, "http.status_code"), attribute(own, "http.response_content_length")),
        (&json!(101), &json!(5))
    );
    assert_eq!(attempt["ended"], own["ended"]);
}

#[test]
fn attempts_of_subrequests_are_below_the_clients_request() {
    let Some(collector) = Collector::start() else { return };
    let (guard, peer) = (Peer::saying(OK), Peer::saying(OK));
    let server = "location / { otel_trace_context inject; auth_request /auth; proxy_pass http://{upstream:1}; }
        location = /auth { internal; proxy_pass http://{upstream:0}; }";
    let site = Site::quick(collector, server, &[guard.address(), peer.address()]);
    assert_eq!(site.ask("/a", "").status(), 200);
    let mut spans = Vec::new();
    until("three spans", || {
        if spans.len() < 3 {
            spans.extend(site.spans());
        }
        (spans.len() == 3).then_some(())
    });
    let own = &spans[2];
    assert_eq!([&spans[0]["parent"], &spans[1]["parent"]], [&own["span"]; 2], "{spans:?}");
    let seen = guard.only_request();
    assert_eq!(seen.value("traceparent"), peer.only_request().value("traceparent"));
}
