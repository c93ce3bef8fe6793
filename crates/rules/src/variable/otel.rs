//! `$otel_…`: the trace context of a request.

/// A part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtelVariable {
    /// `$otel_trace_id`: the trace, in hexadecimal digits.
    TraceId,
    /// `$otel_span_id`: the span of this exchange.
    SpanId,
    /// `$otel_parent_id`: the client's span, if the request named one.
    ParentId,
    /// `$otel_parent_sampled`: `1` if the client records the trace, otherwise `0`.
    ParentSampled,
}
