//! The trace context: what is read, what is passed on, what variables show.

use super::collector::Collector;
use super::{PARENT, STATE, Site, TRACE, traced};
use serde_json::Value;
use testkit::{Http2Service, Peer};

/// Shows the fields that the upstream got.
const SHOW: &str = "location /show { otel_trace off; add_header X-Parent $http_traceparent; add_header X-State \
                    $http_tracestate; return 204; }";

fn text<'a>(span: &'a Value, name: &str) -> &'a str {
    span[name].as_str().unwrap()
}

/// As in the tests of nginx's module.
#[test]
fn each_mode_reads_and_writes_its_context() {
    let Some(collector) = Collector::start() else { return };
    let mode =
        |mode: &str| format!("location /{mode} {{ otel_trace_context {mode}; proxy_pass http://{{listen}}/show; }}");
    let modes = ["ignore", "extract", "inject", "propagate"];
    let server = format!("{SHOW} {}", modes.map(mode).concat());
    let site = Site::quick(collector, &server, &[]);
    for mode in modes {
        for fields in [String::new(), traced()] {
            let (extracts, injects) = (matches!(mode, "extract" | "propagate"), matches!(mode, "inject" | "propagate"));
            let seen = site.ask(&format!("/{mode}"), &fields);
            let spans = site.spans();
            let span = &spans[1];
            let is_child = extracts && !fields.is_empty();
            assert_eq!(text(span, "trace") == TRACE, is_child, "{mode}");
            assert_eq!((text(span, "parent"), text(span, "state")), if is_child { (PARENT, STATE) } else { ("", "") });
            let sent = (!fields.is_empty()).then(|| format!("00-{TRACE}-{PARENT}-01"));
            let own = format!("00-{}-{}-01", text(span, "trace"), text(span, "span"));
            let parent = if injects { Some(own) } else { sent };
            assert_eq!(seen.value("X-Parent"), parent.as_deref(), "{mode}");
            let state = if injects { is_child } else { !fields.is_empty() };
            assert_eq!(seen.value("X-State"), state.then_some(STATE), "{mode}");
        }
    }
}

#[test]
fn unrecorded_context_is_passed_on_unsampled() {
    let Some(collector) = Collector::start() else { return };
    let server = format!(
        "{SHOW} location / {{ otel_trace off; otel_trace_context propagate; proxy_pass http://{{listen}}/show; }}"
    );
    let site = Site::quick(collector, &server, &[]);
    let seen = site.ask("/", &traced());
    let parent = seen.value("X-Parent").unwrap();
    assert!(
        parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-00") && !parent.contains(PARENT),
        "{parent}"
    );
    assert!(!site.collector.has_more());
}

#[test]
fn variables_show_the_context_of_the_span() {
    let Some(collector) = Collector::start() else { return };
    let server = "location / { otel_trace_context extract; add_header X-Ids \
                  '$otel_trace_id $otel_span_id $otel_parent_id $otel_parent_sampled'; return 204; }
                  location /bare { otel_trace off; return 200 '$otel_trace_id $otel_span_id $otel_parent_id $otel_parent_sampled'; }";
    let site = Site::quick(collector, server, &[]);
    for fields in [String::new(), traced()] {
        let seen = site.ask("/", &fields);
        let span = site.span();
        let parent = text(&span, "parent");
        let sampled = if parent.is_empty() { "0" } else { "1" };
        let expected = format!("{} {} {parent} {sampled}", text(&span, "trace"), text(&span, "span"));
        assert_eq!(seen.value("X-Ids"), Some(expected.as_str()));
    }
    let bare = site.ask("/bare", &traced()).text();
    let lengths: Vec<usize> = bare.split(' ').map(str::len).collect();
    assert_eq!(lengths, [32, 16, 0, 1], "{bare}");
    assert!(!bare.contains(TRACE));
}

/// R53
#[test]
fn a_context_that_is_not_valid_is_not_read() {
    let Some(collector) = Collector::start() else { return };
    let server = format!("{SHOW} location / {{ otel_trace_context propagate; proxy_pass http://{{listen}}/show; }}");
    let site = Site::quick(collector, &server, &[]);
    let valid = format!("Traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    for (fields, reads_parent) in [
        (format!("{valid}{valid}Tracestate: a=b\r\n"), false),
        (format!("Traceparent: 00-{}-{PARENT}-01\r\nTracestate: a=b\r\n", "0".repeat(32)), false),
        (format!("Traceparent: 00-{TRACE}-{PARENT}-01-x\r\nTracestate: a=b\r\n"), false),
        ("Traceparent: none\r\nTracestate: a=b\r\n".to_owned(), false),
        (format!("{valid}Tracestate: a=b\r\nTracestate: a=c\r\n"), true),
        (format!("{valid}Tracestate: a={}\r\n", "b".repeat(4000)), true),
    ] {
        let seen = site.ask("/", &fields);
        let spans = site.spans();
        assert_eq!(text(&spans[1], "trace") == TRACE, reads_parent, "{fields}");
        assert_eq!((text(&spans[1], "state"), seen.value("X-State")), ("", None), "{fields}");
        assert_eq!(seen.values("X-Parent").len(), 1);
    }
}

#[test]
fn grpc_and_fastcgi_upstreams_get_the_context() {
    let Some(collector) = Collector::start() else { return };
    let calls = Peer::script(|talk| {
        let mut service = Http2Service::new(talk);
        let Some((stream, asked)) = service.whole_request() else { return };
        let parent = asked.value("traceparent").unwrap_or("none").to_owned();
        service.respond(stream, 200, &[("content-type", "application/grpc"), ("x-parent", &parent)], false);
        service.send_trailers(stream, &[("grpc-status", "0")]);
        service.until_gone();
    });
    let application = Peer::script(|mut talk| {
        let mut seen = Vec::new();
        while !seen.windows(16).any(|part| part == b"HTTP_TRACEPARENT") {
            seen.extend(talk.read(1));
        }
        talk.read(3 + 32 + 1 + 16);
        talk.close();
    });
    let server = "location /grpc { otel_trace_context inject; grpc_pass {upstream:0}; }
        location /cgi { otel_trace_context inject; fastcgi_pass {upstream:1}; fastcgi_param QUERY_STRING $query_string; }";
    let site = Site::quick(collector, server, &[calls.address(), application.address()]);
    let seen = site.ask("/grpc", "");
    let spans = site.spans();
    let own = format!("00-{}-{}-01", text(&spans[1], "trace"), text(&spans[1], "span"));
    assert_eq!(seen.value("x-parent"), Some(own.as_str()));
    assert_eq!(site.ask("/cgi", "").status(), 502);
    let spans = site.spans();
    let own = format!("00-{}-{}-01", text(&spans[1], "trace"), text(&spans[1], "span"));
    let bytes = application.received(0);
    assert!(bytes.windows(own.len()).any(|part| part == own.as_bytes()), "{}", bytes.escape_ascii());
}
