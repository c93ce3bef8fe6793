//! The spans of a settled exchange: one of its own with nginx's attributes, and one for each attempt at a peer with the
//! pool's decision. Fields with credentials are not in them, and neither are the values of arguments that carry some.

use crate::base::values::remote_addr;
use crate::exchange::Exchange;
use crate::exchange::attempts::AttemptRecord;
use crate::exchange::otel::{OtelTrace, new_span_id};
use crate::exchange::view::ExchangeView;
use crate::registry::spans::{Span, SpanKind, SpanValue, TEXT_BYTES_MAX, span_text};
use http1::{FieldId, Version};
use reactor::{Micros, PeerAddress};
use rules::trace_context::redact_target;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// Names of attributes with a list as their value, as in nginx's module.
const LISTS: [&str; 2] = ["http.request.header.", "http.response.header."];

/// Attributes in the making.
#[derive(Default)]
struct Attributes(Vec<(Cow<'static, str>, SpanValue)>);

impl Attributes {
    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.0.push((name.into(), SpanValue::Text(span_text(value))));
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.0.push((name.into(), SpanValue::Number(i64::try_from(value).unwrap_or(i64::MAX))));
    }

    fn flag(&mut self, name: &'static str, value: bool) {
        self.0.push((name.into(), SpanValue::Flag(value)));
    }
}

impl Exchange {
    /// Hands the spans of this exchange to the control plane, if it is traced.
    pub(crate) fn finish_trace(&self) {
        let spans = self.spans();
        if !spans.is_empty() {
            self.thread.registry.spans.push(spans, &self.thread.registry.error_log);
        }
    }

    /// The spans so far: the attempts', then the exchange's own. A subrequest has only those of its attempts, below the
    /// span of the client's request.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let Some(trace) = self.routing.otel().begun().filter(|trace| trace.recorded.get()) else { return Vec::new() };
        if self.generation.otel_exporter.is_none() {
            return Vec::new();
        }
        let trace = Rc::clone(trace);
        // The starter of a slice gets the records of its attempts.
        let attempts = if self.upstream.reports_attempts() { &[][..] } else { self.upstream.attempts().all() };
        let mut spans: Vec<Span> =
            (1..).zip(attempts).map(|(number, record)| self.attempt_span(&trace, number, record)).collect();
        if !self.is_subrequest() {
            spans.push(self.exchange_span(&trace));
        }
        spans
    }

    /// Nanoseconds since the epoch of a moment of this exchange.
    fn wall_ns(&self, at: Micros) -> u64 {
        let now_us = self.thread.clock.now().as_micros() as u64;
        now_us.saturating_sub(self.thread.reactor.now_us().since(at)) * 1000
    }

    fn exchange_span(&self, trace: &OtelTrace) -> Span {
        let location = self.location();
        let name = match location.otel.as_ref().and_then(|plan| plan.name.as_ref()) {
            Some(template) => self.template_text(template),
            None => span_text(&location.route),
        };
        let mut attributes = Attributes::default();
        self.request_attributes(&mut attributes);
        let status = self.response.status();
        if status > 0 {
            attributes.number("http.status_code", u64::from(status));
        }
        for (name, value) in location.otel.iter().flat_map(|plan| &plan.attributes) {
            let text = self.template_text(value);
            let is_list = LISTS.iter().any(|start| name.starts_with(start));
            let value = if is_list { SpanValue::Texts(text) } else { SpanValue::Text(text) };
            attributes.0.push((Cow::Owned(name.to_string()), value));
        }
        Span {
            trace_id: trace.own.trace_id,
            id: trace.own.span_id,
            parent: trace.parent.map(|parent| parent.span_id),
            state: Arc::clone(&trace.state),
            name,
            kind: SpanKind::Server,
            began_ns: self.wall_ns(self.began_at),
            ended_ns: self.wall_ns(self.thread.reactor.now_us()),
            attributes: attributes.0,
            error: (status >= 500).then_some(Cow::Borrowed("")),
        }
    }

    fn template_text(&self, template: &rules::template::Template) -> String {
        let mut value = Vec::new();
        template.write(&ExchangeView::of(self), &mut value);
        span_text(&value)
    }

    /// nginx's attributes, which are those of OpenTelemetry 1.16.
    fn request_attributes(&self, out: &mut Attributes) {
        let request = &self.request;
        let mut text = Vec::new();
        out.text("http.method", self.name_of(self.asked_method()));
        redact_target(self.request_uri(), TEXT_BYTES_MAX, &mut text);
        out.text("http.target", &text);
        let route = &self.location().route;
        if !route.is_empty() {
            out.text("http.route", route);
        }
        out.text("http.scheme", self.down.scheme().name());
        let flavor = match request.head.version {
            _ if !self.down.http2().is_empty() => "2.0",
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        out.text("http.flavor", flavor.as_bytes());
        if let Some(agent) = request.head.value(FieldId::UserAgent, &request.bytes) {
            out.text("http.user_agent", agent);
        }
        let announced = request.head.value(FieldId::ContentLength, &request.bytes);
        let announced = announced.and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok());
        out.number("http.request_content_length", announced.unwrap_or(self.intake.body.received));
        out.number("http.response_content_length", self.down.body_bytes_sent());
        let server = &self.generation.server(self.routing.target.server()).name;
        let host = || request.head.host.map_or(&b""[..], |host| host.name.of(&request.bytes));
        out.text("net.host.name", if server.is_empty() { host() } else { server });
        let default_port = if self.down.scheme().on().is_empty() { 80 } else { 443 };
        if let Some(port) = self.server_port().filter(|port| *port != default_port) {
            out.number("net.host.port", u64::from(port));
        }
        text.clear();
        remote_addr(self.client(), &mut text);
        out.text("net.sock.peer.addr", &text);
        let port = match self.client() {
            PeerAddress::Ip(address) => address.port(),
            PeerAddress::Unix(_) => 0,
        };
        out.number("net.sock.peer.port", u64::from(port));
    }

    /// The span of an attempt, with the pool's decision.
    fn attempt_span(&self, trace: &OtelTrace, number: u64, record: &AttemptRecord) -> Span {
        let mut out = Attributes::default();
        let upstream = span_text(record.upstream_name(&self.generation).unwrap_or_default());
        out.text("holdfast.upstream", upstream.as_bytes());
        out.number("holdfast.attempt", number);
        if let Some(peer) = record.peer_name(&self.generation).filter(|_| record.has_peer()) {
            let colon = peer.iter().rposition(|byte| *byte == b':').filter(|_| !peer.starts_with(b"unix:"));
            let (address, port) = peer.split_at(colon.unwrap_or(peer.len()));
            out.text("server.address", address);
            let port = port.get(1..).and_then(|port| std::str::from_utf8(port).ok()?.parse().ok());
            if let Some(port) = port {
                out.number("server.port", port);
            }
            out.text("holdfast.connection", record.connection_word().as_bytes());
        }
        out.number("holdfast.pool_wait_ms", record.pool_wait_ms);
        out.flag("holdfast.waited_in_line", record.queue_ms.is_some());
        let times = [
            ("holdfast.queue_ms", record.queue_ms),
            ("holdfast.connect_ms", record.own_connect_ms()),
            ("holdfast.header_ms", record.header_ms()),
        ];
        for (name, time) in times {
            if let Some(time) = time {
                out.number(name, time);
            }
        }
        if record.status > 0 {
            out.number("http.status_code", u64::from(record.status));
        }
        out.number("holdfast.bytes_sent", record.bytes_sent);
        out.number("holdfast.bytes_received", record.bytes_received);
        if let Some(reason) = record.close_reason {
            out.text("holdfast.close_reason", reason.label().as_bytes());
        }
        let failure = record.failure.map(upstream::retry::Failure::label);
        if let Some(failure) = failure {
            out.text("holdfast.failure", failure.as_bytes());
        }
        let ended_at = record.began_at.0 + record.response_us.unwrap_or(0);
        Span {
            trace_id: trace.own.trace_id,
            id: new_span_id(number),
            parent: Some(trace.own.span_id),
            state: Arc::clone(&trace.state),
            name: format!("upstream {upstream}"),
            kind: SpanKind::Client,
            began_ns: self.wall_ns(record.began_at),
            ended_ns: self.wall_ns(Micros(ended_at.min(self.thread.reactor.now_us().0))),
            attributes: out.0,
            error: failure.map(Cow::Borrowed).or_else(|| (record.status >= 500).then_some(Cow::Borrowed(""))),
        }
    }
}
