//! OpenTelemetry's own collector, which passes the spans on as JSON.

use super::{PARENT, TRACE, traced};
use control::Control;
use serde_json::Value;
use std::fs;
use std::net::TcpStream;
use std::process::Command;
use testkit::{Gateway, Peer, Running, free_port, peer_or_skip, until};

/// Starts it with a port for gRPC and one for HTTP; it passes everything on to the sink.
fn start(folder: &std::path::Path, sink: &Peer) -> Option<(Running, u16, u16)> {
    let program = peer_or_skip(&["otelcol"])?;
    let (grpc, http) = (free_port(), free_port());
    let text = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: \"127.0.0.1:{grpc}\"}}, http: {{endpoint: \"127.0.0.1:{http}\"}}}}}}}}\n\
         exporters: {{otlp_http: {{endpoint: \"http://{}\", encoding: json, compression: none}}}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}\n  \
         pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_http]}}}}\n",
        sink.address()
    );
    let file = folder.join("collector.yaml");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(program);
    let running = Running::start(command.arg("--config").arg(&file));
    running.until("the collector listens", || {
        [grpc, http].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()).then_some(())
    });
    Some((running, grpc, http))
}

/// The spans that have come to the sink, and the attributes of the resource of the first.
fn passed_on(sink: &Peer) -> (Vec<Value>, Value) {
    let (mut spans, mut resource) = (Vec::new(), Value::Null);
    for (_, request) in sink.requests() {
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else { continue };
        for of_resource in body["resourceSpans"].as_array().into_iter().flatten() {
            if resource.is_null() {
                resource = of_resource["resource"]["attributes"].clone();
            }
            for scope in of_resource["scopeSpans"].as_array().into_iter().flatten() {
                spans.extend(scope["spans"].as_array().into_iter().flatten().cloned());
            }
        }
    }
    (spans, resource)
}

fn attribute<'a>(of: &'a Value, name: &str) -> &'a Value {
    let found = of.as_array().into_iter().flatten().find(|attribute| attribute["key"] == name);
    found.map_or(&Value::Null, |attribute| &attribute["value"])
}

#[test]
fn real_collector_accepts_spans_over_grpc_and_http() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Peer::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".to_vec()
    });
    let Some((_collector, grpc, http)) = start(folder.path(), &sink) else { return };
    let upstream = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    for (endpoint, path) in
        [(format!("127.0.0.1:{grpc}"), "/over-grpc"), (format!("http://127.0.0.1:{http}/v1/traces"), "/over-http")]
    {
        let text = format!(
            "events {{}} http {{ otel_service_name shop; otel_exporter {{ endpoint {endpoint}; interval 20ms; }} otel_trace on;
             otel_trace_context propagate;
             server {{ listen {{listen}}; server_name a.test; location / {{ proxy_pass http://{{upstream:0}}; }} }} }}"
        );
        let gateway = Gateway::start(&text, &[upstream.address()]);
        let control = Control::start(gateway.shared()).unwrap();
        assert_eq!(gateway.client().get(path, &traced()).text(), "hello");
        let is_of = |span: &Value| attribute(&span["attributes"], "http.target")["stringValue"] == path;
        let own =
            until("the collector passes the exchange on", || passed_on(&sink).0.into_iter().find(|span| is_of(span)));
        assert_eq!(
            (&own["traceId"], &own["parentSpanId"], &own["kind"]),
            (&TRACE.into(), &PARENT.into(), &2.into()),
            "{own}"
        );
        assert_eq!(attribute(&own["attributes"], "http.status_code")["intValue"], "200", "{own}");
        let (spans, resource) = passed_on(&sink);
        let attempt =
            spans.iter().find(|span| span["parentSpanId"] == own["spanId"]).unwrap_or_else(|| panic!("{spans:?}"));
        assert_eq!((&attempt["kind"], &attempt["traceId"]), (&3.into(), &TRACE.into()), "{attempt}");
        assert_eq!(attribute(&attempt["attributes"], "holdfast.connection")["stringValue"], "new", "{attempt}");
        assert_eq!(attribute(&resource, "service.name")["stringValue"], "shop", "{resource}");
        drop((control, gateway));
    }
}

#[test]
fn grpc_to_the_port_of_http_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Peer::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec());
    let Some((_collector, _, http)) = start(folder.path(), &sink) else { return };
    let text = format!(
        "events {{}} http {{ otel_exporter {{ endpoint 127.0.0.1:{http}; interval 20ms; }} otel_trace on;
         server {{ listen {{listen}}; location / {{ return 200 ok; }} }} }}"
    );
    let gateway = Gateway::start(&text, &[]);
    let _control = Control::start(gateway.shared()).unwrap();
    assert_eq!(gateway.client().get("/", "").text(), "ok");
    gateway.logged("the collector answers in HTTP/1: OTLP over HTTP has a path, such as /v1/traces");
}
