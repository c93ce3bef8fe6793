//! Spans at collectors: a server of gRPC (and of HTTP) with OpenTelemetry's own definitions, in Python, which refuses what it is told
//! to; and OpenTelemetry's collector.

mod collector;
mod context;
mod delivery;
mod real_collector;
mod spans;

use collector::Collector;
use control::Control;
use serde_json::Value;
use std::net::SocketAddr;
use testkit::{Gateway, Response};

/// A trace of a client, as its fields say it.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b9c7c989f97918e1";
const STATE: &str = "congo=ucfJifl5GOE,rojo=00f067aa0ba902b7";

/// The fields of that client.
fn traced() -> String {
    format!("Traceparent: 00-{TRACE}-{PARENT}-01\r\nTracestate: {STATE}\r\n")
}

/// A gateway with its control plane, and the collector that it sends spans to. The control plane ends first.
struct Site {
    control: Option<Control>,
    gateway: Gateway,
    collector: Collector,
}

impl Site {
    /// `exporter` is in `otel_exporter` beside the endpoint, `http` in `http`, `server` in the only server.
    fn start(collector: Collector, exporter: &str, http: &str, server: &str, peers: &[SocketAddr]) -> Self {
        let endpoint = &collector.endpoint;
        let text = format!(
            "events {{}} http {{ access_log access.log; otel_exporter {{ endpoint {endpoint}; {exporter} }} {http}
             server {{ listen {{listen}}; server_name a.test; {server} }} }}"
        );
        let gateway = Gateway::start(&text, peers);
        let control = Some(Control::start(gateway.shared()).unwrap());
        Self { control, gateway, collector }
    }

    /// The usual one: everything is recorded and sent soon.
    fn quick(collector: Collector, server: &str, peers: &[SocketAddr]) -> Self {
        Self::start(collector, "interval 20ms;", "otel_trace on;", server, peers)
    }

    #[track_caller]
    fn ask(&self, target: &str, fields: &str) -> Response {
        self.gateway.client().get(target, fields)
    }

    /// The spans of the next call: the attempts', then the exchange's own.
    fn spans(&self) -> Vec<Value> {
        self.collector.call()["spans"].as_array().cloned().unwrap()
    }

    /// The only span of the next call.
    #[track_caller]
    fn span(&self) -> Value {
        let spans = self.spans();
        assert_eq!(spans.len(), 1, "{spans:?}");
        spans.into_iter().next().unwrap()
    }
}
