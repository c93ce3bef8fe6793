//! `otel_exporter`, `otel_trace` and their kin.

use super::{found, http, locations};
use conf::model::{OtelEndpoint, OtelPropagation};
use std::time::Duration;

#[test]
fn an_exporter_has_nginx_s_defaults() {
    let http = http("otel_exporter { endpoint localhost:4317; }");
    let settings = http.otel_exporter.expect("there is one").settings;
    let endpoint = OtelEndpoint { secure: false, host: "localhost".into(), port: 4317, path: None };
    assert_eq!(settings.endpoint, Some(endpoint));
    assert_eq!((settings.interval, settings.batch_size, settings.batch_count), (Duration::from_secs(5), 512, 4));
    assert_eq!(http.location.otel.service_name, "unknown_service:nginx");
    assert!(http.location.otel.trace.is_none() && http.location.otel.context == OtelPropagation::Ignore);
}

#[test]
fn endpoints_are_addresses_or_urls() {
    let endpoint = |text: &str| {
        let http = http(&format!("otel_exporter {{ endpoint {text}; }}"));
        http.otel_exporter.and_then(|exporter| exporter.settings.endpoint).expect("it has one")
    };
    let all = ["HTTP://a:1", "https://[::1]:2", "http://a_b.c:3/v1/traces?x=1"].map(endpoint);
    assert_eq!((all[0].secure, all[0].host.as_str(), all[0].port), (false, "a", 1));
    assert_eq!((all[1].secure, all[1].host.as_str(), all[1].port), (true, "::1", 2));
    assert_eq!((all[2].host.as_str(), all[2].path.as_deref()), ("a_b.c", Some("/v1/traces?x=1")));
    for text in ["localhost", "a:0", "a:99999", ":1", "a:1/v1", "unix:/x", "[::x]:1", "http://a b:1"] {
        let found = found(&format!("otel_exporter {{ endpoint '{text}'; }}"));
        assert_eq!(found, [format!("invalid value \"{text}\" <- '{text}'")], "{text}");
    }
}

#[test]
fn exporter_accepts_every_word_and_locates_errors() {
    let own = http(
        "otel_exporter { endpoint a:1; header X-Key 'a b'; header b c; interval 100ms; batch_size 1k; batch_count 2; }",
    );
    let settings = own.otel_exporter.expect("there is one").settings;
    let headers: Vec<_> = settings.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!((headers.as_slice(), settings.batch_size), ([("x-key", "a b"), ("b", "c")].as_slice(), 1024));
    let errors = |text: &str| found(&format!("otel_exporter {{ endpoint a:1; {text} }}"));
    assert_eq!(errors("header 'a b' c;"), ["\"header\" has invalid header name <- 'a b'"]);
    assert_eq!(errors("header a '\u{1}';"), ["\"header\" has invalid header value <- '\u{1}'"]);
    assert_eq!(errors("header TE c;"), ["\"header\" sets a field that the exporter writes itself <- TE"]);
    assert_eq!(errors("batch_size 0;"), ["invalid value \"0\" <- 0"]);
    assert_eq!(found("otel_exporter { interval 1s; }"), ["\"otel_exporter\" requires \"endpoint\" <- otel_exporter"]);
}

#[test]
fn tracing_is_inherited_and_attributes_are_replaced() {
    let locations = locations(
        "otel_trace on; otel_trace_context inject; otel_span_attr a $uri; otel_span_attr b c;
         location /a { otel_trace off; otel_trace_context propagate; otel_span_name n; }
         location /b { otel_span_attr d e; otel_trace $arg_x; }",
    );
    let [off, on] = [0, 1].map(|at| &locations[at].settings.otel);
    assert!(off.trace.is_none() && off.span_name.is_some() && on.trace.is_some());
    assert_eq!((off.context, on.context), (OtelPropagation::Propagate, OtelPropagation::Inject));
    let names = |at: usize| {
        locations[at].settings.otel.span_attributes.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!((names(0), names(1)), (vec!["a".to_owned(), "b".to_owned()], vec!["d".to_owned()]));
    assert_eq!(found("otel_trace yes;"), ["invalid value \"yes\" <- yes"]);
    assert_eq!(found("otel_trace_context some;"), ["invalid value \"some\" <- some"]);
}
