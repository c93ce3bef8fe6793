//! Tracing by OpenTelemetry: what a location records, and where spans are sent.

use rules::template::Template;
use std::time::Duration;

/// `otel_trace`, `otel_trace_context` and their kin in a location.
pub(crate) struct TracePlan {
    /// `otel_trace`; `None`: off.
    pub(crate) on: Option<Template>,
    /// The client's trace context is read.
    pub(crate) extracts: bool,
    /// The request gets our trace context.
    pub(crate) injects: bool,
    /// `otel_span_name`; `None`: the location's name.
    pub(crate) name: Option<Template>,
    /// `otel_span_attr`
    pub(crate) attributes: Box<[(Box<str>, Template)]>,
}

/// `otel_exporter`, with the resource that spans belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterPlan {
    /// TLS towards the collector.
    pub secure: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path of OTLP over HTTP; `None`: gRPC.
    pub path: Option<String>,
    /// Trusted authorities for its certificate, in PEM; `None`: the system's.
    pub trusted: Option<Vec<u8>>,
    /// Fields of every call, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// How long a span waits at most for others.
    pub interval: Duration,
    /// Most spans in one call.
    pub batch_size: usize,
    /// Most spans that wait to be sent.
    pub waiting_max: usize,
    /// Attributes of the resource, `service.name` among them.
    pub resource: Vec<(String, String)>,
}

impl ExporterPlan {
    /// Host and port, for messages and for `:authority`.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}
